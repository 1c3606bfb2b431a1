"""The work and time that an extraction has left."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from tensat_dl.extract.types import ExtractLimits

#: Unlimited work: some 30 years. Shares of infinity, and differences of these, would be no numbers.
_UNLIMITED = 1e15


@dataclass(slots=True)
class Budget:
    """Work and wall-clock time left. Work is counted, never timed, so that runs repeat.

    The unit is about a microsecond of one core of a common x86-64 machine; what a solver's step costs is a
    constant beside the call that charges it.
    """

    work: float
    deadline: float | None  #: on the clock of `time.perf_counter`
    interrupted: bool = field(default=False)  #: Ctrl-C was pressed: finish with the best choice so far

    @classmethod
    def of(cls, limits: ExtractLimits) -> Budget:
        return cls(
            min(limits.most_work, _UNLIMITED),
            None if limits.seconds is None else time.perf_counter() + limits.seconds,
        )

    def charge(self, work: float) -> None:
        self.work -= work

    def take(self, share: float, most: float = _UNLIMITED) -> Budget:
        """A budget for one step, with this share of work and time, and at ``most`` so much work; `give_back` returns
        the rest."""
        deadline = None
        if self.deadline is not None:
            deadline = self.deadline - (1 - share) * max(self.seconds_left, 0.0)
        part = Budget(min(share * max(self.work, 0.0), most), deadline, self.interrupted)
        self.work -= part.work
        return part

    def give_back(self, part: Budget) -> None:
        self.work += part.work
        self.interrupted |= part.interrupted

    @property
    def exhausted(self) -> bool:
        return self.interrupted or self.work <= 0 or self.seconds_left <= 0

    @property
    def seconds_left(self) -> float:
        return float("inf") if self.deadline is None else self.deadline - time.perf_counter()
