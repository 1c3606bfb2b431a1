"""Examines rules in several processes (`worker`)."""

from __future__ import annotations

import os
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Generator, Sequence
from dataclasses import dataclass

from tensat_dl.ir.rule import RewriteRule
from tensat_dl.ops.table import OpDecl, OpTable
from tensat_dl.verify.rules.examine import Examiner
from tensat_dl.verify.rules.verdict import Verdict

#: Fewer rules than this are not worth another process.
SHARE = 12


class WorkerError(RuntimeError):
    """A process ended before its rules were examined."""


@dataclass(frozen=True, slots=True)
class Job:
    """The numbered rules that one process examines, and the operators in them."""

    ops: tuple[OpDecl, ...]
    rules: tuple[tuple[int, RewriteRule], ...]
    seed: int


def examine_all(
    rules: Sequence[tuple[int, RewriteRule]], ops: OpTable, seed: int
) -> Generator[tuple[int, Verdict], None, None]:
    """The verdicts on numbered rules as they come in, in any order, from as many processes as are worth it.

    The processes are gone when the iterator ends or is closed.
    """
    count = min(len(os.sched_getaffinity(0)), len(rules) // SHARE)
    if count < 2:
        examiner = Examiner(ops, seed)
        for number, rule in rules:
            yield number, examiner.verdict(rule)
        return
    found: queue.Queue[tuple[int, Verdict] | str | None] = queue.Queue()
    processes = [_start(Job(tuple(ops.values()), tuple(rules[k::count]), seed), found) for k in range(count)]
    try:
        running = count
        while running:
            message = found.get()
            if isinstance(message, str):
                raise WorkerError(message)
            if message is None:
                running -= 1
            else:
                yield message
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _start(job: Job, found: queue.Queue[tuple[int, Verdict] | str | None]) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tensat_dl.verify.rules.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for the parent
    )

    def listen() -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            pickle.dump(job, process.stdin, protocol=pickle.HIGHEST_PROTOCOL)
            process.stdin.flush()
            for _ in job.rules:
                found.put(pickle.load(process.stdout))
            found.put(None)
        except (OSError, EOFError, pickle.UnpicklingError) as e:
            found.put(f"a process that examines rules has died: {e}")

    threading.Thread(target=listen, daemon=True).start()
    return process
