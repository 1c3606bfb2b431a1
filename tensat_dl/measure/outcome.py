"""What came out of timing whole graphs against the one that they are to replace."""

from __future__ import annotations

from dataclasses import dataclass

from tensat_dl.cost.environment import Environment
from tensat_dl.measure.statistics import Interval, Latency
from tensat_dl.verify.agreement import Agreement


@dataclass(frozen=True, slots=True)
class Candidate:
    """One graph that was to be better. ``ratio`` is its latency in units of the original's in the first heat; None if
    there was none. ``reason`` says why it can't be the answer; ``differs`` if that is because it computes something
    else at the sizes that it was made for."""

    predicted_ms: float
    ratio: float | None = None
    reason: str = ""
    differs: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """Which graph is the answer, and why. Latencies are of whole graphs.

    ``best`` is the position of the candidate that was timed alone against the original; None if none came so far.
    ``ratio`` is its latency over the original's, ``after`` that latency, and ``agreement`` how its outputs compare
    with the original's. It is the answer if it is faster beyond noise; else the original
    is, for the ``reason`` given.
    """

    environment: Environment
    predicted_ms: float  #: of the original
    candidates: tuple[Candidate, ...]
    reason: str = ""
    best: int | None = None
    before: Latency | None = None
    after: Latency | None = None
    ratio: Interval | None = None
    agreement: Agreement | None = None

    @property
    def winner(self) -> int | None:
        """The position of the candidate that is the answer, or None."""
        return None if self.reason else self.best

    @property
    def mismatch(self) -> str:
        """How what was to be the answer by its price computes something else; empty if it does not."""
        first = self.candidates[0] if self.candidates else None
        return first.reason if first is not None and first.differs else ""

    @property
    def contender(self) -> Candidate | None:
        """The candidate that was timed alone against the original."""
        return None if self.best is None else self.candidates[self.best]
