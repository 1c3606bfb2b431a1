"""Timing: calls in a loop, several things in turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

#: Runs something once.
Run = Callable[[], object]
#: Seconds from some point on.
Clock = Callable[[], float]


def clock_of(threads: int) -> Clock:
    """What times something with so many threads. With one, all is done by the thread that calls: its own time leaves
    out what the machine does for others meanwhile, and is that of the clock where there are none."""
    return time.thread_time if threads == 1 else time.perf_counter


#: A sample is at least so long, so that the clock and the loop around the calls do not matter.
SAMPLE_SECONDS = 1e-3


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
    runs: Sequence[Run], calls: Sequence[int], rounds: int, clock: Clock = time.perf_counter
) -> list[list[float]]:
    """By round, the seconds per call of each: A B C, then A B C again.

    One call that is not timed comes before each sample of several, so that what ran before, and is still in the
    caches, does not matter. What takes so long that one call is a sample gets no such call.
    """
    samples: list[list[float]] = []
    for _ in range(rounds):
        samples.append([])
        for run, n in zip(runs, calls, strict=True):
            if n > 1:
                run()
            samples[-1].append(timed(run, n, clock))
    return samples
