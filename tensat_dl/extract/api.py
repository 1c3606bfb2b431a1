"""`extract`: a priced e-graph in, a checked extraction out."""

from __future__ import annotations

import time

from tensat_dl.extract.budget import Budget
from tensat_dl.extract.check import check
from tensat_dl.extract.exact import improve
from tensat_dl.extract.greedy import dag_greedy, tree_greedy
from tensat_dl.extract.ilp import Cycles, solve_ilp
from tensat_dl.extract.incumbent import Incumbent, first_incumbent, source_nodes
from tensat_dl.extract.problem import Problem, from_egraph, prune
from tensat_dl.extract.reduce import forced_bound
from tensat_dl.extract.types import Extraction, ExtractionError, Limits, Progress
from tensat_dl.ir.egraph import EGraph

METHODS = ("exact", "ilp-real", "ilp-int", "ilp-none", "greedy", "greedy-dag")
_ILP: dict[str, Cycles] = {"ilp-real": "real", "ilp-int": "int", "ilp-none": "none"}


#: The share of the work that goes into the older part of the e-graph.
_EARLY_SHARE = 0.3


def extract(
    egraph: EGraph,
    method: str = "exact",
    limits: Limits | None = None,
    progress: Progress | None = None,
    early: int = 0,
) -> Extraction:
    """The cheapest acyclic choice of e-nodes for the roots of a priced e-graph, by one of `METHODS`.

    The greedy methods give what their rule gives. The others are never costlier than the input program, prove
    what they can within the limits, and when the limits bind, or on Ctrl-C, return the best choice so far.
    ``progress`` is called with each better cost or bound. The exact method solves the part of the first ``early``
    e-classes first, and starts from that answer: an e-graph that has grown too large to be searched gives no worse
    answer than what it grew from. Raises `ExtractionError`.
    """
    if method not in METHODS:
        raise ExtractionError(f"unknown extraction method {method!r}: use one of {', '.join(METHODS)}")
    start = time.perf_counter()
    budget = Budget.of(limits or Limits())
    problem = from_egraph(egraph)
    preferred = source_nodes(egraph)
    if method in ("greedy", "greedy-dag"):
        best = Incumbent(problem, progress)
        best.offer((tree_greedy if method == "greedy" else dag_greedy)(problem, preferred))
        best.prove(forced_bound(problem))
    else:
        best = first_incumbent(problem, egraph, progress)
        try:
            if method == "exact":
                if early:
                    _start_early(early, problem, best, preferred, budget)
                improve(problem, best, preferred, budget)
            else:
                solve_ilp(problem, _ILP[method], best, budget)
        except KeyboardInterrupt:
            budget.interrupted = True  # the incumbent and its bound stand
    extraction = Extraction(
        choices=best.choice,
        cost=best.cost,
        bound=best.cost if best.proven else best.bound,
        status="optimal" if best.proven else "feasible",
        method=method,
        seconds=time.perf_counter() - start,
        interrupted=budget.interrupted,
    )
    check(egraph, extraction)
    return extraction


def _start_early(
    early: int, problem: Problem, best: Incumbent, preferred: frozenset[int], budget: Budget
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
    share = budget.take(_EARLY_SHARE)
    improve(part, answer, preferred, share)
    budget.give_back(share)
    best.offer(answer.choice)
