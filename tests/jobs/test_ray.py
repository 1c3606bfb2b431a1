"""Jobs on a Ray cluster: two nodes on this machine. Skipped where ray is not installed; docs/scale.md says how to run
these tests."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from tensat_dl.gpu.profiling import profile
from tensat_dl.jobs import on_ray
from tensat_dl.jobs.gpus import GPUS
from tensat_dl.jobs.identity import environment
from tensat_dl.jobs.job import Ended, FileOf, Job, NoWorkersError, Work
from tensat_dl.jobs.on_ray import RayError
from tensat_dl.jobs.package import archive
from tensat_dl.jobs.run import Where, done
from tensat_dl.run.batch import MANIFEST
from tests.cli.processes import alive, wait_for
from tests.cli.running import EXAMPLES, ROOT, invoke
from tests.gpu.fake import KIND
from tests.gpu.fake import work as gpu_work
from tests.gpu.test_profiling import jobs as gpu_jobs
from tests.jobs.answers import COMMANDS
from tests.jobs.test_local import driver
from tests.jobs.test_package import ONLY_SHIPPED
from tests.jobs.work import jobs

ray = pytest.importorskip("ray")

pytestmark = [
    pytest.mark.xdist_group("ray"),
    pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc"),
]


@contextmanager
def cluster_of() -> Iterator[Any]:
    """A cluster of a node with a core, in this environment."""
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        yield made
    finally:
        ray.shutdown()
        made.shutdown()


@pytest.fixture
def cluster() -> Iterator[Any]:
    """.. that finds the tests."""
    with patch.dict(os.environ, {"PYTHONPATH": str(ROOT)}), cluster_of() as made:
        yield made


def all_of(where: Where, work: Work, wanted: list[Job]) -> list[Ended]:
    with where.workers(work) as workers:
        found = dict(done(workers, wanted))
    return [found[i] for i in range(len(wanted))]


def test_answers_are_those_of_one_process(cluster: Any, tmp_path: Path) -> None:
    cluster.add_node(num_cpus=1)
    where = Where(ray=cluster.address)
    wanted = jobs(*range(20))
    work = Work("tests.jobs.work:adder", (10,))
    assert [e.reply.answer for e in all_of(where, work, wanted)] == list(range(10, 30))
    work = Work("tests.jobs.work:process_of", ("",), fresh=True)
    first, second, again = (e.reply.answer for e in all_of(where, work, jobs(1, 2, 1)))
    assert first == again != second

    # A job that fails says why, and all others are done.
    work = Work("tests.jobs.work:troubled", (str(tmp_path),), seconds=2, memory=200 << 20, retries=1)
    hows = {
        "be killed": "signal 9",
        "raise": "ValueError",
        "take long": "within 2 s",
        "fill the disk": "Errno 27",
    }
    ended = all_of(where, work, jobs(*((how, 1) for how in hows), ("fill memory", 9), ("be fine", 0)))
    assert [(e.failed, e.tries) for e in ended] == [*[(False, 2)] * 4, (True, 2), (False, 1)]
    for e, (how, reason) in zip(ended, hows.items(), strict=False):
        assert reason in e.log
        assert f"about to {how}" in e.log

    # Files that a node does not have are sent, once.
    path = tmp_path / "model.tsr"
    path.write_text("x")
    file = FileOf.at(path)
    ended = all_of(where, Work("tests.jobs.work:reader", ("",)), [Job("1", str(path), files=(file,))])
    assert ended[0].reply.answer == ("x", False)
    elsewhere = Job("2", str(path), files=(FileOf(str(path), "0" * 64),))  # as if there were another one
    ended = all_of(where, Work("tests.jobs.work:reader", ("",)), [elsewhere])
    assert ended[0].reply.answer == ("x", True)

    # Two measurements never run at a time on one machine, though these nodes are two for Ray.
    work = Work("tests.jobs.work:alone", (str(tmp_path),), place="machine", retries=0)
    assert not any(e.failed for e in all_of(where, work, jobs(1, 2, 3, 4)))

    # Where all nodes have other versions, no job is done.
    with patch.object(on_ray, "environment", return_value={**environment(), "numpy": "0.1"}):
        ended = all_of(where, Work("tests.jobs.work:adder", (1,)), jobs(*range(5)))
    there = environment()["numpy"]
    for e in ended:
        assert e.reply.reason.endswith(f"since answers might differ: numpy 0.1 and here {there}")
        assert e.tries == 1


def test_nodes_without_tensat_dl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are sent it. A node with another library does no job, and the others do all."""
    (tmp_path / "sitecustomize.py").write_text(ONLY_SHIPPED + OLD_LIBRARY)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with cluster_of() as two:
        monkeypatch.setenv("OLD_LIBRARY", "numpy")
        two.add_node(num_cpus=1)
        answers = tmp_path / "answers"
        models = [EXAMPLES / f"tiny_{name}.tsr" for name in ("associativity", "fuse_relu", "share_input")]
        ended = invoke("batch", *models, "-o", answers, "--ray", two.address)
        assert ended.code == 0, ended.err
        here = environment()["numpy"]
        assert f"does no job, since answers might differ: numpy {here} and here 0.1" in ended.err
        manifest = json.loads((answers / MANIFEST).read_text())["models"]
        assert [m["tries"] for m in manifest.values()] == [1, 1, 1]
        (code,) = (tmp_path / "cache" / "tensat-dl" / "code").iterdir()
        assert code.name == archive()[0]
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    assert invoke("batch", *models, "-o", tmp_path / "here").code == 0
    for m in models:
        assert (answers / m.name).read_bytes() == (tmp_path / "here" / m.name).read_bytes()


#: A ``sitecustomize`` that says that a library is an old one.
OLD_LIBRARY = """
import importlib.metadata, os
_version = importlib.metadata.version
importlib.metadata.version = lambda name: "0.1" if name == os.environ.get("OLD_LIBRARY") else _version(name)
"""


def test_gpus_of_several_kinds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A portion is measured on the kind that its profile is of; one operator at a time."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    with cluster_of() as three:
        for kind in ("H100", "A100"):
            monkeypatch.setenv(KIND, f"NVIDIA {kind}")
            three.add_node(num_cpus=1, num_gpus=1, resources={f"accelerator_type:{kind}": 1})
        monkeypatch.delenv(KIND)
        where = Where(ray=three.address)
        measured = gpu_work(tmp_path, gpu0="NVIDIA H100")
        monkeypatch.setenv(GPUS, "0")
        profile(gpu_jobs(40), tmp_path / "here.json", Where(), measured)
        (tmp_path / "measured-0").unlink()
        for device in ("h100", "a100"):
            path = tmp_path / f"{device}.json"
            report = profile(gpu_jobs(40, device), path, where, measured)
            assert (report.measured, report.lost) == (40, [])
            (measurements,) = tmp_path.glob("measured-*")
            assert measurements.name == f"measured-0-NVIDIA {device.upper()}"
            measurements.unlink()
        assert (tmp_path / "h100.json").read_bytes() == (tmp_path / "here.json").read_bytes()
        with pytest.raises(NoWorkersError, match=r"several kinds \(A100, H100\), and none is l4"):
            profile(gpu_jobs(1, "l4"), tmp_path / "l4.json", where, measured)


@pytest.mark.thorough
def test_commands_give_the_same_bytes(cluster: Any, tmp_path: Path) -> None:
    """.. as in one process here. `profile` is compared above."""
    cluster.add_node(num_cpus=1)
    found = []
    for name, more in (("here", ["--jobs", 1]), ("there", ["--ray", cluster.address])):
        (tmp_path / name).mkdir()
        found.append({command: ask(tmp_path / name, *more) for command, ask in COMMANDS.items()})
    assert found[0] == found[1]


def test_a_node_that_disappears(cluster: Any, tmp_path: Path) -> None:
    """Its jobs are done on the other one."""
    second = cluster.add_node(num_cpus=1)
    with Where(ray=cluster.address).workers(Work("tests.jobs.work:sleeper", (str(tmp_path),))) as workers:
        assert workers.room == 2
        found: list[Ended] = []
        jobs_of = jobs(*(1.0 + i / 1000 for i in range(8)))
        thread = threading.Thread(target=lambda: found.extend(e for _, e in done(workers, jobs_of)))
        thread.start()
        wait_for(lambda: len(list(tmp_path.iterdir())) == 2, "a job on each node")
        cluster.remove_node(second, allow_graceful=False)
        thread.join(120)
        assert not thread.is_alive()
    assert [e.failed for e in found] == [False] * 8
    assert max(e.tries for e in found) == 2
    assert sum(e.tries > 1 for e in found) == 1
    pids = {e.reply.answer for e in found}
    for p in tmp_path.iterdir():
        wait_for(lambda p=p: not alive(int(p.name)), f"the end of a worker, of {pids}")  # type: ignore[misc]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_nothing_runs_on_after_the_driver(how: signal.Signals, cluster: Any, tmp_path: Path) -> None:
    cluster.add_node(num_cpus=1)
    with driver(tmp_path, cluster.address) as process:
        wait_for(lambda: len(list(tmp_path.iterdir())) == 2, "both workers")
        process.send_signal(how)
        process.wait(60)
    for p in tmp_path.iterdir():
        wait_for(lambda p=p: not alive(int(p.name)), "the end of a worker")  # type: ignore[misc]


def test_a_cluster_that_is_started_here_ends_with_the_driver(tmp_path: Path) -> None:
    def raylets() -> set[str]:
        return {p.name for p in Path("/proc").iterdir() if p.name.isdigit() and b"raylet" in command_of(p)}

    before = raylets()
    with driver(tmp_path, "local") as process:
        wait_for(lambda: len(list(tmp_path.iterdir())) >= 1, "a worker")
        process.send_signal(signal.SIGKILL)
        process.wait(60)
    wait_for(lambda: raylets() <= before, "the end of the cluster")
    for p in tmp_path.iterdir():
        wait_for(lambda p=p: not alive(int(p.name)), "the end of a worker")  # type: ignore[misc]


def command_of(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes().split(b"\0")[0]
    except OSError:
        return b""


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "nowhere"])
def test_no_cluster(address: str) -> None:
    with (
        pytest.raises(RayError, match=f"no Ray cluster at {address}: "),
        Where(ray=address).workers(Work("")),
    ):
        pass
