"""`exploring`: runs the worker and keeps its last complete snapshot, whatever happens to it."""

from __future__ import annotations

import math
import os
import pickle
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from tensat_dl.core.graph import Graph
from tensat_dl.core.rule import RewriteRule
from tensat_dl.engine.iterations import Iteration, Stop
from tensat_dl.engine.types import (
    NARROWING,
    AskHistory,
    Estimate,
    Exploration,
    ExploredIteration,
    Feedback,
    History,
    Job,
    Limits,
    RuleAlarm,
)
from tensat_dl.ops.table import OpTable

#: Seconds that the worker may go on after the time limit before it is ended.
GRACE = 1.0
#: Seconds that the worker may take, beyond the time limit, to start and to load the input program.
START = 30.0
#: How often the worker's memory is looked at, in seconds.
TICK = 0.1

#: Called after every iteration with its number, e-nodes and e-classes.
Progress = Callable[[int, int, int], None]


class ExplorationError(Exception):
    """The worker ended before it had a single snapshot."""


@contextmanager
def exploring(
    graph: Graph,
    ops: OpTable,
    rules: Sequence[RewriteRule],
    limits: Limits,
    progress: Progress | None = None,
    estimate: Estimate | None = None,
) -> Iterator[Exploring]:
    """An exploration of a graph with rules; its worker is gone when the context ends.

    ``estimate`` prices operators, to choose what is tried.
    """
    job = Job(graph, tuple(ops.values()), tuple(rules), limits, estimate)
    with _worker(job) as (process, errors):
        yield Exploring(process, errors, limits, progress)


class Exploring:
    """A worker that grows an e-graph."""

    def __init__(
        self, process: subprocess.Popen[bytes], errors: Any, limits: Limits, progress: Progress | None
    ) -> None:
        self._process = process
        self._errors = errors
        self._progress = progress
        self._messages = _Messages(process, limits)
        self._iterations: list[Iteration] = []
        self._stop: Stop | None = None
        self._cycles = limits.cycles
        self.latest: Exploration | None = None  #: the e-graph that there was last
        self.lost = ""  #: why `refine` found nothing, if not because there is nothing to merge

    def run(self) -> Exploration:
        """Grows the e-graph until saturation or a limit.

        Ctrl-C, the time and memory limits and the worker's death all give the last complete iteration, with the
        reason in ``stop`` and ``notes``. Raises `TsrError` for a rule that can't be compiled, `RuleAlarm` for an
        unsound one, `ExplorationError` if not even the input program could be loaded.
        """
        last: ExploredIteration | None = None
        notes: list[str] = []
        stop: Stop | None = None
        try:
            while last is None or last.stop is None:
                step = self._messages.next()
                if not isinstance(step, ExploredIteration):
                    break
                last = self._seen(step)
        except KeyboardInterrupt:
            if last is None:
                raise
            stop = "interrupted"
            notes.append("interrupted: the last complete iteration is used")
        ended = self._messages.ended
        if last is None:
            raise ExplorationError(_nothing(ended, self._process, self._errors))
        if ended is not None:
            stop = ended
            notes.append(f"the {stop} limit bound: the last complete iteration is used")
        stop = stop or last.stop
        if stop is None:  # the engine gave up by itself; on Linux that is nearly always memory
            stop = "memory"
            why = _last_line(self._errors) or "most likely out of memory"
            notes.append(f"the engine died, {why}: the last complete iteration is used")
        self._stop = stop
        if self._cycles != "none":
            notes.append(
                f"{last.iteration.filtered} e-nodes on the filter list, {self._cycles} cycle filtering"
            )
        return self._exploration(last, notes)

    def refine(self, feedback: Feedback) -> Exploration | None:
        """The e-graph with those groups merged that an extraction makes worth it; see `Explorer.refine`.

        None if there is nothing to merge, if exploration was stopped by the time or memory limit, now or before, or
        by Ctrl-C before, and if it filters cycles: an answer says nothing of those. None, too, if the worker is
        gone. ``lost`` names a limit that binds now, or the worker's end. Raises KeyboardInterrupt.
        """
        if self._stop not in ("saturated", "iterations", "nodes") or self._cycles != "none":
            return None
        step = self._ask(feedback)
        if isinstance(step, ExploredIteration):
            return self._exploration(self._seen(step), [])
        if self._messages.ended is not None:
            self.lost = (
                f"the {self._messages.ended} limit bound while groups were merged that the result uses"
            )
        elif self._messages.closed:
            why = _last_line(self._errors) or "most likely out of memory"
            self.lost = f"the engine died, {why}, while groups were merged that the result uses"
        return None

    def history(self) -> History:
        """What led to the e-graph; nothing is known if the worker is gone or was interrupted."""
        answer = None if self._stop == "interrupted" else self._ask(AskHistory())
        return answer if isinstance(answer, History) else History()

    def _ask(self, request: Feedback | AskHistory) -> ExploredIteration | History | None:
        """The worker's answer; None if it has none, or is gone."""
        try:
            assert self._process.stdin is not None
            pickle.dump(request, self._process.stdin)
            self._process.stdin.flush()
            return self._messages.next()
        except BrokenPipeError:
            self._messages.closed = True
            return None

    def _seen(self, step: ExploredIteration) -> ExploredIteration:
        if self._progress is not None:
            self._progress(len(self._iterations), step.iteration.nodes, step.iteration.classes)
        self._iterations.append(step.iteration)
        return step

    def _exploration(self, last: ExploredIteration, notes: Sequence[str]) -> Exploration:
        assert self._stop is not None
        iterations = tuple(self._iterations[1:])
        self.latest = Exploration(
            last.egraph, iterations, self._stop, (*last.notes, *notes), last.handles, last.early
        )
        return self.latest


def _nothing(ended: Stop | None, process: subprocess.Popen[bytes], errors: Any) -> str:
    """Why there is not even the e-graph of the input program."""
    if ended is not None:
        return f"the {ended} limit was reached before the input graph was loaded"
    code = process.wait()
    if code < 0:
        name = signal.Signals(-code).name
        return f"the e-graph engine was ended by {name} while it loaded the graph, most likely out of memory"
    return f"the e-graph engine failed: {_last_line(errors) or 'no message'}"


def _last_line(errors: Any) -> str:
    """What the worker said last on standard error."""
    errors.seek(0)
    lines: list[str] = errors.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""


@contextmanager
def _worker(job: Job) -> Iterator[tuple[subprocess.Popen[bytes], Any]]:
    """A worker that has its job; it is gone when the context ends."""
    errors = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as the worker)
    process = subprocess.Popen(
        [sys.executable, "-m", "tensat_dl.engine.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        start_new_session=True,  # Ctrl-C is for this process; it decides what becomes of the worker
        env={**os.environ, "RUST_BACKTRACE": "0"},
    )
    try:
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # if it died already, its messages say why
            pickle.dump(job, process.stdin, protocol=pickle.HIGHEST_PROTOCOL)
            process.stdin.flush()
        yield process, errors
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()
        errors.close()


class _Messages:
    """The worker's messages. ``ended`` is the limit for which the worker was ended, if any; ``closed`` is whether
    it closed its end by itself."""

    def __init__(self, process: subprocess.Popen[bytes], limits: Limits) -> None:
        assert process.stdout is not None
        self.process = process
        self.limits = limits
        self.ended: Stop | None = None
        self.closed = False
        self._pipe = process.stdout.fileno()
        self._buffer = bytearray()
        # Time counts from the loaded input program on, not from the start of Python; and not while an answer is
        # extracted, between one phase of exploration and the next.
        self._left = None if limits.seconds is None else limits.seconds + START
        self._loaded = False

    def next(self) -> ExploredIteration | History | None:
        """The next message; None if the worker has nothing to say, is gone, or was ended. Raises what it raised."""
        started = time.monotonic()
        if not self._receive(None if self._left is None else started + self._left):
            return None
        if self.limits.seconds is not None and not self._loaded:
            self._left = self.limits.seconds + GRACE
        elif self._left is not None:
            self._left -= time.monotonic() - started
        self._loaded = True
        size = 8 + int.from_bytes(self._buffer[:8], "little")
        message: ExploredIteration | History | Exception | None = pickle.loads(bytes(self._buffer[8:size]))
        del self._buffer[:size]
        if isinstance(message, RuleAlarm):
            raise self._blamed(message)
        if isinstance(message, Exception):
            raise message
        return message

    def _blamed(self, alarm: RuleAlarm) -> RuleAlarm:
        """The alarm with the fewest rules to blame, which the worker looks for; or as it is, after Ctrl-C too."""
        with suppress(KeyboardInterrupt):
            longest = NARROWING + (self.limits.seconds or math.inf) + GRACE
            if self._receive(time.monotonic() + longest):
                found = pickle.loads(bytes(self._buffer[8:]))
                assert isinstance(found, RuleAlarm)
                return found
        return alarm

    def _receive(self, deadline: float | None) -> bool:
        """Waits for a whole message; False if none will come."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._pipe, selectors.EVENT_READ)
            while not self._complete():
                if selector.select(TICK):
                    data = os.read(self._pipe, 1 << 20)
                    if not data:
                        self.closed = True
                        return False
                    self._buffer += data
                elif self._over(deadline):
                    return False
        return True

    def _complete(self) -> bool:
        """Whether the buffer begins with a whole message."""
        return len(self._buffer) >= 8 and len(self._buffer) >= 8 + int.from_bytes(self._buffer[:8], "little")

    def _over(self, deadline: float | None) -> bool:
        """Whether a limit is reached; it is in ``ended`` then."""
        if deadline is not None and time.monotonic() > deadline:
            self.ended = "time"
        elif self.limits.memory is not None and _resident(self.process.pid) > self.limits.memory:
            self.ended = "memory"
        return self.ended is not None


def _resident(pid: int) -> int:
    """Resident memory of a process in bytes; 0 where the system does not tell."""
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0


__all__ = ["Exploration", "ExplorationError", "Exploring", "Limits", "RuleAlarm", "exploring"]
