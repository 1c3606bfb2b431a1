"""Better choices along an order: large parts of the problem that have no cycle.

Put the e-classes in an order in which the best choice derives its own, and leave out the e-nodes that have a child
behind their e-class. What is left cannot be cyclic, so its relaxation is close without loop cuts, and parts of ten
thousand e-nodes are solved in a second. E-classes that the choice does not use come as early as they can be derived:
of what a merged operator computes, others can then be cut out. The answer is as good as any along this order, and has
other orders to go on with.
"""

from __future__ import annotations

import random
from heapq import heappop, heappush

from tensat_dl.extract.budget import Budget
from tensat_dl.extract.contract import expand
from tensat_dl.extract.incumbent import Incumbent
from tensat_dl.extract.problem import Choice, Problem, needed, prune
from tensat_dl.extract.search import Solver, extended

#: Fruitless orders that end it.
_PATIENCE = 2

#: Share of the work for one order.
_STEP_SHARE = 0.3

#: Work units of making an order and cutting out what goes along it, for each e-node of the problem.
_WORK_PER_NODE = 10.0


def follow(problem: Problem, best: Incumbent, budget: Budget, solver: Solver, rng: random.Random) -> None:
    """Improves the incumbent along orders of its own, until some in a row find nothing better."""
    choice = needed(problem, extended(problem, best.choice).__getitem__)
    fruitless = 0
    while fruitless < _PATIENCE and not budget.exhausted:
        budget.charge(_WORK_PER_NODE * problem.num_nodes)
        # Breadth first, and at random: neither is better everywhere.
        place = order(problem, choice, rng, shuffled=fruitless % 2 == 1)
        part = prune(
            problem,
            {
                c: [n for n in ns if all(place[d] < place[c] for d in problem.kids[n])]
                for c, ns in problem.nodes.items()
            },
        )
        assert part is not None, "the choice itself goes along the order"
        answer = Incumbent(part)
        answer.offer(choice)
        before = answer.cost
        share = budget.take(_STEP_SHARE)
        solver(part, answer, share)
        budget.give_back(share)
        fruitless += 1
        if answer.cost < before:
            fruitless = 0
            choice = answer.choice
            best.offer(expand(problem, choice))


def order(problem: Problem, choice: Choice, rng: random.Random, shuffled: bool) -> dict[int, int]:
    """The place of each e-class in an order in which the choice derives its own; others come as early as they can."""
    users = problem.parents()
    waiting: dict[int, int] = {}
    place: dict[int, int] = {}
    own: list[tuple[float, int]] = []
    others: list[tuple[float, int]] = []

    def ready(n: int) -> None:
        c = problem.home[n]
        if c not in choice:
            heappush(others, (rng.random() if shuffled else len(place), c))
        elif choice[c] == n:
            heappush(own, (rng.random(), c))

    for ns in problem.nodes.values():
        for n in ns:
            waiting[n] = len(problem.kids[n])
            if not waiting[n]:
                ready(n)
    while others or own:
        _, c = heappop(others or own)
        if c in place:
            continue
        place[c] = len(place)
        for user in users[c]:
            waiting[user] -= 1
            if not waiting[user]:
                ready(user)
    return place
