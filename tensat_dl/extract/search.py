"""Large-neighbourhood search: better choices by solving small parts of the problem exactly.

Everything outside a neighbourhood keeps its e-node; classes outside that the answer does not use get the
e-node that greedy extraction gives them when what is used is free. So each step is a small problem of the
same kind.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from tensat_dl.extract.budget import Budget
from tensat_dl.extract.contract import expand
from tensat_dl.extract.greedy import dag_greedy
from tensat_dl.extract.incumbent import Incumbent
from tensat_dl.extract.problem import Choice, Problem, needed, prune

#: Classes with several candidates in a neighbourhood: at first, at least, and how it grows after a step that
#: was solved without finding anything.
_FIRST_SIZE = 30.0
_LEAST_SIZE = 10.0
_GROWTH = 1.05

#: Share of the search's work for one step, and the fruitless steps that end the search.
_STEP_SHARE = 0.03
_PATIENCE = 60

#: Work units of a step, for each e-node of the problem and besides: cutting out the neighbourhood and
#: building the solver's models.
_WORK_PER_NODE = 3.0
_WORK_PER_STEP = 15_000.0

#: Solves a problem as far as the budget goes; returns whether it was solved.
Solver = Callable[[Problem, Incumbent, Budget], bool]


def search(
    problem: Problem,
    best: Incumbent,
    budget: Budget,
    solver: Solver,
    seed: int = 0,
) -> None:
    """Improves the incumbent until many steps in a row find nothing, or the budget is used up."""
    rng = random.Random(seed)
    state = _State.of(problem, best.choice)
    around = _neighbours(problem)
    size = _FIRST_SIZE
    fruitless = 0
    total = budget.work
    while fruitless < _PATIENCE and not budget.exhausted and state.movable:
        part = _region(around, rng.choice(state.movable), int(size), rng)
        budget.charge(_WORK_PER_STEP + _WORK_PER_NODE * problem.num_nodes)
        restricted = prune(
            problem, {c: ns if c in part else (state.full[c],) for c, ns in problem.nodes.items()}
        )
        if restricted is None:
            fruitless += 1
            continue
        answer = Incumbent(restricted)
        answer.offer(state.choice)
        before = answer.cost
        share = budget.take(min(1.0, _STEP_SHARE * total / max(budget.work, 1.0)))
        solved = solver(restricted, answer, share)
        budget.give_back(share)
        if answer.cost < before:
            fruitless = 0
            best.offer(expand(problem, answer.choice))
            state = _State.of(problem, answer.choice)
        else:
            fruitless += 1
            size = size * _GROWTH if solved else max(_LEAST_SIZE, size * 0.7)


@dataclass(frozen=True, slots=True)
class _State:
    """A choice of the problem, and one that extends it to all classes."""

    choice: Choice
    full: Choice
    movable: list[int]  #: chosen classes that have another candidate

    @classmethod
    def of(cls, problem: Problem, choice: Choice) -> _State:
        """Starts from a choice, as far as its e-nodes are candidates."""
        full = extended(problem, choice)
        used = needed(problem, full.__getitem__)
        movable = [c for c in used if len(problem.nodes[c]) > 1]
        return cls(used, full, movable)


def extended(problem: Problem, choice: Choice) -> Choice:
    """A choice for all classes.

    Those that it has no candidate for get the e-node that greedy extraction gives them when what is chosen is free.
    """
    cost = dict(problem.cost)
    for n in choice.values():
        cost[n] = 0.0
    return dag_greedy(problem, frozenset(choice.values()), cost)


def _neighbours(problem: Problem) -> dict[int, list[int]]:
    """The children and parents of each class."""
    around: dict[int, dict[int, None]] = {c: {} for c in problem.nodes}
    for c, kids in problem.successors().items():
        for d in kids:
            around[c][d] = None
            around[d][c] = None
    return {c: list(others) for c, others in around.items()}


def _region(around: dict[int, list[int]], start: int, size: int, rng: random.Random) -> set[int]:
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
