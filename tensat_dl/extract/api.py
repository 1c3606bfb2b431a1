"""`extract`: a priced e-graph in, a checked extraction out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from tensat_dl.core.egraph import EGraph
from tensat_dl.extract.budget import Budget, ExtractLimits
from tensat_dl.extract.exact import Solved, improve
from tensat_dl.extract.extraction import TOLERANCE, Extraction, ExtractionError, Progress, check, check_method
from tensat_dl.extract.greedy import dag_greedy, tree_greedy
from tensat_dl.extract.ilp import ILP_METHODS, solve_ilp
from tensat_dl.extract.incumbent import Incumbent, first_incumbent, offer_greedy, source_nodes
from tensat_dl.extract.problem import Choice, Problem, prune
from tensat_dl.extract.reduce import forced_bound
from tensat_dl.extract.runners_up import kernels, runners_up

#: The share of the work that goes into the older part of the e-graph.
_EARLY_SHARE = 0.3

#: The share of the time for the best answer if runners-up are asked for, and the least work for the runners-up.
_BEST_SHARE = 0.5
_LEAST_WORK = 1_000_000.0


def extract(
    egraph: EGraph,
    method: str = "exact",
    limits: ExtractLimits | None = None,
    progress: Progress | None = None,
    early: int = 0,
    n_best: int = 1,
    known: Sequence[Sequence[int]] = (),
    solved: Solved | None = None,
) -> Extraction:
    """The cheapest acyclic choice of e-nodes for the roots of a priced e-graph, by one of `METHODS`.

    The answers of the greedy methods may cost more than the input program. The other methods are never costlier
    than the input program, and prove a bound within the limits. When a limit binds, or on Ctrl-C, they return the
    best choice so far. ``progress`` is called with each better cost or bound. The exact method solves the part of the
    first ``early`` e-classes first, and starts from that answer: so an e-graph that has grown too large to be
    searched gives no worse answer than the part that it grew from. ``known`` are other graphs for the roots, each as
    its e-nodes in topological order, which no answer of the methods with a bound is costlier than. What earlier
    extractions by the exact method have ``solved`` is not solved again.

    With ``n_best`` above 1, which is for the exact method, ``runners_up`` of the answer has the next cheapest
    derivations, ``n_best`` - 1 if there are as many. They get about as much work again as the best answer took,
    out of the same seconds. They have the bound of the best answer. Raises `ExtractionError`.
    """
    _check(method, n_best)
    start = time.perf_counter()
    limits = limits or ExtractLimits()
    budget = Budget.of(limits)
    work, deadline = budget.work, budget.deadline
    if n_best > 1 and limits.seconds is not None:
        budget.deadline = start + _BEST_SHARE * limits.seconds
    solved = Solved() if solved is None else solved
    problem = solved.problem(egraph)
    preferred = source_nodes(egraph)
    others: list[Choice] = []
    if method in ("greedy", "greedy-dag"):
        best = Incumbent(problem, progress, started=start)
        best.offer((tree_greedy if method == "greedy" else dag_greedy)(problem, preferred))
        best.prove(forced_bound(problem))
    else:
        best = first_incumbent(problem, egraph, progress, start, known)
        try:
            _solve(method, problem, best, preferred, budget, early, solved)
        except KeyboardInterrupt:
            budget.interrupted = True  # the incumbent and its bound stand
    spent = work - budget.work
    if n_best > 1 and not budget.interrupted:
        budget.work = min(work, max(spent, _LEAST_WORK))
        budget.deadline = deadline
        others = runners_up(problem, kernels(egraph), best, n_best - 1, preferred, budget, solved)
    extraction = Extraction(
        choices=best.choice,
        cost=best.cost,
        bound=best.cost if best.proven else best.bound,
        status="optimal" if best.proven else "feasible",
        method=method,
        seconds=time.perf_counter() - start,
        work=spent,
        interrupted=budget.interrupted,
        log=tuple(best.log),
    )
    extraction = replace(extraction, runners_up=tuple(_other(extraction, problem, c) for c in others))
    for found in (extraction, *extraction.runners_up):
        check(egraph, found)
    return extraction


def next_best(
    egraph: EGraph,
    best: Extraction,
    count: int,
    limits: ExtractLimits | None = None,
    solved: Solved | None = None,
) -> tuple[Extraction, ...]:
    """Up to ``count`` other derivations beside an answer of the exact method, cheapest first: the next cheapest ones,
    and before them one that is cheaper than the answer, should it come up. They get about as much work as the answer
    took, within the limits; what was ``solved`` is not solved again. Raises KeyboardInterrupt."""
    budget = Budget.of(limits or ExtractLimits())
    budget.work = min(budget.work, max(best.work, _LEAST_WORK))
    solved = Solved() if solved is None else solved
    problem = solved.problem(egraph)
    incumbent = Incumbent(problem)
    incumbent.offer(best.choices)
    incumbent.prove(best.bound)
    preferred = source_nodes(egraph)
    others = runners_up(problem, kernels(egraph), incumbent, count, preferred, budget, solved)
    if budget.interrupted:
        raise KeyboardInterrupt
    if incumbent.choice != best.choices:
        others = [incumbent.choice, *others][:count]
    found = tuple(_other(best, problem, c) for c in others)
    for other in found:
        check(egraph, other)
    return found


def _check(method: str, n_best: int) -> None:
    check_method(method)
    if n_best < 1:
        raise ExtractionError(f"n_best is {n_best}: it must be at least 1")
    if n_best > 1 and method != "exact":
        raise ExtractionError(f"only the exact method finds several answers, not {method}")


def _solve(
    method: str,
    problem: Problem,
    best: Incumbent,
    preferred: frozenset[int],
    budget: Budget,
    early: int,
    solved: Solved | None,
) -> None:
    """Offers better choices and bounds, by a method that has bounds."""
    if method == "exact":
        if early:
            _start_early(early, problem, best, preferred, budget, solved)
        improve(problem, best, preferred, budget, greedily=True, solved=solved)
    elif method in ILP_METHODS:
        offer_greedy(best, preferred)
        best.stage = "program"
        solve_ilp(problem, method, best, budget)
    else:
        raise ExtractionError(f"tensat_dl/extract/api.py does not call the method {method}")


def _other(best: Extraction, problem: Problem, choice: Choice) -> Extraction:
    """A runner-up. The bound of the best answer bounds it, too, so a runner-up of the same cost is optimal."""
    cost = problem.total(choice)
    ties = best.status == "optimal" and cost * (1 - TOLERANCE) <= best.cost
    return replace(
        best,
        choices=choice,
        cost=cost,
        bound=min(best.bound, cost),
        status="optimal" if ties else "feasible",
        log=(),
    )


def _start_early(
    early: int,
    problem: Problem,
    best: Incumbent,
    preferred: frozenset[int],
    budget: Budget,
    solved: Solved | None,
) -> None:
    """Offers the answer of the problem of these e-classes alone."""
    kids = problem.kids
    nodes = {
        c: [n for n in ns if c < early and all(d < early for d in kids[n])] for c, ns in problem.nodes.items()
    }
    part = prune(problem, nodes)
    if part is None or part.num_nodes == problem.num_nodes:
        return
    answer = Incumbent(part)
    answer.offer(dag_greedy(part, preferred))
    with budget.share(_EARLY_SHARE) as share:
        improve(part, answer, preferred, share, solved=solved)
    best.offer(answer.choice)
