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
from tensat_dl.extract.formulation import INFINITY, Formulation, LinearRow, Vector

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
        self._lower: list[float] = []
        self._upper: list[float] = []
        self._sizes: list[int] = []
        # Columns and coefficients of the rows one after the other, in one array for each call of `add`.
        self._cols: list[npt.NDArray[np.int64]] = []
        self._coefs: list[Vector] = []
        self._waiting = [row for row in form.rows if row.lower == -INFINITY]
        entries = [entry for row in self._waiting for entry in row.entries]
        # One number of these arrays for each entry of a waiting row.
        self._waiting_cols = np.array([i for i, _ in entries], dtype=np.int64)
        self._waiting_coefs = np.array([a for _, a in entries], dtype=np.float64)
        self._waiting_rows = np.repeat(
            np.arange(len(self._waiting)), [len(row.entries) for row in self._waiting]
        )
        self._upper_of_waiting = np.array([row.upper for row in self._waiting])
        self.add([row for row in form.rows if row.lower != -INFINITY])

    def add(self, rows: Sequence[LinearRow]) -> None:
        if rows:
            big = self._lp.infinity()
            self._lp.addRows(
                [row.entries for row in rows],
                [max(row.lower, -big) for row in rows],
                [min(row.upper, big) for row in rows],
            )
            self._lower.extend(row.lower for row in rows)
            self._upper.extend(row.upper for row in rows)
            self._sizes.extend(len(row.entries) for row in rows)
            self._cols.append(np.array([i for row in rows for i, _ in row.entries], dtype=np.int64))
            self._coefs.append(np.array([a for row in rows for _, a in row.entries], dtype=np.float64))

    def solve(self, budget: Budget) -> Relaxed | None:
        """Solves within the budget; None if that did not suffice."""
        found = self._solved(budget)
        for _ in range(_ROUNDS):
            if found is None or not self._violated(found.x):
                return found and replace(found, feasible=True)
            found = self._solved(budget) or found
        return found

    def _violated(self, x: Vector) -> bool:
        """Adds the rows that a point violates most; False if there is none. A row's bound goes up to infinity when it
        is added."""
        if not self._waiting:
            return False
        activity = np.bincount(
            self._waiting_rows, self._waiting_coefs * x[self._waiting_cols], len(self._waiting)
        )
        excess = activity - self._upper_of_waiting
        worst = np.argsort(-excess, kind="stable")[:_ROWS_PER_ROUND]
        worst = worst[excess[worst] > _VIOLATED]
        self.add([self._waiting[i] for i in worst])
        self._upper_of_waiting[worst] = INFINITY
        return bool(worst.size)

    def _solved(self, budget: Budget) -> Relaxed | None:
        """Solves with the rows that are in."""
        cut = len(self._cols) > 1
        unit = (_WORK_WITH_CUTS if cut else _WORK_PER_ITERATION_AND_ROW) * len(self._sizes)
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

        For min c x, l <= A x <= u, f <= x <= 1 and duals p it is the sum of p l (p > 0), p u (p < 0) and of
        r f (r > 0), r (r < 0) over the reduced costs r = c - p A.
        """
        x = np.clip(np.array(self._lp.getPrimal()), 0.0, 1.0)
        dual = np.array(self._lp.getDual())
        lower, upper = np.array(self._lower), np.array(self._upper)
        dual[(dual > 0) & (lower == -INFINITY)] = 0.0
        dual[(dual < 0) & (upper == INFINITY)] = 0.0
        # A problem whose rows were all reduced away has no arrays to join.
        cols = np.concatenate([np.zeros(0, np.int64), *self._cols])
        coefs = np.concatenate([np.zeros(0), *self._coefs])
        priced = np.bincount(cols, coefs * np.repeat(dual, self._sizes), len(self._form.cost))
        reduced_cost = self._form.cost - priced
        side = np.where(
            dual > 0, np.where(lower == -INFINITY, 0.0, lower), np.where(upper == INFINITY, 0.0, upper)
        )
        bound = float(dual @ side) + float(
            np.where(reduced_cost > 0, reduced_cost * self._form.floor, reduced_cost).sum()
        )
        return Relaxed(x, bound, reduced_cost)
