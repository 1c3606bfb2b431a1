"""Output on terminals: wrapped text, and a live line for each phase of a run."""

from __future__ import annotations

import sys
import time
from importlib import import_module
from math import isfinite
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

from tensat_dl.core.progress import Progress

if TYPE_CHECKING:  # imported where something is shown
    from rich.console import Console
    from rich.progress import Progress as Display
    from rich.progress import TaskID
    from rich.text import Text

#: Seconds between two writings of a line.
INTERVAL = 0.1


def print_wrapped(text: Text, indent: str | Text, width: int, console: Console) -> None:
    """Prints a text in lines of at most ``width`` columns. The first begins with ``indent``, the others with as many
    blanks."""
    from rich.text import Text

    for line in text.wrap(console, width):
        line.rstrip()
        console.print(Text.assemble(indent, line), soft_wrap=True)
        indent = " " * len(indent)


class Told(Progress):
    """Says in words how far each phase of a run has come: ``detail`` shows that. A context manager."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends the last phase."""

    def exploring(self, iteration: int, nodes: int, classes: int) -> None:
        self.detail(f"iteration {iteration}, {nodes:,} e-nodes, {classes:,} e-classes")

    def walking(self, graphs: int, kept: int, best: float) -> None:
        from tensat_dl.report.facts import latency

        self.detail(f"graph {graphs:,}, {kept:,} kept, best {latency(best)}")

    def checking(self, done: int, count: int, rule: str, status: str) -> None:
        last = f": {rule} {status}" if rule else ""
        self.detail(f"rule {done:,} of {count:,}{last}")

    def extracting(self, incumbent: float, bound: float) -> None:
        from tensat_dl.report.facts import latency  # most commands extract nothing, and have not loaded costs

        if not isfinite(incumbent):
            self.detail(f"bound {latency(bound)}")
        elif not isfinite(bound) or bound <= 0 or incumbent <= 0:
            self.detail(f"best {latency(incumbent)}")
        else:
            gap = max(0.0, (incumbent - bound) / incumbent)
            self.detail(f"best {latency(incumbent, bound)}, bound {latency(bound)}, gap {gap:.1%}")

    def counting(self, done: int, total: int) -> None:
        self.detail(f"{done} of {total}")

    def measuring(self, done: int, total: int) -> None:
        took = time.perf_counter() - self._phases[-1][1]
        left = f", about {took / done * (total - done):.0f} s left" if done else ""
        self.detail(f"{done:,} of {total:,}{left}")

    def jobs(self, done: int, running: int, failed: int, total: int) -> None:
        from tensat_dl.report.facts import seconds

        took = time.perf_counter() - self._phases[-1][1]
        left = f", about {seconds(took / done * (total - done))} left" if 0 < done < total else ""
        lost = f", {failed:,} failed" if failed else ""
        self.detail(f"{done:,} of {total:,} done, {running:,} running{lost}{left}")

    def detail(self, text: str) -> None:
        """Shows how far the phase has come."""


class LiveProgress(Told):
    """Shows the phases of a run on live lines; silent if ``quiet`` or not on a terminal."""

    def __init__(self, quiet: bool = False, console: Console | None = None) -> None:
        super().__init__()
        self._display: Display | None = None
        self._task: TaskID | None = None
        self._quiet = quiet
        if quiet or (console is None and not sys.stderr.isatty()):
            return
        from rich.console import Console
        from rich.progress import Progress as Display
        from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

        console = console or Console(file=sys.stderr)
        if console.is_terminal:
            self._display = Display(
                SpinnerColumn(finished_text="·"),
                TextColumn("{task.description:<8}", markup=False),
                TimeElapsedColumn(),
                TextColumn("{task.fields[detail]}", style="dim", markup=False),
                console=console,
                transient=True,
            )

    def __enter__(self) -> Self:
        if self._display is not None:
            try:
                self._display.start()
            except BaseException:  # Ctrl-C, after it has hidden the cursor
                self._display.console.show_cursor()
                raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._display is not None:
            self._display.stop()

    def phase(self, name: str) -> None:
        going_on = bool(self._phases) and self._phases[-1][0] == name
        super().phase(name)
        if self._display is None or going_on:
            return
        if self._task is not None:
            self._display.update(self._task, total=1, completed=1)
        self._task = self._display.add_task(name, total=None, detail="")

    def exploring(self, iteration: int, nodes: int, classes: int) -> None:
        super().exploring(iteration, nodes, classes)
        if not self._quiet:
            import_module("tensat_dl.report.text")  # what shows the result, while the worker explores

    def checking(self, done: int, count: int, rule: str, status: str) -> None:
        if status in ("refuted", "vacuous") and self._display is not None:
            self._display.console.print(f"  {rule}  {status}", markup=False)  # stays on the screen
        super().checking(done, count, rule, status)

    def detail(self, text: str) -> None:
        if self._display is not None and self._task is not None:
            self._display.update(self._task, detail=text)


class PlainProgress(Told):
    """Shows how far a run has come on one line, which is written again and again: for notebooks and other places that
    are no terminals. It is blank in the end."""

    def __init__(self, file: TextIO) -> None:
        super().__init__()
        self._file = file
        self._written = 0.0  #: when
        self._width = 0

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._write("")
        self._write("")  # the first goes back behind the blanks

    def phase(self, name: str) -> None:
        super().phase(name)
        self._written = 0.0
        self.detail("")
        self._written = 0.0  # the first detail is shown at once, too

    def detail(self, text: str) -> None:
        now = time.perf_counter()
        if now - self._written >= INTERVAL:
            from tensat_dl.report.facts import seconds

            self._written = now
            name, _ = self._phases[-1]
            self._write(f"{seconds(now - self._phases[0][1]):<7} {name}  {text}".rstrip())

    def _write(self, line: str) -> None:
        print(f"\r{line:<{self._width}}", end="", file=self._file, flush=True)
        self._width = len(line)


def shown_progress() -> Told:
    """Progress on standard error, whatever that is."""
    from rich.console import Console

    console = Console(file=sys.stderr)
    plain = console.is_jupyter or not console.is_terminal
    return PlainProgress(sys.stderr) if plain else LiveProgress(console=console)
