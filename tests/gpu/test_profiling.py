"""Profiles are made bit by bit, and whatever one kernel does, the others are measured."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tensat_dl.cost.application import OpApplication
from tensat_dl.cost.profile import Measurement, Profile, ProfileError, read_profile, record
from tensat_dl.cost.signature import parse
from tensat_dl.gpu.profiling import FIRST, PORTION, Answers, ProfileReport, Worker, measure, profile
from tensat_dl.gpu.this_gpu import GpuError
from tensat_dl.jobs import gpus
from tensat_dl.jobs.gpus import GPUS, Card, cards, lock_of
from tensat_dl.jobs.job import NoWorkersError, Work
from tensat_dl.jobs.run import Where
from tests.cli.running import invoke
from tests.gpu.fake import Process, checks, environment, times, work

HERE = environment("NVIDIA H100")


def jobs(count: int, device: str = "h100") -> list[OpApplication]:
    return [OpApplication(parse(f"relu(f32[{i + 1}]) -> f32[{i + 1}] @ {device}")) for i in range(count)]


def measured_by(
    wanted: list[OpApplication], check: Any, time: Any
) -> tuple[dict[str, Measurement], ProfileReport]:
    """One portion."""
    report = ProfileReport()
    with ThreadPoolExecutor(1) as pool:
        return measure(wanted, [check], time, pool, report), report


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Work:
    monkeypatch.setenv(GPUS, "0,1")
    return work(tmp_path, gpu0="NVIDIA H100", gpu1="NVIDIA H100")


def test_the_fastest_is_recorded_and_failures_are_reported() -> None:
    entries, report = measured_by(jobs(3), Process(checks), Process(times))
    assert (report.measured, report.winners) == (3, {"triton": 3})
    assert report.failed[jobs(1)[0].signature.text] == {"triton 1024": "out of memory"}
    entry = entries[jobs(1)[0].signature.text]
    assert (entry.median_ms, entry.implementation, entry.others) == (0.002, "triton 256", {"torch": 0.003})


def test_what_nothing_computes_is_left_out() -> None:
    def fails(job: OpApplication) -> Answers:
        return {"": {"failed": "Unsupported: topk"}} if job == jobs(2)[1] else checks(job)

    _, report = measured_by(jobs(2), Process(fails), Process(times))
    assert report.measured == 1
    assert report.unmeasured == [jobs(2)[1].signature.text]


def test_a_profile_is_completed(tmp_path: Path, two_gpus: Work) -> None:
    path = tmp_path / "p.json"
    report = profile(jobs(2), path, Where(), two_gpus)
    assert (report.measured, report.known) == (2, 0)
    report = profile([*jobs(3), *jobs(3)], path, Where(), two_gpus)
    assert (report.measured, report.known, report.lost) == (1, 2, [])
    assert set(read_profile(path, "h100").entries) == {j.signature.text for j in jobs(3)}


def test_every_gpu_measures_one_operator_at_a_time(tmp_path: Path, two_gpus: Work) -> None:
    """A worker fails if there is another measurement on its GPU."""
    path, count = tmp_path / "p.json", FIRST + 4 * PORTION
    told: list[tuple[int, int]] = []
    report = profile(jobs(count), path, Where(), two_gpus, lambda *counts: told.append(counts))
    assert (report.measured, report.lost) == (count, [])
    assert told[0] == (FIRST, count)  # recorded soon
    assert told[-1] == (count, count)
    shares = [(tmp_path / f"measured-{i}").read_text().splitlines() for i in range(2)]
    assert sorted(map(len, shares))[0] > 0
    assert sum(map(len, shares)) == count
    assert read_profile(path).hardware == HERE.hardware


def test_after_an_interruption_there_is_what_was_measured_before(tmp_path: Path, two_gpus: Work) -> None:
    path, report = tmp_path / "p.json", ProfileReport()

    def interrupted(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        profile(jobs(100), path, Where(), two_gpus, interrupted, report)
    assert len(read_profile(path, "h100").entries) == report.measured == FIRST


def test_gpus_of_another_kind_measure_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, here = tmp_path / "p.json", work(tmp_path, gpu0="NVIDIA H100", gpu1="NVIDIA A100")
    monkeypatch.setenv(GPUS, "0")
    profile(jobs(1), path, Where(), here)
    monkeypatch.setenv(GPUS, "1")
    report = profile(jobs(2), path, Where(), here)
    (lost,) = report.lost
    assert "1 operators, at attempt 1:" in lost  # another one would not help
    assert "gpu NVIDIA H100 and here NVIDIA A100" in lost
    assert len(read_profile(path).entries) == 1
    assert not (tmp_path / "measured-1").exists()
    monkeypatch.setenv(GPUS, "")
    with pytest.raises(GpuError, match="no GPU is found"):
        profile(jobs(2), path, Where(), here)


def test_portions_go_to_gpus_of_the_kind_that_is_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """.. by the signatures of a new profile, and by a profile that is to be completed."""
    names = ["NVIDIA H100 PCIe", "NVIDIA A100-SXM4-40GB", "NVIDIA H100 PCIe", "NVIDIA A100-SXM4-40GB"]
    listed = tuple(Card(str(i), name, f"GPU-{i}") for i, name in enumerate(names))
    monkeypatch.setattr(gpus, "_listed", lambda: listed)
    monkeypatch.delenv(GPUS, raising=False)
    here = work(tmp_path, gpu0="NVIDIA H100", gpu1="NVIDIA A100", gpu2="NVIDIA H100", gpu3="NVIDIA A100")
    for device, numbers in (("h100", {"0", "2"}), ("a100", {"1", "3"})):
        path = tmp_path / f"{device}.json"
        wanted = jobs(FIRST + 4 * PORTION, device)
        for some in (wanted[:FIRST], wanted, jobs(FIRST + 5 * PORTION)):
            report = profile(some, path, Where(), here)
            assert report.lost == []
        assert len(read_profile(path, device).entries) == FIRST + 5 * PORTION
        assert {p.name.removeprefix("measured-") for p in tmp_path.glob("measured-*")} <= numbers
        for p in tmp_path.glob("measured-*"):
            p.unlink()
    with pytest.raises(NoWorkersError, match=r"several kinds .*A100-SXM4-40GB, NVIDIA H100 PCIe.* is l4"):
        profile(jobs(1, "l4"), tmp_path / "l4.json", Where(), here)
    with pytest.raises(NoWorkersError, match="none is named"):
        profile([*jobs(1, "h100"), *jobs(1, "a100")], tmp_path / "both.json", Where(), here)


def test_a_gpu_has_one_lock_whatever_it_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        gpus, "_listed", lambda: (Card("0", "NVIDIA L4", "GPU-a"), Card("1", "Tesla T4", "GPU-b"))
    )
    assert lock_of("1") == lock_of("GPU-b") != lock_of("0")
    monkeypatch.setenv(GPUS, "GPU-b,1,7")
    assert [(c.number, c.name) for c in cards()] == [("GPU-b", "Tesla T4"), ("1", "Tesla T4"), ("7", "")]
    for given in ("", "-1"):
        monkeypatch.setenv(GPUS, given)
        assert cards() == []


def test_cards_are_those_that_the_driver_lists(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text(
        "#!/bin/sh\n"
        "echo 'GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-5a)'\n"
        "echo '  MIG 1g.10gb     Device  0: (UUID: MIG-1)'\n"
        "echo 'GPU 1: NVIDIA L4 (UUID: GPU-5b)'\n"
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv(GPUS, raising=False)
    gpus._listed.cache_clear()
    try:
        assert cards() == [Card("0", "NVIDIA H100 80GB HBM3", "GPU-5a"), Card("1", "NVIDIA L4", "GPU-5b")]
    finally:
        gpus._listed.cache_clear()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"protocol": 0}, "measuring protocol 0"),
        ({"entries": {"relu(f32[1]) -> f32[1] @ h100": {"median_ms": "x"}}}, "not a usable profile"),
        (
            {"entries": {"relu(f32[1]) -> f32[1] @ h100": {
                "median_ms": 1, "spread_ms": 0, "samples": 1, "others": {"torch": -1}}}},
            "not a usable profile",
        ),
    ],
)  # fmt: skip
def test_a_profile_that_cannot_be_used_is_refused_before_anything_is_measured(
    change: dict[str, object], says: str, tmp_path: Path, two_gpus: Work
) -> None:
    path = tmp_path / "p.json"
    record(path, Profile("h100", HERE.hardware, HERE.versions, {jobs(1)[0].signature.text: SOME}))
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(ProfileError, match=says):
        profile(jobs(2), path, Where(), two_gpus)
    assert not list(tmp_path.glob("measured-*"))


SOME = Measurement(0.002, 0.0, 25, "triton 256", {"torch": 0.003})


def part(path: Path, first: int, count: int, gpu: str = "NVIDIA H100", torch: str = "2.11") -> Path:
    entries = {j.signature.text: SOME for j in jobs(first + count)[first:]}
    record(path, Profile("h100", {"gpu": gpu}, {"torch": torch}, entries))
    return path


def test_partial_profiles_are_merged(tmp_path: Path) -> None:
    parts = [part(tmp_path / f"{i}.json", 2 * i, 3) for i in range(3)]
    done = invoke("profile", "--merge", *parts, "-o", tmp_path / "all.json")
    assert (done.code, done.out) == (0, f"{tmp_path / 'all.json'}: 7 operators\n")
    assert set(read_profile(tmp_path / "all.json").entries) == {j.signature.text for j in jobs(7)}
    done = invoke("profile", "--merge", part(tmp_path / "more.json", 6, 2), "-o", tmp_path / "all.json")
    assert "8 operators" in done.out


@pytest.mark.parametrize(
    ("other", "says"),
    [
        ({"gpu": "NVIDIA A100"}, "recorded with hardware gpu NVIDIA A100, this is gpu NVIDIA H100; as in "),
        ({"torch": "2.9"}, "recorded with versions torch 2.9, this is torch 2.11; as in "),
    ],
)
def test_profiles_of_other_environments_are_not_merged(
    other: dict[str, str], says: str, tmp_path: Path
) -> None:
    """.. and then nothing is written."""
    parts = [part(tmp_path / "a.json", 0, 2), part(tmp_path / "b.json", 2, 2, **other)]
    done = invoke("profile", "--merge", *parts, "-o", tmp_path / "all.json")
    assert done.code == 2
    assert done.err.startswith(f"error: {parts[1]}: {says}")
    assert "must not be mixed" in done.err
    assert not (tmp_path / "all.json").exists()


def test_real_processes_measure_and_survive_a_kernel_that_kills_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the CPU, in Triton's interpreter; the environment variable makes one kernel end its process."""
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    before_all(monkeypatch, deadly(tmp_path))
    wanted = [
        *jobs(1),
        OpApplication(parse("softmax(f32[3, 4]; axis=1) -> f32[3, 4] @ h100")),
        OpApplication(parse("nope(f32[1]) -> f32[1] @ h100")),
    ]
    entries, report = measured_by(wanted, Worker("check", "cpu", False), Worker("time", "cpu", False))
    assert report.measured == 2
    assert report.unmeasured == [wanted[2].signature.text]
    assert report.failed[wanted[1].signature.text] == {"triton 1024": "the process ended with code 9"}
    assert report.failed[wanted[2].signature.text] == {"": "Unsupported: nope, of which only types are known"}
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
    job = OpApplication(parse("softmax(f32[3, 4]; axis=1) -> f32[3, 4] @ h100"))
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
    found = worker.ask(OpApplication(parse("softmax(f32[3, 4]; axis=1) -> f32[3, 4] @ h100")))
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
