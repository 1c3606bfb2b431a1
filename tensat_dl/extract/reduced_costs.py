"""The least that an answer with an e-node adds to a bound: reduced costs along a way through it.

The e-node is there because something needs it, up to a class that every answer has, and its children are derived,
down to an e-node without any. An answer has no cycles, so no e-node is met twice, and all that are met pay: on the
cheapest way up, and below from each e-node on to its dearest child.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from heapq import heapify, heappop, heappush

from tensat_dl.extract.problem import Problem


def detours(problem: Problem, forced: Collection[int], rising: Callable[[int], float]) -> dict[int, float]:
    """This least cost, for each e-node that an answer can have. ``rising`` is the reduced cost of an e-node."""
    price = {n: rising(n) for ns in problem.nodes.values() for n in ns}
    below = _below(problem, price)
    above = _above(problem, forced, price)
    home = problem.home
    return {n: value + above[home[n]] for n, value in below.items() if home[n] in above}


def _below(problem: Problem, price: dict[int, float]) -> dict[int, float]:
    """For each e-node its cost with that of its dearest child, and so on down."""
    users = problem.parents()
    home = problem.home
    waiting = {n: len(problem.kids[n]) for n in price}
    heap = [(value, n) for n, value in price.items() if not waiting[n]]
    heapify(heap)
    found: dict[int, float] = {}
    derived: set[int] = set()
    while heap:
        value, n = heappop(heap)
        found[n] = value
        c = home[n]
        if c not in derived:
            derived.add(c)
            for user in users[c]:
                waiting[user] -= 1
                if not waiting[user]:  # the dearest child comes last
                    heappush(heap, (value + price[user], user))
    return found


def _above(problem: Problem, forced: Collection[int], price: dict[int, float]) -> dict[int, float]:
    """For each e-class what the cheapest way down to it from a class that every answer has costs."""
    heap = [(0.0, c) for c in forced]
    heapify(heap)
    found: dict[int, float] = {}
    while heap:
        value, c = heappop(heap)
        if c in found:
            continue
        found[c] = value
        for n in problem.nodes[c]:
            for d in problem.kids[n]:
                if d not in found:
                    heappush(heap, (value + price[n], d))
    return found
