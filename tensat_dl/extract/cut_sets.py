"""Sets of e-classes that a solution of the relaxation chooses more than it derives, found in three ways.

*Widths.* The width of an e-class is the largest value that some derivation has throughout: the most over its e-nodes
of the least of the e-node's value and its children's widths, as by Dijkstra's algorithm for widest paths. An e-class
that is chosen by more than its width rests on itself in part. Below a threshold on widths every e-node either has no
child, and is where a derivation would have to come in, or has one, which is followed. The e-classes so reached are a
set that little leads into. (Planners cut relaxed plans in this way, with costs in place of widths: Helmert and
Domshlak, "Landmarks, critical paths and abstractions", 2009.)

*Short cycles.* The arc from a to b weighs y_a less the x_n of the e-nodes of a with child b. Little leads into a
cycle of little weight.

*Flows*, where no short cycle gives a set. A chosen class must send one unit of "derivation" through chosen e-nodes to
e-nodes without children in its strong component. With x as capacities, a class whose maximum flow is less than its y
has a minimum cut whose near side is such a set. An e-node with several children in the component needs all of them;
the flow takes one of them, drawn at random, so it sees too much of the right side. A local search over the set then
counts it properly.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush

#: A chosen e-node: its value in the relaxation and its children.
Branch = tuple[float, tuple[int, ...]]

#: Where thresholds are tried, between the width of an e-class and its value in the solution.
_THRESHOLDS = (0.0, 0.25)

#: Widths up to a threshold are below it by this much; capacities up to this are none.
_EPSILON = 1e-9

#: The end of all flows.
_EXIT = -1

#: How often the local search goes over all e-classes.
_ROUNDS = 5


def underived_sets(branches: Mapping[int, Sequence[Branch]], least: float) -> Iterator[set[int]]:
    """Sets with an e-class that is chosen by at least ``least`` more than its set is entered from outside.

    ``branches`` are those of each e-class. Every set has an e-class that is in none before it.
    """
    chosen = {c: sum(value for value, _ in out) for c, out in branches.items()}
    width = _widths(branches)
    missing = {c: chosen[c] - width.get(c, 0.0) for c in branches}
    covered: set[int] = set()
    for c in sorted(branches, key=lambda c: (-missing[c], c)):
        if missing[c] < least:
            return
        if c in covered:
            continue
        for share in _THRESHOLDS:
            threshold = width.get(c, 0.0) + share * missing[c] + _EPSILON
            found = _reached(c, branches, width, threshold, chosen[c] - least)
            if found is not None:
                covered |= found
                yield found
                break


def _widths(branches: Mapping[int, Sequence[Branch]]) -> dict[int, float]:
    """The width of each e-class that is derived at all."""
    arcs = [(c, value, kids) for c, out in branches.items() for value, kids in out]
    waiting = [len(kids) for _, _, kids in arcs]
    users: dict[int, list[int]] = {}
    for i, (_, _, kids) in enumerate(arcs):
        for d in kids:
            users.setdefault(d, []).append(i)
    heap = [(-value, c) for c, value, kids in arcs if not kids]
    heapify(heap)
    width: dict[int, float] = {}
    while heap:
        negative, c = heappop(heap)
        if c in width:
            continue
        width[c] = -negative
        for i in users.get(c, ()):
            waiting[i] -= 1
            if not waiting[i]:  # the narrowest child comes last
                user, value, _ = arcs[i]
                heappush(heap, (max(negative, -value), user))
    return width


def _reached(
    start: int,
    branches: Mapping[int, Sequence[Branch]],
    width: Mapping[int, float],
    threshold: float,
    most: float,
) -> set[int] | None:
    """The e-classes reached from one over those below the threshold; None if more than ``most`` leads into them."""
    found = {start}
    todo = [start]
    entering = 0.0
    while todo:
        for value, kids in branches[todo.pop()]:
            below = [d for d in kids if width.get(d, 0.0) < threshold]
            if not below:
                entering += value
                if entering > most:
                    return None
            elif found.isdisjoint(below):
                d = min(below, key=lambda d: (width.get(d, 0.0), d))
                found.add(d)
                todo.append(d)
    return found


def short_cycles(
    order: Sequence[int], branches: Mapping[int, Sequence[Branch]], slack: float
) -> Iterator[list[int]]:
    """Disjoint cycles, each shorter in the arc weights than y of its first class less ``slack``."""
    total = {c: sum(value for value, _ in branches[c]) for c in order}
    graph: dict[int, list[tuple[int, float]]] = {}
    for c in order:
        through: dict[int, float] = {}
        for value, kids in branches[c]:
            for d in kids:
                through[d] = through.get(d, 0.0) + value
        graph[c] = [(d, max(0.0, total[c] - v)) for d, v in through.items()]
    used: set[int] = set()
    for c in order:
        if c not in used:
            cycle = _short_cycle(graph, c, total[c] - slack)
            if cycle:
                used.update(cycle)
                yield cycle


def _short_cycle(
    graph: Mapping[int, Sequence[tuple[int, float]]], start: int, limit: float
) -> list[int] | None:
    """The classes of a shortest cycle through ``start``, if it is shorter than ``limit``."""
    previous: dict[int, int] = {}
    heap: list[tuple[float, int, int]] = [(0.0, start, -1)]
    while heap:
        distance, c, before = heappop(heap)
        if c in previous:
            continue
        if before >= 0:
            previous[c] = before
            if c == start:
                cycle = [before]
                while cycle[-1] != start:
                    cycle.append(previous[cycle[-1]])
                return cycle
        for d, weight in graph[c]:
            if d not in previous and distance + weight < limit:
                heappush(heap, (distance + weight, d, c))
    return None


def narrow_sets(
    order: Sequence[int], branches: Mapping[int, Sequence[Branch]], slack: float, rng: random.Random
) -> Iterator[set[int]]:
    """Sets by flows, with less than max y - ``slack`` leaving them.

    ``order`` is the order in which classes are tried; a class in an earlier set is not.
    """
    network: dict[int, dict[int, float]] = {c: {} for c in order}
    network[_EXIT] = {}
    for c in order:
        out = network[c]
        for value, kids in branches[c]:
            d = rng.choice(kids) if kids else _EXIT
            out[d] = out.get(d, 0.0) + value
    search = _LocalSearch(branches)
    used: set[int] = set()
    for c in order:
        if c not in used:
            near = _near_side(network, c, sum(value for value, _ in branches[c]) - slack)
            if near is not None:
                found = search.improve(near, c)
                used |= found
                yield found


def _near_side(network: Mapping[int, Mapping[int, float]], start: int, demand: float) -> set[int] | None:
    """The near side of a minimum cut between ``start`` and the exit; None if it carries the demand."""
    flow = 0.0
    left = {a: dict(out) for a, out in network.items()}
    while flow < demand:
        previous = {start: start}
        queue = deque([start])
        while queue and _EXIT not in previous:
            a = queue.popleft()
            for b, capacity in left[a].items():
                if capacity > _EPSILON and b not in previous:
                    previous[b] = a
                    queue.append(b)
        if _EXIT not in previous:
            return set(previous)
        path = []
        b = _EXIT
        while b != start:
            path.append((previous[b], b))
            b = previous[b]
        amount = min(left[a][b] for a, b in path)
        for a, b in path:
            left[a][b] -= amount
            left[b][a] = left[b].get(a, 0.0) + amount
        flow += amount
    return None


class _LocalSearch:
    """Moves single classes in or out of a set while less leaves it; each e-node counts once, as in the cut."""

    def __init__(self, branches: Mapping[int, Sequence[Branch]]) -> None:
        # Branches are numbered; `into[d]` are those with child d, `out[c]` those of class c.
        self._home = [c for c, out in branches.items() for _ in out]
        self._value = [value for out in branches.values() for value, _ in out]
        self._kids = [kids for out in branches.values() for _, kids in out]
        self._out: dict[int, list[int]] = {c: [] for c in branches}
        self._into: dict[int, list[int]] = {c: [] for c in branches}
        for i, (c, kids) in enumerate(zip(self._home, self._kids, strict=True)):
            self._out[c].append(i)
            for d in kids:
                self._into[d].append(i)

    def improve(self, near: set[int], keep: int) -> set[int]:
        """A set no worse than ``near``, with the e-class ``keep``."""
        home, value, out, into = self._home, self._value, self._out, self._into
        count = [0] * len(value)  # children in the set, by branch
        for d in near:
            for i in into[d]:
                count[i] += 1
        for _ in range(_ROUNDS):
            before = set(near)
            leaving = [i for d in sorted(near) for i in out[d] if not count[i]]
            for d in dict.fromkeys(d for i in leaving for d in self._kids[i]):
                if d not in near:
                    gain = sum(value[i] for i in into[d] if not count[i] and home[i] in near)
                    loss = sum(value[i] for i in out[d] if not count[i])
                    if gain > loss + _EPSILON:
                        near.add(d)
                        for i in into[d]:
                            count[i] += 1
            for d in sorted(near - {keep}):
                gain = sum(value[i] for i in out[d] if not count[i])
                loss = sum(value[i] for i in into[d] if count[i] == 1 and home[i] in near)
                if gain > loss + _EPSILON:
                    near.discard(d)
                    for i in into[d]:
                        count[i] -= 1
            if near == before:
                break
        return near
