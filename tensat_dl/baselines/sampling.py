"""A search by sampling: at each graph a few substitutions are drawn, and the walk goes on from the best of them.

After Fang, Shen, Wang and Chen, "Optimizing DNN computation graph using graph substitutions" (VLDB 2020), whose
heuristic draws sequences of substitutions instead of trying all of them. What follows is the idea alone: the lengths
and the numbers are ours. A walk begins at the best graph and may lose a little on its way; where it ends without a
gain, another begins.
"""

from __future__ import annotations

import random
from typing import Any

from tensat_dl.baselines.graphs import Current
from tensat_dl.baselines.walk import State, Walker
from tensat_dl.engine.exploration import Stop
from tensat_dl.extract.extraction import TOLERANCE

#: Substitutions that are drawn at each graph, and the most steps of a walk.
DRAWN, STEPS = 32, 10
#: A walk goes on from graphs that cost less than this times the best.
SLACK = 1.05


class Sampling(Walker):
    """The search by random walks. Equal seeds give equal walks, unless time ends them."""

    def __init__(self, *args: Any, seed: int = 0, **named: Any) -> None:
        super().__init__(*args, **named)
        self._random = random.Random(seed)

    def search(self) -> Stop:
        walk = self.walk
        best = self.first
        while not (over := self.over):
            state, current = walk.best, best
            for _ in range(STEPS):
                if self.over:
                    break
                step = self._step(state, current)
                if step is None:
                    break
                state, current = step
                if state is walk.best:
                    best = current
        return over

    def _step(self, state: State, current: Current) -> tuple[State, Current] | None:
        """The cheapest of the graphs that drawn substitutions lead to."""
        walk = self.walk
        everything = list(self.substitutions(current, count=False))
        drawn = self._random.sample(everything, min(DRAWN, len(everything)))
        walk.tried += len(drawn)
        least, chosen = walk.best.cost * SLACK, None
        for sub in drawn:
            after = current.after(sub, least)
            if after is not None and after.hash != current.hash:
                if self.fits is not None and not self._fitting(current, sub):
                    continue
                least, chosen = after.cost, sub
        if chosen is None:
            return None
        new = State(least, state, chosen)
        self.reached(new, current, chosen, walk.best.cost * (1 - TOLERANCE))
        outputs = current.outputs_after(chosen)
        assert outputs is not None, "it was priced"
        return new, Current(walk.store, walk.costs, outputs)

    def _fitting(self, current: Current, sub: Any) -> bool:
        outputs = current.outputs_after(sub)
        return outputs is not None and self.fits is not None and self.fits(self.walk.store.graph(outputs))
