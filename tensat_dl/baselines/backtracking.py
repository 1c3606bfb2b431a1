"""TASO's search: the cheapest graph of a queue is replaced by all graphs that one substitution makes of it.

Jia et al., "TASO: Optimizing Deep Learning Computation with Automatic Generation of Graph Substitutions" (SOSP 2019),
algorithm 2. A graph that costs less than ``alpha`` times the best is kept, so with 1 every step has to gain
something, and with more than 1 a few may lose a little. As in the code that the authors published, the best graph is
the best of those that were taken from the queue, and the search ends after a number of these.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import count
from typing import Any

from tensat_dl.baselines.graphs import Current
from tensat_dl.baselines.rewriting import Substitution
from tensat_dl.baselines.split import split
from tensat_dl.baselines.walk import State, Walker
from tensat_dl.engine.exploration import Stop
from tensat_dl.extract.extraction import TOLERANCE


class Backtracking(Walker):
    """The search with a queue.

    A graph of more than ``split`` operators is taken apart (see `tensat_dl.baselines.split`). Each part is searched
    by itself, and then each two that follow one another, for the substitutions that the cut between them prevented.
    Each of these searches begins with the best graph, looks at as many graphs as the limit allows, and keeps the rest
    of the graph as it is.
    """

    def __init__(self, *args: Any, alpha: float = 1.0, split: int | None = None, **named: Any) -> None:
        super().__init__(*args, **named)
        self.alpha = alpha
        self._most = split
        self._seen = {self.first.hash}

    def search(self) -> Stop:
        number = self._take_apart()
        if number == 1:
            return self._queue(None)
        parts = [{p} for p in range(number)] + [{p, p + 1} for p in range(number - 1)]
        stops: list[Stop] = []
        for chosen in parts:
            self.until = self.walk.expanded + self.limit.iterations
            stops.append(self._queue(chosen))
            if stops[-1] == "time":
                break
        return "time" if "time" in stops else "iterations" if "iterations" in stops else "exhausted"

    def _take_apart(self) -> int:
        """Tells the nodes of the first graph which part they are in; the number of parts."""
        store = self.walk.store
        varying = [n for n in self.first.nodes if n not in store.weights]
        if self._most is None or len(varying) <= self._most:
            return 1
        matches = [self._matched(sub) for sub in self.walk.rewriting.at(self.first.nodes)]
        operands = {n: store.operands[n] for n in varying}
        parts = split(varying, operands, matches, self._most)
        for number, part in enumerate(parts):
            for n in part:
                store.part[n] = number
        return len(parts)

    def _matched(self, sub: Substitution) -> set[int]:
        return set(sub.match.nodes.values()) - self.walk.store.weights

    def _within(self, current: Current, chosen: set[int] | None) -> Iterator[Substitution]:
        """The substitutions whose nodes are all in chosen parts."""
        store = self.walk.store
        if chosen is None:
            yield from self.substitutions(current)
            return
        nodes = [n for n in current.nodes if n in store.weights or store.part[n] in chosen]
        for sub in self.substitutions(current, nodes=nodes):
            if all(store.part[n] in chosen for n in self._matched(sub)):
                yield sub

    def _queue(self, chosen: set[int] | None) -> Stop:
        """The search, from the best graph on, by substitutions in these parts."""
        walk, numbers = self.walk, count()
        start = walk.best
        queue: list[tuple[float, int, State, tuple[int, ...] | None]] = [
            (start.cost, next(numbers), start, walk.outputs)
        ]
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
            for sub in self._within(current, chosen):
                after = current.after(sub, below)
                if after is not None:
                    if after.hash in self._seen:
                        walk.known += 1
                    else:
                        self._seen.add(after.hash)
                        new = State(after.cost, state, sub)
                        if self.reached(new, current, sub, walk.best.cost * (1 - TOLERANCE)):
                            heapq.heappush(queue, (after.cost, next(numbers), new, None))
                if self.late:
                    return "time"
        return "exhausted"
