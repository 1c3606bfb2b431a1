"""Loop cuts from minimum cuts, where no short cycle gives one.

A chosen class must send one unit of "derivation" through chosen e-nodes to e-nodes without children in its
strong component. With x as capacities, a class c whose maximum flow is less than y_c has a minimum cut whose
near side U violates the loop cut of U. An e-node with several children in the component needs all of them;
the flow takes one of them, drawn at random, so it sees too much of the right side. A local search over U then
counts it properly.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator, Mapping, Sequence

#: A chosen e-node: its value in the relaxation and its children in the component.
Branch = tuple[float, tuple[int, ...]]

_EPSILON = 1e-9
_EXIT = -1


def violated_sets(
    component: Sequence[int], branches: Mapping[int, Sequence[Branch]], slack: float, rng: random.Random
) -> Iterator[set[int]]:
    """Sets U of classes with less than max y - ``slack`` leaving them, by the branches of each class.

    ``component`` is the order in which classes are tried; one that is in an earlier set is not.
    """
    members = set(component)
    network: dict[int, dict[int, float]] = {c: {} for c in component}
    network[_EXIT] = {}
    for c in component:
        out = network[c]
        for value, kids in branches[c]:
            d = rng.choice(kids) if kids else _EXIT
            out[d] = out.get(d, 0.0) + value
    search = _LocalSearch(members, branches)
    used: set[int] = set()
    for c in component:
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
    """Moves single classes in or out of U while less leaves it; each e-node counts once, as in the cut."""

    _ROUNDS = 5

    def __init__(self, members: set[int], branches: Mapping[int, Sequence[Branch]]) -> None:
        # Branches are numbered; `into[d]` are those with child d, `out[c]` those of class c.
        self._value: list[float] = []
        self._kids: list[tuple[int, ...]] = []
        self._home: list[int] = []
        self._out: dict[int, list[int]] = {c: [] for c in members}
        self._into: dict[int, list[int]] = {c: [] for c in members}
        for c in branches:
            if c in members:
                for value, kids in branches[c]:
                    i = len(self._value)
                    self._value.append(value)
                    self._kids.append(kids)
                    self._home.append(c)
                    self._out[c].append(i)
                    for d in kids:
                        self._into[d].append(i)

    def improve(self, near: set[int], keep: int) -> set[int]:
        near = set(near)
        value, out, into, home = self._value, self._out, self._into, self._home
        count = [0] * len(value)  # children in U, by branch
        for d in near:
            for i in into[d]:
                count[i] += 1
        for _ in range(self._ROUNDS):
            moved = False
            leaving = [i for d in sorted(near) for i in out[d] if not count[i]]
            for d in dict.fromkeys(d for i in leaving for d in self._kids[i]):
                if d in near:
                    continue
                gain = sum(value[i] for i in into[d] if not count[i] and home[i] in near)
                loss = sum(value[i] for i in out[d] if not count[i])
                if gain > loss + _EPSILON:
                    near.add(d)
                    moved = True
                    for i in into[d]:
                        count[i] += 1
            for d in sorted(near - {keep}):
                gain = sum(value[i] for i in out[d] if not count[i])
                loss = sum(value[i] for i in into[d] if count[i] == 1 and home[i] in near)
                if gain > loss + _EPSILON:
                    near.discard(d)
                    moved = True
                    for i in into[d]:
                        count[i] -= 1
            if not moved:
                break
        return near
