"""Greedy extraction: by tree cost, as in the paper, and by DAG cost.

Both settle classes in order of cost, as in Knuth's generalisation of Dijkstra's algorithm: an e-node is
priced once its last child is settled, and a settled class keeps its e-node for good. So the choice is acyclic
for every e-graph, and with costs of zero, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from heapq import heappop, heappush

from tensat_dl.extract.problem import Choice, Problem

#: With more e-nodes that cost something, sets of their classes as bits would take gigabytes.
MOST_BITS = 200_000


def tree_greedy(problem: Problem, preferred: frozenset[int] = frozenset()) -> Choice:
    """For each class the e-node of least tree cost, where a shared class counts once for each use.

    The paper's greedy extraction (section "Extraction Algorithms"). Ties go to ``preferred`` e-nodes, then to
    the lowest number. Repeated arguments of one e-node count once.
    """
    value: dict[int, float] = {}
    return settle(
        problem, value, lambda n: problem.cost[n] + sum(value[d] for d in problem.kids[n]), preferred
    )


def dag_greedy(
    problem: Problem, preferred: frozenset[int] = frozenset(), cost: Mapping[int, float] | None = None
) -> Choice:
    """For each class the e-node of least DAG cost, given the choices of the classes settled before it.

    ``cost`` replaces the problem's costs, for instance by ones that a relaxation suggests. The set of classes
    below a settled class is an integer used as a bitset, over the classes with a positive cost only. In a problem
    that is too large for that, an e-node counts its dearest child alone.
    """
    prices = problem.cost if cost is None else cost
    if sum(prices[n] > 0 for n in problem.candidates()) > MOST_BITS:
        return _chain_greedy(problem, prices, preferred)
    below: dict[int, int] = {}  # class -> bits of the classes that it pays for, itself included
    value: dict[int, float] = {}
    paid: list[float] = []  # by bit

    def weigh(bits: int) -> float:
        total = 0.0
        while bits:
            low = bits & -bits
            total += paid[low.bit_length() - 1]
            bits ^= low
        return total

    def price(n: int) -> float:
        kids = problem.kids[n]
        if not kids:
            return prices[n]
        first = max(kids, key=value.__getitem__)
        union, total = below[first], value[first]
        for d in kids:
            extra = below[d] & ~union
            if extra:
                total += weigh(extra)
                union |= extra
        return prices[n] + total

    def settled(c: int, n: int) -> None:
        bits = 0
        for d in problem.kids[n]:
            bits |= below[d]
        if prices[n] > 0:
            bits |= 1 << len(paid)
            paid.append(prices[n])
        below[c] = bits

    return settle(problem, value, price, preferred, settled)


def _chain_greedy(problem: Problem, prices: Mapping[int, float], preferred: frozenset[int]) -> Choice:
    value: dict[int, float] = {}
    return settle(
        problem,
        value,
        lambda n: prices[n] + max((value[d] for d in problem.kids[n]), default=0.0),
        preferred,
    )


def settle(
    problem: Problem,
    value: dict[int, float],
    price: Callable[[int], float],
    preferred: frozenset[int] = frozenset(),
    settled: Callable[[int, int], None] = lambda c, n: None,
) -> Choice:
    """For each class the e-node of least price, which goes into ``value``. Ties go to ``preferred`` e-nodes.

    An e-node is priced when its children have values; no price may be below these. ``settled`` is called with each
    class and its e-node.
    """
    users = problem.parents()
    waiting: dict[int, int] = {}
    heap: list[tuple[float, bool, int]] = []
    for n in problem.candidates():
        waiting[n] = len(problem.kids[n])
        if not waiting[n]:
            heappush(heap, (price(n), n not in preferred, n))
    choice: Choice = {}
    while heap:
        cost, _, n = heappop(heap)
        c = problem.home[n]
        if c in choice:
            continue
        choice[c], value[c] = n, cost
        settled(c, n)
        for user in users[c]:
            waiting[user] -= 1
            if not waiting[user] and problem.home[user] not in choice:
                heappush(heap, (price(user), user not in preferred, user))
    return choice


def extended(problem: Problem, choice: Choice) -> Choice:
    """A choice for all classes.

    Classes without a chosen candidate get the e-node of greedy extraction when the chosen e-nodes are free.
    """
    free = dict.fromkeys(choice.values(), 0.0)
    return dag_greedy(problem, frozenset(free), {**problem.cost, **free})
