"""The integer program in SCIP, with loop cuts added as they are violated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from pyscipopt import Conshdlr, Heur
from pyscipopt.scip import PY_SCIP_HEURTIMING as SCIP_HEURTIMING
from pyscipopt.scip import PY_SCIP_PARAMSETTING as SCIP_PARAMSETTING
from pyscipopt.scip import PY_SCIP_RESULT as SCIP_RESULT

from tensat_dl.extract.budget import Budget
from tensat_dl.extract.contract import expand
from tensat_dl.extract.formulation import Formulation, LinearRow, Vector
from tensat_dl.extract.greedy import dag_greedy
from tensat_dl.extract.incumbent import Incumbent
from tensat_dl.extract.loops import LoopSeparator
from tensat_dl.extract.problem import Choice, needed, topological
from tensat_dl.extract.scip import Watch, constraint, new_model, run
from tensat_dl.extract.types import TOLERANCE

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

#: E-nodes with less than this are not in a solution of the relaxation.
_SEEN = 1e-6


def solve_mip(
    form: Formulation, separator: LoopSeparator, cuts: Sequence[LinearRow], best: Incumbent, budget: Budget
) -> None:
    """Offers ever cheaper choices to the incumbent, until none is left or the budget is used up."""
    if budget.exhausted:
        return
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
        handler = _LoopHandler(form, separator, columns, watch)
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
        solution = model.getBestSol()
        x = np.array([model.getSolVal(solution, v) for v in columns])
        best.offer(expand(form.reduced.problem, form.choice(x)))
    # Infeasible means that nothing beats the objective limit, which is the incumbent's cost.
    best.prove(best.cost if status in ("optimal", "infeasible") else model.getDualbound() / scale)


class _LoopHandler(Conshdlr):
    """Acyclicity: separates relaxations, rejects and cuts off integral points with a cycle."""

    def __init__(self, form: Formulation, separator: LoopSeparator, columns: list[Any], watch: Watch) -> None:
        self._form = form
        self._separator = separator
        self._columns = columns
        self._watch = watch
        self._node = -1
        self._values_seen: list[float] = []

    def _values(self, solution: Any) -> Vector:
        return np.array([self.model.getSolVal(solution, v) for v in self._columns])

    def _acyclic(self, x: Vector) -> bool:
        return topological(self._form.reduced.problem, self._form.choice(x)) is not None

    def conscheck(
        self,
        constraints: Any,
        solution: Any,
        checkintegrality: bool,
        checklprows: bool,
        printreason: bool,
        completely: bool,
    ) -> dict[str, Any]:
        fine = self._acyclic(self._values(solution))
        return {"result": SCIP_RESULT.FEASIBLE if fine else SCIP_RESULT.INFEASIBLE}

    def conssepalp(self, constraints: Any, nusefulconss: int) -> dict[str, Any]:
        self._watch.look(_WORK_PER_CALL_AND_COLUMN * len(self._columns))
        if self._stalled():
            return {"result": SCIP_RESULT.DIDNOTRUN}
        cuts = self._separator.separate(self._values(None), _CUTS_PER_ROUND)
        model = self.model
        for cut in cuts:
            row = model.createEmptyRowUnspec("loop", lhs=None, rhs=cut.upper, local=False)
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
        x = self._values(None)
        if self._acyclic(x):
            return {"result": SCIP_RESULT.FEASIBLE}
        cuts = self._separator.separate(np.round(x), _CUTS_PER_ROUND)
        for cut in cuts:
            self.model.addCons(constraint(self._columns, cut))
        return {"result": SCIP_RESULT.CONSADDED if cuts else SCIP_RESULT.INFEASIBLE}

    def consenfolp(self, constraints: Any, nusefulconss: int, solinfeasible: bool) -> dict[str, Any]:
        return self._enforce()

    def consenfops(
        self, constraints: Any, nusefulconss: int, solinfeasible: bool, objinfeasible: bool
    ) -> dict[str, Any]:
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
        x = np.array([self.model.getSolVal(None, v) for v in self._columns])
        choice = guided_greedy(self._form, x)
        if choice is None or not self._best.offer(expand(self._form.reduced.problem, choice)):
            return {"result": SCIP_RESULT.DIDNOTFIND}
        self.model.setObjlimit(self._best.cost * self._scale * (1 - TOLERANCE))
        return {"result": SCIP_RESULT.FOUNDSOL}


def guided_greedy(form: Formulation, x: Vector, everything: bool = True) -> Choice | None:
    """Greedy extraction by DAG cost with costs ``cost * (1 - x)``; ties keep a little of the true cost.

    E-nodes of the relaxation's solution are looked at, and if they are too few for a choice, ``everything``; else
    there is none.
    """
    problem = form.reduced.problem
    value = x.tolist()
    column = form.node_col
    seen = {c: [n for n in ns if value[column[n]] > _SEEN] for c, ns in problem.nodes.items()}
    seen = {c: ns for c, ns in seen.items() if ns}
    support = {c: tuple(n for n in ns if all(d in seen for d in problem.kids[n])) for c, ns in seen.items()}
    for candidates in (support, problem.nodes) if everything else (support,):
        cost = {
            n: problem.cost[n] * (max(0.0, 1.0 - value[column[n]]) + 1e-6)
            for ns in candidates.values()
            for n in ns
        }
        choice = dag_greedy(replace(problem, nodes=candidates), cost=cost)
        if all(root in choice for root in problem.roots):
            return needed(problem, choice.__getitem__)
    return None
