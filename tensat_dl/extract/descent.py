"""A choice made cheaper step by step, each step the best that changes little: a start for e-graphs whose relaxation
says little.

There are two kinds of steps. An e-class of the choice gets another of its e-nodes. Or an e-class that the choice does
without is derived, and all e-classes of the choice that have an e-node with it as a child get this e-node: two
products become slices of a merged one together, while each of them alone would pay for all of it. Whatever else a
step needs is derived as greedy extraction does it where the choice is free, and what nothing needs any longer goes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tensat_dl.extract.budget import Budget
from tensat_dl.extract.extraction import TOLERANCE
from tensat_dl.extract.greedy import extended
from tensat_dl.extract.incumbent import Incumbent
from tensat_dl.extract.problem import Choice, Problem, needed

#: Work units of greedy extraction and of listing steps, for each e-node of the problem; of looking at one e-node of a
#: step; and of taking a step, for each e-node of the choice.
_WORK_PER_NODE = 5.0
_WORK_PER_LOOK = 0.4
_WORK_PER_TAKEN = 2.0

#: A step without one of its changes is tried if it has at most so many.
_FEW = 12

#: E-classes that change, and their e-nodes.
Step = dict[int, int]


def descend(problem: Problem, best: Incumbent, budget: Budget) -> None:
    """Improves the incumbent by steps until none gains anything, or the budget is used up."""
    if budget.exhausted:
        return
    descent = Descent(problem, best.choice, budget)
    while not budget.exhausted and descent.improved():
        best.offer(problem.expanded(descent.choice))


class Descent:
    """A choice, and how often each of its e-classes is needed."""

    def __init__(self, problem: Problem, choice: Choice, budget: Budget) -> None:
        self.problem = problem
        self.budget = budget
        self.full = extended(problem, choice)  #: for all e-classes, also those that nothing needs
        self.choice = needed(problem, self.full)
        self.uses: dict[int, int] = {}
        self._count()

    def improved(self) -> bool:
        """Takes steps in the order of their gain, as long as they gain something; whether any did."""
        self.budget.charge(_WORK_PER_NODE * self.problem.num_nodes)
        found = [(gained, k, step) for k, step in enumerate(self.steps()) if (gained := self.gain(step)) > 0]
        found.sort(key=lambda item: (-item[0], item[1]))
        taken = False
        for _, _, step in found:
            if self.budget.exhausted:
                break
            taken |= self._take(step)
        if taken:
            self.full = extended(self.problem, self.choice)
        return taken

    def steps(self) -> Iterator[Step]:
        """All steps from the choice, those that make cycles among them."""
        problem, choice = self.problem, self.choice
        cost, kids = problem.cost, problem.kids
        users: dict[int, Step] = defaultdict(dict)
        for c, now in choice.items():
            for n in problem.nodes[c]:
                if n == now:
                    continue
                yield {c: n}
                for d in kids[n]:
                    if d not in choice and (c not in users[d] or cost[n] < cost[users[d][c]]):
                        users[d][c] = n
        for d in sorted(users):
            step = users[d]
            for m in problem.nodes[d]:  # greedy extraction may derive it from the very e-classes that change
                if any(c in step for c in kids[m]) or (len(step) == 1 and m == self.full[d]):
                    continue
                yield {d: m, **step}
                if 2 < len(step) <= _FEW:
                    for c in step:
                        yield {d: m, **{other: n for other, n in step.items() if other != c}}

    def gain(self, step: Step) -> float:
        """What a step saves, if it makes no cycle; 0 if the budget is used up."""
        if self.budget.exhausted:
            return 0.0
        problem, uses, full = self.problem, self.uses, self.full
        changes: dict[int, int] = {}  # in how often an e-class is needed
        saved = 0.0
        looks = len(step)
        stack: list[int] = []
        used = [c for c in step if c in self.choice]
        for c in used:
            saved += problem.cost[full[c]] - problem.cost[step[c]]
            stack += problem.kids[step[c]]
        while stack:
            looks += 1
            d = stack.pop()
            change = changes[d] = changes.get(d, 0) + 1
            if uses.get(d, 0) + change == 1:
                n = step.get(d, full[d])
                saved -= problem.cost[n]
                stack += problem.kids[n]
        for c in used:
            stack += problem.kids[full[c]]
        while stack:
            looks += 1
            d = stack.pop()
            change = changes[d] = changes.get(d, 0) - 1
            if uses.get(d, 0) + change == 0:
                n = step.get(d, full[d])
                saved += problem.cost[n]
                stack += problem.kids[n]
        self.budget.charge(_WORK_PER_LOOK * looks)
        return saved

    def _take(self, step: Step) -> bool:
        """Takes a step if it gains something after those before, and makes no cycle."""
        if self.gain(step) <= 0 or self.circular(step):
            return False
        self.budget.charge(_WORK_PER_TAKEN * len(self.choice))
        before = {c: self.full[c] for c in step}
        self.full.update(step)
        after = needed(self.problem, self.full)
        if self.problem.total(after) >= self.problem.total(self.choice) * (1 - TOLERANCE):
            self.full.update(before)
            return False
        self.choice = after
        self._count()
        return True

    def circular(self, step: Step) -> bool:
        """Whether an e-class would be derived from itself, which is then one that changes."""
        done: dict[int, bool] = {}  # False while an e-class is being derived
        stack = list(step)
        while stack:
            self.budget.charge(_WORK_PER_LOOK)
            c = stack[-1]
            if c in done:
                done[stack.pop()] = True
                continue
            done[c] = False
            for d in self.problem.kids[step.get(c, self.full[c])]:
                if d not in done:
                    stack.append(d)
                elif not done[d]:
                    return True
        return False

    def _count(self) -> None:
        self.uses = dict.fromkeys(self.problem.roots, 1)
        for n in self.choice.values():
            for d in self.problem.kids[n]:
                self.uses[d] = self.uses.get(d, 0) + 1
