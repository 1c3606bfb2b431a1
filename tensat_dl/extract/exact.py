"""The exact method: reductions, relaxation with loop cuts, then the integer program on what is left."""

from __future__ import annotations

from tensat_dl.extract.budget import Budget
from tensat_dl.extract.formulation import Formulation, Row, formulate
from tensat_dl.extract.incumbent import Incumbent
from tensat_dl.extract.loops import LoopSeparator
from tensat_dl.extract.mip import guided_greedy, solve_mip
from tensat_dl.extract.problem import Problem, prune
from tensat_dl.extract.reduce import Reduced, reduce
from tensat_dl.extract.relaxation import Relaxation, Relaxed
from tensat_dl.extract.types import TOLERANCE


def improve(problem: Problem, best: Incumbent, preferred: frozenset[int], budget: Budget) -> None:
    """Makes the incumbent as cheap, and its bound as high, as the budget allows."""
    reduced = reduce(problem, best.cost, preferred)
    while reduced is not None:
        best.prove(reduced.bound)
        form = formulate(reduced)
        separator = LoopSeparator(form)
        relaxed, cuts = _relax(form, separator, best, budget)
        smaller = None if relaxed is None else _fix(reduced, form, relaxed, best, preferred)
        if relaxed is not None and smaller is None:
            break
        if smaller is None or smaller.problem.num_nodes > 0.8 * reduced.problem.num_nodes:
            solve_mip(form, separator, cuts, best, budget)
            return
        reduced = smaller
    best.prove(best.cost)


def _relax(
    form: Formulation, separator: LoopSeparator, best: Incumbent, budget: Budget
) -> tuple[Relaxed | None, list[Row]]:
    """Solves the relaxation, adding loop cuts while the bound moves, and rounds it to offer choices."""
    relaxation = Relaxation(form)
    relaxed = None
    cuts: list[Row] = []
    stalled = 0
    previous = 0.0
    while (found := relaxation.solve(budget)) is not None:
        relaxed = found
        best.prove(relaxed.bound)
        best.offer(guided_greedy(form, relaxed.x))
        stalled = stalled + 1 if relaxed.bound < previous + 1e-4 * best.cost else 0
        previous = max(previous, relaxed.bound)
        violated = [] if separator.acyclic or stalled > 5 else separator.separate(relaxed.x, 500)
        if not violated or best.proven:
            break
        cuts.extend(violated)
        relaxation.add(violated)
    return relaxed, cuts


def _fix(
    reduced: Reduced, form: Formulation, relaxed: Relaxed, best: Incumbent, preferred: frozenset[int]
) -> Reduced | None:
    """The problem without e-nodes whose reduced cost proves that no cheaper choice has them."""
    slack = best.cost * (1 - TOLERANCE) - relaxed.bound
    rising = relaxed.reduced_cost * (form.floor == 0)
    nodes = {
        c: [n for n in ns if rising[form.node_col[n]] < slack] if rising[form.class_col[c]] < slack else []
        for c, ns in reduced.problem.nodes.items()
    }
    if slack <= 0:
        return None
    smaller = prune(reduced.problem, nodes)
    return None if smaller is None else reduce(smaller, best.cost, preferred)
