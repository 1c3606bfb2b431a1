"""Examines rules in several processes (`worker`)."""

from __future__ import annotations

import os
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Generator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass

from tensat_dl.core.rule import RewriteRule
from tensat_dl.ops.table import OpDecl, OpTable
from tensat_dl.verify.rules.examine import Examiner
from tensat_dl.verify.rules.verdict import Verdict

#: Fewer rules than this are not worth another process.
SHARE = 12


@dataclass(frozen=True, slots=True)
class CheckJob:
    """The numbered rules that one process examines, and the operators in them."""

    ops: tuple[OpDecl, ...]
    rules: tuple[tuple[int, RewriteRule], ...]
    seed: int


def examine_all(
    rules: Sequence[tuple[int, RewriteRule]], ops: OpTable, seed: int
) -> Generator[tuple[int, Verdict], None, None]:
    """The verdicts on numbered rules as they come in, in any order, from as many processes as are worth it.

    What a process leaves when it dies is examined here. The processes are gone when the iterator ends or is closed.
    """
    count = min(len(os.sched_getaffinity(0)), len(rules) // SHARE)
    left = dict(rules)
    if count >= 2:
        with closing(_elsewhere(rules, ops, seed, count)) as verdicts:
            for number, verdict in verdicts:
                del left[number]
                yield number, verdict
    examiner = Examiner(ops, seed)
    for number, rule in left.items():
        yield number, examiner.verdict(rule)


def _elsewhere(
    rules: Sequence[tuple[int, RewriteRule]], ops: OpTable, seed: int, count: int
) -> Generator[tuple[int, Verdict], None, None]:
    """What so many processes find out before they end."""
    found: queue.Queue[tuple[int, Verdict] | None] = queue.Queue()
    processes = [
        _start(CheckJob(tuple(ops.values()), tuple(rules[k::count]), seed), found) for k in range(count)
    ]
    try:
        running = count
        while running:
            message = found.get()
            if message is None:
                running -= 1
            else:
                yield message
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _start(job: CheckJob, found: queue.Queue[tuple[int, Verdict] | None]) -> subprocess.Popen[bytes]:
    """A process whose verdicts go into the queue, and None when it has no more."""
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
            with suppress(OSError, EOFError, pickle.UnpicklingError):  # it has died
                pickle.dump(job, process.stdin, protocol=pickle.HIGHEST_PROTOCOL)
                process.stdin.flush()
                for _ in job.rules:
                    found.put(pickle.load(process.stdout))
        finally:
            found.put(None)

    threading.Thread(target=listen, daemon=True).start()
    return process
