"""The integer programs of the paper (section "Extraction phase", equations 1-5), solved by SCIP as is.

``ilp-real`` orders the classes by real variables in [0, 1], ``ilp-int`` by integers in 0..M-1, and
``ilp-none`` does not order them and is for acyclic e-graphs.
"""

from __future__ import annotations

from typing import Any, Literal

from pyscipopt import quicksum

from tensat_dl.extract.budget import Budget
from tensat_dl.extract.incumbent import Incumbent
from tensat_dl.extract.problem import Choice, Problem, needed, strong_components, topological
from tensat_dl.extract.scip import Watch, new_model, run
from tensat_dl.extract.types import CyclicEGraphError

Cycles = Literal["real", "int", "none"]


def solve_ilp(problem: Problem, cycles: Cycles, best: Incumbent, budget: Budget) -> None:
    """Offers the program's solution to the incumbent, and its bound."""
    if cycles == "none":
        _refuse_cycles(problem)
    scale = 1000.0 / best.cost if best.cost > 0 else 1.0  # SCIP's tolerances are absolute
    model = new_model()
    chosen = {
        n: model.addVar(vtype="B", obj=scale * problem.cost[n]) for ns in problem.nodes.values() for n in ns
    }
    for root in problem.roots:  # (2)
        model.addCons(quicksum(chosen[n] for n in problem.nodes[root]) == 1)
    for n, x in chosen.items():  # (3)
        for d in problem.kids[n]:
            model.addCons(x <= quicksum(chosen[m] for m in problem.nodes[d]))
        if budget.exhausted:  # building the program of a large e-graph takes seconds
            return
    if cycles != "none" and not _add_order(model, problem, chosen, cycles, budget):
        return
    status = run(model, Watch(budget))
    if model.getNSols():
        solution = model.getBestSol()
        taken = {n for n, x in chosen.items() if model.getSolVal(solution, x) > 0.5}
        choice = _choice(problem, taken)
        if choice is not None:
            best.offer(choice)
    if status == "optimal" or model.getDualbound() > 0:
        best.prove(model.getDualbound() / scale)


def _add_order(model: Any, problem: Problem, chosen: dict[int, Any], cycles: Cycles, budget: Budget) -> bool:
    """Constraints (4) and (5): a class comes after the children of its chosen e-node. False if time is up."""
    count = len(problem.nodes)
    if cycles == "real":
        step, big = 1.0 / (count + 1), 1.0 + 2.0 / (count + 1)
        order = {c: model.addVar(vtype="C", lb=0.0, ub=1.0) for c in problem.nodes}
    else:
        step, big = 1.0, float(count)
        order = {c: model.addVar(vtype="I", lb=0.0, ub=count - 1.0) for c in problem.nodes}
    for n, x in chosen.items():
        for d in problem.kids[n]:
            model.addCons(order[problem.home[n]] - order[d] + big * (1 - x) >= step)
        if budget.exhausted:
            return False
    return True


def _choice(problem: Problem, taken: set[int]) -> Choice | None:
    """One taken e-node for each needed class: the paper notes that more than one is never better.

    None if the solver's tolerance let a cycle through.
    """

    def pick(c: int) -> int:
        return min((n for n in problem.nodes[c] if n in taken), key=lambda n: (problem.cost[n], n))

    choice = needed(problem, pick)
    return choice if topological(problem, choice) is not None else None


def _refuse_cycles(problem: Problem) -> None:
    for component in strong_components(problem.nodes, problem.successors()):
        if len(component) > 1:
            raise CyclicEGraphError(
                "ilp-none has no constraints against cycles, and this e-graph has some: e-class {} and "
                f"{len(component) - 1} others can depend on one another. Extract with exact, ilp-real or ilp-int",
                min(component),
            )
