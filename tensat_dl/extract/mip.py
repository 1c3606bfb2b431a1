"""The integer program in SCIP, with loop cuts added as they are violated; and how SCIP is run under a budget."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from pyscipopt import Conshdlr, Eventhdlr, Heur, Model, quicksum
from pyscipopt.scip import PY_SCIP_EVENTTYPE as SCIP_EVENTTYPE
from pyscipopt.scip import PY_SCIP_HEURTIMING as SCIP_HEURTIMING
from pyscipopt.scip import PY_SCIP_PARAMSETTING as SCIP_PARAMSETTING
from pyscipopt.scip import PY_SCIP_RESULT as SCIP_RESULT

from tensat_dl.extract.budget import Budget
from tensat_dl.extract.extraction import TOLERANCE
from tensat_dl.extract.formulation import Formulation, LinearRow, Vector
from tensat_dl.extract.incumbent import Incumbent
from tensat_dl.extract.loops import LoopSeparator
from tensat_dl.extract.problem import topological

#: The objective is scaled so that the cutoff is this: SCIP's tolerances are absolute, 1e-9 at best.
_SCALE = 1000.0

#: Work units of a callback, for each column: reading a solution takes about half of it.
_WORK_PER_CALL_AND_COLUMN = 3.0

#: A node of the search is branched on when this many rounds of cuts close less than this share of its gap.
_STALL_ROUNDS = 8
_STALL_SHARE = 0.01

#: Loop cuts added in one round of separation.
_CUTS_PER_ROUND = 200

#: Longer cuts do not go into a plain integer program: they hide its structure from presolving.
_SHORT = 20

#: Work units of one simplex iteration, and for each row besides, and of one node of the search. SCIP does more around
#: an iteration than the bare simplex. Measured on e-graphs of 200 to 20,000 e-nodes.
_WORK_PER_ITERATION = 40.0
_WORK_PER_ROW = 0.01
_WORK_PER_BRANCH = 300.0


def solve_mip(separator: LoopSeparator, cuts: Sequence[LinearRow], best: Incumbent, budget: Budget) -> None:
    """Offers ever cheaper choices to the incumbent, until none is left or the budget is used up."""
    if budget.exhausted:
        return
    form = separator.form
    model = new_model()
    watch = Watch(budget)
    scale = _SCALE / best.cost
    columns = [
        model.addVar(vtype="B", obj=scale * cost, lb=floor)
        for cost, floor in zip(form.cost.tolist(), form.floor.tolist(), strict=True)
    ]
    if separator.acyclic:
        cuts = [cut for cut in cuts if len(cut.entries) <= _SHORT]
    for row in [*form.rows, *cuts]:
        model.addCons(constraint(columns, row))
    model.setObjlimit(_SCALE * (1 - TOLERANCE))
    model.setHeuristics(SCIP_PARAMSETTING.OFF)  # choices come from greedy extraction and from the search
    model.includeHeur(
        _GreedyHeuristic(form, columns, best, scale, watch),
        "greedydag",
        "greedy extraction at the prices of the relaxation",
        "G",
        timingmask=SCIP_HEURTIMING.AFTERLPNODE | SCIP_HEURTIMING.DURINGLPLOOP,
        freq=5,
        usessubscip=False,
    )
    if not separator.acyclic:
        model.setParam("separating/gomory/freq", -1)  # dense rows, which make each later iteration slower
        model.setParam("misc/usesymmetry", 0)  # it does not see the loop handler
        handler = _LoopHandler(separator, columns, watch)
        model.includeConshdlr(
            handler,
            "loops",
            "acyclicity",
            sepapriority=1000,
            enfopriority=-1_000_000,
            chckpriority=-1_000_000,
            sepafreq=1,
            propfreq=-1,
            eagerfreq=-1,
            maxprerounds=0,
            needscons=False,
        )
    status = run(model, watch)
    if model.getNSols():
        best.offer(form.reduced.problem.expanded(form.choice(values(model, model.getBestSol(), columns))))
    # Infeasible means that nothing beats the objective limit, which is the incumbent's cost.
    best.prove(best.cost if status in ("optimal", "infeasible") else model.getDualbound() / scale)


class _LoopHandler(Conshdlr):
    """Acyclicity: separates relaxations, rejects and cuts off integral points with a cycle."""

    def __init__(self, separator: LoopSeparator, columns: list[Any], watch: Watch) -> None:
        self._separator = separator
        self._columns = columns
        self._watch = watch
        self._node = -1
        self._values_seen: list[float] = []

    def _acyclic(self, x: Vector) -> bool:
        form = self._separator.form
        return topological(form.reduced.problem, form.choice(x)) is not None

    def conscheck(self, constraints: Any, solution: Any, *_: Any) -> dict[str, Any]:
        fine = self._acyclic(values(self.model, solution, self._columns))
        return {"result": SCIP_RESULT.FEASIBLE if fine else SCIP_RESULT.INFEASIBLE}

    def conssepalp(self, *_: Any) -> dict[str, Any]:
        self._watch.look(_WORK_PER_CALL_AND_COLUMN * len(self._columns))
        if self._stalled():
            return {"result": SCIP_RESULT.DIDNOTRUN}
        cuts = self._separator.separate(values(self.model, None, self._columns), _CUTS_PER_ROUND)
        model = self.model
        for cut in cuts:
            row = model.createEmptyRowUnspec("loop", lhs=None, rhs=0.0, local=False)
            model.cacheRowExtensions(row)
            for i, a in cut.entries:
                model.addVarToRow(row, model.getTransformedVar(self._columns[i]), a)
            model.flushRowExtensions(row)
            model.addCut(row, forcecut=True)
            model.addPoolCut(row)
            model.releaseRow(row)
        return {"result": SCIP_RESULT.SEPARATED if cuts else SCIP_RESULT.DIDNOTFIND}

    def _stalled(self) -> bool:
        """Whether cuts at this node of the search no longer raise its bound: then it is time to branch."""
        node, value = self.model.getCurrentNode().getNumber(), self.model.getLPObjVal()
        if node != self._node:
            self._node, self._values_seen = node, []
        seen = self._values_seen
        seen.append(value)
        rounds = _STALL_ROUNDS
        return len(seen) > rounds and value - seen[-1 - rounds] < _STALL_SHARE * (_SCALE - value)

    def _enforce(self) -> dict[str, Any]:
        x = values(self.model, None, self._columns)
        if self._acyclic(x):
            return {"result": SCIP_RESULT.FEASIBLE}
        cuts = self._separator.separate(np.round(x), _CUTS_PER_ROUND)
        for cut in cuts:
            self.model.addCons(constraint(self._columns, cut))
        return {"result": SCIP_RESULT.CONSADDED if cuts else SCIP_RESULT.INFEASIBLE}

    def consenfolp(self, *_: Any) -> dict[str, Any]:
        return self._enforce()

    def consenfops(self, *_: Any) -> dict[str, Any]:
        return self._enforce()

    def conslock(self, constraint: Any, locktype: Any, nlockspos: int, nlocksneg: int) -> None:
        both = nlockspos + nlocksneg
        for v in self._columns:
            self.model.addVarLocksType(v, locktype, both, both)


class _GreedyHeuristic(Heur):
    """Greedy extraction guided by the relaxation of the node at hand.

    A better choice goes to the incumbent, and SCIP only learns that it now has to be better than that:
    presolving may have fixed the very variables that it would set.
    """

    def __init__(
        self, form: Formulation, columns: list[Any], best: Incumbent, scale: float, watch: Watch
    ) -> None:
        self._form = form
        self._columns = columns
        self._watch = watch
        self._best = best
        self._scale = scale

    def heurexec(self, heurtiming: Any, nodeinfeasible: bool) -> dict[str, Any]:
        if nodeinfeasible:
            return {"result": SCIP_RESULT.DIDNOTRUN}
        self._watch.look(_WORK_PER_CALL_AND_COLUMN * len(self._columns))
        choice = self._form.rounded(values(self.model, None, self._columns))
        if choice is None or not self._best.offer(choice):
            return {"result": SCIP_RESULT.DIDNOTFIND}
        self.model.setObjlimit(self._best.cost * self._scale * (1 - TOLERANCE))
        return {"result": SCIP_RESULT.FOUNDSOL}


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
    return total == 0 if row.equal else total <= 0


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
        done += _WORK_PER_BRANCH * model.getNTotalNodes()
        if done > self._charged:
            self.budget.charge(done - self._charged)
            self._charged = done
        if self.budget.exhausted:
            self.stopped = True
            model.interruptSolve()


def values(model: Any, solution: Any, columns: list[Any]) -> Vector:
    """The values of columns in a solution, or in the last relaxation for None."""
    return np.array([model.getSolVal(solution, v) for v in columns])
