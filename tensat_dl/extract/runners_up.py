"""Runners-up: the cheapest answers after the best one, which pay for different e-nodes.

An answer is known by what it pays for: the e-nodes that cost something, where e-nodes of one e-class that are the
same kernel count as one. So answers that differ in views alone, or in what is computed from weights, are one. And a
derivation that pays for all that another one pays for, and for more, is not an answer. In short, the answers are the
sets of what derivations pay for that have no other such set inside; the best one is among them.

They are found in order of cost as in Lawler's procedure. Let p1, .., pk be what an answer pays for, in any order. All
other answers lack one of these. Those that lack p_i and have p1, .., p(i-1) are derivations of a part of the problem:
one without the e-nodes of p_i, and without those that stand beside p1, .., p(i-1) in their e-classes. The cheapest
answer of all parts is the next one, and its part is split in turn. Parts can share derivations, which do without
some of p1, .., p(i-1): what was found before is passed over, and its part is split like any other.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush

from tensat_dl.core.egraph import EGraph
from tensat_dl.extract.budget import Budget
from tensat_dl.extract.exact import improve
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
) -> list[Choice]:
    """The ``count`` cheapest answers besides the incumbent, cheapest first; fewer if there are no more.

    ``kernel`` has the same number for e-nodes that count as one, that of one of them. The answers are what they are
    called if the incumbent is optimal and the budget lasts; otherwise they are good ones that were at hand. One that
    is cheaper than the incumbent takes its place. On Ctrl-C those known by then are returned, and the budget says so.
    """
    search = _PartSearch(kernel, preferred, budget)
    first = search.derivation(problem, best.choice)
    found = [first]
    at_hand: tuple[_Derivation, ...] = ()  # in the part that is being looked at
    try:
        search.split(_Solved(problem, first))
        while search.heap and len(found) <= count and not budget.exhausted:
            item = search.heap[0][-1]
            at_hand = item.at_hand
            heappop(search.heap)
            if isinstance(item, _Solved):
                found = _answers([*found, item.known], count + 1)
                search.split(item)
            else:
                rivals = _answers([*found, *at_hand, *search.known()], count + 1)
                search.solve(item, rivals[count].cost if len(rivals) > count else float("inf"))
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
class _Solved:
    """A part, and the cheapest derivation that is known of it."""

    problem: Problem
    known: _Derivation

    @property
    def at_hand(self) -> tuple[_Derivation, ...]:
        return (self.known,)


@dataclass(frozen=True, slots=True)
class _SolvedPart:
    """A part without its answer: the choices with some kernels of the answer that lack another."""

    whole: _Solved
    paid: tuple[int, ...]  #: the kernels of the answer
    at: int  #: it has those before this position, and lacks the one there
    least: float  #: no derivation of it costs less
    at_hand: tuple[_Derivation, ...]  #: one of it, if one is known

    def problem(self, kernel: list[int]) -> Problem | None:
        """None if it has no derivation."""
        whole = self.whole.problem
        nodes = dict(whole.nodes)
        for k in self.paid[: self.at]:
            nodes[whole.home[k]] = tuple(n for n in nodes[whole.home[k]] if kernel[n] == k)
        k = self.paid[self.at]
        nodes[whole.home[k]] = tuple(n for n in nodes[whole.home[k]] if kernel[n] != k)
        return prune(whole, nodes)


def _answers(derivations: Iterable[_Derivation], count: int) -> list[_Derivation]:
    """The ``count`` cheapest choices, without those that pay for all kernels of a cheaper or an earlier choice."""
    kept: list[_Derivation] = []
    for derivation in sorted(derivations, key=lambda d: d.cost):
        if len(kept) < count and not any(other.paid <= derivation.paid for other in kept):
            kept.append(derivation)
    return kept


@dataclass(slots=True)
class _PartSearch:
    """The order of parts: by their least cost, solved parts first, then parts with a cheap choice at hand."""

    kernel: list[int]
    preferred: frozenset[int]
    budget: Budget
    heap: list[tuple[float, bool, float, int, _Solved | _SolvedPart]] = field(default_factory=list)
    pushed: int = 0

    def push(self, item: _Solved | _SolvedPart) -> None:
        if isinstance(item, _Solved):
            entry = item.known.cost, False, 0.0
        else:
            entry = item.least, True, min((d.cost for d in item.at_hand), default=float("inf"))
        self.pushed += 1
        heappush(self.heap, (*entry, self.pushed, item))

    def known(self) -> Iterator[_Derivation]:
        """One of each part that is waiting, as far as any is known."""
        for *_, item in sorted(self.heap, key=lambda entry: entry[3]):
            yield from item.at_hand

    def derivation(self, problem: Problem, choice: Choice) -> _Derivation:
        paid = frozenset(self.kernel[n] for n in choice.values() if problem.cost[n] > 0)
        return _Derivation(choice, problem.total(choice), paid)

    def solve(self, part: _SolvedPart, limit: float) -> None:
        """Queues a part with its answer; as it is if all of it costs ``limit`` or more; not if it is empty."""
        self.budget.charge(_WORK_PER_NODE * part.whole.problem.num_nodes)
        problem = part.problem(self.kernel)
        if problem is None:
            return
        best = Incumbent(problem)
        for derivation in part.at_hand:
            best.offer(derivation.choice)
        best.offer(dag_greedy(problem, self.preferred))
        best.prove(part.least)
        share = self.budget.take(_PART_SHARE)
        beyond = False
        try:
            if not best.proven:
                # A part without an answer below the limit may never be needed: there are enough that are cheaper.
                beyond = part.least < limit < best.cost and reduce(problem, limit, self.preferred) is None
            if not best.proven and not beyond:
                improve(problem, best, self.preferred, share)
        except KeyboardInterrupt:
            share.interrupted = True
        self.budget.give_back(share)
        known = self.derivation(problem, best.choice)
        self.push(replace(part, least=limit, at_hand=(known,)) if beyond else _Solved(problem, known))

    def split(self, item: _Solved) -> None:
        """Queues the parts that a part without its answer falls into."""
        problem, known = item.problem, item.known
        order = topological(problem, known.choice)
        assert order is not None
        # Users first: what is below one of them is then rarely needed without it.
        kernels = (self.kernel[known.choice[c]] for c in reversed(order))
        paid = tuple(k for k in kernels if k in known.paid)
        at_hand: dict[int, _Derivation] = {}
        share = self.budget.take(_SWAP_SHARE)
        for swapped in self._swaps(item, share):
            at = next((i for i, k in enumerate(paid) if k not in swapped.paid), None)
            if at is not None and (at not in at_hand or swapped.cost < at_hand[at].cost):
                at_hand[at] = swapped
        self.budget.give_back(share)
        for at in range(len(paid)):
            self.push(_SolvedPart(item, paid, at, known.cost, (at_hand[at],) if at in at_hand else ()))

    def _swaps(self, item: _Solved, budget: Budget) -> Iterator[_Derivation]:
        """Derivations with another e-node in one class and what that needs, the costliest e-nodes first.

        Classes that the answer does not have get the e-node of greedy extraction when what the answer has is free.
        """
        problem, choice = item.problem, item.known.choice
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
                swapped = needed(problem, picks.__getitem__)
                if topological(problem, swapped) is not None:
                    yield self.derivation(problem, swapped)
            picks[c] = choice[c]
