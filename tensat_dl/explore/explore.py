"""`explore`: runs the worker and keeps its last complete snapshot, whatever happens to it."""

from __future__ import annotations

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

from tensat_dl.explore.types import Exploration, Job, Limits, RuleAlarm, Step
from tensat_dl.ir.graph import Graph
from tensat_dl.ir.rule import RewriteRule
from tensat_dl.ops.table import OpTable
from tensat_dl.result import Iteration, Stop

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


def explore(
    graph: Graph,
    ops: OpTable,
    rules: Sequence[RewriteRule],
    limits: Limits,
    progress: Progress | None = None,
) -> Exploration:
    """Grows the e-graph of a graph with rules until saturation or a limit.

    Ctrl-C, the time and memory limits and the worker's death all give the last complete iteration, with the
    reason in ``stop`` and ``notes``. Raises `TsrError` for a rule that can't be compiled, `RuleAlarm` for an
    unsound one, `ExplorationError` if not even the input program could be loaded.
    """
    last: Step | None = None  # one e-graph is kept, not that of every iteration
    iterations: list[Iteration] = []
    notes: list[str] = []
    stop: Stop | None = None
    with _worker(Job(graph, tuple(ops.values()), tuple(rules), limits)) as (process, errors):
        messages = _Messages(process, limits)
        try:
            for message in messages:
                if isinstance(message, Exception):
                    raise message
                if last is not None:  # the first step is the input program
                    iterations.append(message.iteration)
                last = message
                if progress is not None:
                    progress(len(iterations), message.iteration.nodes, message.iteration.classes)
        except KeyboardInterrupt:
            if last is None:
                raise
            stop = "interrupted"
            notes.append("interrupted: the last complete iteration is used")
        if last is None:
            raise ExplorationError(_nothing(messages.ended, process, errors))
        if messages.ended is not None:
            stop = messages.ended
            notes.append(f"the {stop} limit bound: the last complete iteration is used")
        stop = stop or last.stop
        if stop is None:  # the engine gave up by itself; on Linux that is nearly always memory
            stop = "memory"
            why = _last_line(errors) or "most likely out of memory"
            notes.append(f"the engine died, {why}: the last complete iteration is used")
    if limits.cycles != "none":
        notes.append(f"{last.iteration.filtered} e-nodes on the filter list, {limits.cycles} cycle filtering")
    return Exploration(last.egraph, tuple(iterations), stop, (*last.notes, *notes))


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
        [sys.executable, "-m", "tensat_dl.explore.worker"],
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
    """The worker's messages as they come. ``ended`` is the limit for which the worker was ended, if any."""

    def __init__(self, process: subprocess.Popen[bytes], limits: Limits) -> None:
        self.process = process
        self.limits = limits
        self.ended: Stop | None = None

    def __iter__(self) -> Iterator[Step | Exception]:
        assert self.process.stdout is not None
        pipe = self.process.stdout.fileno()
        # Time counts from the loaded input program on, not from the start of Python.
        loaded = False
        seconds = self.limits.seconds
        deadline = None if seconds is None else time.monotonic() + seconds + START
        buffer = bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            while True:
                if selector.select(TICK):
                    data = os.read(pipe, 1 << 20)
                    if not data:
                        return
                    buffer += data
                    while len(buffer) >= 8 and len(buffer) >= 8 + int.from_bytes(buffer[:8], "little"):
                        size = int.from_bytes(buffer[:8], "little")
                        message: Step | Exception = pickle.loads(bytes(buffer[8 : 8 + size]))
                        del buffer[: 8 + size]
                        yield message
                        if not loaded and seconds is not None:
                            deadline = time.monotonic() + seconds + GRACE
                        loaded = True
                if deadline is not None and time.monotonic() > deadline:
                    self.ended = "time"
                    return
                if self.limits.memory is not None and _resident(self.process.pid) > self.limits.memory:
                    self.ended = "memory"
                    return


def _resident(pid: int) -> int:
    """Resident memory of a process in bytes; 0 where the system does not tell."""
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0


__all__ = ["Exploration", "ExplorationError", "Limits", "RuleAlarm", "explore"]
