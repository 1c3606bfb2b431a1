"""Statistics of timings: medians, spreads, and whether one thing is faster than another beyond noise.

The noise may have any distribution: heavy tails, or skew. Two graphs are timed in turn, so a disturbance of the
machine slows both, and their ratio is taken between neighbours. The median over one process is a single value,
because the memory layout of a process affects all its repetitions. Over several processes the sign test gives an
interval for the median of these values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb
from statistics import geometric_mean, median, quantiles

#: By process, by round: the seconds of each contender, the one to compare with first.
Samples = Sequence[Sequence[Sequence[float]]]

#: How sure a gain has to be.
CONFIDENCE = 0.99


@dataclass(frozen=True, slots=True)
class Interval:
    """A median, and the interval that contains it with the given confidence."""

    low: float
    mid: float
    high: float
    confidence: float


@dataclass(frozen=True, slots=True)
class Latency:
    """Measured milliseconds of one run: the median and the spread (interquartile range)."""

    median_ms: float
    spread_ms: float
    samples: int


def median_interval(values: Sequence[float]) -> Interval:
    """The narrowest interval between two of the values that contains the median of their distribution with at least
    `CONFIDENCE`; of too few values from the least to the largest, with less confidence.

    k - 1 or fewer of n values lie below the median with probability sum(C(n, i), i < k) / 2^n, whatever the
    distribution (if it is continuous); so the interval from the k-th from below to the k-th from above misses the
    median with twice that probability at most. This inverts the sign test.
    """
    ordered = sorted(values)
    n = len(ordered)
    best, outside = 0, 0.0
    missed = 0.0
    for k in range(1, (n + 1) // 2 + 1):
        missed += 2 * comb(n, k - 1) / 2**n
        if 1 - missed < CONFIDENCE:
            break
        best, outside = k, missed
    if not best:  # too few: all that they can tell
        return Interval(ordered[0], median(ordered), ordered[-1], max(0.0, 1 - 2 / 2**n))
    return Interval(ordered[best - 1], median(ordered), ordered[n - best], 1 - outside)


def ratio_to_first(samples: Samples, contender: int) -> Interval:
    """The latency of a contender in units of the first one's. Below 1 is faster."""
    return median_interval(ratios(samples, contender))


def ratios(samples: Samples, contender: int) -> list[float]:
    """The median ratio of each process."""
    return [_ratio(rounds, contender) for rounds in samples]


def rough_ratio(samples: Samples, contender: int) -> float:
    """The middle of `ratio_to_first`, for any number of processes."""
    return median(ratios(samples, contender))


def settled(samples: Samples, contender: int, most: int) -> bool:
    """Whether the decision is known before ``most`` processes have run: enough processes agree that the contender is
    faster, or too many say that it is not."""
    slower = sum(r >= 1 for r in ratios(samples, contender))
    return slower > exceptions(most) or (slower == 0 and 1 - 2 / 2 ** len(samples) >= CONFIDENCE)


def lead(samples: Samples, contender: int) -> int:
    """In how many more processes the contender is faster than it is slower."""
    return sum(1 if r < 1 else -1 for r in ratios(samples, contender))


def exceptions(count: int) -> int:
    """The number of ``count`` values that may lie above 1 if the interval is to lie below 1."""
    outside, allowed = 2 / 2**count, -1
    while outside <= 1 - CONFIDENCE:
        allowed += 1
        outside += 2 * comb(count, allowed + 1) / 2**count
    return allowed


def latency(samples: Samples, contender: int) -> Latency:
    """The latency of one contender, over all processes."""
    return summary([seconds[contender] for rounds in samples for seconds in rounds])


def summary(seconds: Sequence[float]) -> Latency:
    """Median and spread of samples."""
    low, _, high = quantiles(seconds, n=4) if len(seconds) > 1 else (seconds[0],) * 3
    return Latency(1e3 * median(seconds), 1e3 * (high - low), len(seconds))


def together(samples: Sequence[Samples]) -> Samples:
    """The geometric means of several samples, process by process and round by round: the ratio of two such means is
    the geometric mean of the ratios. Each has as many rounds as all have."""
    return [
        [
            [geometric_mean(seconds) for seconds in zip(*turn, strict=True)]
            for turn in zip(*process, strict=False)
        ]
        for process in zip(*samples, strict=True)
    ]


def _ratio(rounds: Sequence[Sequence[float]], contender: int) -> float:
    return median(seconds[contender] / seconds[0] for seconds in rounds)
