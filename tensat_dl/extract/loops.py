"""Loop cuts: the inequalities that keep an answer acyclic, found when they are violated.

For any set U of e-classes and any c in U

    y_c <= sum of x_n over e-nodes n of classes in U with no landmark in U

since the first class of U to be derived is derived by such an e-node. They hold whether or not there is a cycle in U,
and are worth having where there is none: halves of two e-nodes of c may need the same half of an e-node further down,
which no landmark of c tells. (In planning these right sides are known as disjunctive action landmarks.)

Violated ones come from sets that are chosen more than they are derived (`tensat_dl.extract.cut_sets`), in the whole
e-graph and in each of its strong components.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tensat_dl.extract.cut_sets import Branch, narrow_sets, short_cycles, underived_sets
from tensat_dl.extract.formulation import Formulation, LinearRow, Vector
from tensat_dl.extract.problem import strong_components
from tensat_dl.extract.reduce import Reduced

#: A cut must be violated by this much to be worth adding.
MIN_VIOLATION = 1e-4

#: With fewer cuts than this in a component the next way to find them is tried too.
_FEW = 10

#: Classes whose value is this much larger than their width are looked at.
_LEAST = 1e-3

#: Classes with less than this are not chosen at all.
_NOTHING = 1e-6


#: An e-class and a set that it is in.
Loop = tuple[int, Sequence[int]]


@dataclass(frozen=True, slots=True)
class LoopCut(LinearRow):
    """The inequality of an e-class and a set that it is in."""

    loop: Loop


def remaining(loops: Iterable[Loop], reduced: Reduced) -> list[Loop]:
    """The loops of a larger problem, as loops of a part of it.

    Where a loop's e-class has been settled, another one of the set that every answer has stands in for it.
    """
    nodes, forced = reduced.problem.nodes, reduced.forced
    found: list[Loop] = []
    for c, members in loops:
        left = [d for d in members if d in nodes]
        goal = c if c in nodes else next((d for d in left if d in forced), None)
        if goal is not None:
            found.append((goal, left))
    return found


class LoopSeparator:
    """Finds loop cuts of one formulation. Without them only strong components of its e-graph can go wrong."""

    def __init__(self, form: Formulation) -> None:
        self.form = form
        problem = form.reduced.problem
        self._cyclic = {c for component in problem.components() if len(component) > 1 for c in component}
        self.acyclic = not self._cyclic
        self._round = 0

    def separate(self, x: Vector, limit: int) -> list[LoopCut]:
        """About ``limit`` violated cuts at most: from widths, and where these are few in a strong component, from
        short cycles and from flows."""
        self._round += 1
        value = x.tolist()
        forced = self.form.reduced.forced
        branches = self._branches(value)
        # A forced class is derived in any case, by cuts of its own.
        free = {
            c: [(v, tuple(d for d in kids if d not in forced)) for v, kids in out]
            for c, out in branches.items()
        }
        cuts = self._rows(underived_sets(free, _LEAST), value)
        graph = {
            c: {d for _, kids in out for d in kids if d in self._cyclic}
            for c, out in branches.items()
            if c in self._cyclic
        }
        for component in strong_components(graph, graph):
            if len(component) < 2 or len(cuts) >= limit:
                continue
            members = set(component)
            inside = sorted(component, key=lambda c: (-value[self.form.class_col[c]], c))
            inner = {
                c: [(v, tuple(d for d in kids if d in members)) for v, kids in branches[c]] for c in component
            }
            found = self._rows(underived_sets(inner, _LEAST), value)
            if len(found) < _FEW:
                found += self._rows(short_cycles(inside, inner, MIN_VIOLATION), value)
            if len(found) < _FEW:
                rng = random.Random(self._round)
                found += self._rows(narrow_sets(inside, inner, MIN_VIOLATION, rng), value)
            cuts += found
        return cuts

    def _branches(self, value: list[float]) -> dict[int, list[Branch]]:
        """The chosen e-nodes of the chosen classes, with their children."""
        problem = self.form.reduced.problem
        node_col, class_col = self.form.node_col, self.form.class_col
        live = {c for c in problem.nodes if value[class_col[c]] > _NOTHING}
        return {
            c: [
                (value[node_col[n]], tuple(d for d in problem.kids[n] if d in live))
                for n in problem.nodes[c]
                if value[node_col[n]] > _NOTHING
            ]
            for c in sorted(live)
        }

    def _rows(self, loops: Iterable[Iterable[int]], value: list[float]) -> list[LoopCut]:
        rows = []
        for loop in loops:
            members = sorted(loop)
            row = self.cut(max(members, key=lambda c: value[self.form.class_col[c]]), members)
            if row.activity(value) > MIN_VIOLATION:
                rows.append(row)
        return rows

    def cut(self, c: int, loop: Sequence[int]) -> LoopCut:
        """The loop cut of a class of the loop."""
        form = self.form
        marks, problem = form.reduced.marks, form.reduced.problem
        assert marks is not None, "the problem is small enough"
        members, mask = set(loop), marks.mask(loop)
        weights = {form.class_col[c]: 1.0}
        for d in sorted(loop, key=marks.bit.__getitem__):
            for n in problem.nodes[d]:
                # Most e-nodes have a child in the set, and children are landmarks.
                if members.isdisjoint(problem.kids[n]) and not form.below[n] & mask:
                    column = form.node_col[n]
                    weights[column] = weights.get(column, 0.0) - 1.0
        return LoopCut([(i, a) for i, a in weights.items() if a], False, (c, loop))
