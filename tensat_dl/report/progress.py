"""A live line for each phase of a run, on a terminal only."""

from __future__ import annotations

import sys
import time
from math import isfinite
from types import TracebackType

from rich.console import Console
from rich.progress import Progress as Display
from rich.progress import SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from tensat_dl.core.progress import Progress


class LiveProgress(Progress):
    """Shows what a run is doing. A context manager; silent if ``quiet`` or not on a terminal."""

    def __init__(self, quiet: bool = False, console: Console | None = None) -> None:
        super().__init__()
        console = console or Console(file=sys.stderr)
        self._display: Display | None = None
        if not quiet and console.is_terminal:
            self._display = Display(
                SpinnerColumn(finished_text="·"),
                TextColumn("{task.description:<8}", markup=False),
                TimeElapsedColumn(),
                TextColumn("{task.fields[detail]}", style="dim", markup=False),
                console=console,
                transient=True,
            )
        self._task: TaskID | None = None

    def __enter__(self) -> LiveProgress:
        if self._display is not None:
            self._display.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._display is not None:
            self._display.stop()

    def phase(self, name: str) -> None:
        super().phase(name)
        if self._display is not None:
            if self._task is not None:
                self._display.update(self._task, total=1, completed=1)
            self._task = self._display.add_task(name, total=None, detail="")

    def exploring(self, iteration: int, nodes: int, classes: int) -> None:
        self._detail(f"iteration {iteration}, {nodes:,} e-nodes, {classes:,} e-classes")

    def checking(self, done: int, count: int, rule: str) -> None:
        self._detail(f"rule {done} of {count}: {rule}")

    def extracting(self, incumbent: float, bound: float) -> None:
        if not isfinite(incumbent):
            self._detail(f"bound {bound:.4g} ms")
        elif not isfinite(bound) or bound <= 0 or incumbent <= 0:
            self._detail(f"best {incumbent:.4g} ms")
        else:
            gap = max(0.0, (incumbent - bound) / incumbent)
            self._detail(f"best {incumbent:.4g} ms, bound {bound:.4g} ms, gap {gap:.1%}")

    def counting(self, done: int, total: int) -> None:
        self._detail(f"{done} of {total}")

    def measuring(self, done: int, total: int) -> None:
        took = time.perf_counter() - self._phases[-1][1]
        left = f", about {took / done * (total - done):.0f} s left" if done else ""
        self._detail(f"{done:,} of {total:,}{left}")

    def _detail(self, text: str) -> None:
        if self._display is not None and self._task is not None:
            self._display.update(self._task, detail=text)
