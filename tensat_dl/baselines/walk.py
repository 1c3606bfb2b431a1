"""What a sequential search does, and what it has found."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from tensat_dl.baselines.costs import Complete, Costs
from tensat_dl.baselines.graphs import Current
from tensat_dl.baselines.rewriting import Rewriting, Substitution
from tensat_dl.baselines.store import NodeStore
from tensat_dl.core.graph import Graph
from tensat_dl.core.rule import RewriteRule
from tensat_dl.cost import CostModel
from tensat_dl.engine.exploration import Stop

#: Tells whether a graph that rules led to can be an answer.
Fits = Callable[[Graph], bool]


@dataclass(frozen=True, slots=True)
class State:
    """A graph that a search has reached: by a substitution in the graph before it; None for the first."""

    cost: float  #: milliseconds
    before: State | None = None
    by: Substitution | None = None

    def chain(self) -> list[Substitution]:
        """The substitutions that led here."""
        found: list[Substitution] = []
        state = self
        while state.before is not None and state.by is not None:
            found.append(state.by)
            state = state.before
        return found[::-1]


@dataclass(frozen=True, slots=True)
class Gain:
    """A graph that was cheaper than all before: when it was found, and what it costs in milliseconds."""

    seconds: float
    iteration: int
    cost: float


@dataclass(frozen=True, slots=True)
class Trace:
    """What a search graph by graph did, by the names of `Walk`."""

    search: str
    expanded: int
    tried: int
    kept: int
    known: int
    operators: int  #: that all graphs together had
    seconds: float
    gains: tuple[Gain, ...]
    stop: Stop
    steps: tuple[str, ...]  #: the rules that led to the cheapest graph, in order

    @property
    def best_seconds(self) -> float:
        """When the best graph was found; 0 if it is the first."""
        return self.gains[-1].seconds if self.gains else 0.0


@dataclass(slots=True)
class Walk:
    """A search, while it runs and afterwards.

    ``expanded`` graphs had their substitutions looked at, ``tried`` is how many those were, ``kept`` graphs were put
    into the queue or walked on from, ``known`` had been there before. ``applied`` counts by rule the graphs that were
    kept. ``stop`` says why the search ended.
    """

    store: NodeStore
    costs: Costs
    rewriting: Rewriting
    best: State
    outputs: tuple[int, ...]  #: of the best graph
    expanded: int = 0
    tried: int = 0
    kept: int = 0
    known: int = 0
    applied: Counter[str] = field(default_factory=Counter)
    gains: list[Gain] = field(default_factory=list)
    stop: Stop = "exhausted"
    seconds: float = 0.0

    def trace(self, search: str) -> Trace:
        """The search in numbers."""
        return Trace(
            search,
            self.expanded,
            self.tried,
            self.kept,
            self.known,
            len(self.store),
            self.seconds,
            tuple(self.gains),
            self.stop,
            tuple(sub.rule.name for sub in self.best.chain()),
        )


@dataclass(frozen=True, slots=True)
class Limit:
    """When a search ends: after so many graphs whose substitutions were looked at, or so many seconds."""

    iterations: int
    seconds: float | None = None


#: Called with the graphs looked at, the graphs that were kept, and the least cost.
Progress = Callable[[int, int, float], None]


class Walker:
    """A search that walks from graph to graph. A subclass says in which order.

    ``goal`` is a graph at which the search ends as soon as it has it: the best one is that then. Seconds are those of
    the ``clock``.
    """

    def __init__(
        self,
        graph: Graph,
        rules: Sequence[RewriteRule],
        model: CostModel,
        limit: Limit,
        complete: Complete | None = None,
        fits: Fits | None = None,
        goal: Graph | None = None,
        progress: Progress | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._clock = clock
        self._started = clock()
        self.limit, self.fits, self.goal, self.progress = limit, fits, goal, progress
        store = NodeStore(graph, model.table)
        costs = Costs(store, model, complete)
        costs.prepare(store.below(store.outputs))
        self.until = limit.iterations  #: the search ends when so many graphs are expanded
        self.first = Current(store, costs, store.outputs)
        self.walk = Walk(
            store, costs, Rewriting(store, rules, model.table), State(self.first.cost), store.outputs
        )

    def run(self) -> Walk:
        """Searches. Ctrl-C and the limit end it, and the best graph until then is kept."""
        walk = self.walk
        try:
            walk.stop = self.search()
        except AtGoal:
            pass
        except KeyboardInterrupt:
            walk.stop = "interrupted"
        walk.seconds = self.elapsed
        return walk

    def search(self) -> Stop:
        """Searches; why it ended. Raises `AtGoal`."""
        raise NotImplementedError

    # ---- for subclasses ------------------------------------------------------------------------------------

    @property
    def elapsed(self) -> float:
        return self._clock() - self._started

    @property
    def over(self) -> Stop | None:
        """The limit that is reached, if one is."""
        if self.limit.seconds is not None and self.elapsed >= self.limit.seconds:
            return "time"
        return "iterations" if self.walk.expanded >= self.until else None

    @property
    def late(self) -> bool:
        return self.limit.seconds is not None and self.elapsed >= self.limit.seconds

    def substitutions(
        self, current: Current, count: bool = True, nodes: Sequence[int] | None = None
    ) -> Iterator[Substitution]:
        """The substitutions in a graph, or at these of its ``nodes``; what they need is measured. They ``count`` as
        tried."""
        walk = self.walk
        walk.expanded += 1
        if self.progress is not None:
            self.progress(walk.expanded, walk.kept, walk.best.cost)
        found = walk.rewriting.at(current.nodes if nodes is None else nodes)
        if walk.costs.measures:
            found = iter(list(found))
            walk.costs.prepare(range(len(walk.store)))
        for sub in found:
            walk.tried += count
            yield sub

    def reached(self, state: State, current: Current, sub: Substitution, best: float) -> bool:
        """A graph was found; whether it may be kept. It is the best one if it costs less than that. Raises `AtGoal`
        for the goal."""
        walk = self.walk
        if self.fits is not None or self.goal is not None or state.cost < best:
            outputs = current.outputs_after(sub)
            assert outputs is not None, "it was priced"
            if self.fits is not None and not self.fits(walk.store.graph(outputs)):
                return False
            if self.goal is not None and walk.store.find(self.goal) == outputs:
                walk.best, walk.outputs = state, outputs
                raise AtGoal
            if state.cost < best:
                walk.best, walk.outputs = state, outputs
                walk.gains.append(Gain(self.elapsed, walk.expanded, state.cost))
        walk.kept += 1
        walk.applied[sub.rule.name] += 1
        return True


class AtGoal(Exception):
    """A search has its goal."""
