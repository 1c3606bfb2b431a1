"""The integer program of the exact method, as plain rows for a linear or an integer solver.

Columns: ``x_n`` is 1 if e-node n is chosen, ``y_c`` if e-class c is. A class with one candidate has one
column for both. Rows:

    y_c = sum of x_n over the candidates n of c
    y_c = 1                                                     c forced (as bounds)
    sum of x_n over candidates n of c with d in D(n) <= y_d     for each arc c -> d

with D the landmarks: stronger than the paper's constraint (3), one row for each e-node and child, since a sum
stands on the left. Acyclicity is not in it: see `tensat_dl.extract.loops`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tensat_dl.extract.greedy import dag_greedy
from tensat_dl.extract.problem import Choice, needed
from tensat_dl.extract.reduce import Reduced

#: Pairs of column and coefficient.
Entries = list[tuple[int, float]]
Vector = npt.NDArray[np.float64]

#: E-nodes with less than this are not in a point.
_SEEN = 1e-6


@dataclass(frozen=True, slots=True)
class LinearRow:
    """The sum of coefficients times columns is 0, or at most 0."""

    entries: Entries
    equal: bool

    def activity(self, x: Sequence[float]) -> float:
        """The sum at a point."""
        return sum(a * x[i] for i, a in self.entries)


@dataclass(frozen=True, slots=True)
class Formulation:
    reduced: Reduced
    below: dict[int, int]  #: D(n) of each candidate
    cost: Vector  #: [columns]
    floor: Vector  #: [columns] lower bound; the upper bound is 1
    node_col: dict[int, int]
    class_col: dict[int, int]
    rows: list[LinearRow]

    def choice(self, x: Vector) -> Choice:
        """The e-nodes of an integral point, for the classes that it chooses."""
        return {
            c: max(ns, key=lambda n: x[self.node_col[n]])
            for c, ns in self.reduced.problem.nodes.items()
            if x[self.class_col[c]] > 0.5
        }

    def rounded(self, x: Vector, everything: bool = True) -> Choice | None:
        """Greedy extraction by DAG cost with costs ``cost * (1 - x)``; ties keep a little of the true cost.

        E-nodes of the point are looked at, and if they are too few for a choice, ``everything``; else there is none.
        """
        problem, column, value = self.reduced.problem, self.node_col, x.tolist()
        seen = {c: [n for n in ns if value[column[n]] > _SEEN] for c, ns in problem.nodes.items()}
        seen = {c: ns for c, ns in seen.items() if ns}
        support = {
            c: tuple(n for n in ns if all(d in seen for d in problem.kids[n])) for c, ns in seen.items()
        }
        for nodes in (support, problem.nodes) if everything else (support,):
            part = replace(problem, nodes=nodes)
            cost = {n: problem.cost[n] * (max(0.0, 1.0 - value[column[n]]) + 1e-6) for n in part.candidates()}
            choice = dag_greedy(part, cost=cost)
            if all(root in choice for root in problem.roots):
                return problem.expanded(needed(problem, choice))
        return None


def formulate(reduced: Reduced) -> Formulation:
    problem, marks = reduced.problem, reduced.marks
    assert marks is not None, "the problem is small enough"
    cost: list[float] = []
    floor: list[float] = []
    node_col: dict[int, int] = {}
    class_col: dict[int, int] = {}
    rows: list[LinearRow] = []
    for c, ns in problem.nodes.items():
        class_col[c] = len(cost)
        floor.append(1.0 if c in reduced.forced else 0.0)
        if len(ns) == 1:
            node_col[ns[0]] = len(cost)
            cost.append(problem.cost[ns[0]])
            continue
        cost.append(0.0)
        for n in ns:
            node_col[n] = len(cost)
            cost.append(problem.cost[n])
            floor.append(0.0)
        rows.append(LinearRow([*((node_col[n], 1.0) for n in ns), (class_col[c], -1.0)], equal=True))
    below = {n: marks.of_kids(problem.kids[n]) for n in node_col}
    for c, kids in problem.successors().items():
        ns = problem.nodes[c]
        for d in kids:
            if d in reduced.forced:
                continue
            flag = 1 << marks.bit[d]
            users = [n for n in ns if below[n] & flag]
            left = [class_col[c]] if len(users) == len(ns) else [node_col[n] for n in users]
            rows.append(LinearRow([*((i, 1.0) for i in left), (class_col[d], -1.0)], equal=False))
    return Formulation(reduced, below, np.array(cost), np.array(floor), node_col, class_col, rows)
