"""Loop cuts: the inequalities that keep an answer acyclic, found when they are violated.

For any set U of e-classes and any c in U

    y_c <= sum of x_n over e-nodes n of classes in U with no landmark in U

since the first class of U to be derived is derived by such an e-node. To find a violated one, look for a cycle
through c that is short in the arc weights w(a, b) = y_a - (x_n of the e-nodes of a with landmark b): the right
side for the classes of the cycle is at most the sum of its weights.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush

from tensat_dl.extract.formulation import INFINITY, Formulation, Row, Vector
from tensat_dl.extract.problem import strong_components

#: A cut must be violated by this much to be worth adding.
MIN_VIOLATION = 1e-4

#: Classes with less than this are not chosen at all.
_NOTHING = 1e-6


class LoopSeparator:
    """Finds loop cuts of one formulation. Only strong components of its e-graph can need any."""

    def __init__(self, form: Formulation) -> None:
        self.form = form
        problem = form.reduced.problem
        successors = problem.successors()
        self.inside: dict[int, int] = {}  # class -> its component, for those on some cycle
        for i, component in enumerate(strong_components(problem.nodes, successors)):
            if len(component) > 1:
                self.inside.update(dict.fromkeys(component, i))
        self._arcs: dict[
            int, list[tuple[int, list[int]]]
        ] = {}  # class -> (child, columns of e-nodes needing it)
        for c in self.inside:
            arcs = []
            for d in successors[c]:
                if self.inside.get(d) == self.inside[c]:
                    flag = 1 << form.reduced.marks.bit[d]
                    users = [form.node_col[n] for n in problem.nodes[c] if form.below[n] & flag]
                    arcs.append((d, users))
            self._arcs[c] = arcs

    @property
    def acyclic(self) -> bool:
        return not self.inside

    def separate(self, x: Vector, limit: int) -> list[Row]:
        """At most ``limit`` violated cuts, of disjoint cycles first come first served."""
        value = x.tolist()
        class_col = self.form.class_col
        live = [c for c in self.inside if value[class_col[c]] > _NOTHING]
        graph: dict[int, list[tuple[int, float]]] = {}
        for c in live:
            y = value[class_col[c]]
            graph[c] = [
                (d, max(0.0, y - sum(value[i] for i in users)))
                for d, users in self._arcs[c]
                if value[class_col[d]] > _NOTHING
            ]
            # An arc that no chosen e-node uses cannot close a violated cycle.
            graph[c] = [(d, w) for d, w in graph[c] if w < y - MIN_VIOLATION]
        cuts: list[Row] = []
        used: set[int] = set()
        for component in strong_components(live, {c: [d for d, _ in arcs] for c, arcs in graph.items()}):
            if len(component) < 2:
                continue
            members = set(component)
            for c in sorted(component, key=lambda c: (-value[class_col[c]], c)):
                if len(cuts) >= limit:
                    return cuts
                if c in used:
                    continue
                cycle = _short_cycle(graph, members, c, value[class_col[c]] - MIN_VIOLATION)
                if cycle:
                    row = self.cut(max(cycle, key=lambda d: value[class_col[d]]), cycle)
                    if sum(a * value[i] for i, a in row.entries) > MIN_VIOLATION:
                        used.update(cycle)
                        cuts.append(row)
        return cuts

    def cut(self, c: int, loop: Iterable[int]) -> Row:
        form = self.form
        problem = form.reduced.problem
        members = list(loop)
        mask = form.reduced.marks.mask(members)
        weights = {form.class_col[c]: 1.0}
        for d in members:
            for n in problem.nodes[d]:
                if not form.below[n] & mask:
                    i = form.node_col[n]
                    weights[i] = weights.get(i, 0.0) - 1.0
        return Row([(i, a) for i, a in weights.items() if a], -INFINITY, 0.0)


def _short_cycle(
    graph: dict[int, list[tuple[int, float]]], members: set[int], start: int, limit: float
) -> list[int] | None:
    """The classes of a shortest cycle through ``start`` among ``members``, if shorter than ``limit``."""
    previous: dict[int, int] = {}
    settled: set[int] = set()
    heap: list[tuple[float, int, int]] = [(0.0, start, -1)]
    while heap:
        distance, c, before = heappop(heap)
        if c in settled:
            continue
        if c == start and before >= 0:
            cycle = [before]
            while cycle[-1] != start:
                cycle.append(previous[cycle[-1]])
            return cycle
        if before >= 0:
            previous[c] = before
            settled.add(c)
        for d, w in graph[c]:
            if d in members and d not in settled and distance + w < limit:
                heappush(heap, (distance + w, d, c))
    return None
