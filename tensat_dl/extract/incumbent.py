"""The best choice so far, and the first choices."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tensat_dl.core.egraph import EGraph
from tensat_dl.extract.extraction import TOLERANCE, Moment, Progress, Stage
from tensat_dl.extract.greedy import dag_greedy, tree_greedy
from tensat_dl.extract.problem import Choice, Problem, needed
from tensat_dl.extract.reduce import LARGEST, thinned

#: Progress is reported, and logged, when the bound rises by this share of the cost.
_REPORT = 0.005


@dataclass(slots=True)
class Incumbent:
    """The cheapest choice seen. Among equally cheap choices the first stays, so the source program wins ties."""

    problem: Problem
    progress: Progress | None = None
    choice: Choice = field(default_factory=dict)
    cost: float = float("inf")
    bound: float = 0.0
    stage: Stage = "start"
    log: list[Moment] = field(default_factory=list)
    started: float = field(default_factory=time.perf_counter)
    _reported: float = -1.0

    def offer(self, choice: Choice) -> bool:
        """Takes a complete acyclic choice if it is cheaper; choices that the roots do not need are dropped."""
        choice = needed(self.problem, choice)
        cost = self.problem.total(choice)
        if cost >= self.cost * (1 - TOLERANCE):
            return False
        self.choice, self.cost = choice, cost
        self._report()
        return True

    def prove(self, bound: float) -> None:
        """Notes that no choice costs less than ``bound``."""
        bound = min(bound, self.cost)
        if bound > self.bound:
            self.bound = bound
            if bound >= self._reported + _REPORT * self.cost or self.proven:
                self._report()

    @property
    def proven(self) -> bool:
        return self.bound >= self.cost * (1 - TOLERANCE)

    def _report(self) -> None:
        self._reported = self.bound
        self.log.append(Moment(time.perf_counter() - self.started, self.cost, self.bound, self.stage))
        if self.progress is not None:
            self.progress(self.cost, self.bound)


def written(problem: Problem, egraph: EGraph, nodes: Iterable[int]) -> Choice | None:
    """A graph as a choice, given its e-nodes in topological order, -1 for one that the e-graph does not have: for
    each class the first of its e-nodes whose children are there.

    Choosing the first keeps the choice acyclic where the graph computes one value twice. None if e-nodes that it
    needs were not kept.
    """
    wanted = [n for n in nodes if n >= 0 and not egraph.weights_only[egraph.node_class[n]]]
    candidates = set(problem.candidates())
    choice: Choice = {}
    size = -1
    while size < len(choice):  # one pass suffices if the nodes are in topological order
        size = len(choice)
        for n in wanted:
            c = problem.home[n]
            if c not in choice and n in candidates and all(d in choice for d in problem.kids[n]):
                choice[c] = n
    return choice if all(r in choice for r in problem.roots) else None


def first_incumbent(
    problem: Problem,
    egraph: EGraph,
    progress: Progress | None,
    started: float,
    known: Iterable[Sequence[int]] = (),
) -> Incumbent:
    """The best of the input program and the ``known`` graphs, each given by its e-nodes; the best greedy extraction
    if none of them can be written any longer."""
    best = Incumbent(problem, progress, started=started)
    for nodes in (egraph.source.tolist(), *known):
        choice = written(problem, egraph, nodes)
        if choice is not None:
            best.offer(choice)
    if not best.choice:
        offer_greedy(best, source_nodes(egraph))
    return best


def offer_greedy(best: Incumbent, preferred: frozenset[int]) -> None:
    """Offers the two greedy extractions."""
    problem = best.problem
    part = thinned(problem, preferred) if len(problem.nodes) > LARGEST else problem
    best.offer(part.expanded(dag_greedy(part, preferred)))
    best.offer(part.expanded(tree_greedy(part, preferred)))


def source_nodes(egraph: EGraph) -> frozenset[int]:
    return frozenset(egraph.source.tolist()) - {-1}
