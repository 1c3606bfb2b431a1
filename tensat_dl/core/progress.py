"""What long work tells of itself: its phases, and how far it has come in each."""

from __future__ import annotations

import time


class Progress:
    """Times the phases of a run. Whoever shows them is a subclass; this one is silent."""

    def __init__(self) -> None:
        self._phases: list[tuple[str, float]] = []  #: names and when they began

    def phase(self, name: str) -> None:
        """The next phase has started, such as parse, explore, cost, extract or verify. Phases may come again."""
        self._phases.append((name, time.perf_counter()))

    def seconds(self) -> dict[str, float]:
        """Wall-clock seconds in each phase until now."""
        ends = [started for _, started in self._phases[1:]] + [time.perf_counter()]
        out: dict[str, float] = {}
        for (name, started), end in zip(self._phases, ends, strict=True):
            out[name] = out.get(name, 0.0) + end - started
        return out

    def exploring(self, iteration: int, nodes: int, classes: int) -> None:
        """An iteration is complete, and the e-graph has these sizes."""

    def checking(self, done: int, count: int, rule: str) -> None:
        """So many rules of ``count`` are verified; ``rule`` is the last of them."""

    def extracting(self, incumbent: float, bound: float) -> None:
        """The best cost so far and the proven lower bound, in milliseconds."""

    def counting(self, done: int, total: int) -> None:
        """So many of so many things are done."""

    def measuring(self, done: int, total: int) -> None:
        """So many of so many measurements of this phase are done."""
