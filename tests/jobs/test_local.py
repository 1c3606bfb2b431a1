"""Jobs on this machine: results do not depend on the number of workers, and whatever one does, the others go on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tensat_dl.jobs.gpus import GPUS
from tensat_dl.jobs.job import Ended, Job, Work
from tensat_dl.jobs.run import Where, done
from tests.cli.processes import alive, linux, wait_for
from tests.cli.running import ROOT
from tests.jobs.disks import small_disk
from tests.jobs.work import jobs


def all_of(where: Where, work: Work, wanted: list[Job]) -> list[Ended]:
    with where.workers(work) as workers:
        found = dict(done(workers, wanted))
    return [found[i] for i in range(len(wanted))]


@pytest.mark.parametrize("count", [1, 4])
def test_answers_do_not_depend_on_the_number_of_workers(count: int) -> None:
    ended = all_of(Where(count), Work("tests.jobs.work:adder", (10,)), jobs(*range(20)))
    assert [e.reply.answer for e in ended] == list(range(10, 30))
    assert not any(e.failed for e in ended)


def test_a_job_is_done_once() -> None:
    """Its name says all that its answer depends on."""
    ended = all_of(Where(2), Work("tests.jobs.work:process_of", ("",), fresh=True), jobs(1, 2, 1))
    first, second, again = (e.reply.answer for e in ended)
    assert first == again != second


def test_workers_are_reused_unless_jobs_begin_fresh() -> None:
    for fresh, count in ((False, 1), (True, 5)):
        ended = all_of(Where(1), Work("tests.jobs.work:process_of", ("",), fresh=fresh), jobs(*range(5)))
        assert len({e.reply.answer for e in ended}) == count


def test_what_cannot_be_sent_fails() -> None:
    """.. as an answer that is not there does; the worker goes on."""
    unsendable = Job("unsendable", threading.Lock())
    first, second = all_of(Where(1), Work("tests.jobs.work:adder", (1,)), [unsendable, *jobs(1)])
    assert first.failed
    assert "pickle" in first.reply.reason
    assert second.reply.answer == 2


def test_a_lock_that_cannot_be_had_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "nowhere"))
    (ended,) = all_of(Where(1), Work("tests.jobs.work:adder", (1,), place="machine"), jobs(1))
    assert "No such file or directory" in ended.reply.reason


def test_counts_are_told() -> None:
    told: list[tuple[int, ...]] = []
    with Where(2).workers(Work("tests.jobs.work:adder", (1,))) as workers:
        list(done(workers, jobs(1, 2, 3), lambda *counts: told.append(counts)))
    assert told[0] == (0, 2, 0, 3)
    assert told[-1] == (3, 0, 0, 3)


@linux
@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("be killed", "its process was ended by signal 9"),
        ("raise", "ValueError: no"),
        ("fill memory", "more than 209,715,200 bytes"),
        ("take long", "no answer within 2 s"),
        ("be stopped", "no answer within 2 s"),
        ("fill the disk", "OSError: [Errno 27] File too large"),
    ],
)
def test_a_job_that_fails(how: str, reason: str, tmp_path: Path) -> None:
    """.. is tried again; if that does not help, it is reported with its log. All others are done."""
    seconds = 2 if "within 2 s" in reason else 60
    work = Work("tests.jobs.work:troubled", (str(tmp_path),), seconds=seconds, memory=200 << 20, retries=1)
    ended = all_of(Where(2), work, jobs((how, 1), ("be fine", 0), ("be fine, too", 0)))
    assert [(e.failed, e.tries) for e in ended] == [(False, 2), (False, 1), (False, 1)]
    assert reason in ended[0].log
    assert f"about to {how}" in ended[0].log
    (tmp_path / how).unlink()
    ended = all_of(Where(2), work, jobs((how, 9), ("be fine", 0)))
    assert [(e.failed, e.tries) for e in ended] == [(True, 2), (False, 1)]
    assert reason in ended[0].reply.reason
    assert ended[0].log.splitlines().count(f"about to {how}") == 2


def test_a_full_disk(tmp_path: Path) -> None:
    """.. fails the jobs that find no place there, with their logs, and leaves nothing half-written."""
    work = Work("tests.jobs.work:writer", (str(tmp_path),), retries=1)
    with small_disk(tmp_path):
        ended = all_of(Where(2), work, jobs(1 << 21, 1000, 1 << 22, 2000))
        assert {p.name for p in tmp_path.iterdir()} == {"1000", "2000"}
    assert [(e.failed, e.tries) for e in ended] == [(True, 2), (False, 1), (True, 2), (False, 1)]
    for e in ended[::2]:
        assert "[Errno 28] No space left on device" in e.reply.reason
        assert e.log.count(f"about to write {e.job.argument}") == 2


def test_unfit_workers_get_no_more_jobs(tmp_path: Path) -> None:
    """.. and their jobs are done by others, or have failed if there are none."""
    work = Work("tests.jobs.work:choosy", (str(tmp_path), 2))
    ended = all_of(Where(3), work, jobs(*range(8)))
    assert [(e.failed, e.tries) for e in ended] == [(False, 1)] * 8
    assert {e.reply.answer for e in ended} == {2}
    work = Work("tests.jobs.work:choosy", (str(tmp_path), 99))
    with Where(2).workers(work) as workers:
        found = dict(done(workers, jobs(*range(8))))
        assert workers.room == 0
        again = dict(done(workers, jobs(8, 9)))
    assert [(e.reply.reason, e.tries) for e in [*found.values(), *again.values()]] == [("not here", 1)] * 10
    assert all("not here" in e.log for e in found.values())


@linux
def test_closing_ends_what_runs(tmp_path: Path) -> None:
    work = Work("tests.jobs.work:sleeper", (str(tmp_path),))
    with Where(2).workers(work) as workers:
        running = done(workers, jobs(0.0, 600.0, 601.0))
        next(running)
        wait_for(lambda: len(list(tmp_path.iterdir())) == 2, "both workers")
        running.close()
        assert [e.reply.answer for _, e in done(workers, jobs(0.0))]  # they can work again
    assert not any(alive(int(p.name)) for p in tmp_path.iterdir())


DRIVER = """
import sys
from tensat_dl.jobs.job import Job, Work
from tensat_dl.jobs.run import Where, done
if __name__ == "__main__":
    work = Work("tests.jobs.work:sleeper", (sys.argv[1],))
    with Where(2, sys.argv[2] if len(sys.argv) > 2 else None).workers(work) as workers:
        list(done(workers, [Job(str(i), 600.0 + i) for i in range(4)]))
"""


def driver(folder: Path, *more: str) -> subprocess.Popen[bytes]:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(folder), *more], env=env, stderr=subprocess.PIPE
    )


@linux
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_nothing_runs_on_after_the_driver(how: signal.Signals, tmp_path: Path) -> None:
    with driver(tmp_path) as process:
        wait_for(lambda: len(list(tmp_path.iterdir())) == 2, "both workers")
        process.send_signal(how)
        process.wait(30)
    for p in tmp_path.iterdir():
        wait_for(lambda p=p: not alive(int(p.name)), "the end of a worker")  # type: ignore[misc]


def test_one_at_a_time_where_times_are_measured(tmp_path: Path) -> None:
    """.. whoever measures: these are two batches."""
    work = Work("tests.jobs.work:alone", (str(tmp_path),), place="machine", retries=0)
    found: list[Ended] = []

    def batch() -> None:
        found.extend(all_of(Where(4), work, jobs(1, 2)))

    threads = [threading.Thread(target=batch) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert [e.reply.reason for e in found] == [""] * 4


def test_a_worker_for_each_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(GPUS, "3,5")
    work = Work("tests.jobs.work:process_of", ("",), place="gpu")
    with Where().workers(work) as workers:
        assert workers.room == 2
        found = {e.reply.answer for _, e in done(workers, jobs(*range(12)))}
    assert {gpu for _, gpu in found} <= {"3", "5"}
    assert len(found) == len({gpu for _, gpu in found})
