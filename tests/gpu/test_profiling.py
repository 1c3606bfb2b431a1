"""Profiles are made bit by bit, and whatever one kernel does, the others are measured."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tensat_dl.cost.application import ProfileJob
from tensat_dl.cost.device import Environment
from tensat_dl.cost.profile import ProfileError, read_profile
from tensat_dl.cost.signature import parse
from tensat_dl.gpu.profiling import FIRST, PORTION, Answers, ProfileReport, Worker, profile

HERE = Environment({"gpu": "NVIDIA H100"}, {"torch": "2.11"})


def jobs(count: int) -> list[ProfileJob]:
    return [ProfileJob(parse(f"relu(f32[{i + 1}]) -> f32[{i + 1}] @ h100")) for i in range(count)]


class Process:
    """Answers what a function says; ``asked`` has all that it was asked."""

    def __init__(self, answer: Callable[[ProfileJob], Answers]) -> None:
        self.answer = answer
        self.asked: list[str] = []
        self.closed = False

    def ask(self, job: ProfileJob, names: Sequence[str] | None = None) -> Answers:
        self.asked.append(job.signature.text)
        found = self.answer(job)
        return found if names is None else {n: a for n, a in found.items() if n in names}

    def close(self) -> None:
        self.closed = True


def checks(_: ProfileJob) -> Answers:
    return {"triton 256": {}, "triton 1024": {"failed": "out of memory"}, "torch": {}}


def times(_: ProfileJob) -> Answers:
    taken = {"spread_ms": 0.0001, "samples": 25}
    return {"triton 256": {"median_ms": 0.002, **taken}, "torch": {"median_ms": 0.003, **taken}}


def test_the_fastest_is_recorded_and_failures_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    check, time = Process(checks), Process(times)
    report = profile(jobs(3), path, "h100", HERE, [check], time)
    assert (report.measured, report.known, report.winners) == (3, 0, {"triton": 3})
    assert report.failed[jobs(1)[0].signature.text] == {"triton 1024": "out of memory"}
    found = read_profile(path, "h100")
    entry = found.lookup(jobs(1)[0].signature)
    assert entry is not None
    assert (entry.median_ms, entry.implementation, entry.others) == (0.002, "triton 256", {"torch": 0.003})
    assert check.closed
    assert time.closed


def test_a_profile_is_completed(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    profile(jobs(2), path, "h100", HERE, [Process(checks)], Process(times))
    again = Process(checks)
    report = profile([*jobs(3), *jobs(3)], path, "h100", HERE, [again], Process(times))
    assert (report.measured, report.known) == (1, 2)
    assert again.asked == [jobs(3)[2].signature.text]


def test_after_an_interruption_there_is_what_was_measured_before(tmp_path: Path) -> None:
    """.. that of the portion that was under way, too."""
    path = tmp_path / "p.json"

    def interrupted(job: ProfileJob) -> Answers:
        if job == jobs(4)[3]:
            raise KeyboardInterrupt
        return times(job)

    check, report = Process(checks), ProfileReport()
    with pytest.raises(KeyboardInterrupt):
        profile(jobs(4), path, "h100", HERE, [check], Process(interrupted), report=report)
    assert len(read_profile(path, "h100").entries) == 3
    assert report.measured == 3
    assert check.closed


def test_the_first_operators_are_recorded_soon(tmp_path: Path) -> None:
    path, recorded = tmp_path / "p.json", []

    def progress(done: int, total: int) -> None:
        recorded.append(len(read_profile(path).entries) if path.exists() else 0)

    profile(jobs(100), path, "h100", HERE, [Process(checks)], Process(times), progress)
    portions = list(dict.fromkeys([*recorded, len(read_profile(path).entries)]))
    assert portions == [0, FIRST, FIRST + PORTION, 100]
    assert FIRST < PORTION


def test_what_nothing_computes_is_left_out(tmp_path: Path) -> None:
    def fails(job: ProfileJob) -> Answers:
        return {"": {"failed": "Unsupported: topk"}} if job == jobs(2)[1] else checks(job)

    report = profile(jobs(2), tmp_path / "p.json", "h100", HERE, [Process(fails)], Process(times))
    assert report.measured == 1
    assert report.unmeasured == [jobs(2)[1].signature.text]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"device": "a100"}, "a profile of device `a100`"),
        ({"protocol": 0}, "measuring protocol 0"),
        ({"hardware": {"gpu": "NVIDIA H200"}}, "recorded with hardware gpu NVIDIA H200"),
        ({"versions": {"torch": "2.9"}}, "recorded with versions torch 2.9"),
        ({"entries": {"relu(f32[1]) -> f32[1] @ h100": {"median_ms": "x"}}}, "not a usable profile"),
        (
            {"entries": {"relu(f32[1]) -> f32[1] @ h100": {
                "median_ms": 1, "spread_ms": 0, "samples": 1, "others": {"torch": -1}}}},
            "not a usable profile",
        ),
    ],
)  # fmt: skip
def test_a_profile_of_something_else_is_refused_before_anything_is_measured(
    change: dict[str, object], says: str, tmp_path: Path
) -> None:
    path = tmp_path / "p.json"
    profile([], path, "h100", HERE, [], Process(times))
    profile(jobs(1), path, "h100", HERE, [Process(checks)], Process(times))
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    check = Process(checks)
    with pytest.raises(ProfileError, match=says):
        profile(jobs(2), path, "h100", HERE, [check], Process(times))
    assert not check.asked


def test_real_processes_measure_and_survive_a_kernel_that_kills_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the CPU, in Triton's interpreter; the environment variable makes one kernel end its process."""
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    before_all(monkeypatch, deadly(tmp_path))
    wanted = [
        *jobs(1),
        ProfileJob(parse("softmax(f32[3, 4]; axis=1) -> f32[3, 4] @ h100")),
        ProfileJob(parse("nope(f32[1]) -> f32[1] @ h100")),
    ]
    path = tmp_path / "p.json"
    report = profile(
        wanted, path, "h100", HERE, [Worker("check", "cpu", False)], Worker("time", "cpu", False)
    )
    assert report.measured == 2
    assert report.unmeasured == [wanted[2].signature.text]
    assert report.failed[wanted[1].signature.text] == {"triton 1024": "the process ended with code 9"}
    assert report.failed[wanted[2].signature.text] == {"": "Unsupported: nope, of which only types are known"}
    entries = read_profile(path, "h100").entries
    assert set(entries[wanted[1].signature.text].others) | {
        entries[wanted[1].signature.text].implementation
    } == {
        "torch",
        "triton 4096",
    }


def test_a_kernel_that_takes_the_gpu_away_is_the_only_one_to_blame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process says so and ends; those after it are tried in a new one. The last one may do that, too."""
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    job = ProfileJob(parse("softmax(f32[3, 4]; axis=1) -> f32[3, 4] @ h100"))
    for bad, good in ((1024, 4096), (4096, 1024)):
        before_all(monkeypatch, poisonous(tmp_path, bad))
        worker = Worker("check", "cpu", False)
        found = worker.ask(job)
        assert found == {
            "torch": {},
            f"triton {good}": {},
            f"triton {bad}": {"failed": "RuntimeError: CUDA error: an illegal memory access was encountered"},
        }
        assert worker.ask(jobs(1)[0])["torch"] == {}
        worker.close()


def test_a_process_that_always_ends_early_is_not_started_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """.. though it says that it has to be started again: whatever runs next is to blame then."""
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    (tmp_path / "sitecustomize.py").write_text(
        "import os\n"
        "from tensat_dl.gpu.trial import Trial\n"
        "from tensat_dl.gpu.profiling import AGAIN\n"
        "Trial.check = lambda self, name: os._exit(AGAIN)\n"
    )
    before_all(monkeypatch, tmp_path)
    worker = Worker("check", "cpu", False)
    found = worker.ask(ProfileJob(parse("softmax(f32[3, 4]; axis=1) -> f32[3, 4] @ h100")))
    worker.close()
    assert {name: a["failed"] for name, a in found.items()} == dict.fromkeys(
        ("torch", "triton 1024", "triton 4096"), "the process ended with code 3"
    )


def before_all(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Processes import a folder's ``sitecustomize``, which finds this checkout."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), str(Path(__file__).parents[2])]))


def poisonous(folder: Path, size: int) -> Path:
    """A folder with a ``sitecustomize`` that makes a softmax with so many elements to a program fail, and the GPU
    take no more commands from the process after that."""
    (folder / "sitecustomize.py").write_text(
        "from tensat_dl.gpu import torch_device\n"
        "from tensat_dl.resources import kernels\n"
        "rows = kernels('rows')\n"
        "made = rows._kernel\n"
        "def fails(x):\n"
        "    torch_device.usable = lambda device: False\n"
        "    raise RuntimeError('CUDA error: an illegal memory access was encountered')\n"
        f"rows._kernel = lambda s, n: fails if n == {size} else made(s, n)\n"
    )
    return folder


def deadly(folder: Path) -> Path:
    """A folder with a ``sitecustomize`` that makes a softmax with 1024 elements to a program exit its process."""
    (folder / "sitecustomize.py").write_text(
        "import os\n"
        "from tensat_dl.resources import kernels\n"
        "rows = kernels('rows')\n"
        "made = rows._kernel\n"
        "rows._kernel = lambda s, n: (lambda x: os._exit(9)) if n == 1024 else made(s, n)\n"
    )
    return folder
