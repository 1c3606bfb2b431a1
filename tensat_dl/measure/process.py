"""What a fresh process does: it times models in turn. It imports little, since it is started often."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tensat_dl.measure.session import NotRunnable, Session
from tensat_dl.measure.timing import calls_per_sample, clock_of, interleaved

#: Seconds of timing, unless that would be fewer or more rounds than these.
SECONDS, LEAST_ROUNDS, MOST_ROUNDS = 0.7, 4, 40
#: A sample is at least so long. A graph that takes longer by itself finds no cache as another run of it left it.
SAMPLE_SECONDS = 0.004


def time_models(models: Sequence[str], feeds: str, threads: int) -> dict[str, object]:
    """What a fresh process does: by round, the seconds of each model."""
    with np.load(feeds, allow_pickle=False) as arrays:
        values = {name: arrays[name] for name in arrays.files}
    try:
        runs = [Session(Path(m), threads).bound(values) for m in models]
    except NotRunnable as e:
        return {"error": str(e)}
    clock = clock_of(threads)
    calls = [calls_per_sample(run, SAMPLE_SECONDS, clock) for run in runs]
    first = interleaved(runs, calls, 1, clock)
    rounds = int(SECONDS / sum(s * n for s, n in zip(first[0], calls, strict=True)))
    rounds = min(max(rounds, LEAST_ROUNDS), MOST_ROUNDS)
    return {"samples": first + interleaved(runs, calls, rounds - 1, clock)}
