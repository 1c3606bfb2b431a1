"""Measures applications, and records them as it goes.

A few at a time: first their implementations are compiled and checked, by several processes at once, then those that
compute the right thing are timed, by a single process while the others wait. What is measured is written down after
each portion, also where it is cut short, so that another run goes on from there. The first portion is small: the
sooner something is written down, the less is lost.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import SimpleQueue
from time import monotonic
from typing import Protocol

from tensat_dl.cost.environment import Environment
from tensat_dl.cost.profile import Measurement, Profile, record
from tensat_dl.cost.signature_file import ProfileJob
from tensat_dl.gpu.workers import Answers

#: Applications in the first portion and in the others, and processes that compile.
FIRST, PORTION = 12, 48
MOST_CHECKERS = 12


class Asked(Protocol):
    """What answers for a process; see `workers.Worker`."""

    def ask(self, job: ProfileJob, names: Sequence[str] | None = None) -> Answers: ...

    def close(self) -> None: ...


@dataclass
class ProfileReport:
    """What became of a run: how much was known before and was measured, and by signature and implementation what
    failed, where "" is the application as a whole."""

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
    checkers: Sequence[Asked],
    timer: Asked,
    progress: Callable[[int, int], None] = lambda done, total: None,
    report: ProfileReport | None = None,
) -> ProfileReport:
    """Measures what the profile at ``path`` lacks. Where Ctrl-C or an error ends this, what was timed by then is in
    the file, and in the report, which is filled as it goes.

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
    """What is measured before it is written down, each with how many were before it."""
    start, size = 0, FIRST
    while start < len(wanted):
        yield start, wanted[start : start + size]
        start, size = start + size, PORTION


def _checked(portion: Sequence[ProfileJob], checkers: Sequence[Asked]) -> list[Answers]:
    """What the checks of each job's implementations say."""
    free: SimpleQueue[Asked] = SimpleQueue()
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


def _timed(job: ProfileJob, checked: Answers, timer: Asked, report: ProfileReport) -> Measurement | None:
    """The measurement of the fastest implementation of those that compute the right thing, None if there is none."""
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
    """The profile's entry, of what all implementations took."""
    taken = times[best]
    others = {name: float(t["median_ms"]) for name, t in times.items() if name != best}
    return Measurement(
        float(taken["median_ms"]), float(taken["spread_ms"]), int(taken["samples"]), best, others
    )


def number_of_checkers() -> int:
    """So many processes compile at a time: one for each processor but one, up to a limit."""
    return max(1, min(MOST_CHECKERS, (os.cpu_count() or 2) - 1))
