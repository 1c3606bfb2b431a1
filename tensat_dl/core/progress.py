"""Events of long work: its phases, and how far each has come."""

from __future__ import annotations

import time


class Progress:
    """Times the phases of a run. This class is silent; a subclass may show them."""

    def __init__(self) -> None:
        self._phases: list[tuple[str, float]] = []  #: names and when they began

    def phase(self, name: str) -> None:
        """A phase has started, such as parse, explore, cost, extract or verify. A phase may start several times."""
        self._phases.append((name, time.perf_counter()))

    def seconds(self) -> dict[str, float]:
        """Wall-clock seconds in each phase until now."""
        ends = [started for _, started in self._phases[1:]] + [time.perf_counter()]
        out: dict[str, float] = {}
        for (name, started), end in zip(self._phases, ends, strict=True):
            out[name] = out.get(name, 0.0) + end - started
        return out

    def exploring(self, iteration: int, nodes: int, classes: int) -> None:
        """An iteration is complete. The e-graph has so many e-nodes and e-classes."""

    def walking(self, graphs: int, kept: int, best: float) -> None:
        """A search has looked at the substitutions in so many graphs, has kept others, and the best costs so many
        milliseconds."""

    def checking(self, done: int, count: int, rule: str, status: str) -> None:
        """``done`` of ``count`` rules are verified, ``rule`` last, with a verdict; both are empty before
        the first."""

    def extracting(self, incumbent: float, bound: float) -> None:
        """The best cost so far and the proven lower bound, in milliseconds."""

    def counting(self, done: int, total: int) -> None:
        """``done`` of ``total`` things are done."""

    def measuring(self, done: int, total: int) -> None:
        """``done`` of ``total`` measurements of this phase are done."""

    def jobs(self, done: int, running: int, failed: int, total: int) -> None:
        """``done`` of ``total`` jobs are done, ``failed`` of them in vain, and some are running."""
