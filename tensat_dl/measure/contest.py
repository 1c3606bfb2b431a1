"""Times whole graphs against one another, on any machine, and chooses the answer.

First all candidates take turns with the original, and the fastest is picked. The best of several measurements looks
better than it is. So this candidate is timed again, with the original alone, and only the second timing decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol, TypeVar

from tensat_dl.core.graph import Graph
from tensat_dl.cost.device import Environment
from tensat_dl.cost.model import PricedGraph
from tensat_dl.measure.machine import AtOtherSizes, Candidate, Count, Outcome
from tensat_dl.measure.statistics import (
    Interval,
    Latency,
    Samples,
    latency,
    lead,
    ratio_to_first,
    rough_ratio,
    settled,
    together,
)
from tensat_dl.verify.equivalence import Agreement

#: Starts of the first heat, and the most of the second one. Each starts afresh: in a new process, or with everything
#: in another place of memory.
HEAT, MOST = 2, 16
#: At other sizes a graph may be as fast as the original. It is timed until so many more starts find it faster.
LEAD = 3
#: Starts where nothing is decided: the fewest that tell a median with confidence.
STARTS = 8

#: A graph, as an arena runs it.
Entrant = TypeVar("Entrant")


class Unfit(Exception):
    """A graph can't be timed. The message says why. ``differs``: because its outputs differ from the original's at
    the sizes of the original."""

    def __init__(self, reason: str, differs: bool = False) -> None:
        super().__init__(reason)
        self.differs = differs


class Arena(Protocol[Entrant]):
    """Runs graphs on one machine."""

    def original(self, graph: Graph, /) -> Entrant:
        """The graph that the others are compared with. Raises `Unfit`."""

    def candidate(self, graph: Graph, /) -> Entrant:
        """A graph that computes the same as the original. Raises `Unfit`."""

    def check(self, entrant: Entrant, /) -> Agreement:
        """Compares a candidate with the original thoroughly."""

    def other_sizes(self) -> str:
        """Other sizes of the original's open dimensions, at which it can be timed, too; "" if there are none."""

    def mix(self) -> Sequence[str]:
        """The sizes at which graphs are timed, if the original is optimized for several of a dimension."""

    def times(
        self, entrants: Sequence[Entrant], backwards: bool, sizes: str = "", /
    ) -> Sequence[Sequence[float]]:
        """The seconds of each graph, by round, in one fresh start, at the graph's own sizes or at others that were
        named. The graphs take turns in their order or backwards. Raises `Unfit`."""


def contest(
    environment: Environment,
    original: PricedGraph,
    candidates: Sequence[PricedGraph],
    arena: Arena[Entrant],
    progress: Count,
) -> Outcome:
    """Times the graphs and chooses the answer. ``progress`` receives the number of starts done and their total. If
    graphs can't be timed, the outcome says why the original is the answer."""
    entrants = [Candidate(c.total) for c in candidates]
    outcome = Outcome(environment, original.total, tuple(entrants))
    if not candidates:
        return replace(outcome, reason="no other graph was found")
    try:
        first = arena.original(original.graph)
    except Unfit as e:
        return replace(outcome, reason=str(e))
    admitted: dict[int, Entrant] = {}
    for i, candidate in enumerate(candidates):
        try:
            admitted[i] = arena.candidate(candidate.graph)
        except Unfit as e:
            entrants[i] = replace(entrants[i], reason=str(e), differs=e.differs)
    done = 0
    mix = arena.mix()
    #: For each of several sizes, the samples of a graph that was timed alone with the original.
    alone: dict[tuple[str, Entrant], list[Sequence[Sequence[float]]]] = {}

    def timer_at(sizes: str, graphs: Sequence[Entrant], count: int) -> Samples:
        nonlocal done
        done += count
        return starts(
            lambda entrants, backwards: arena.times(entrants, backwards, sizes),
            graphs,
            range(done - count, done),
            lambda k: progress(k, max(done, expected(len(admitted), k))),
        )

    def timer(graphs: Sequence[Entrant], count: int) -> Samples:
        if not mix:
            return timer_at("", graphs, count)
        found = {sizes: timer_at(sizes, graphs, count) for sizes in mix}
        for sizes, samples in found.items() if len(graphs) == 2 else ():
            alone.setdefault((sizes, graphs[1]), []).extend(samples)
        return together(list(found.values()))

    def elsewhere(entrant: Entrant) -> tuple[AtOtherSizes, ...]:
        if mix:
            return tuple(AtOtherSizes(sizes, ratio_to_first(alone[sizes, entrant], 1)) for sizes in mix)
        if not (sizes := arena.other_sizes()):
            return ()
        return (AtOtherSizes(sizes, duel(first, entrant, partial(timer_at, sizes), LEAD)[1]),)

    outcome = replace(outcome, mix=tuple(mix))
    try:
        return decide(outcome, entrants, first, admitted, arena.check, timer, elsewhere)
    except Unfit as e:
        return replace(outcome, candidates=tuple(entrants), reason=f"timing failed: {e}")


def starts(
    times: Callable[[Sequence[Entrant], bool], Sequence[Sequence[float]]],
    entrants: Sequence[Entrant],
    numbers: Sequence[int],
    progress: Callable[[int], None] = lambda number: None,
) -> Samples:
    """The samples of fresh starts with these numbers; every other one goes backwards."""
    samples = []
    for number in numbers:
        progress(number)
        samples.append(times(entrants, number % 2 == 1))
    return samples


def expected(entrants: int, done: int) -> int:
    """The expected total of starts when ``done`` are done: the second heat takes more where little is gained."""
    heat = HEAT * (entrants > 1)
    return heat + (STARTS if done < heat + STARTS else MOST)


def duel(
    original: Entrant,
    other: Entrant,
    timer: Callable[[Sequence[Entrant], int], Samples],
    enough: int = MOST,
) -> tuple[Samples, Interval]:
    """Times a graph with the original alone, until that decides, or ``enough`` more starts have found it faster than
    slower: the samples, and its latency over the original's."""
    samples: list[Sequence[Sequence[float]]] = []
    while len(samples) < MOST and not (samples and (settled(samples, 1, MOST) or lead(samples, 1) >= enough)):
        samples += timer([original, other], 1)
    return samples, ratio_to_first(samples, 1)


def decide(
    outcome: Outcome,
    entrants: list[Candidate],
    original: Entrant,
    admitted: Mapping[int, Entrant],
    check: Callable[[Entrant], Agreement],
    timer: Callable[[Sequence[Entrant], int], Samples],
    elsewhere: Callable[[Entrant], tuple[AtOtherSizes, ...]] = lambda entrant: (),
) -> Outcome:
    """The outcome, given by position the candidates that compute the same as the original, how to check one of them
    thoroughly, how to time several, the original first, in so many starts, and how to time one at other sizes."""
    order = list(admitted)
    if len(admitted) > 1:
        heat = timer([original, *admitted.values()], HEAT)
        for k, i in enumerate(admitted, 1):
            entrants[i] = replace(entrants[i], ratio=rough_ratio(heat, k))
        order.sort(key=lambda i: entrants[i].ratio or 1.0)
    reason = "no candidate could be compared"
    for best in order:
        found = check(admitted[best])
        if found.status != "agrees":
            if found.status == "narrow":
                reason = "no candidate is right at other sizes, too; --dim with other sizes may find one"
            entrants[best] = replace(entrants[best], reason=found.message)
            continue
        final, ratio = duel(original, admitted[best], timer)
        there = elsewhere(admitted[best]) if ratio.high < 1 else ()
        if slower := next((x for x in there if x.ratio.low > 1), None):
            reason = "no candidate is faster at all sizes that were timed"
            said = f"with {slower.sizes} it takes {slower.ratio.mid:.2f} times as long as the original"
            entrants[best] = replace(entrants[best], reason=said)
            continue
        return replace(
            outcome,
            candidates=tuple(entrants),
            best=best,
            reason="" if ratio.high < 1 else "no candidate is faster beyond noise",
            before=latency(final, 0),
            after=latency(final, 1),
            ratio=ratio,
            elsewhere=there,
            agreement=found,
        )
    return replace(outcome, candidates=tuple(entrants), reason=reason)


@dataclass(frozen=True)
class TimedRow:
    """One of several graphs that are timed side by side. ``ratio`` is its latency over the first one's, None for
    that; ``error`` how far its outputs are from those of the first one, on a GPU in f64; ``reason`` why it was not
    timed."""

    predicted_ms: float
    latency: Latency | None = None
    ratio: Interval | None = None
    error: float = 0.0
    kernels: Mapping[str, int] = field(default_factory=dict)
    peak_bytes: int = 0
    reason: str = ""

    def to_data(self) -> dict[str, Any]:
        """As plain data, in milliseconds and bytes."""
        r = self.ratio
        return {
            "predicted_ms": self.predicted_ms,
            "median_ms": None if self.latency is None else self.latency.median_ms,
            "spread_ms": None if self.latency is None else self.latency.spread_ms,
            "ratio": None
            if r is None
            else {"median": r.mid, "low": r.low, "high": r.high, "confidence": r.confidence},
            "max_rel_error": self.error,
            "kernels": dict(self.kernels),
            "peak_bytes": self.peak_bytes,
            "reason": self.reason,
        }


def side_by_side(
    rows: Sequence[TimedRow],
    ready: Mapping[int, Entrant],
    times: Callable[[Sequence[Entrant], bool], Sequence[Sequence[float]]],
    progress: Count,
) -> list[TimedRow]:
    """The rows, with the latencies of the graphs that are ready, by position."""
    numbers = range(STARTS if ready else 0)
    samples = starts(times, list(ready.values()), numbers, lambda k: progress(k, STARTS))
    timed = list(rows)
    for k, i in enumerate(ready):
        ratio = ratio_to_first(samples, k) if k and 0 in ready else None
        timed[i] = replace(timed[i], latency=latency(samples, k), ratio=ratio)
    return timed
