"""Measures applications in portions, and records each portion.

Several processes compile and check the implementations of a portion. Then one process times the correct ones, while
the others wait. A process that dies is replaced. Measurements are written to the profile after each portion, also
after one that is cut short, so that another run continues there. The first portion is small, so that little is lost
early.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import SimpleQueue
from time import monotonic
from typing import Any, Literal

from tensat_dl.cost.application import ProfileJob
from tensat_dl.cost.device import Environment
from tensat_dl.cost.profile import Measurement, Profile, record
from tensat_dl.gpu.this_gpu import GpuError
from tensat_dl.processes import Child, Died, Failed

#: Applications in the first portion and in the others, and processes that compile.
FIRST, PORTION = 12, 48
MOST_CHECKERS = 12

#: The exit code of a process that has answered, and has to be started again for the rest: a kernel has broken what it
#: has on the GPU.
AGAIN = 3
#: Seconds that one implementation may take, with compiling it; and the start of a process.
PATIENCE, START = 60.0, 300.0

Role = Literal["check", "time"]
#: A job, the implementations to try, None for all, and whether products of f32 may be rounded to TF32.
Request = tuple[ProfileJob, set[str] | None, bool]
#: By implementation, a worker's answer: ``failed`` with a reason, or measurements, or nothing if it is right.
Answers = dict[str, dict[str, Any]]


class WorkerError(GpuError):
    """Workers don't start. The message is their own."""


class Worker:
    """A process for one role on one device; see `trial.answers`. It is started when it is first asked."""

    def __init__(self, role: Role, device: str, tf32: bool) -> None:
        self.role, self.device, self.tf32 = role, device, tf32
        self._closed = False
        self._child: Child | None = None

    def ask(self, job: ProfileJob, names: Iterable[str] | None = None) -> Answers:
        """Answers for a job's implementations, of the given names or all. The answer of the name "" says why the job
        as a whole fails. Raises `WorkerError`.

        If the process dies, the implementation in hand is blamed, unless the process had answered for it and ended by
        itself. The other implementations are tried in another process.
        """
        answers: Answers = {}
        wanted = None if names is None else set(names)
        while True:
            child = self._child = self._child or self._start()
            order: list[str] = []
            known = len(answers)
            try:
                child.send((job, wanted, self.tf32))
                _listen(child, answers, order)
                return answers
            except Failed as e:
                self._child = None
                if self._closed:
                    return answers
                again, how = isinstance(e, Died) and e.code == AGAIN, _said(e)
            left = [n for n in order if n not in answers and (wanted is None or n in wanted)]
            if not again or len(answers) == known:  # else each new process has an answer more
                # The name "": it died over the job itself.
                answers[left.pop(0) if left else ""] = {"failed": how}
            if not left:
                return answers
            wanted = set(left)

    def _start(self) -> Child:
        child = Child("tensat_dl.gpu.trial:answers", self.role, self.device)
        try:
            child.receive(START)
        except Failed as e:
            last = e.last if isinstance(e, Died) else ""
            raise WorkerError(last or "the process that tries kernels does not start") from None
        return child

    def close(self) -> None:
        """Ends the process; `ask` returns the answers until then."""
        self._closed = True
        if self._child is not None:
            self._child.end()


def _listen(child: Child, answers: Answers, order: list[str]) -> None:
    """Takes answers until the job is done. Raises `Failed`."""
    while "done" not in (answer := child.receive(PATIENCE)):
        if "names" in answer:
            order += answer["names"]
        else:
            answers[answer.pop("name", "")] = answer


def _said(e: Failed) -> str:
    """How a process ended."""
    if not isinstance(e, Died):
        return str(e)
    if e.code < 0:
        return f"the process was ended by signal {-e.code}"
    return f"the process ended with code {e.code}"


@dataclass
class ProfileReport:
    """Counts of a run: how many applications were known before and were measured, and by signature and implementation
    the failures, where "" is the application as a whole."""

    known: int = 0
    measured: int = 0
    checking: float = 0.0  #: seconds
    timing: float = 0.0
    failed: dict[str, dict[str, str]] = field(default_factory=dict)
    unmeasured: list[str] = field(default_factory=list)  #: signatures without any working implementation
    winners: dict[str, int] = field(
        default_factory=dict
    )  #: by family of implementations, how often it was fastest


def profile(
    jobs: Sequence[ProfileJob],
    path: Path,
    device: str,
    environment: Environment,
    checkers: Sequence[Worker],
    timer: Worker,
    progress: Callable[[int, int], None] = lambda done, total: None,
    report: ProfileReport | None = None,
) -> ProfileReport:
    """Measures the applications that the profile at ``path`` lacks. Where Ctrl-C or an error ends this, measurements
    until then are in the file, and in the report, which is filled as it goes.

    Raises `ProfileError`, OSError, `WorkerError`.
    """
    empty = Profile(device, environment.hardware, environment.versions)
    known = record(path, empty) if path.exists() else empty  # which refuses another environment's file
    wanted = list({j.signature.text: j for j in jobs if known.lookup(j.signature) is None}.values())
    report = report or ProfileReport()
    report.known = len({j.signature.text for j in jobs}) - len(wanted)
    try:
        for start, portion in _portions(wanted):
            progress(start, len(wanted))
            started = monotonic()
            checked = _checked(portion, checkers)
            report.checking += (between := monotonic()) - started
            entries: dict[str, Measurement] = {}
            try:
                for i, (job, answers) in enumerate(zip(portion, checked, strict=True)):
                    progress(start + i, len(wanted))
                    found = _timed(job, answers, timer, report)
                    if found is not None:
                        entries[job.signature.text] = found
            finally:
                report.timing += monotonic() - between
                if entries:
                    record(path, replace(empty, entries=entries))
                report.measured += len(entries)
    finally:
        for worker in (*checkers, timer):
            worker.close()
    return report


def _portions(wanted: Sequence[ProfileJob]) -> Iterator[tuple[int, Sequence[ProfileJob]]]:
    """The portions that are measured before they are written down, each with the number of applications before it."""
    start, size = 0, FIRST
    while start < len(wanted):
        yield start, wanted[start : start + size]
        start, size = start + size, PORTION


def _checked(portion: Sequence[ProfileJob], checkers: Sequence[Worker]) -> list[Answers]:
    """The answers for each job of the processes that check."""
    free: SimpleQueue[Worker] = SimpleQueue()
    for checker in checkers:
        free.put(checker)

    def check(job: ProfileJob) -> Answers:
        checker = free.get()
        try:
            return checker.ask(job)
        finally:
            free.put(checker)

    with ThreadPoolExecutor(len(checkers)) as pool:
        try:
            return list(pool.map(check, portion))
        except BaseException:
            for checker in checkers:  # or the pool would wait for their answers
                checker.close()
            raise


def _timed(job: ProfileJob, checked: Answers, timer: Worker, report: ProfileReport) -> Measurement | None:
    """The measurement of the fastest implementation that computes the right thing, None if there is none."""
    names = [name for name, answer in checked.items() if "failed" not in answer]
    answers = {**checked, **(timer.ask(job, names) if names else {})}
    text = job.signature.text
    failed = {name: str(a["failed"]) for name, a in answers.items() if "failed" in a}
    if failed:
        report.failed[text] = failed
    times = {name: a for name, a in answers.items() if "median_ms" in a}
    if not times:
        report.unmeasured.append(text)
        return None
    best = min(times, key=lambda name: float(times[name]["median_ms"]))
    report.winners[best.split()[0]] = report.winners.get(best.split()[0], 0) + 1
    return measurement(times, best)


def measurement(times: Mapping[str, Mapping[str, float]], best: str) -> Measurement:
    """The profile's entry, from the times of all implementations."""
    taken = times[best]
    others = {name: float(t["median_ms"]) for name, t in times.items() if name != best}
    return Measurement(
        float(taken["median_ms"]), float(taken["spread_ms"]), int(taken["samples"]), best, others
    )


def number_of_checkers() -> int:
    """The number of processes that compile: one for each processor but one, up to a limit."""
    return max(1, min(MOST_CHECKERS, (os.cpu_count() or 2) - 1))
