"""Measures applications in portions, and records each portion.

A portion is a job for one GPU. There, several processes compile and check the implementations; then one process times
the correct ones, while the others wait. A process that dies is replaced. A portion is written to the profile when it
is done, so that another run continues there; the first one is small, and says in which environment all others are to
be measured.
"""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import SimpleQueue
from time import monotonic
from typing import Any, Literal

from tensat_dl.cost.application import OpApplication
from tensat_dl.cost.device import Environment
from tensat_dl.cost.profile import Measurement, Profile, read_profile, record
from tensat_dl.gpu.this_gpu import GpuError, this_gpu
from tensat_dl.jobs.identity import differences
from tensat_dl.jobs.job import Job, UnfitWorker, Work
from tensat_dl.jobs.run import Where, done
from tensat_dl.processes import Child, Died, Failed, cores

#: Applications in the first portion and in the others, and processes that compile.
FIRST, PORTION = 12, 24
MOST_CHECKERS = 12

#: The exit code of a process that has answered, and has to be started again for the rest: a kernel has broken what it
#: has on the GPU.
AGAIN = 3
#: Seconds that one implementation may take, with compiling it; and the start of a process.
PATIENCE, START = 60.0, 300.0

Role = Literal["check", "time"]
#: An application, the implementations to try, None for all, and whether products of f32 may be rounded to TF32.
Request = tuple[OpApplication, set[str] | None, bool]
#: By implementation, a worker's answer: ``failed`` with a reason, or measurements, or nothing if it is right.
Answers = dict[str, dict[str, Any]]


class WorkerError(GpuError):
    """Workers don't start. The message is their own."""


class Worker:
    """A process for one role on one device; see `trial.answers`. It is started when it is first asked."""

    def __init__(self, role: Role, device: str, tf32: bool) -> None:
        self.role, self.device, self.tf32 = role, device, tf32
        self._child: Child | None = None

    def ask(self, application: OpApplication, names: Iterable[str] | None = None) -> Answers:
        """Answers for an application's implementations, of the given names or all. The answer of the name "" says why
        none of them can be tried. Raises `WorkerError`.

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
                child.send((application, wanted, self.tf32))
                _listen(child, answers, order)
                return answers
            except Failed as e:
                child.__exit__()
                self._child = None
                again, how = isinstance(e, Died) and e.code == AGAIN, _said(e)
            left = [n for n in order if n not in answers and (wanted is None or n in wanted)]
            if not again or len(answers) == known:  # else each new process has an answer more
                # The name "": it died over the application itself.
                answers[left.pop(0) if left else ""] = {"failed": how}
            if not left:
                return answers
            wanted = set(left)

    def _start(self) -> Child:
        child = Child("tensat_dl.gpu.trial:answers", self.role, self.device)
        try:
            child.receive(START)
        except Failed as e:
            child.__exit__()
            last = e.last if isinstance(e, Died) else ""
            raise WorkerError(last or "the process that tries kernels does not start") from None
        return child


def _listen(child: Child, answers: Answers, order: list[str]) -> None:
    """Takes answers until the application is done. Raises `Failed`."""
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
    lost: list[str] = field(default_factory=list)  #: portions that were not measured, and why

    def add(self, other: ProfileReport) -> None:
        """Adds what came of a portion."""
        self.measured += other.measured
        self.checking += other.checking
        self.timing += other.timing
        self.failed.update(other.failed)
        self.unmeasured += other.unmeasured
        for name, count in other.winners.items():
            self.winners[name] = self.winners.get(name, 0) + count


@dataclass(frozen=True, slots=True)
class Portion:
    """What came of a portion: measurements in an environment, by signature."""

    profile: Profile
    report: ProfileReport


def work_on_gpus(tf32: bool, checkers: int | None) -> Work:
    """Measuring portions, each alone on its GPU. Products of f32 may be rounded to TF32."""
    return Work("tensat_dl.gpu.profiling:PortionMeasurer", (tf32, checkers), "gpu", retries=1)


def profile(
    applications: Sequence[OpApplication],
    path: Path,
    where: Where,
    work: Work,
    progress: Callable[[int, int], None] = lambda done, total: None,
    report: ProfileReport | None = None,
) -> ProfileReport:
    """Measures the applications that the profile at ``path`` lacks. Where Ctrl-C or an error ends this, portions that
    were done until then are in the file, and in the report, which is filled as it goes.

    All numbers of a profile are from one environment: a GPU of another kind, or with other versions, measures none.
    Where there are several kinds, the profile names the one to measure on, or else the signatures do. Raises
    `ProfileError`, OSError, `GpuError` where there is no GPU, `NoWorkersError`.
    """
    known = read_profile(path) if path.exists() else None
    if known is not None:
        applications = [_on(known.device, application) for application in applications]
    different = {j.signature.text: j for j in applications}
    wanted = [j for j in different.values() if known is None or known.lookup(j.signature) is None]
    report = report or ProfileReport()
    report.known = len(different) - len(wanted)
    portions = list(_portions(wanted))
    first = 1 if known is None else 0  # the portion that says what the environment is
    devices = {j.signature.device for j in applications}
    work = replace(work, gpu=devices.pop() if len(devices) == 1 else "")
    with where.workers(work) as workers:
        if not workers.room:
            raise GpuError(
                "no GPU is found to measure on\n  = hint: `nvidia-smi -L` lists those of this machine"
            )
        for some in (portions[:first], portions[first:]):
            environment = (
                None if known is None else (known.device, Environment(known.hardware, known.versions))
            )
            asked = [_job(portion, environment) for portion in some]
            with closing(done(workers, asked)) as ended:
                for i, e in ended:
                    if e.failed:
                        report.lost.append(
                            f"{len(some[i])} operators, at attempt {e.tries}: {e.reply.reason}"
                        )
                        continue
                    portion: Portion = e.reply.answer
                    known = (
                        record(path, portion.profile) if portion.profile.entries else known or portion.profile
                    )
                    report.add(portion.report)
                    progress(report.measured + len(report.unmeasured), len(wanted))
    return report


def _job(portion: Sequence[OpApplication], environment: tuple[str, Environment] | None) -> Job:
    name = hashlib.sha256(repr((portion, environment)).encode()).hexdigest()
    return Job(name, (tuple(portion), environment), f"{len(portion)} operators")


def _on(device: str, application: OpApplication) -> OpApplication:
    return OpApplication(replace(application.signature, device=device), application.definition)


def _portions(wanted: Sequence[OpApplication]) -> Iterator[Sequence[OpApplication]]:
    """The portions that are measured before they are written down."""
    start, size = 0, FIRST
    while start < len(wanted):
        yield wanted[start : start + size]
        start, size = start + size, PORTION


class PortionMeasurer:
    """Measures portions on the GPU of this process, with so many processes that check."""

    def __init__(self, tf32: bool, checkers: int | None) -> None:
        try:
            self.gpu = this_gpu(tf32)
        except GpuError as e:
            raise UnfitWorker(f"{socket.gethostname()}: {e}") from None
        self.checkers = [Worker("check", "cuda", tf32) for _ in range(checkers or number_of_checkers())]
        self.timer = Worker("time", "cuda", tf32)
        # Its threads start processes, which end with them.
        self._pool = ThreadPoolExecutor(len(self.checkers))

    def __call__(self, asked: tuple[Sequence[OpApplication], tuple[str, Environment] | None]) -> Portion:
        """Raises `UnfitWorker` if it is to be measured in another environment."""
        applications, wanted = asked
        here = self.gpu.environment
        if wanted not in (None, (self.gpu.device, here)):
            assert wanted is not None
            pairs = ((wanted[1].hardware, here.hardware), (wanted[1].versions, here.versions))
            found = ", ".join(filter(None, (differences(there, own) for there, own in pairs)))
            raise UnfitWorker(
                f"a GPU of {socket.gethostname()} does not measure for the profile, which is of {wanted[0]}: "
                f"{found or self.gpu.device}"
            )
        report = ProfileReport()
        entries = measure(
            [_on(self.gpu.device, j) for j in applications], self.checkers, self.timer, self._pool, report
        )
        return Portion(Profile(self.gpu.device, here.hardware, here.versions, entries), report)


def measure(
    portion: Sequence[OpApplication],
    checkers: Sequence[Worker],
    timer: Worker,
    pool: ThreadPoolExecutor,
    report: ProfileReport,
) -> dict[str, Measurement]:
    """The measurements of a portion by signature; the report is completed."""
    started = monotonic()
    checked = _checked(portion, checkers, pool)
    report.checking += (between := monotonic()) - started
    entries: dict[str, Measurement] = {}
    for application, answers in zip(portion, checked, strict=True):
        found = _timed(application, answers, timer, report)
        if found is not None:
            entries[application.signature.text] = found
    report.timing += monotonic() - between
    report.measured += len(entries)
    return entries


def _checked(
    portion: Sequence[OpApplication], checkers: Sequence[Worker], pool: ThreadPoolExecutor
) -> list[Answers]:
    """The answers for each application of the processes that check."""
    free: SimpleQueue[Worker] = SimpleQueue()
    for checker in checkers:
        free.put(checker)

    def check(application: OpApplication) -> Answers:
        checker = free.get()
        try:
            return checker.ask(application)
        finally:
            free.put(checker)

    return list(pool.map(check, portion))


def _timed(
    application: OpApplication, checked: Answers, timer: Worker, report: ProfileReport
) -> Measurement | None:
    """The measurement of the fastest implementation that computes the right thing, None if there is none."""
    names = [name for name, answer in checked.items() if "failed" not in answer]
    answers = {**checked, **(timer.ask(application, names) if names else {})}
    text = application.signature.text
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
    return max(1, min(MOST_CHECKERS, cores() - 1))
