"""TASO's search: the cheapest graph of a queue is replaced by all graphs that one substitution makes of it.

Jia et al., "TASO: Optimizing Deep Learning Computation with Automatic Generation of Graph Substitutions" (SOSP 2019),
algorithm 2. A graph that costs less than ``alpha`` times the best is kept, so with 1 every step has to gain
something, and with more than 1 a few may lose a little. As in the code that the authors published, the best graph is
the best of those that were taken from the queue, and the search ends after a number of these.
"""

from __future__ import annotations

import heapq
from itertools import count
from typing import Any

from tensat_dl.baselines.graphs import Current
from tensat_dl.baselines.walk import State, Walker
from tensat_dl.engine.exploration import Stop
from tensat_dl.extract.extraction import TOLERANCE


class Backtracking(Walker):
    """The search with a queue."""

    def __init__(self, *args: Any, alpha: float = 1.0, **named: Any) -> None:
        super().__init__(*args, **named)
        self.alpha = alpha

    def search(self) -> Stop:
        walk = self.walk
        numbers = count()
        start = walk.best
        queue: list[tuple[float, int, State, tuple[int, ...] | None]] = [
            (start.cost, next(numbers), start, walk.store.outputs)
        ]
        seen = {self.first.hash}
        least = start.cost  # of the graphs taken from the queue
        before: dict[int, Current] = {}
        while queue:
            if over := self.over:
                return over
            _, _, state, outputs = heapq.heappop(queue)
            if outputs is None:
                assert state.by is not None
                assert state.before is not None
                outputs = before[id(state.before)].outputs_after(state.by)
                assert outputs is not None, "it was priced"
            current = before[id(state)] = Current(walk.store, walk.costs, outputs)
            least = min(least, state.cost)
            below = least * self.alpha
            if self.alpha <= 1:
                below *= 1 - TOLERANCE  # a sum in another order is no gain
            for sub in self.substitutions(current):
                after = current.after(sub, below)
                if after is not None:
                    if after.hash in seen:
                        walk.known += 1
                    else:
                        seen.add(after.hash)
                        new = State(after.cost, state, sub)
                        if self.reached(new, current, sub, walk.best.cost * (1 - TOLERANCE)):
                            heapq.heappush(queue, (after.cost, next(numbers), new, None))
                if self.late:
                    return "time"
        return "exhausted"
