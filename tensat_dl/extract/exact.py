"""The exact method: reductions, relaxation with loop cuts, then the integer program on the rest."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from math import fsum

from tensat_dl.extract.along_orders import follow
from tensat_dl.extract.ascent import Ascent
from tensat_dl.extract.budget import Budget
from tensat_dl.extract.contract import expand
from tensat_dl.extract.cutting import Cutting
from tensat_dl.extract.decompose import pieces, shape, transferred
from tensat_dl.extract.formulation import formulate
from tensat_dl.extract.greedy import dag_greedy
from tensat_dl.extract.incumbent import Incumbent
from tensat_dl.extract.loops import Loop, remaining
from tensat_dl.extract.mip import solve_mip
from tensat_dl.extract.near_relaxation import narrow
from tensat_dl.extract.problem import Choice, Problem, prune
from tensat_dl.extract.reduce import Reduced, forced_bound, reduce
from tensat_dl.extract.reduced_costs import detours
from tensat_dl.extract.search import search
from tensat_dl.extract.types import TOLERANCE

#: With more e-nodes than this a problem is huge; with a gap above this, too, the integer program is hopeless until
#: the search has done what it can.
_HUGE = 5_000
_WIDE = 0.1

#: Work on the relaxation, as a share of the work left. It stops sooner where cuts no longer help.
_RELAXATION_SHARE = 0.9

#: Work on problems of the e-nodes near a solution of the relaxation, how much of the gap must be left of what it was
#: the last time, if that helped and if it did not, and what is in a solution.
_NARROW_SHARE = 0.5
_NARROWER = 0.9
_MUCH_NARROWER = 0.7
_CHOSEN = 1e-6

#: For problems of more e-nodes the integer program and the search for a better choice take turns with these shares of
#: what is left: at first, doubled where neither helped, and last.
_LARGE = 300
_FIRST_EFFORT = 0.15
_LAST_EFFORT = 0.5

#: Pieces of a shape that has more than this share of the e-nodes tell how they get on: putting all together for each
#: of many small ones would take longer than to solve them.
_TOLD = 0.05

#: Where more than this share of the e-nodes is left, reducing again takes more time than it saves.
_KEPT = 0.95

#: The relaxation is solved again after a reduction to less than this share of the e-nodes.
_SHRINK = 0.8


def improve(
    problem: Problem,
    best: Incumbent,
    preferred: frozenset[int],
    budget: Budget,
    searching: bool = True,
    loops: Sequence[Loop] = (),
) -> None:
    """Makes the incumbent as cheap, and its bound as high, as the budget allows.

    With ``searching`` a large problem that the relaxation leaves open is searched by neighbourhoods in turn with the
    integer program, each neighbourhood a small problem for this same function. ``loops`` are those whose cuts counted
    in a larger problem.
    """

    def solve(part: Problem, answer: Incumbent, share: Budget) -> bool:
        improve(part, answer, preferred, share, searching=False)
        return answer.proven

    best.stage = "reduction"
    base = reduce(problem, best.cost, preferred)
    reduced, cutting = base, None
    effort, seed = _FIRST_EFFORT, 1
    narrowed = followed = float("inf")  # the gap, and the cost, that are worth such a search again
    rng = random.Random(0)
    ahead = 0.0  # work on the relaxation less that on problems near it
    while base is not None and reduced is not None:
        best.prove(reduced.bound)
        if budget.exhausted:
            return
        if cutting is None:
            parts, settled = pieces(reduced)
            if len(parts) > 1:
                _solve_apart(reduced, parts, settled, best, preferred, budget, searching, loops)
                return
            best.stage = "relaxation"
            ascent = Ascent(reduced.problem, reduced.forced)
            loops = remaining(loops, reduced)
            if not loops:
                share = budget.take(_RELAXATION_SHARE)
                ascended = ascent.run(reduced.problem.cost.__getitem__, best.cost, share)
                budget.give_back(share)
                best.prove(ascended.bound)
                smaller = _fix(reduced, ascended.reduced_cost, ascended.bound, best, preferred)
                if smaller is None:
                    break
                if smaller.problem.num_nodes < _SHRINK * reduced.problem.num_nodes:
                    reduced = smaller
                    continue
                if budget.exhausted:
                    return
                loops = ascended.loops
            cutting = Cutting(formulate(reduced), ascent)
            cutting.add(loops, budget)
        best.stage = "relaxation"
        left = budget.work
        share = budget.take(_RELAXATION_SHARE)
        finished = cutting.run(best, share)
        budget.give_back(share)
        ahead += left - budget.work
        form, relaxed = cutting.form, cutting.relaxed
        smaller = reduced
        if relaxed is not None:
            smaller = _fix(reduced, cutting.reduced_cost(relaxed), relaxed.bound, best, preferred)
        if smaller is None:
            break
        if smaller.problem.num_nodes < _SHRINK * reduced.problem.num_nodes:
            loops = [cut.loop for cut in cutting.tight]
            reduced, cutting = smaller, None
            continue
        known = best.cost
        gap = best.cost - best.bound
        large = searching and smaller.problem.num_nodes > _LARGE
        if large and relaxed is not None and (finished or (gap < narrowed and ahead > 0)):
            best.stage = "search"
            left = budget.work
            share = budget.take(_NARROW_SHARE, most=left if finished else ahead)
            chosen = {n for n, i in form.node_col.items() if relaxed.x[i] > _CHOSEN}
            narrow(reduced.problem, cutting.reduced_cost(relaxed), chosen, gap, best, share, solve)
            if best.cost < followed:
                follow(reduced.problem, best, share, solve, rng)
                followed = best.cost
            budget.give_back(share)
            ahead -= left - budget.work
            narrowed = gap * (_NARROWER if best.cost < known else _MUCH_NARROWER)
        if best.cost < known or not finished:
            continue
        if cutting.separator.acyclic:  # plain integer programs are what SCIP is best at
            effort = max(effort, _LAST_EFFORT)
        while large and effort <= _LAST_EFFORT:
            if smaller.problem.num_nodes > _HUGE and best.cost - best.bound > _WIDE * best.cost:
                effort = max(effort, _LAST_EFFORT)
            elif relaxed is not None and _attempt(cutting, best, budget, effort):
                return
            best.stage = "search"
            share = budget.take(1.0 if relaxed is None else effort)
            search(base.problem, best, share, solve, seed)
            budget.give_back(share)
            seed += 1
            if best.cost < known:
                break
            effort *= 2
        if relaxed is not None and best.cost < known:  # with a cheaper choice more e-nodes can go
            continue
        if relaxed is not None:
            best.stage = "program"
            solve_mip(form, cutting.separator, cutting.tight, best, budget)
        return
    best.prove(best.cost)


def _attempt(cutting: Cutting, best: Incumbent, budget: Budget, effort: float) -> bool:
    """Tries the integer program for a while: many are easy once the cuts are in."""
    best.stage = "program"
    share = budget.take(effort)
    solve_mip(cutting.form, cutting.separator, cutting.tight, best, share)
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
    loops: Sequence[Loop],
) -> None:
    """Solves the pieces one by one and offers their union.

    Pieces of one shape, of which graphs of repeated blocks have many, are solved once.
    """
    best.stage = "pieces"
    problem = reduced.problem
    fixed = fsum(problem.cost[n] for n in settled.values())
    first: dict[Hashable, int] = {}  # of each shape the first piece
    alike = [first.setdefault(shape(part, preferred), i) for i, part in enumerate(parts)]
    answers = {i: Incumbent(parts[i]) for i in first.values()}
    for answer in answers.values():
        answer.offer(dag_greedy(answer.problem, preferred))
        answer.prove(forced_bound(answer.problem))

    def solved(_cost: float, _bound: float) -> None:
        best.prove(fixed + fsum(answers[i].bound for i in alike))
        union = dict(settled)
        for part, i in zip(parts, alike, strict=True):
            union.update(transferred(answers[i].choice, parts[i], part))
        best.offer(expand(problem, union))

    sizes = {i: count * parts[i].num_nodes for i, count in Counter(alike).items()}
    total = left = sum(sizes.values())
    for i, answer in answers.items():
        share = budget.take(sizes[i] / left)
        left -= sizes[i]
        if sizes[i] > _TOLD * total:
            answer.progress = solved
        try:
            improve(answer.problem, answer, preferred, share, searching, loops)
        except KeyboardInterrupt:
            share.interrupted = True
        budget.give_back(share)
    solved(best.cost, best.bound)


def _fix(
    reduced: Reduced,
    rising: Callable[[int], float],
    bound: float,
    best: Incumbent,
    preferred: frozenset[int],
) -> Reduced | None:
    """The problem without e-nodes that no cheaper choice has: with one of them the bound rises to more than the best
    choice costs. None if nothing is left."""
    slack = best.cost * (1 - TOLERANCE) - bound
    if slack <= 0:
        return None
    added = detours(reduced.problem, reduced.forced, rising)
    nodes = {c: [n for n in ns if added.get(n, slack) < slack] for c, ns in reduced.problem.nodes.items()}
    smaller = prune(reduced.problem, nodes)
    if smaller is None:
        return None
    if smaller.num_nodes > _KEPT * reduced.problem.num_nodes:
        return reduced
    return reduce(smaller, best.cost, preferred)
