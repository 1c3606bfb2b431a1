"""The linear relaxation, solved by SCIP's simplex solver, with bounds that do not rely on it being right.

Most rows never matter: inequalities are left out until a solution violates them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from pyscipopt import LP

from tensat_dl.extract.budget import Budget
from tensat_dl.extract.formulation import Formulation, LinearRow, Vector

#: SCIP_LPPAR_LPITLIM of SCIP's LP interface: simplex iterations of one call.
_ITERATION_LIMIT = 10

#: SCIP_LPPAR_LPTILIM: seconds of one call.
_TIME_LIMIT = 11

#: Iterations between looks at the clock.
_SLICE = 1000

#: How many times violated rows are added before a solution is passed on, how many at a time, and by how much they
#: must be violated.
_ROUNDS = 4
_ROWS_PER_ROUND = 2000
_VIOLATED = 1e-6

#: Work units of one simplex iteration, for each row: without cuts, which are dense, and with them (measured on
#: e-graphs of 2,000 to 60,000 rows).
_WORK_PER_ITERATION_AND_ROW = 0.01
_WORK_WITH_CUTS = 0.03

#: Row, column and coefficient of each entry.
_Entries = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Vector]


@dataclass(frozen=True, slots=True)
class Relaxed:
    """A solution of the relaxation and the Lagrangian bound of its duals."""

    x: Vector  #: [columns]
    bound: float  #: no point of the relaxation costs less
    reduced_cost: Vector  #: [columns]
    feasible: bool = False  #: whether it satisfies the rows that were left out


class Relaxation:
    """A linear program that grows by rows and is solved again from its last basis."""

    def __init__(self, form: Formulation) -> None:
        self._form = form
        self._lp = LP()
        count = len(form.cost)
        self._lp.addCols([[]] * count, form.cost.tolist(), form.floor.tolist(), [1.0] * count)
        self._equal: list[bool] = []  #: by row
        self._entries: list[_Entries] = []  #: of each call of `add`
        self._waiting = [row for row in form.rows if not row.equal]
        self._waiting_entries = _entries(self._waiting)
        self._taken = np.zeros(len(self._waiting), np.bool_)
        self.add([row for row in form.rows if row.equal])

    def add(self, rows: Sequence[LinearRow]) -> None:
        if rows:
            least = -self._lp.infinity()
            self._lp.addRows(
                [row.entries for row in rows],
                [0.0 if row.equal else least for row in rows],
                [0.0] * len(rows),
            )
            self._entries.append(_entries(rows, len(self._equal)))
            self._equal.extend(row.equal for row in rows)

    def solve(self, budget: Budget) -> Relaxed | None:
        """Solves within the budget; None if that did not suffice."""
        found = self._solved(budget)
        for _ in range(_ROUNDS):
            if found is None or not self._violated(found.x):
                return found and replace(found, feasible=True)
            found = self._solved(budget) or found
        return found

    def _violated(self, x: Vector) -> bool:
        """Adds the rows that a point violates most; False if there is none."""
        row, col, coef = self._waiting_entries
        excess = np.bincount(row, coef * x[col], len(self._waiting))
        excess[self._taken] = 0.0
        worst = np.argsort(-excess, kind="stable")[:_ROWS_PER_ROUND]
        worst = worst[excess[worst] > _VIOLATED]
        self.add([self._waiting[i] for i in worst])
        self._taken[worst] = True
        return bool(worst.size)

    def _solved(self, budget: Budget) -> Relaxed | None:
        """Solves with the rows that are in."""
        cut = len(self._entries) > 1
        unit = (_WORK_WITH_CUTS if cut else _WORK_PER_ITERATION_AND_ROW) * len(self._equal)
        self._lp.setIntParam(_ITERATION_LIMIT, _SLICE)
        while not budget.exhausted:
            if math.isfinite(budget.seconds_left):
                self._lp.setRealParam(_TIME_LIMIT, max(budget.seconds_left, 0.01))
            self._lp.solve()
            budget.charge(unit * max(1, self._lp.getNIterations()))
            if self._lp.isOptimal():
                return self._relaxed()
        return None

    def _relaxed(self) -> Relaxed:
        """The bound is recomputed from the duals: any signs-respecting duals give a valid one.

        For min c x, A x <= 0 or A x = 0, f <= x <= 1 and duals p it is the sum of r f (r > 0) and r (r < 0) over the
        reduced costs r = c - p A, where p of an inequality is at most 0.
        """
        x = np.clip(np.array(self._lp.getPrimal()), 0.0, 1.0)
        dual = np.array(self._lp.getDual())
        dual[(dual > 0) & ~np.array(self._equal, np.bool_)] = 0.0
        row, col, coef = (np.concatenate(parts) for parts in zip(_entries(()), *self._entries, strict=True))
        reduced_cost = self._form.cost - np.bincount(col, coef * dual[row], len(self._form.cost))
        bound = np.where(reduced_cost > 0, reduced_cost * self._form.floor, reduced_cost).sum()
        return Relaxed(x, float(bound), reduced_cost)


def _entries(rows: Sequence[LinearRow], first: int = 0) -> _Entries:
    """The row, the column and the coefficient of each entry; rows are numbered from ``first``."""
    entries = [entry for row in rows for entry in row.entries]
    return (
        np.repeat(np.arange(first, first + len(rows)), [len(row.entries) for row in rows]),
        np.array([i for i, _ in entries], np.int64),
        np.array([a for _, a in entries], np.float64),
    )
