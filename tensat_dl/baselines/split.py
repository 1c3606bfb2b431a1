"""Takes large graphs apart where few substitutions are lost.

Jia et al., "Optimizing DNN Computation with Relaxed Graph Substitutions" (MetaFlow, SysML 2019), section 5.3: the cut
through which the fewest substitutions reach is found as a minimum cut, again in each half, until the parts are small.
Here a substitution is a hyperedge of capacity 1 over the nodes that its rule matches. An edge that can't be cut keeps
the operands of what is below the cut below it. The first and the last quarter of the nodes are the ends of the flow,
so that no cut takes a single node off.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import inf

#: The share of the nodes that is on either side of every cut.
END = 0.25


def split(
    nodes: Sequence[int], operands: Mapping[int, Iterable[int]], matches: Sequence[Collection[int]], most: int
) -> list[list[int]]:
    """Parts of at most so many nodes, which come in topological order, as the parts do. ``matches`` are the nodes of
    each substitution."""
    if len(nodes) <= max(most, 1):
        return [list(nodes)]
    below = cut(nodes, operands, matches)
    parts = [n for n in nodes if n in below], [n for n in nodes if n not in below]
    return [part for half in parts for part in split(half, operands, matches, most)]


def cut(
    nodes: Sequence[int], operands: Mapping[int, Iterable[int]], matches: Sequence[Collection[int]]
) -> set[int]:
    """The nodes below a cut that as few matches as possible have nodes on both sides of."""
    there = set(nodes)
    size = max(1, int(len(nodes) * END))
    flow = _Flow()
    start, end = ("start", 0), ("end", 0)
    for n in nodes[:size]:
        flow.edge(start, ("node", n), inf)
    for n in nodes[-size:]:
        flow.edge(("node", n), end, inf)
    for n in nodes:
        for k in operands[n]:
            if k in there:
                flow.edge(("node", n), ("node", k), inf)
    for number, match in enumerate(matches):
        inside = there.intersection(match)
        if len(inside) > 1:
            flow.edge(("first", number), ("last", number), 1.0)
            for n in inside:
                flow.edge(("node", n), ("first", number), inf)
                flow.edge(("last", number), ("node", n), inf)
    flow.run(start, end)
    reached = flow.reached(start)
    return {n for n in nodes if ("node", n) in reached}


_Place = tuple[str, int]


class _Flow:
    """A maximum flow along shortest paths (Edmonds and Karp, 1972): capacities are small, and so is the flow."""

    def __init__(self) -> None:
        self._left: dict[_Place, dict[_Place, float]] = {}

    def edge(self, a: _Place, b: _Place, capacity: float) -> None:
        there = self._left.setdefault(a, {})
        there[b] = there.get(b, 0.0) + capacity
        self._left.setdefault(b, {}).setdefault(a, 0.0)

    def reached(self, start: _Place) -> dict[_Place, _Place]:
        """The places to which more can flow, each with the place before it."""
        found = {start: start}
        waiting = deque([start])
        while waiting:
            a = waiting.popleft()
            for b, left in self._left.get(a, {}).items():
                if left > 0 and b not in found:
                    found[b] = a
                    waiting.append(b)
        return found

    def run(self, start: _Place, end: _Place) -> None:
        """Sends as much as can flow. Between the ends every path has a match on it, or none can be cut off."""
        while end in (before := self.reached(start)):
            path = [end]
            while path[-1] != start:
                path.append(before[path[-1]])
            steps = list(zip(path[1:], path, strict=False))
            amount = min(self._left[a][b] for a, b in steps)
            assert amount < inf, "the first nodes are not computed from the last"
            for a, b in steps:
                self._left[a][b] -= amount
                self._left[b][a] += amount
