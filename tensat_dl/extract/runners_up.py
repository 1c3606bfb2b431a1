"""Runners-up: the cheapest answers after the best one, which pay for different e-nodes.

An answer is known by the e-nodes that it pays for, where e-nodes of one e-class that are the same kernel count as
one. So answers that differ in views alone, or in values computed from weights, are one. And a
derivation that pays for all that another one pays for, and for more, is not an answer. In short, the answers are the
sets of e-nodes that derivations pay for and that have no other such set inside; the best one is among them.

They are found in order of cost as in Lawler's procedure. Let p1, .., pk be an answer's paid e-nodes, in any order.
All other answers lack one of these. Those that lack p_i and have p1, .., p(i-1) are derivations of a part of the
problem: one without the e-nodes of p_i, and without those that stand beside p1, .., p(i-1) in their e-classes. The
cheapest answer of all parts is the next one, and its part is split in turn. Parts can share derivations, which do
without some of p1, .., p(i-1): an answer that was found before is passed over, and its part is split like any other.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from math import inf

from tensat_dl.core.egraph import EGraph
from tensat_dl.extract.budget import Budget
from tensat_dl.extract.exact import Solved, improve
from tensat_dl.extract.greedy import dag_greedy
from tensat_dl.extract.incumbent import Incumbent
from tensat_dl.extract.problem import Choice, Problem, needed, prune, topological
from tensat_dl.extract.reduce import reduce

#: Share of the work that is left for finding out what each part of one answer has at hand, and for solving one.
_SWAP_SHARE = 0.3
_PART_SHARE = 0.2

#: Work units of trying one swap, for each class of the answer, and of a part, for each e-node of the problem:
#: cutting it out, greedy extraction and reduction.
_WORK_PER_SWAP_AND_CLASS = 2.0
_WORK_PER_NODE = 20.0


def kernels(egraph: EGraph) -> list[int]:
    """For each e-node the first one of its e-class with the same operator, attributes, input types and cost."""
    first: dict[Hashable, int] = {}
    return [
        first.setdefault((c, op, attrs, cost, tuple(egraph.types[d] for d in egraph.children_of(n))), n)
        for n, (c, op, attrs, cost) in enumerate(
            zip(egraph.node_class.tolist(), egraph.op, egraph.attrs, egraph.cost.tolist(), strict=True)
        )
    ]


def runners_up(
    problem: Problem,
    kernel: list[int],
    best: Incumbent,
    count: int,
    preferred: frozenset[int],
    budget: Budget,
    solved: Solved | None = None,
) -> list[Choice]:
    """The ``count`` cheapest answers besides the incumbent, cheapest first; fewer if there are no more.

    ``kernel`` is from `kernels`. If the incumbent is not optimal or the budget does not last, the answers are good
    ones that were at hand. An answer that is cheaper than the incumbent takes its place. On Ctrl-C the answers known
    by then are returned, and the budget says so. Pieces that are ``solved`` are not solved again.
    """
    search = _PartSearch(kernel, preferred, budget, Solved() if solved is None else solved)
    first = search.derivation(problem, best.choice)
    found = [first]
    at_hand: list[_Derivation] = []  # in the part that is being looked at
    try:
        search.split(problem, first)
        while search.heap and len(found) <= count and not budget.exhausted:
            *_, part = search.heap[0]
            at_hand = [] if part.known is None else [part.known]
            heappop(search.heap)
            if part.solved and part.known is not None:
                found = _answers([*found, part.known], count + 1)
                search.split(part.problem, part.known)
            else:
                rivals = _answers([*found, *at_hand, *search.known()], count + 1)
                search.solve(part, rivals[count].cost if len(rivals) > count else inf)
    except KeyboardInterrupt:
        budget.interrupted = True
    answers = _answers([*found, *at_hand, *search.known()], count + 1)
    best.offer(answers[0].choice)
    return [a.choice for a in answers if a.choice != best.choice][:count]


@dataclass(frozen=True, slots=True)
class _Derivation:
    choice: Choice
    cost: float
    paid: frozenset[int]  #: kernels


@dataclass(frozen=True, slots=True)
class _Subproblem:
    """A part of the problem."""

    problem: Problem  #: of the part if it is solved, else of the part that it is split from
    least: float  #: no derivation of it costs less
    known: _Derivation | None  #: some derivation if any is known: the cheapest one of a solved part
    solved: bool = False
    paid: tuple[int, ...] = ()  #: the kernels of the answer that it is split at, if it is not solved
    at: int = 0  #: it has those before this position, and lacks the one there

    def cut_out(self, kernel: list[int]) -> Problem | None:
        """None if it has no derivation."""
        home, nodes = self.problem.home, dict(self.problem.nodes)
        for k in self.paid[: self.at]:
            nodes[home[k]] = tuple(n for n in nodes[home[k]] if kernel[n] == k)
        k = self.paid[self.at]
        nodes[home[k]] = tuple(n for n in nodes[home[k]] if kernel[n] != k)
        return prune(self.problem, nodes)


def _answers(derivations: Iterable[_Derivation], count: int) -> list[_Derivation]:
    """The ``count`` cheapest choices, without those that pay for all kernels of a cheaper or an earlier choice."""
    kept: list[_Derivation] = []
    for derivation in sorted(derivations, key=lambda d: d.cost):
        if len(kept) < count and not any(other.paid <= derivation.paid for other in kept):
            kept.append(derivation)
    return kept


@dataclass(slots=True)
class _PartSearch:
    """The order of parts: by their least cost, solved parts first, then parts with a cheap derivation at hand."""

    kernel: list[int]
    preferred: frozenset[int]
    budget: Budget
    solved: Solved
    heap: list[tuple[float, bool, float, int, _Subproblem]] = field(default_factory=list)
    pushed: int = 0

    def push(self, part: _Subproblem) -> None:
        self.pushed += 1
        cost = inf if part.known is None else part.known.cost
        heappush(self.heap, (part.least, not part.solved, cost, self.pushed, part))

    def known(self) -> Iterator[_Derivation]:
        """One of each part that is waiting, as far as any is known."""
        for *_, part in sorted(self.heap, key=lambda entry: entry[3]):
            if part.known is not None:
                yield part.known

    def derivation(self, problem: Problem, choice: Choice) -> _Derivation:
        paid = frozenset(self.kernel[n] for n in choice.values() if problem.cost[n] > 0)
        return _Derivation(choice, problem.total(choice), paid)

    def solve(self, part: _Subproblem, limit: float) -> None:
        """Queues a part with its answer; as it is if all of it costs ``limit`` or more; not if it is empty."""
        self.budget.charge(_WORK_PER_NODE * part.problem.num_nodes)
        problem = part.cut_out(self.kernel)
        if problem is None:
            return
        best = Incumbent(problem)
        if part.known is not None:
            best.offer(part.known.choice)
        best.offer(dag_greedy(problem, self.preferred))
        best.prove(part.least)
        beyond = False
        try:
            if not best.proven:
                # A part without an answer below the limit may never be needed: there are enough that are cheaper.
                beyond = part.least < limit < best.cost and reduce(problem, limit, self.preferred) is None
            if not best.proven and not beyond:
                with self.budget.share(_PART_SHARE) as share:
                    improve(problem, best, self.preferred, share, solved=self.solved)
        except KeyboardInterrupt:
            self.budget.interrupted = True
        known = self.derivation(problem, best.choice)
        solved = _Subproblem(problem, known.cost, known, solved=True)
        self.push(replace(part, least=limit, known=known) if beyond else solved)

    def split(self, problem: Problem, known: _Derivation) -> None:
        """Queues the parts that a solved part without its answer falls into."""
        order = topological(problem, known.choice)
        assert order is not None
        # Users first: the classes below one of them are then rarely needed without it.
        kernels = (self.kernel[known.choice[c]] for c in reversed(order))
        paid = tuple(k for k in kernels if k in known.paid)
        at_hand: dict[int, _Derivation] = {}
        with self.budget.share(_SWAP_SHARE) as share:
            for swapped in self._swaps(problem, known.choice, share):
                at = next((i for i, k in enumerate(paid) if k not in swapped.paid), None)
                if at is not None and (at not in at_hand or swapped.cost < at_hand[at].cost):
                    at_hand[at] = swapped
        for at in range(len(paid)):
            self.push(_Subproblem(problem, known.cost, at_hand.get(at), paid=paid, at=at))

    def _swaps(self, problem: Problem, choice: Choice, budget: Budget) -> Iterator[_Derivation]:
        """Derivations with another e-node in one class and the classes that it needs, the costliest e-nodes first.

        Classes that the answer does not have get the e-node of greedy extraction when the answer's e-nodes are free.
        """
        free = dict.fromkeys(choice.values(), 0.0)
        picks = {**dag_greedy(problem, cost={**problem.cost, **free}), **choice}
        for c in sorted(choice, key=lambda c: -problem.cost[choice[c]]):
            for n in problem.nodes[c]:
                if n == choice[c]:
                    continue
                if budget.exhausted:
                    return
                budget.charge(_WORK_PER_SWAP_AND_CLASS * len(choice))
                picks[c] = n
                swapped = needed(problem, picks)
                if topological(problem, swapped) is not None:
                    yield self.derivation(problem, swapped)
            picks[c] = choice[c]
