"""Loop cuts: the inequalities that keep an answer acyclic, found when they are violated.

For any set U of e-classes and any c in U

    y_c <= sum of x_n over e-nodes n of classes in U with no landmark in U

since the first class of U to be derived is derived by such an e-node. They hold whether or not there is a cycle in U,
and are worth having where there is none: halves of two e-nodes of c may need the same half of an e-node further down,
which no landmark of c tells. (In planning these right sides are known as disjunctive action landmarks.)

To find violated ones, look for sets that are chosen more than they are derived (`tensat_dl.extract.cut_sets`), in the
whole e-graph and in each of its strong components. In these, look also for a cycle through c that is short in the
arc weights w(a, b) = y_a - (x_n of the e-nodes of a with child b), as the right side for the classes of the cycle is
at most the sum of its weights; and for cuts of flows (`tensat_dl.extract.flows`).
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
import numpy.typing as npt

from tensat_dl.extract.cut_sets import underived_sets
from tensat_dl.extract.flows import Branch, violated_sets
from tensat_dl.extract.formulation import INFINITY, Formulation, LinearRow, Vector
from tensat_dl.extract.problem import strong_components
from tensat_dl.extract.reduce import Reduced

Indices = npt.NDArray[np.int64]

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
        successors = problem.successors()
        self._cyclic = {
            c
            for component in strong_components(problem.nodes, successors)
            if len(component) > 1
            for c in component
        }
        self._round = 0
        # E-classes are numbered by their bits. Their e-nodes, and the children of these, are one after the other.
        marks = form.reduced.marks
        members = [problem.nodes.get(c, ()) for c in marks.classes]
        self._nodes = [n for ns in members for n in ns]
        self._node_starts = _starts([len(ns) for ns in members])
        self._kids = np.array([marks.bit[d] for n in self._nodes for d in problem.kids[n]], np.int64)
        self._kid_starts = _starts([len(problem.kids[n]) for n in self._nodes])

    @property
    def acyclic(self) -> bool:
        return not self._cyclic

    def separate(self, x: Vector, limit: int) -> list[LoopCut]:
        """About ``limit`` violated cuts at most: from widths, and where these are few in a strong component, from
        short cycles and from flows."""
        self._round += 1
        value = x.tolist()
        forced = self.form.reduced.forced
        branches = self._branches(value)
        order = sorted(branches, key=lambda c: (-value[self.form.class_col[c]], c))
        rank = {c: i for i, c in enumerate(order)}
        # What is forced is derived in any case, by cuts of its own.
        free = {
            c: [(v, tuple(d for d in kids if d not in forced)) for v, kids in out]
            for c, out in branches.items()
        }
        cuts = self._rows(underived_sets(order, free, _LEAST), value)
        graph = {
            c: {d for _, kids in branches[c] for d in kids if d in self._cyclic}
            for c in order
            if c in self._cyclic
        }
        for component in strong_components(sorted(graph), graph):
            if len(component) < 2 or len(cuts) >= limit:
                continue
            members = set(component)
            inside = sorted(component, key=rank.__getitem__)
            inner = {
                c: [(v, tuple(d for d in kids if d in members)) for v, kids in branches[c]] for c in component
            }
            found = self._rows(underived_sets(inside, inner, _LEAST), value)
            if len(found) < _FEW:
                found += self._rows(_short_cycles(inside, inner), value)
            if len(found) < _FEW:
                rng = random.Random(self._round)
                found += self._rows(violated_sets(inside, inner, MIN_VIOLATION, rng), value)
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
            if sum(a * value[i] for i, a in row.entries) > MIN_VIOLATION:
                rows.append(row)
        return rows

    def cut(self, c: int, loop: Sequence[int]) -> LoopCut:
        """The loop cut of a class of the loop."""
        form = self.form
        marks = form.reduced.marks
        inside = np.zeros(len(marks.classes), np.bool_)
        inside[[marks.bit[d] for d in loop]] = True
        mask = int.from_bytes(np.packbits(inside, bitorder="little").tobytes(), "little")
        weights = {form.class_col[c]: 1.0}
        for i in self._outward(inside):
            n = self._nodes[i]
            if not form.below[n] & mask:
                column = form.node_col[n]
                weights[column] = weights.get(column, 0.0) - 1.0
        return LoopCut([(i, a) for i, a in weights.items() if a], -INFINITY, 0.0, (c, loop))

    def _outward(self, inside: npt.NDArray[np.bool_]) -> list[int]:
        """The e-nodes of classes of a set that have no child in it: most have one, and children are landmarks."""
        nodes, _ = _ranges(self._node_starts, np.flatnonzero(inside))
        kids, user = _ranges(self._kid_starts, nodes)
        outward = np.ones(len(nodes), np.bool_)
        outward[user[inside[self._kids[kids]]]] = False
        numbers: list[int] = nodes[outward].tolist()
        return numbers


def _starts(sizes: Sequence[int]) -> Indices:
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])


def _ranges(starts: Indices, which: Indices) -> tuple[Indices, Indices]:
    """The numbers from ``starts[i]`` to ``starts[i + 1]`` for each ``i`` of ``which``, and where in it that is."""
    sizes = starts[which + 1] - starts[which]
    owner = np.repeat(np.arange(len(which)), sizes)
    before = np.cumsum(sizes) - sizes
    return np.arange(len(owner)) + (starts[which] - before)[owner], owner


def _short_cycles(order: Sequence[int], branches: Mapping[int, Sequence[Branch]]) -> Iterator[list[int]]:
    """Disjoint cycles, each shorter in the arc weights than y of the class that it starts from."""
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
            cycle = _short_cycle(graph, c, total[c] - MIN_VIOLATION)
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
