"""Better choices by solving parts of the problem that are small enough, or simple enough, to be solved exactly.

A part has some of the e-nodes, the best choice's among them. There are three ways to take it:

*Near the relaxation.* E-nodes of little reduced cost, which add little to the bound, and the solution's own are few.
Each part is wider than the one before. (Keeping to what the relaxation and the incumbent have in common is RINS:
Danna, Rothberg and Le Pape 2005.)

*Along an order* in which the best choice derives its own e-classes: without the e-nodes that have a child behind
their e-class. Such a part cannot be cyclic, so its relaxation is close without loop cuts, and parts of ten thousand
e-nodes are solved in a second. E-classes that the choice does not use come as early as they can be derived: from the
results of a merged operator, others can then be cut out. The answer is as good as any along this order, and has other
orders to go on with.

*Around an e-class.* Everything outside a neighbourhood keeps its e-node; classes outside that the answer does not use
get the e-node that greedy extraction gives them when the answer's e-nodes are free.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Mapping
from heapq import heappop, heappush

from tensat_dl.extract.budget import Budget
from tensat_dl.extract.greedy import extended
from tensat_dl.extract.incumbent import Incumbent
from tensat_dl.extract.problem import Choice, Problem, needed, prune

#: Near the relaxation: e-nodes are taken whose reduced cost is below these shares of the gap.
_GAP_SHARES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)

#: The share of all e-nodes above which parts are no longer small.
_MOST = 0.5

#: Share of the work for one part near the relaxation or along an order, and for one neighbourhood.
_PART_SHARE = 0.3
_NEIGHBOURHOOD_SHARE = 0.03

#: Fruitless orders, and fruitless neighbourhoods, that end the search.
_ORDERS = 2
_NEIGHBOURHOODS = 60

#: Classes with several candidates in a neighbourhood: at first, at least, and how their number changes after a step
#: without success: where the part was solved, and where it was not.
_FIRST_SIZE = 30.0
_LEAST_SIZE = 10.0
_GROWTH = 1.05
_SHRINKAGE = 0.7

#: Work units of making an order and cutting out the part along it, for each e-node of the problem; and of a
#: neighbourhood, for each e-node of the problem and besides: cutting it out and building the solver's models.
_WORK_OF_ORDER_PER_NODE = 10.0
_WORK_PER_NODE = 3.0
_WORK_PER_STEP = 15_000.0

#: Solves a problem as far as the budget goes.
Solver = Callable[[Problem, Incumbent, Budget], object]


def narrow(
    problem: Problem,
    rising: Callable[[int], float],
    solution: Collection[int],
    gap: float,
    best: Incumbent,
    budget: Budget,
    solver: Solver,
) -> None:
    """Improves the incumbent near the relaxation, until a part is too large or not solved in its share of the budget.

    ``rising`` is the reduced cost of an e-node; ``solution`` are the e-nodes that the relaxation chooses in part.
    """
    choice = needed(problem, extended(problem, best.choice))
    size = 0
    for share in _GAP_SHARES:
        kept = {
            c: [n for n in ns if n == choice.get(c) or n in solution or rising(n) < share * gap]
            for c, ns in problem.nodes.items()
        }
        part = prune(problem, kept)
        if part is None or part.num_nodes > _MOST * problem.num_nodes or budget.exhausted:
            return
        if part.num_nodes == size:
            continue
        size = part.num_nodes
        cheaper, solved = _solved(problem, part, choice, best, budget, _PART_SHARE, solver)
        choice = cheaper or choice
        if not solved:
            return


def follow(problem: Problem, best: Incumbent, budget: Budget, solver: Solver, rng: random.Random) -> None:
    """Improves the incumbent along orders of its own, until some in a row find nothing better."""
    choice = needed(problem, extended(problem, best.choice))
    fruitless = 0
    while fruitless < _ORDERS and not budget.exhausted:
        budget.charge(_WORK_OF_ORDER_PER_NODE * problem.num_nodes)
        # Breadth first, and at random: neither is better everywhere.
        place = order(problem, choice, rng, shuffled=fruitless % 2 == 1)
        kept = {
            c: [n for n in ns if all(place[d] < place[c] for d in problem.kids[n])]
            for c, ns in problem.nodes.items()
        }
        part = prune(problem, kept)
        assert part is not None, "the choice itself goes along the order"
        cheaper, _ = _solved(problem, part, choice, best, budget, _PART_SHARE, solver)
        fruitless = 0 if cheaper else fruitless + 1
        choice = cheaper or choice


def search(problem: Problem, best: Incumbent, budget: Budget, solver: Solver, seed: int = 0) -> None:
    """Improves the incumbent in neighbourhoods until many in a row find nothing, or the budget is used up."""
    rng = random.Random(seed)
    around = _neighbours(problem)
    full = extended(problem, best.choice)
    choice = needed(problem, full)
    size = _FIRST_SIZE
    fruitless = 0
    total = budget.work
    while fruitless < _NEIGHBOURHOODS and not budget.exhausted:
        movable = [c for c in choice if len(problem.nodes[c]) > 1]
        if not movable:
            return
        region = _region(around, rng.choice(movable), int(size), rng)
        budget.charge(_WORK_PER_STEP + _WORK_PER_NODE * problem.num_nodes)
        part = prune(problem, {c: ns if c in region else (full[c],) for c, ns in problem.nodes.items()})
        fruitless += 1
        if part is None:
            continue
        share = min(1.0, _NEIGHBOURHOOD_SHARE * total / max(budget.work, 1.0))
        cheaper, solved = _solved(problem, part, choice, best, budget, share, solver)
        if cheaper:
            fruitless = 0
            full = extended(problem, cheaper)
            choice = needed(problem, full)
        else:
            size = size * _GROWTH if solved else max(_LEAST_SIZE, size * _SHRINKAGE)


def _solved(
    problem: Problem,
    part: Problem,
    choice: Choice,
    best: Incumbent,
    budget: Budget,
    share: float,
    solver: Solver,
) -> tuple[Choice | None, bool]:
    """Solves a part of the problem, from a choice of it.

    Returns a cheaper choice if one was found, which the incumbent gets too, and whether the part was solved.
    """
    answer = Incumbent(part)
    answer.offer(choice)
    known = answer.cost
    with budget.share(share) as step:
        solver(part, answer, step)
    if answer.cost >= known:
        return None, answer.proven
    best.offer(problem.expanded(answer.choice))
    return answer.choice, answer.proven


def order(problem: Problem, choice: Choice, rng: random.Random, shuffled: bool) -> dict[int, int]:
    """The place of each e-class in an order in which the choice derives its own; others come as early as they can."""
    users = problem.parents()
    waiting: dict[int, int] = {}
    place: dict[int, int] = {}
    heap: list[tuple[bool, float, int]] = []

    def ready(n: int) -> None:
        c = problem.home[n]
        if c not in choice:
            heappush(heap, (False, rng.random() if shuffled else len(place), c))
        elif choice[c] == n:
            heappush(heap, (True, rng.random(), c))

    for n in problem.candidates():
        waiting[n] = len(problem.kids[n])
        if not waiting[n]:
            ready(n)
    while heap:
        _, _, c = heappop(heap)
        if c in place:
            continue
        place[c] = len(place)
        for user in users[c]:
            waiting[user] -= 1
            if not waiting[user]:
                ready(user)
    return place


def _neighbours(problem: Problem) -> Mapping[int, Iterable[int]]:
    """The children and parents of each class."""
    around: dict[int, dict[int, None]] = {c: {} for c in problem.nodes}
    for c, kids in problem.successors().items():
        for d in kids:
            around[c][d] = None
            around[d][c] = None
    return around


def _region(around: Mapping[int, Iterable[int]], start: int, size: int, rng: random.Random) -> set[int]:
    """About ``size`` classes around one, grown at random."""
    found = {start}
    frontier = [start]
    while frontier and len(found) < size:
        i = rng.randrange(len(frontier))
        frontier[i], frontier[-1] = frontier[-1], frontier[i]
        for d in around[frontier.pop()]:
            if d not in found:
                found.add(d)
                frontier.append(d)
    return found
