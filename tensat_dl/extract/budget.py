"""The limits of work and time of an extraction, and the rest of both."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

#: The work of an extraction without a limit.
WORK = 5_000_000.0

#: Unlimited work: some 30 years. Shares of infinity, and differences of these, would be no numbers.
_UNLIMITED = 1e15


@dataclass(frozen=True, slots=True)
class ExtractLimits:
    """When to stop before optimality is proven. Raises ValueError for an invalid limit.

    ``work`` is deterministic: equal inputs stop at the same point on every machine. One unit is one to
    two microseconds of simplex iterations; the default is about ten seconds, and no limit where ``seconds`` are
    given: wall-clock time, kept softly, which makes answers depend on the machine when it binds.
    """

    seconds: float | None = None
    work: float | None = None

    def __post_init__(self) -> None:
        for name in ("seconds", "work"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise ValueError(f"a limit of {value} {name}: at least 0 is needed")

    @property
    def most_work(self) -> float:
        """Units of work."""
        if self.work is not None:
            return self.work
        return WORK if self.seconds is None else math.inf


@dataclass(slots=True)
class Budget:
    """Work and wall-clock time left. Work is counted, never timed, so that runs repeat.

    The unit is one to two microseconds of one core of a common x86-64 machine; the cost of a solver's step is
    a constant beside the call that charges it.
    """

    work: float
    deadline: float | None  #: on the clock of `time.perf_counter`
    interrupted: bool = False  #: Ctrl-C was pressed: finish with the best choice so far

    @classmethod
    def of(cls, limits: ExtractLimits) -> Budget:
        deadline = None if limits.seconds is None else time.perf_counter() + limits.seconds
        return cls(min(limits.most_work, _UNLIMITED), deadline)

    def charge(self, work: float) -> None:
        self.work -= work

    @contextmanager
    def share(self, part: float, most: float = _UNLIMITED) -> Iterator[Budget]:
        """A budget for one step: this share of the work and time left, and at most ``most`` work. The unused rest is
        given back."""
        deadline = None
        if self.deadline is not None:
            deadline = self.deadline - (1 - part) * max(self.seconds_left, 0.0)
        share = Budget(min(part * max(self.work, 0.0), most), deadline, self.interrupted)
        self.work -= share.work
        try:
            yield share
        finally:
            self.work += share.work
            self.interrupted |= share.interrupted

    @property
    def exhausted(self) -> bool:
        return self.interrupted or self.work <= 0 or self.seconds_left <= 0

    @property
    def seconds_left(self) -> float:
        return float("inf") if self.deadline is None else self.deadline - time.perf_counter()
