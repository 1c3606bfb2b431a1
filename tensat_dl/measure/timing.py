"""Timing: calls in a loop, several things in turn, models, and calls that a GPU records."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from math import inf
from pathlib import Path

from tensat_dl.measure.statistics import Latency, summary

#: Runs something once.
Run = Callable[[], object]
#: Seconds from some point on.
Clock = Callable[[], float]


def clock_of(threads: int) -> Clock:
    """The clock for a computation with ``threads`` threads. With one, the calling thread does all the work, so its
    own CPU time leaves out the work of other processes."""
    return time.thread_time if threads == 1 else time.perf_counter


#: A sample is at least so long, so that the clock and the loop around the calls do not matter.
SAMPLE_SECONDS = 1e-3


#: Threads that worked on one thing wait for more by spinning, and take the cores from the next one. On 2 cores they
#: made it take twice as long; they were asleep after 50 ms, and not after 20.
PAUSE = 0.05


def timed(run: Run, calls: int, clock: Clock = time.perf_counter) -> float:
    """Seconds per call, over so many calls."""
    started = clock()
    for _ in range(calls):
        run()
    return (clock() - started) / calls


def calls_per_sample(run: Run, seconds: float = SAMPLE_SECONDS, clock: Clock = time.perf_counter) -> int:
    """How many calls take at least so long. It has run once before."""
    calls = 1
    while (took := timed(run, calls, clock) * calls) < seconds and calls < 1_000_000:
        calls = max(2 * calls, int(1.2 * seconds / max(took, 1e-9) * calls)) if took > 0 else 16 * calls
    return calls


def interleaved(
    runs: Sequence[Run],
    calls: Sequence[int],
    rounds: int,
    clock: Clock = time.perf_counter,
    pause: float = 0.0,
) -> list[list[float]]:
    """The seconds per call of each, by round: A B C, then A B C again, with a pause of so many seconds before each.

    Each sample of several calls comes after one call that is not timed, so that the caches of the one before do not
    matter. A call that is long enough for a sample by itself needs no such call.
    """
    samples: list[list[float]] = []
    for _ in range(rounds):
        samples.append([])
        for run, n in zip(runs, calls, strict=True):
            if pause:
                time.sleep(pause)
            if n > 1:
                run()
            samples[-1].append(timed(run, n, clock))
    return samples


# ---- whole models on the CPU --------------------------------------------------------------------------------

#: Seconds of timing, unless that would be fewer or more rounds than these.
MODEL_SECONDS, LEAST_ROUNDS, MOST_ROUNDS = 0.7, 4, 40
#: Seconds of pauses, unless that would be fewer rounds.
MODEL_PAUSES = 2.0
#: A sample is at least so long. A graph that takes longer by itself finds no cache as another run of it left it.
MODEL_SAMPLE_SECONDS = 0.004
#: Of two models, which one is faster is clear once it was faster in so many more rounds than the other. If it is
#: faster in two of three rounds, the other gets there first once in 4,000 times.
CLEAR = 12


def time_models(
    models: Sequence[str], feeds: str, threads: int, until_clear: bool = False
) -> list[list[float]] | str:
    """Times models in turn, in a fresh process: by round, the seconds of each; or the message of `NotRunnable`. With
    ``until_clear``, of two models it may end as soon as it is clear which one is faster."""
    import numpy as np

    from tensat_dl.onnx.session import NotRunnable, Session

    with np.load(feeds, allow_pickle=False) as arrays:
        values = {name: arrays[name] for name in arrays.files}
    try:
        runs = [Session(Path(m), threads).bound(values) for m in models]
    except NotRunnable as e:
        return str(e)
    return in_turn(runs, threads, until_clear and len(runs) == 2)


def in_turn(runs: Sequence[Run], threads: int, until_clear: bool = False) -> list[list[float]]:
    """By round, the seconds of each, which has so many threads. All have run once before. With ``until_clear``, of
    two no more rounds than it takes until one is ahead by `CLEAR`."""
    clock, pause, most = clock_of(threads), 0.0, MOST_ROUNDS
    if threads > 1 and len(runs) > 1:
        pause, most = PAUSE, int(MODEL_PAUSES / PAUSE / len(runs))
    calls = [calls_per_sample(run, MODEL_SAMPLE_SECONDS, clock) for run in runs]
    first = interleaved(runs, calls, 1, clock, pause)
    rounds = int(MODEL_SECONDS / sum(s * n for s, n in zip(first[0], calls, strict=True)))
    rounds = max(min(rounds, most), LEAST_ROUNDS)
    if not until_clear:
        return first + interleaved(runs, calls, rounds - 1, clock, pause)
    samples = first
    while len(samples) < rounds and abs(sum((b < a) - (b > a) for a, b in samples)) < CLEAR:
        samples += interleaved(runs, calls, 1, clock, pause)
    return samples


# ---- one operator on a GPU ----------------------------------------------------------------------------------

#: Calls in a graph: about so many that a replay takes GRAPH_SECONDS.
LEAST_CALLS, MOST_CALLS = 8, 256
GRAPH_SECONDS = 1e-3
#: Seconds that the start of a graph takes at most. In the short trial it is shared by few calls.
START = 1e-5
#: Replays that warm up, and replays that count.
WARM_UP, SAMPLES = 3, 25
#: Samples whose interquartile range is a smaller part of their median are steady; else they are taken again.
STEADY, ATTEMPTS = 0.03, 4

#: Issues call number i.
Issue = Callable[[int], object]
#: Runs the recorded calls once; the seconds that they took.
Replay = Callable[[], float]
#: Records so many calls.
Recorder = Callable[[Issue, int], Replay]


def time_calls(issue: Issue, record: Recorder, hopeless: float = inf) -> Latency:
    """The milliseconds of one call. A call that takes more than ``hopeless`` seconds in a short trial is not timed
    again.

    Calls are recorded into a CUDA graph, as they are in a whole model, many of them one after the other: starting a
    graph takes several microseconds, which a single call would be charged. Call number i takes copy number i of the
    operands that are weights, as many copies as fill the caches, since a model comes back to a weight only after all
    others. The graph is replayed, first without being timed. Median and interquartile range are kept; where the
    samples scatter, they are taken again, and the steadiest are kept. ``record`` records and replays, so that this
    needs no GPU.
    """
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
