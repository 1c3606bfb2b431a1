"""What is left of the limits while an extraction runs."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from tensat_dl.extract.types import Limits


@dataclass(slots=True)
class Budget:
    """Work and wall-clock time left. Work is counted, never timed, so that runs repeat.

    The unit is about a microsecond of one core of a common x86-64 machine; what each solver step is charged
    is calibrated where it is charged.
    """

    work: float
    deadline: float | None
    start: float
    interrupted: bool = field(default=False)  #: Ctrl-C was pressed: finish with what is there

    @classmethod
    def of(cls, limits: Limits) -> Budget:
        now = time.perf_counter()
        return cls(limits.work, None if limits.seconds is None else now + limits.seconds, now)

    def share(self, work: float) -> Budget:
        """A budget for one step: at most ``work``, and the same deadline. Charge what it used afterwards."""
        return Budget(min(work, self.work), self.deadline, self.start, self.interrupted)

    def charge(self, work: float) -> None:
        self.work -= work

    @property
    def exhausted(self) -> bool:
        return self.interrupted or self.work <= 0 or self.seconds_left <= 0

    @property
    def seconds_left(self) -> float:
        return float("inf") if self.deadline is None else self.deadline - time.perf_counter()

    @property
    def elapsed(self) -> float:
        return time.perf_counter() - self.start
