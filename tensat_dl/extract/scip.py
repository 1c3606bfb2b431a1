"""Running SCIP under a budget."""

from __future__ import annotations

import math
from typing import Any

from pyscipopt import Eventhdlr, Model, quicksum
from pyscipopt.scip import PY_SCIP_EVENTTYPE as SCIP_EVENTTYPE

from tensat_dl.extract.budget import Budget
from tensat_dl.extract.formulation import INFINITY, LinearRow

#: Work units of one simplex iteration, and for each row besides, and of one node of the search. SCIP does more around
#: an iteration than the bare simplex. Measured on e-graphs of 200 to 20,000 e-nodes.
_WORK_PER_ITERATION = 40.0
_WORK_PER_ROW = 0.01
_WORK_PER_NODE = 300.0


def new_model() -> Any:
    """An empty, silent model that stops only at a proven optimum, or when told to."""
    model = Model("extraction")
    model.hideOutput()
    model.setParam("limits/gap", 0.0)
    model.setParam("limits/absgap", 0.0)
    model.setParam("timing/clocktype", 2)  # time limits are of the wall clock
    return model


def constraint(columns: list[Any], row: LinearRow) -> Any:
    """A row over the model's variables, ready for `addCons`."""
    total = quicksum(a * columns[i] for i, a in row.entries)
    if row.lower == row.upper:
        return total == row.lower
    return total <= row.upper if row.lower == -INFINITY else total >= row.lower


def run(model: Any, watch: Watch) -> str:
    """Solves within the budget of the watch and returns SCIP's status.

    Only ``optimal`` and ``infeasible`` prove anything. Ctrl-C, which SCIP catches, is noted in the budget.
    """
    budget = watch.budget
    if math.isfinite(budget.seconds_left):
        model.setParam("limits/time", max(budget.seconds_left, 0.0))
    model.includeEventhdlr(watch, "watch", "stops the search when the work is used up")
    model.optimize()
    status: str = model.getStatus()
    if status == "userinterrupt" and not watch.stopped:
        budget.interrupted = True
    return status


class Watch(Eventhdlr):
    """Charges the budget for simplex iterations and nodes, and interrupts the search when it is used up."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.stopped = False
        self._charged = 0.0

    def eventinit(self) -> None:
        self.model.catchEvent(SCIP_EVENTTYPE.LPSOLVED, self)
        self.model.catchEvent(SCIP_EVENTTYPE.NODESOLVED, self)

    def eventexec(self, event: Any) -> None:
        self.look()

    def look(self, work: float = 0.0) -> None:
        """Charges the work since the last look, and some work of the caller's own.

        Other callbacks look too: a root node can take long.
        """
        self.budget.charge(work)
        model = self.model
        iterations = model.getNLPIterations() + model.getNStrongbranchLPIterations()
        done = (_WORK_PER_ITERATION + _WORK_PER_ROW * model.getNLPRows()) * iterations
        done += _WORK_PER_NODE * model.getNTotalNodes()
        if done > self._charged:
            self.budget.charge(done - self._charged)
            self._charged = done
        if self.budget.exhausted:
            self.stopped = True
            model.interruptSolve()
