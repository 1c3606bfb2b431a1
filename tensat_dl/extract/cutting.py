"""The relaxation with loop cuts, round by round: solve, round to a choice, separate.

The first cuts come from prices alone (`tensat_dl.extract.ascent`): without them the relaxation takes hundreds of
rounds to where they begin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from tensat_dl.extract.ascent import Ascent
from tensat_dl.extract.budget import Budget
from tensat_dl.extract.formulation import Formulation, Vector
from tensat_dl.extract.incumbent import Incumbent
from tensat_dl.extract.loops import MIN_VIOLATION, Loop, LoopCut, LoopSeparator
from tensat_dl.extract.relaxation import Relaxation, Relaxed

#: Work units of rounding and separating one solution of the relaxation, for each column.
_WORK_PER_ROUND_AND_COLUMN = 8.0

#: Work units of making a loop cut, for each e-class of the set.
_WORK_PER_CLASS_OF_LOOP = 0.15

#: Rounds of cuts at a time.
_ROUNDS = 5

#: The relaxation is left when so many rounds of cuts close less than this share of the gap. When a few rounds do,
#: more cuts are looked for in each.
_PATIENCE = 40
_SLOW = 2
_MIN_PROGRESS = 0.02

#: How far the inner point moves to each solution of the relaxation, and where cuts are looked for between the two, as
#: weights of the inner point. The search for cuts draws at random: the last ones try again.
_INNER_STEP = 0.1
_INWARD = (0.5, 0.25, 0.0, 0.0, 0.0)

#: Loop cuts added in one round.
_CUTS_PER_ROUND = 500

#: Where a solution's own e-nodes are too few for a choice, all are looked at after so many rounds.
_EVERYTHING = 5

#: Reduced costs below this share of the cost of the answer so far are taken for zero.
_NOTHING = 1e-7

#: Cuts with less slack than this in the last relaxation go into the integer program.
_TIGHT = 1e-6


class Cutting:
    """A relaxation and the cuts that were added to it."""

    def __init__(self, form: Formulation, ascent: Ascent) -> None:
        self.form = form
        self.separator = LoopSeparator(form)
        self.relaxed: Relaxed | None = None  #: its last solution
        self.cuts: list[LoopCut] = []
        self._ascent = ascent
        self._relaxation = Relaxation(form)
        self._inner: Vector | None = None  #: an average of its solutions
        self._bounds: list[float] = []  #: by round

    def run(self, best: Incumbent, budget: Budget) -> bool:
        """Adds loop cuts for some rounds and offers rounded solutions. Returns whether more rounds are of no use."""
        for _ in range(_ROUNDS):
            found = self._relaxation.solve(budget)
            if found is None:
                return True
            self.relaxed = found
            best.prove(found.bound)
            choice = self.form.rounded(found.x, len(self._bounds) % _EVERYTHING == 0)
            if choice is not None:
                best.offer(choice)
            self._bounds.append(best.bound)
            if best.proven or self._stalled(best.cost, _PATIENCE):
                return True
            budget.charge(_WORK_PER_ROUND_AND_COLUMN * len(self.form.cost))
            self._inner = (
                found.x if self._inner is None else self._inner + _INNER_STEP * (found.x - self._inner)
            )
            violated = self._raising(found, best.cost, budget)
            if not violated or self._stalled(best.cost, _SLOW):
                violated += self._deep(found.x, self._inner)
            if not violated and found.feasible:
                return True
            self._add(violated)
        return False

    def add(self, loops: Iterable[Loop], budget: Budget) -> None:
        """Adds the cuts of e-classes in sets, as far as the budget goes."""
        self._add(list(self._cuts(loops, budget)))

    def _cuts(self, loops: Iterable[Loop], budget: Budget) -> Iterator[LoopCut]:
        for c, loop in loops:
            if budget.exhausted:
                return
            budget.charge(_WORK_PER_CLASS_OF_LOOP * len(loop))
            yield self.separator.cut(c, loop)

    def _add(self, cuts: list[LoopCut]) -> None:
        self.cuts.extend(cuts)
        self._relaxation.add(cuts)

    def reduced_cost(self, found: Relaxed) -> Callable[[int], float]:
        """The least that choosing an e-node, and with it its e-class, adds to the bound."""
        form = self.form
        home = form.reduced.problem.home
        rising: list[float] = np.where(form.floor == 0, np.maximum(found.reduced_cost, 0.0), 0.0).tolist()

        def of(n: int) -> float:
            i, j = form.node_col[n], form.class_col[home[n]]
            return rising[i] if i == j else rising[i] + rising[j]

        return of

    def _raising(self, found: Relaxed, cost: float, budget: Budget) -> list[LoopCut]:
        """Cuts of an ascent at the relaxation's reduced costs, all violated by its solution."""
        rising, least = self.reduced_cost(found), _NOTHING * cost

        def price(n: int) -> float:
            value = rising(n)
            return value if value > least else 0.0

        loops = self._ascent.run(price, cost, budget).loops
        return _violated(self._cuts(loops, budget), found.x)

    @property
    def tight(self) -> list[LoopCut]:
        """The cuts that hold the last solution where it is."""
        if self.relaxed is None:
            return []
        return _violated(self.cuts, self.relaxed.x, -_TIGHT)

    def _deep(self, x: Vector, inner: Vector) -> list[LoopCut]:
        """Loop cuts that a solution of the relaxation violates, looked for on the way to it from further inside.

        A vertex is cut off by many weak cuts; a cut that is violated in the direction of the ``inner`` point goes
        deeper (in-out separation, Ben-Ameur and Neto 2007, Fischetti and Salvagnin 2010).
        """
        for weight in _INWARD:
            cuts = self.separator.separate(weight * inner + (1 - weight) * x, _CUTS_PER_ROUND)
            violated = _violated(cuts, x)
            if violated:
                return violated
        return []

    def _stalled(self, cost: float, rounds: int) -> bool:
        """Whether so many last rounds of cuts closed too little of the gap."""
        bounds = self._bounds
        return len(bounds) > rounds and bounds[-1] - bounds[-1 - rounds] < _MIN_PROGRESS * (cost - bounds[-1])


def _violated(cuts: Iterable[LoopCut], x: Vector, least: float = MIN_VIOLATION) -> list[LoopCut]:
    """The cuts that a point violates by more than ``least``."""
    point = x.tolist()
    return [cut for cut in cuts if cut.activity(point) > least]
