"""Better choices near the relaxation: problems of the e-nodes that cost little more than its solution.

Reduced costs tell what an e-node adds to the bound. Those that add little, with the solution's own and those of the
best choice, are few, and a problem of few e-nodes is solved exactly. Each is wider than the one before. (Keeping to
what the relaxation and the incumbent have in common is RINS: Danna, Rothberg and Le Pape 2005.)
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from tensat_dl.extract.budget import Budget
from tensat_dl.extract.contract import expand
from tensat_dl.extract.incumbent import Incumbent
from tensat_dl.extract.problem import Problem, needed, prune
from tensat_dl.extract.search import Solver, extended

#: E-nodes are taken whose reduced cost is below these shares of the gap.
_SHARES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)

#: Share of the work for one problem, and the share of all e-nodes above which problems are no longer small.
_STEP_SHARE = 0.3
_MOST = 0.5


def narrow(
    problem: Problem,
    rising: Callable[[int], float],
    solution: Collection[int],
    gap: float,
    best: Incumbent,
    budget: Budget,
    solver: Solver,
) -> None:
    """Improves the incumbent until a problem is too large or is not solved in its share of the budget.

    ``rising`` is the reduced cost of an e-node; ``solution`` are the e-nodes that the relaxation chooses in part.
    """
    choice = needed(problem, extended(problem, best.choice).__getitem__)
    size = 0
    for share in _SHARES:
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
        answer = Incumbent(part)
        answer.offer(choice)
        known = answer.cost
        step = budget.take(_STEP_SHARE)
        solved = solver(part, answer, step)
        budget.give_back(step)
        if answer.cost < known:
            best.offer(expand(problem, answer.choice))
            choice = answer.choice
        if not solved:
            return
