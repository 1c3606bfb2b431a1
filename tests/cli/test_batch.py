"""``tensat-dl batch``: many models; whatever stops it, it goes on there, and the answers are those of ``run``."""

from __future__ import annotations

import json
import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from tensat_dl.jobs.job import Ended, Job, Reply
from tensat_dl.run.batch import MANIFEST, Manifest, alone_in, models_in
from tensat_dl.run.one_of_many import Answered, ToOptimize, optimizer
from tensat_dl.run.options import Options
from tests.cli.processes import alive, children, linux, wait_for
from tests.cli.running import EXAMPLES, ROOT, invoke, start
from tests.jobs.disks import fill, small_disk

pytestmark = pytest.mark.sampled(3)

QUICK = ("tiny_associativity", "tiny_fuse_relu", "tiny_share_input")


@pytest.fixture
def models(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    (folder / "deep").mkdir(parents=True)
    for name in QUICK:
        shutil.copy(EXAMPLES / f"{name}.tsr", folder)
    shutil.copy(EXAMPLES / "tiny_fuse_relu.tsr", folder / "deep")
    (folder / "rules.tsr").write_text("rule r { relu(relu(x)) => relu(x) }\n")
    return folder


def entries(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / MANIFEST).read_text())["models"]
    return found


def answers(out: Path) -> dict[str, bytes]:
    return {p.relative_to(out).as_posix(): p.read_bytes() for p in out.rglob("*.tsr")}


def test_a_folder(models: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = invoke("batch", models, "-o", out, "--jobs", 1)
    assert done.code == 0, done.err
    names = {*(f"{name}.tsr" for name in QUICK), "deep/tiny_fuse_relu.tsr"}
    assert set(answers(out)) == set(entries(out)) == names
    assert "4 models: 4 faster; 0 done before" in done.out
    assert "deep/tiny_fuse_relu.tsr" in done.out

    # The answers are those of `run`, and of any number of workers.
    alone = tmp_path / "out" / "alone.tsr"
    assert invoke("run", models / "tiny_share_input.tsr", "-q", "-o", alone).code == 0
    assert alone.read_bytes() == answers(out)["tiny_share_input.tsr"]
    alone.unlink()
    (tmp_path / "elsewhere").mkdir()
    assert invoke("batch", models, "-q", "-o", tmp_path / "out4", "--jobs", 4).code == 0
    assert answers(tmp_path / "out4") == answers(out)

    # What is done is not done again; what was damaged, or has changed, is.
    with patch("tensat_dl.jobs.local.Host.run", side_effect=AssertionError):
        assert "4 done before" in invoke("batch", models, "-o", out).out
    before = entries(out)
    (out / "tiny_share_input.tsr").write_text("damaged")
    (models / "tiny_fuse_relu.tsr").write_text((models / "tiny_fuse_relu.tsr").read_text() + "\n// more\n")
    done = invoke("batch", models, "-o", out)
    assert "2 done before" in done.out
    after = entries(out)
    assert {name for name in names if before[name]["key"] != after[name]["key"]} == {"tiny_fuse_relu.tsr"}
    assert answers(out) == answers(tmp_path / "out4")

    # An option that decides answers starts all anew; those that do not, none.
    assert "4 done before" in invoke("batch", models, "-o", out, "--retries", 0, "--job-time", 99).out
    assert "0 done before" in invoke("batch", models, "-o", out, "--max-iters", 3).out


@pytest.mark.parametrize(
    "start", ["\ufeffgraph g {", "graph\tg {", "op f(x: tensor) = x; graph g {", "graph g{"]
)
def test_graphs_of_a_folder_are_found_however_they_are_written(start: str, tmp_path: Path) -> None:
    """The folder has also what is no text: that is refused, and not passed over."""
    (tmp_path / "m.tsr").write_text(f"{start}\n  input x : f32[4]\n  output relu(x)\n}}\n", encoding="utf-8")
    (tmp_path / "utf16.tsr").write_text("graph g {\n}\n", encoding="utf-16")
    (tmp_path / "rules.tsr").write_text(
        "// A graph has it.\n/// The\n/// graph of it.\nrule r { relu(relu(x)) => relu(x) }\n"
    )
    found = models_in([str(tmp_path)], tmp_path / "out")
    assert [m.name for m in found] == ["m.tsr", "utf16.tsr"]


def test_a_model_whose_files_were_sent(models: Path, tmp_path: Path) -> None:
    """.. gives the same bytes, with its imports and rules from files, and messages name its own files."""
    (models / "own.tsr").write_text(
        'import "rules.tsr"\ngraph g {\n  input x : f32[4]\n  output relu(relu(x))\n}\n'
    )
    (models / "wrong.tsr").write_text("graph g {\n  output nothing\n}\n")
    extra = str(models / "rules.tsr")
    for name, packs in (("own.tsr", ()), ("tiny_share_input.tsr", (extra,)), ("wrong.tsr", ())):
        file = str(models / name)
        asked = ToOptimize(file, file, str(tmp_path / "out" / name))
        answer = optimizer(Options(), packs, None)
        here = answer(asked, "")
        root = tmp_path / "root"
        shutil.copytree(models, Path(f"{root}{models}"), dirs_exist_ok=True)
        moved = models.rename(tmp_path / "away")
        there = answer(asked, str(root))
        moved.rename(models)
        assert there == here
        assert bool(here.files) == (name != "wrong.tsr")


def test_a_model_that_is_refused_does_not_stop_the_others(models: Path, tmp_path: Path) -> None:
    out, listed = tmp_path / "out", models / "list.txt"
    (models / "broken.tsr").write_text("graph g {\n  output nothing\n}\n")
    (models / "false.tsr").write_text(
        "rule r { relu(x) => x }\ngraph g {\n  input x : f32[4]\n  output relu(x)\n}\n"
    )
    listed.write_text("# some\nbroken.tsr\nfalse.tsr\nnot_there.tsr\n\ndeep/tiny_fuse_relu.tsr\n")
    done = invoke("batch", listed, "-o", out)
    assert done.code == 1
    assert "unknown name" in done.err or "nothing" in done.err
    assert "broken.tsr:2:" in done.err
    assert "counterexample" in done.err or "is false" in done.err
    assert "not_there.tsr: No such file" in done.err
    assert set(answers(out)) == {"deep/tiny_fuse_relu.tsr"}
    statuses = {name: e["status"] for name, e in entries(out).items()}
    assert sorted(statuses.values()) == ["faster", "refused", "refused", "refused"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Missing argument"),
        (("nothing",), "nothing: no such file"),
        (("README.md",), "no model (.tsr, .onnx), no folder and no list (.txt)"),
        (("docs",), "no models"),
        (("examples", "--device", "h99"), "unknown device `h99`"),
        (("examples", "--ray", "127.0.0.1:1"), "--ray needs the package ray"),
        (("a/m.tsr", "b/m.tsr"), "would both be"),
    ],
)
def test_bad_input_is_a_sentence(arguments: tuple[object, ...], message: str, tmp_path: Path) -> None:
    with patch.dict("sys.modules", {"ray": None}):
        done = invoke("batch", *arguments, "-o", tmp_path / "out")
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err


@linux
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_batch_that_is_stopped_goes_on(how: signal.Signals, models: Path, tmp_path: Path) -> None:
    """.. and nothing is half-written, and nothing runs on."""
    out = tmp_path / "out"
    shutil.copy(EXAMPLES / "nasnet_a.tsr", models / "long.tsr")  # takes longer than the others together
    with start("batch", models, "-o", out, "--jobs", 2, cwd=ROOT) as process:
        wait_for(lambda: (out / MANIFEST).exists() and len(entries(out)) >= 1, "a model")
        workers = children(process.pid)
        process.send_signal(how)
        _, said = process.communicate()
    assert process.returncode == (130 if how == signal.SIGINT else -9)
    assert ("the same command goes on" in said) == (how == signal.SIGINT)
    for pid in workers:
        wait_for(lambda pid=pid: not alive(pid), "the end of a worker")  # type: ignore[misc]
    finished = entries(out)
    assert 1 <= len(finished) < 5
    assert all((out / name).read_bytes() for name in finished)
    assert not [p for p in out.rglob(".tensat-dl-*") if how == signal.SIGINT]
    (models / "long.tsr").unlink()
    done = invoke("batch", models, "-o", out, "--jobs", 1)
    assert done.code == 0, done.err
    assert f"{len(set(finished) - {'long.tsr'})} done before" in done.out


def test_a_job_that_fails_is_reported_with_its_log(models: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = invoke("batch", models, "-o", out, "--jobs", 1, "--retries", 1, "--job-time", 0.01)
    assert done.code == 1
    assert "failed: tiny_fuse_relu.tsr: no answer within 0.01 s" in done.err
    assert entries(out)["tiny_fuse_relu.tsr"]["tries"] == 2
    assert (out / "tiny_fuse_relu.tsr.log").read_text().count("attempt ") == 2
    assert not answers(out)
    assert invoke("batch", models, "-q", "-o", out).code == 0  # failures are tried again
    assert not (out / "tiny_fuse_relu.tsr.log").exists()


def test_a_small_disk(tmp_path: Path) -> None:
    """.. has what it has room for. The others fail, and the same command does them once there is room."""
    (tmp_path / "disk").mkdir()
    with small_disk(tmp_path / "disk"):
        batches_on(tmp_path / "disk")


def batches_on(small_disk: Path) -> None:
    large = small_disk.parent / "large.tsr"
    inputs = "".join(f"  input x{i} : f32[4]\n" for i in range(1000))
    outputs = "".join(f"  output relu(x{i})\n" for i in range(1000))
    large.write_text(f"graph large {{\n{inputs}{outputs}}}\n")
    filler = fill(small_disk, 30_000)
    out = small_disk / "out"
    named = [EXAMPLES / "tiny_fuse_relu.tsr", large, EXAMPLES / "tiny_associativity.tsr"]
    quick = ("--max-iters", 1, "--extract", "greedy", "--jobs", 1, "--retries", 0)
    done = invoke("batch", *named, "-o", out, *quick)
    assert done.code == 1, done.err
    assert "failed: large.tsr: " in done.err
    assert "No space left on device" in done.err
    assert set(answers(out)) == {"tiny_fuse_relu.tsr", "tiny_associativity.tsr"}
    assert set(entries(out)) == {p.name for p in named}
    assert not list(out.glob(".tensat-dl-*"))

    # Where not even the manifest can be written, the table is printed yet.
    filler.write_bytes(bytes(sum(p.stat().st_size for p in small_disk.rglob("*") if p.is_file())))
    with suppress(OSError):
        (small_disk / "more").write_bytes(bytes(1 << 20))
    done = invoke("batch", *named, "-o", out, *quick, "--max-nodes", 30_000)
    assert done.code == 2
    assert "manifest.json: no space left" in done.err
    assert "3 models: 3 failed" in done.out
    assert set(answers(out)) == {"tiny_fuse_relu.tsr", "tiny_associativity.tsr"}
    for p in (filler, small_disk / "more"):
        p.unlink()
    assert "3 models: " in (done := invoke("batch", *named, "-o", out, *quick)).out
    assert done.code == 0, done.err
    assert "2 done before" in done.out


def test_a_model_that_is_no_longer_refused(tmp_path: Path) -> None:
    """It was not done before, and is not counted against those that were."""
    (tmp_path / "list.txt").write_text("late.tsr\n")
    os.mkfifo(tmp_path / "late.tsr")
    arguments = ("batch", tmp_path / "list.txt", "-o", tmp_path / "out")
    assert "1 refused; 0 done before" in invoke(*arguments).out
    (tmp_path / "late.tsr").unlink()
    (tmp_path / "late.tsr").write_text("graph g {\n  input x : f32[4]\n  output relu(x)\n}\n")
    assert "1 unchanged; 0 done before" in invoke(*arguments).out


def test_no_input_is_overwritten(models: Path, tmp_path: Path) -> None:
    """.. by an answer: no model, and nothing that one imports."""
    before = {p: p.read_bytes() for p in models.rglob("*.tsr")}
    (tmp_path / "linked").symlink_to(models)
    other = tmp_path / "rules.tsr"
    other.write_text('import "models/rules.tsr"\ngraph g {\n  input x : f32[4]\n  output relu(x)\n}\n')
    for out in (models, tmp_path / "linked"):
        for model in (models / "tiny_fuse_relu.tsr", other):
            done = invoke("batch", model, "-o", out)
            assert (done.code, done.out) == (2, "")
            assert f"{models / model.name} is an input, which would be lost" in done.err
    assert {p: p.read_bytes() for p in models.rglob("*.tsr")} == before


def test_answers_go_to_another_folder(models: Path) -> None:
    done = invoke("batch", models / "deep", "-o", models)
    assert done.code == 2
    assert f"{models / 'deep'} is in {models}, where the answers go" in done.err


def test_one_batch_at_a_time_in_a_folder(models: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with alone_in(tmp_path / "out"):
        done = invoke("batch", models, "-o", tmp_path / "out")
        assert (done.code, done.out) == (2, "")
        assert f"another batch is at work in {tmp_path / 'out'}" in done.err
    with alone_in(tmp_path / "out"):
        pass


@linux
def test_names_of_files_may_be_anything(tmp_path: Path) -> None:
    """.. that the system allows; lists may have them, too. What is no file is refused."""
    folder, out = tmp_path / "models", tmp_path / "out"
    folder.mkdir()
    names = [b"caf\xe9.tsr", b"two\nlines.tsr", b"[bold]'quoted\".tsr", "π ü.tsr".encode()]
    for name in names:
        shutil.copy(EXAMPLES / "tiny_fuse_relu.tsr", os.fsencode(folder) + b"/" + name)
    (folder / "link.tsr").symlink_to("π ü.tsr")
    (folder / "nowhere.tsr").symlink_to("nothing")
    (folder / "round").symlink_to(".")
    done = invoke("batch", folder, "-o", out)
    assert done.code == 0, done.err
    assert set(os.listdir(os.fsencode(out))) == {*names, b"link.tsr", MANIFEST.encode()}
    assert "[bold]'quoted" in done.out
    for name in names:
        assert invoke("run", os.fsdecode(os.fsencode(out) + b"/" + name), "-q").code == 0
    assert "5 done before" in invoke("batch", folder, "-o", out).out
    os.mkfifo(tmp_path / "pipe.tsr")
    (folder / "list.txt").write_bytes(b"caf\xe9.tsr\n../pipe.tsr\nnowhere.tsr\n")
    done = invoke("batch", folder / "list.txt", "-o", out)
    assert done.code == 1
    assert "1 done before" in done.out
    assert "pipe.tsr is no regular file" in done.err
    assert "nowhere.tsr: No such file" in done.err
    (folder / "list.txt").write_bytes(b"a.tsr\nb\0.tsr\n")
    done = invoke("batch", folder / "list.txt", "-o", out)
    assert done.code == 2
    assert "list.txt:2: a path has no NUL character" in done.err


def test_an_output_folder_that_is_removed_meanwhile(models: Path, tmp_path: Path) -> None:
    """.. is made again. What was in it is done by the next batch."""
    out = tmp_path / "out"
    taken = Manifest.take

    def removes(*args: Any) -> Any:
        shutil.rmtree(out)
        return taken(*args)

    with patch.object(Manifest, "take", removes):
        done = invoke("batch", models, "-o", out, "--jobs", 1)
    assert done.code == 0, done.err
    assert len(answers(out)) == 1
    assert "1 done before" in invoke("batch", models, "-o", out).out
    assert len(answers(out)) == 4


def test_a_full_disk_fails_one_model(tmp_path: Path) -> None:
    """An answer that can't be written leaves nothing half-written, and the others are written."""
    manifest = Manifest(tmp_path)

    def ended(size: int) -> Ended:
        return Ended(Job("", None), Reply(Answered({"status": "faster"}, {"m.tsr": bytes(size)})), 1)

    real = os.fsync

    def full(handle: int) -> None:
        if os.fstat(handle).st_size > 1_000_000:
            raise OSError(28, "No space left on device")
        real(handle)

    with patch("os.fsync", full):
        assert manifest.take("large/m.tsr", "k", ended(2_000_000))["status"] == "failed"
        assert manifest.take("small/m.tsr", "k", ended(10))["status"] == "faster"
    manifest.write()
    assert [p.name for p in (tmp_path / "large").iterdir()] == []
    assert "No space left" in entries(tmp_path)["large/m.tsr"]["message"]
    assert Manifest.of(tmp_path).is_done("small/m.tsr", "k")
    assert not Manifest.of(tmp_path).is_done("large/m.tsr", "k")


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"models": 3}'])
def test_a_damaged_manifest_is_as_none(damage: str, tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_text(damage)
    assert Manifest.of(tmp_path).entries == {}
