"""What came out of timing whole graphs against the one that they are to replace."""

from __future__ import annotations

from dataclasses import dataclass

from tensat_dl.cost.environment import Environment
from tensat_dl.measure.statistics import Interval, Latency


@dataclass(frozen=True, slots=True)
class Candidate:
    """One graph that was to be better. ``ratio`` is its latency in units of the original's in the first heat; None if
    it did not take part, for the reason given."""

    predicted_ms: float
    ratio: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Which graph is the answer, and why. Latencies are of whole graphs.

    ``winner`` is the position of a candidate that is faster beyond noise, or None: then the original is the answer, for
    the ``reason`` given. ``ratio`` is the best candidate's latency over the original's in processes that timed nothing
    else, and ``after`` that latency; None if no candidate came so far. ``max_rel`` is the largest relative difference
    of the winner's outputs from the original's.
    """

    environment: Environment
    predicted_ms: float  #: of the original
    candidates: tuple[Candidate, ...]
    winner: int | None
    reason: str
    before: Latency | None = None
    after: Latency | None = None
    ratio: Interval | None = None
    max_rel: float = 0.0
