"""How one operator is timed on a GPU.

Calls are recorded into a CUDA graph, as they are in a whole model, many of them one after the other: to start a graph
takes several microseconds, which a single call would be blamed for. Each call takes the next copy of the operands
that are weights, as many copies as fill the caches, since a model comes back to a weight only after all others. The
graph is replayed, first without being timed. Median and interquartile range of what a call takes are kept; where the
samples scatter, they are taken again, and the steadiest are kept.

What takes far longer in the first few replays than another implementation does is not timed any better.

What records and replays is given, so this runs, and is tested, without a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from tensat_dl.measure.statistics import Latency, summary

#: Calls in a graph: about so many that a replay takes GRAPH_SECONDS.
LEAST_CALLS, MOST_CALLS = 8, 256
GRAPH_SECONDS = 1e-3
#: Seconds that the start of a graph takes at most. In the short trial it is shared by few calls.
START = 1e-5
#: Replays before those that count, and those.
WARM_UP, SAMPLES = 3, 25
#: Samples whose interquartile range is a smaller part of their median are steady; else they are taken again.
STEADY, ATTEMPTS = 0.03, 4

#: Issues call number i.
Issue = Callable[[int], object]
#: Runs what was recorded once, and says how many seconds it took.
Replay = Callable[[], float]
#: Records so many calls.
Recorder = Callable[[Issue, int], Replay]


def time_calls(issue: Issue, record: Recorder, hopeless: float = inf) -> Latency:
    """What one call takes. If a short trial takes more seconds than is ``hopeless``, it is left at that."""
    trial = record(issue, LEAST_CALLS)
    tried = [trial() / LEAST_CALLS for _ in range(WARM_UP)]
    first = min(tried)
    if first - START / LEAST_CALLS > hopeless:
        return summary(tried)
    calls = min(MOST_CALLS, max(LEAST_CALLS, round(GRAPH_SECONDS / max(first, 1e-9))))
    replay = record(issue, calls)
    for _ in range(WARM_UP):
        replay()
    best: Latency | None = None
    for _ in range(ATTEMPTS):
        found = summary([replay() / calls for _ in range(SAMPLES)])
        if best is None or _scatter(found) < _scatter(best):
            best = found
        if _scatter(best) <= STEADY:
            break
    assert best is not None
    return best


def _scatter(latency: Latency) -> float:
    return latency.spread_ms / latency.median_ms if latency.median_ms > 0 else 0.0
