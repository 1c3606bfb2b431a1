"""The exact method: reductions, relaxation with loop cuts, then the integer program on what is left."""

from __future__ import annotations

from tensat_dl.extract.budget import Budget
from tensat_dl.extract.contract import expand
from tensat_dl.extract.formulation import Formulation, Row, formulate
from tensat_dl.extract.incumbent import Incumbent
from tensat_dl.extract.loops import LoopSeparator
from tensat_dl.extract.mip import guided_greedy, solve_mip
from tensat_dl.extract.problem import Problem, prune
from tensat_dl.extract.reduce import Reduced, reduce
from tensat_dl.extract.relaxation import Relaxation, Relaxed
from tensat_dl.extract.types import TOLERANCE

#: Work on the relaxation, as a share of what is left.
_RELAXATION_SHARE = 0.3

#: The relaxation is left when this many rounds of cuts close less than this share of the gap.
_PATIENCE = 80
_MIN_PROGRESS = 0.01


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
    share = budget.share(_RELAXATION_SHARE * budget.work)
    given = share.work
    history: list[float] = []
    while (found := relaxation.solve(share)) is not None:
        relaxed = found
        best.prove(relaxed.bound)
        best.offer(expand(form.reduced.problem, guided_greedy(form, relaxed.x)))
        history.append(best.bound)
        if best.proven or separator.acyclic or _stalled(history, best.cost):
            break
        violated = separator.separate(relaxed.x, 500)
        if not violated:
            break
        cuts.extend(violated)
        relaxation.add(violated)
    budget.charge(given - share.work)
    return relaxed, cuts


def _stalled(history: list[float], cost: float) -> bool:
    """Whether the last rounds of cuts closed too little of the gap."""
    if len(history) <= _PATIENCE:
        return False
    return history[-1] - history[-1 - _PATIENCE] < _MIN_PROGRESS * (cost - history[-1])


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
