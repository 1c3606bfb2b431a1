"""`exploring`: runs the worker and keeps its last complete snapshot, even if the worker dies."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

from tensat_dl.core.diagnostics import TsrError
from tensat_dl.core.graph import Graph
from tensat_dl.core.rule import RewriteRule
from tensat_dl.engine import WORKER
from tensat_dl.engine.exploration import (
    NARROWING,
    REFINABLE,
    AskHistory,
    Estimate,
    Exploration,
    ExploredIteration,
    Feedback,
    Groups,
    History,
    Iteration,
    Limits,
    RuleAlarm,
    Start,
    Stop,
)
from tensat_dl.ops.table import OpTable
from tensat_dl.processes import Child, Died, Outgrew, Overran, begun

#: Seconds that the worker may go on after the time limit before it is ended.
GRACE = 1.0
#: Seconds that the worker may take, beyond the time limit, to start and to load the input program.
START = 30.0

#: Called after every iteration with its number, e-nodes and e-classes.
Progress = Callable[[int, int, int], None]
#: A message of the worker.
Message = ExploredIteration | Groups | History | TsrError | RuleAlarm | None


class ExplorationError(Exception):
    """The worker ended before it had a single snapshot: at the limit ``stop``, or by itself, most likely for
    memory."""

    def __init__(self, message: str, stop: Stop) -> None:
        super().__init__(message)
        self.stop = stop


@contextmanager
def exploring(
    graph: Graph,
    ops: OpTable,
    rules: Sequence[RewriteRule],
    limits: Limits,
    progress: Progress | None = None,
    estimate: Estimate | None = None,
    first: Start | None = None,
) -> Iterator[Exploring]:
    """An exploration of a graph with rules; its worker is gone when the context ends.

    ``estimate`` prices operators, to choose what is tried. If it is known which start comes ``first``, the worker
    begins with it at once.
    """
    job = (graph, tuple(ops.values()), tuple(rules), limits, estimate)
    with begun(WORKER, *job) as worker:
        whole = Start(graph, frozenset(r.name for r in rules), limits)
        if first is not None:
            worker.send(first)
        yield Exploring(worker, whole, progress, first)


class Exploring:
    """A worker that grows an e-graph: first from ``whole``, its graph with all rules, then from others."""

    def __init__(
        self, worker: Child, whole: Start, progress: Progress | None, first: Start | None = None
    ) -> None:
        self._worker = worker
        self._first = first  #: is sent already
        self._whole = whole
        self._progress = progress
        self._messages = _Messages(worker, whole.limits)
        self._iterations: list[Iteration] = []
        self._start: Start | None = None  #: that the e-graph is of
        self._stop: Stop | None = None
        self._cycles = whole.limits.cycles
        self.latest: Exploration | None = None  #: the e-graph that there was last
        self._grouping = False  #: whether its groups are still to come
        self.lost = ""  #: why `refine` found nothing, if not because there is nothing to merge

    def run(self, start: Start | None = None) -> Exploration:
        """Grows the e-graph of a start until saturation or a limit. All starts share the limit in seconds.

        If the last start saturated and had less, its e-graph grows further; if nothing is added, the result has the
        same e-graph.

        Ctrl-C, the time and memory limits and the worker's death all give the last complete iteration, with the
        reason in ``stop`` and ``notes``. Raises `TsrError` for a rule that can't be compiled, `RuleAlarm` for an
        unsound one, `ExplorationError` if not even the input program could be loaded.
        """
        self.wait_for_groups()
        notes: list[str] = []
        stop: Stop | None = None
        start = start or self._whole
        last: ExploredIteration | None = self.latest if self.goes_on(start) else None
        if last is None:
            self._iterations, self.latest = [], None
        self._start, self._stop, self.lost = start, None, ""
        limits = replace(start.limits, seconds=self._messages.seconds_left)
        asked = replace(start, limits=limits, further=last is not None)
        if self._first is None:
            self._worker.send(asked)
        assert self._first in (None, asked), "another start was to come first"
        self._first = None
        try:
            while isinstance(step := self._messages.next(), ExploredIteration):
                last = step
                self._seen(step)
                if step.stop is not None:
                    break
        except KeyboardInterrupt:
            if last is None:
                raise
            stop = "interrupted"
            notes.append("interrupted: the last complete iteration is used")
        ended = self._messages.ended
        if last is None:
            raise ExplorationError(self._messages.nothing(), ended or "memory")
        if ended is not None:
            stop = ended
            notes.append(f"the {stop} limit was reached: the last complete iteration is used")
        elif self._messages.death is None:
            stop = stop or last.stop
        if stop is None:  # the engine gave up by itself; on Linux that is nearly always memory
            stop = "memory"
            notes.append(f"{self._messages.died()}: the last complete iteration is used")
        self._stop = stop
        if self._cycles != "none":
            notes.append(
                f"{last.iteration.filtered:,} e-nodes on the filter list, {self._cycles} cycle filtering"
            )
        return self._exploration(last, notes)

    def dismiss(self) -> None:
        """Ends the worker: nothing is to be explored any more."""
        self._worker.dismiss()

    def goes_on(self, start: Start) -> bool:
        """Whether this start would go on from the e-graph that there is."""
        alive = self._messages.ended is None and self._messages.death is None
        saturated = alive and self._stop == "saturated" and self._cycles == "none"
        return saturated and self._start is not None and start.goes_beyond(self._start)

    def refine(self, feedback: Feedback) -> Exploration | None:
        """The e-graph after merging members of groups by an extraction's feedback; see `Explorer.refine`.

        None if there is nothing to merge, if the time or memory limit binds, if Ctrl-C has stopped exploration, if it
        filters cycles, or if the worker is gone. ``lost`` names a limit that binds now, or the worker's end. Raises
        KeyboardInterrupt.
        """
        if self._stop not in REFINABLE or self._cycles != "none":
            return None
        step = self._ask(feedback)
        if isinstance(step, ExploredIteration):
            self._seen(step)
            return self._exploration(step, [])
        if self._messages.ended is not None:
            self.lost = (
                f"the {self._messages.ended} limit was reached while groups were merged that the result uses"
            )
        elif self._messages.death is not None:
            self.lost = f"{self._messages.died()}, while groups were merged that the result uses"
        return None

    def grouped(self, exploration: Exploration) -> Exploration:
        """The latest exploration with its groups, which the worker looks for while an answer is extracted; as it is
        if there are none, or if the worker is gone. Raises KeyboardInterrupt."""
        self.wait_for_groups()
        assert self.latest is not None
        return replace(exploration, groups=self.latest.groups)

    def history(self) -> History:
        """The applications that led to the e-graph; empty if the worker is gone or was interrupted."""
        answer = None if self._stop == "interrupted" else self._ask(AskHistory())
        return answer if isinstance(answer, History) else History()

    def _ask(self, request: Feedback | AskHistory) -> ExploredIteration | History | None:
        """The worker's answer; None if it has none, or is gone."""
        self.wait_for_groups()
        self._worker.send(request)
        found = self._messages.next()
        assert not isinstance(found, Groups), "they were waited for"
        return found

    def wait_for_groups(self) -> None:
        """Returns once the worker has nothing to do. Raises KeyboardInterrupt."""
        if self._grouping:
            self._grouping = False
            found = self._messages.next()
            assert self.latest is not None
            if isinstance(found, Groups):
                self.latest = replace(self.latest, groups=found)

    def _seen(self, step: ExploredIteration) -> None:
        self._grouping = step.grouping
        self._iterations.append(step.iteration)
        if self._progress is not None:
            self._progress(len(self._iterations) - 1, step.iteration.nodes, step.iteration.classes)

    def _exploration(self, last: ExploredIteration, notes: Sequence[str]) -> Exploration:
        assert self._stop is not None
        self.latest = Exploration(
            last.iteration,
            last.egraph,
            self._stop,
            (*last.notes, *notes),
            last.handles,
            last.early,
            last.grouping,
            tuple(self._iterations[1:]),
            last.groups if isinstance(last, Exploration) else Groups(),
        )
        return self.latest


class _Messages:
    """The worker's messages. ``ended`` is the limit for which the worker was ended, if any; ``death`` is how it ended
    by itself."""

    def __init__(self, worker: Child, limits: Limits) -> None:
        self.worker = worker
        self.limits = limits
        self.ended: Stop | None = None
        self.death: Died | None = None
        # Time counts from the loaded input program on, not from the start of Python; and not while an answer is
        # extracted, between one phase of exploration and the next.
        self._left = None if limits.seconds is None else limits.seconds + START
        self._loaded = False

    @property
    def seconds_left(self) -> float | None:
        """Seconds that exploration may still take."""
        if self.limits.seconds is None or not self._loaded:
            return self.limits.seconds
        assert self._left is not None
        return max(0.0, self._left - GRACE)

    def next(self) -> ExploredIteration | Groups | History | None:
        """The next message; None if the worker has nothing to say, is gone, or was ended. Raises its errors."""
        started = time.monotonic()
        message = self._receive(self._left)
        if self.limits.seconds is not None and not self._loaded:
            self._left = self.limits.seconds + GRACE
        elif self._left is not None:
            self._left -= time.monotonic() - started
        self._loaded = True
        if isinstance(message, RuleAlarm):
            raise self._blamed(message)
        if isinstance(message, Exception):
            raise message
        return message

    def _blamed(self, alarm: RuleAlarm) -> RuleAlarm:
        """The alarm with the fewest rules to blame, which the worker looks for; or as it is, after Ctrl-C too."""
        found: Message = None
        with suppress(KeyboardInterrupt):
            found = self._receive(
                NARROWING + (math.inf if self.limits.seconds is None else self.limits.seconds) + GRACE
            )
        return found if isinstance(found, RuleAlarm) else alarm

    def _receive(self, seconds: float | None) -> Message:
        """The next message within so many seconds; None if none will come."""
        try:
            message: Message = self.worker.receive(seconds, self.limits.memory)
            return message
        except Overran:
            self.ended = "time"
        except Outgrew:
            self.ended = "memory"
        except Died as e:
            self.death = e
        return None

    def died(self) -> str:
        """How the worker ended by itself; on Linux nearly always for memory."""
        last = "" if self.death is None else self.death.last
        return f"the engine died, {last or 'most likely out of memory'}"

    def nothing(self) -> str:
        """Why there is not even the e-graph of the input program."""
        if self.ended is not None:
            return f"the {self.ended} limit was reached before the input graph was loaded"
        assert self.death is not None
        if self.death.code < 0:
            name = signal.Signals(-self.death.code).name
            return (
                f"the e-graph engine was ended by {name} while it loaded the graph, most likely out of memory"
            )
        return f"the e-graph engine failed: {self.death.last or 'no message'}"
