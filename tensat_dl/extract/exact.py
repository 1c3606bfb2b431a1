"""The exact method: reductions, relaxation with loop cuts, then the integer program on what is left."""

from __future__ import annotations

from collections.abc import Hashable
from math import fsum

from tensat_dl.extract.budget import Budget
from tensat_dl.extract.contract import expand
from tensat_dl.extract.decompose import Answer, by_number, by_position, pieces, shape
from tensat_dl.extract.formulation import Formulation, Row, Vector, formulate
from tensat_dl.extract.greedy import dag_greedy
from tensat_dl.extract.incumbent import Incumbent
from tensat_dl.extract.loops import MIN_VIOLATION, LoopSeparator
from tensat_dl.extract.mip import guided_greedy, solve_mip
from tensat_dl.extract.problem import Choice, Problem, prune, topological
from tensat_dl.extract.reduce import Reduced, forced_bound, reduce
from tensat_dl.extract.relaxation import Relaxation, Relaxed
from tensat_dl.extract.search import search
from tensat_dl.extract.types import TOLERANCE

#: Work units of rounding and separating one solution of the relaxation, for each column.
_WORK_PER_ROUND_AND_COLUMN = 8.0

#: Work on the relaxation, as a share of what is left.
_RELAXATION_SHARE = 0.5

#: The relaxation is left when this many rounds of cuts close less than this share of the gap.
_PATIENCE = 80
_MIN_PROGRESS = 0.01

#: For problems of more e-nodes the integer program and the search for a better choice take turns with these shares of
#: what is left: at first, doubled where neither helped, and last.
_LARGE = 300
_FIRST_EFFORT = 0.03
_LAST_EFFORT = 0.25

#: How far the inner point moves to each solution of the relaxation, and where cuts are looked for between the two, as
#: weights of the inner point. The search for cuts draws at random: the last ones try again.
_INNER_STEP = 0.1
_INWARD = (0.5, 0.25, 0.0, 0.0, 0.0)

#: Cuts with less slack than this in the last relaxation go into the integer program.
_TIGHT = 1e-6

#: The relaxation is solved again after a reduction to less than this share of the e-nodes.
_SHRINK = 0.8


def improve(
    problem: Problem, best: Incumbent, preferred: frozenset[int], budget: Budget, searching: bool = True
) -> None:
    """Makes the incumbent as cheap, and its bound as high, as the budget allows.

    With ``searching`` a large problem that the relaxation leaves open is searched by neighbourhoods in turn with the
    integer program, each neighbourhood a small problem for this same function.
    """

    def solve(part: Problem, answer: Incumbent, share: Budget) -> bool:
        improve(part, answer, preferred, share, searching=False)
        return answer.proven

    reduced = reduce(problem, best.cost, preferred)
    base = reduced
    together = False
    effort, seed = _FIRST_EFFORT, 0
    while base is not None and reduced is not None:
        best.prove(reduced.bound)
        if budget.exhausted:
            return
        if not together:
            parts, settled = pieces(reduced)
            if len(parts) > 1:
                if _solve_apart(reduced, parts, settled, best, preferred, budget, searching):
                    return
                together = True
        form = formulate(reduced)
        separator = LoopSeparator(form)
        relaxed, cuts = _relax(form, separator, best, budget)
        smaller = reduced if relaxed is None else _fix(reduced, form, relaxed, best, preferred)
        if smaller is None:
            break
        if smaller.problem.num_nodes < _SHRINK * reduced.problem.num_nodes:
            reduced = smaller
            continue
        if separator.acyclic:  # plain integer programs are what SCIP is best at
            effort = max(effort, _LAST_EFFORT)
        known = best.cost
        while searching and smaller.problem.num_nodes > _LARGE and effort <= _LAST_EFFORT:
            if relaxed is not None and _attempt(form, separator, cuts, best, budget, effort):
                return
            share = budget.take(1.0 if relaxed is None else effort)
            search(base.problem, best, share, solve, seed)
            budget.give_back(share)
            seed += 1
            if best.cost < known:
                break
            effort *= 2
        if relaxed is not None and best.cost < known:  # with a cheaper choice more e-nodes can go
            reduced = _fix(reduced, form, relaxed, best, preferred)
            continue
        if relaxed is not None:
            solve_mip(form, separator, cuts, best, budget)
        return
    best.prove(best.cost)


def _attempt(
    form: Formulation,
    separator: LoopSeparator,
    cuts: list[Row],
    best: Incumbent,
    budget: Budget,
    effort: float,
) -> bool:
    """Tries the integer program for a while: many are easy once the cuts are in."""
    share = budget.take(effort)
    solve_mip(form, separator, cuts, best, share)
    budget.give_back(share)
    return best.proven


def _solve_apart(
    reduced: Reduced,
    parts: list[Problem],
    settled: Choice,
    best: Incumbent,
    preferred: frozenset[int],
    budget: Budget,
    searching: bool,
) -> bool:
    """Solves the pieces one by one and offers their union; False if it is cyclic, which leaves the bound.

    Pieces of one shape, of which graphs of repeated blocks have many, are solved once.
    """
    problem = reduced.problem
    fixed = fsum(problem.cost[n] for n in settled.values())
    bounds = [forced_bound(part) for part in parts]
    union = dict(settled)
    left = sum(part.num_nodes for part in parts)
    solved: dict[Hashable, Answer] = {}
    for i, part in enumerate(parts):
        left_before, left = left, left - part.num_nodes
        key = shape(part, preferred)
        if key in solved:
            union.update(by_number(part, solved[key]))
            bounds[i] = solved[key].bound
            continue
        answer = Incumbent(part)
        answer.offer(dag_greedy(part, preferred))
        share = budget.take(part.num_nodes / left_before)
        try:
            improve(part, answer, preferred, share, searching)
        except KeyboardInterrupt:
            share.interrupted = True
        budget.give_back(share)
        union.update(answer.choice)
        bounds[i] = max(bounds[i], answer.bound)
        if answer.proven:
            solved[key] = by_position(part, answer.choice, bounds[i])
        best.prove(fixed + fsum(bounds))
    best.prove(fixed + fsum(bounds))
    acyclic = topological(problem, union) is not None
    if acyclic:
        best.offer(expand(problem, union))
    return acyclic


def _relax(
    form: Formulation, separator: LoopSeparator, best: Incumbent, budget: Budget
) -> tuple[Relaxed | None, list[Row]]:
    """Solves the relaxation, adding loop cuts while the bound moves, and rounds it to offer choices."""
    relaxation = Relaxation(form)
    relaxed = None
    cuts: list[Row] = []
    inner: Vector | None = None
    share = budget.take(_RELAXATION_SHARE)
    history: list[float] = []
    while (found := relaxation.solve(share)) is not None:
        relaxed = found
        best.prove(relaxed.bound)
        best.offer(expand(form.reduced.problem, guided_greedy(form, relaxed.x)))
        history.append(best.bound)
        if best.proven or separator.acyclic or _stalled(history, best.cost):
            break
        share.charge(_WORK_PER_ROUND_AND_COLUMN * len(form.cost))
        inner = relaxed.x if inner is None else inner + _INNER_STEP * (relaxed.x - inner)
        violated = _violated(separator, relaxed.x, inner)
        if not violated:
            break
        cuts.extend(violated)
        relaxation.add(violated)
    budget.give_back(share)
    tight = [] if relaxed is None else [cut for cut in cuts if _activity(cut, relaxed.x) > cut.upper - _TIGHT]
    return relaxed, tight


def _violated(separator: LoopSeparator, x: Vector, inner: Vector) -> list[Row]:
    """Loop cuts that a solution of the relaxation violates, looked for on the way to it from further inside.

    A vertex is cut off by many weak cuts; one that is violated in the direction of the ``inner`` point, an average
    of the solutions so far, goes deeper (in-out separation, Ben-Ameur and Neto 2007, Fischetti and Salvagnin 2010).
    """
    for weight in _INWARD:
        cuts = separator.separate(weight * inner + (1 - weight) * x, 500)
        violated = [cut for cut in cuts if _activity(cut, x) > cut.upper + MIN_VIOLATION]
        if violated:
            return violated
    return []


def _activity(row: Row, x: Vector) -> float:
    return sum(a * float(x[i]) for i, a in row.entries)


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
