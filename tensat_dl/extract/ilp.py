"""The integer programs of the paper (section "Extraction phase", equations 1-5), solved by SCIP as is.

``ilp-real`` orders the classes by real variables in [0, 1], ``ilp-int`` by integers in 0..M-1, and
``ilp-none`` does not order them and is for acyclic e-graphs.
"""

from __future__ import annotations

from typing import Any

from pyscipopt import quicksum

from tensat_dl.core.words import counted
from tensat_dl.extract.budget import Budget
from tensat_dl.extract.extraction import CyclicEGraphError
from tensat_dl.extract.incumbent import Incumbent
from tensat_dl.extract.mip import Watch, new_model, run
from tensat_dl.extract.problem import Problem, needed, topological

ILP_METHODS = ("ilp-real", "ilp-int", "ilp-none")


def solve_ilp(problem: Problem, method: str, best: Incumbent, budget: Budget) -> None:
    """Offers the solution of one of `ILP_METHODS` to the incumbent, and its bound."""
    if method == "ilp-none":
        _refuse_cycles(problem)
    scale = 1000.0 / best.cost if best.cost > 0 else 1.0  # SCIP's tolerances are absolute
    model = new_model()
    chosen = {n: model.addVar(vtype="B", obj=scale * problem.cost[n]) for n in problem.candidates()}
    for root in problem.roots:  # (2)
        model.addCons(quicksum(chosen[n] for n in problem.nodes[root]) == 1)
    for n, x in chosen.items():  # (3)
        for d in problem.kids[n]:
            model.addCons(x <= quicksum(chosen[m] for m in problem.nodes[d]))
        if budget.exhausted:  # building the program of a large e-graph takes seconds
            return
    if method != "ilp-none" and not _add_order(model, problem, chosen, method == "ilp-int", budget):
        return
    status = run(model, Watch(budget))
    if model.getNSols():
        solution = model.getBestSol()
        taken = {n for n, x in chosen.items() if model.getSolVal(solution, x) > 0.5}
        # The paper notes that more than one e-node of a class is never better. The cheapest comes last.
        cheapest = {problem.home[n]: n for n in sorted(taken, key=lambda n: (-problem.cost[n], -n))}
        choice = needed(problem, cheapest)
        if topological(problem, choice) is not None:  # the solver's tolerance can let a cycle through
            best.offer(choice)
    if status == "optimal" or model.getDualbound() > 0:
        best.prove(model.getDualbound() / scale)


def _add_order(model: Any, problem: Problem, chosen: dict[int, Any], integer: bool, budget: Budget) -> bool:
    """Constraints (4) and (5): a class comes after the children of its chosen e-node. False if time is up."""
    count = len(problem.nodes)
    if integer:
        step, big = 1.0, float(count)
        order = {c: model.addVar(vtype="I", lb=0.0, ub=count - 1.0) for c in problem.nodes}
    else:
        step, big = 1.0 / (count + 1), 1.0 + 2.0 / (count + 1)
        order = {c: model.addVar(vtype="C", lb=0.0, ub=1.0) for c in problem.nodes}
    for n, x in chosen.items():
        for d in problem.kids[n]:
            model.addCons(order[problem.home[n]] - order[d] + big * (1 - x) >= step)
        if budget.exhausted:
            return False
    return True


def _refuse_cycles(problem: Problem) -> None:
    for component in problem.components():
        if len(component) > 1:
            raise CyclicEGraphError(
                "ilp-none has no constraints against cycles, and this e-graph has some: e-class {} and "
                f"{counted(len(component) - 1, 'other')} can depend on one another. "
                "Extract with exact, ilp-real or ilp-int",
                min(component),
            )
