"""Sets of e-classes that a solution of the relaxation chooses more than it derives.

The width of an e-class is the largest value that some derivation has throughout: the most over its e-nodes of the
least of the e-node's value and its children's widths, as by Dijkstra's algorithm for widest paths. What is chosen
by more than its width rests on itself in part. Below a threshold on widths every e-node either has no child, and is
where a derivation would have to come in, or has one, which is followed. The e-classes so reached are a set that
little leads into. (Planners cut relaxed plans in this way, with costs in place of widths: Helmert and Domshlak,
"Landmarks, critical paths and abstractions", 2009.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush

from tensat_dl.extract.flows import Branch

#: Where thresholds are tried, between the width of an e-class and its value in the solution.
_THRESHOLDS = (0.0, 0.25)

#: Widths up to a threshold are below it by this much.
_ABOVE = 1e-9


def underived_sets(
    order: Sequence[int], branches: Mapping[int, Sequence[Branch]], least: float
) -> Iterator[set[int]]:
    """Sets of which one e-class is chosen by at least ``least`` more than what leads into the set from outside.

    A branch is an e-node's value and its children. Every set has an e-class that is in none before it.
    """
    chosen = {c: sum(value for value, _ in branches[c]) for c in order}
    width = _widths(branches)
    missing = {c: chosen[c] - width.get(c, 0.0) for c in order}
    covered: set[int] = set()
    for c in sorted(order, key=lambda c: (-missing[c], c)):
        if missing[c] < least:
            return
        if c in covered:
            continue
        for share in _THRESHOLDS:
            threshold = width.get(c, 0.0) + share * missing[c] + _ABOVE
            found = _reached(c, branches, width, threshold, chosen[c] - least)
            if found is not None:
                covered |= found
                yield found
                break


def _widths(branches: Mapping[int, Sequence[Branch]]) -> dict[int, float]:
    """The width of each e-class that is derived at all."""
    users: dict[int, list[tuple[int, int]]] = {}
    left: dict[tuple[int, int], int] = {}
    heap: list[tuple[float, int]] = []
    for c, out in branches.items():
        for i, (value, kids) in enumerate(out):
            left[c, i] = len(set(kids))
            for d in set(kids):
                users.setdefault(d, []).append((c, i))
            if not kids:
                heap.append((-value, c))
    heapify(heap)
    width: dict[int, float] = {}
    while heap:
        negative, c = heappop(heap)
        if c in width:
            continue
        width[c] = -negative
        for user, i in users.get(c, ()):
            left[user, i] -= 1
            if not left[user, i]:  # the narrowest child comes last
                heappush(heap, (-min(-negative, branches[user][i][0]), user))
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
