"""``run --measure`` with ONNX Runtime: what it says, not how fast anything is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx_ir")

import numpy as np

from tensat_dl.measure import cpu, operators, timing
from tensat_dl.processes import Failed
from tests.cli.running import invoke
from tests.measure.quick import quick

pytestmark = pytest.mark.sampled(3)

FRESH = cpu.time_in_fresh_process

SOURCE = """
import "groups"
graph g {
  input x : f32[16, 32]
  weight w1 : f32[32, 24]
  weight w2 : f32[32, 8]
  output relu(x @ w1), tanh(x @ w2)
}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    quick(monkeypatch, tmp_path / "profiles")
    (tmp_path / "g.tsr").write_text(SOURCE)
    return tmp_path


def run(folder: Path, *options: object) -> dict[str, Any]:
    done = invoke("run", folder / "g.tsr", *options, "-q", "--json", folder / "r.json")
    assert done.code == 0, done.err
    report: dict[str, Any] = json.loads((folder / "r.json").read_text())
    return report


def test_a_measured_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = run(folder, "--device", "cpu", "--measure", "-o", folder / "out.onnx")
    measured = report["measured"]
    assert measured["hardware"]["threads"] == "1"
    assert measured["versions"].keys() == {"onnxruntime", "timing"}
    assert measured["candidates"], "merging the products is one"
    assert all(c["reason"] == "" for c in measured["candidates"]), "all of them compute the same"
    ratio = measured["ratio"]
    assert 0 < ratio["low"] <= ratio["median"] <= ratio["high"]
    faster = ratio["high"] < 1
    assert ratio["confidence"] >= 0.99 or not faster, "what is not is soon given up"
    assert measured["answer"] == ("candidate" if faster else "original")
    assert (report["operators"]["before"] != report["operators"]["after"]) == faster
    assert bool(measured["reason"]) != faster
    assert measured["max_rel_error"] < 1e-4
    for side in ("before", "after"):
        assert measured[side]["predicted_ms"] > 0
        assert measured[side]["median_ms"] > 0
        assert measured[side]["samples"] >= (8 if faster else 1)
    assert report["cost"]["measured_share"] == report["cost"]["measured_share_before"] == 1.0
    assert report["time"]["measure"] > 0
    assert (folder / "out.onnx").exists()

    (profile,) = (folder / "profiles").glob("cpu-*.profile.json")
    before = profile.read_bytes()

    def refuse(self: object, signatures: object) -> None:
        raise AssertionError(f"{signatures} are measured again")

    monkeypatch.setattr(operators.OperatorTimer, "__call__", refuse)
    assert run(folder, "--device", "cpu", "--measure")["cost"]["measured_share_before"] == 1.0
    assert profile.read_bytes() == before
    priced = run(folder, "--device", "cpu", "--no-verify")
    assert priced["measured"] is None
    assert priced["cost"]["measured_share_before"] == 1.0, "without --measure, what is known is used"
    two = run(folder, "--device", "cpu", "--threads", "2", "--no-verify")
    assert two["cost"]["measured_share_before"] == 0.0, "two threads are another machine"


def test_only_this_machine_is_measured(folder: Path) -> None:
    done = invoke("run", folder / "g.tsr", "--measure")
    assert done.code == 2
    assert done.err.startswith("error: ")
    assert "GPU" in done.err


def test_the_original_wins_where_there_is_nothing_else(folder: Path) -> None:
    text = "graph g {\n  input x : f32[4]\n  output relu(x)\n}\n"
    (folder / "g.tsr").write_text(text)
    report = run(folder, "--device", "cpu", "--measure")
    assert report["measured"]["answer"] == "original"
    assert report["measured"]["reason"] == "no other graph was found"
    assert report["measured"]["ratio"] is None


def test_large_models_are_timed_as_far_as_memory_allows(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu, "available_memory", lambda: 3 * 3000 * 10)
    assert [cpu.room(n) for n in (0, 3000, 9000, 10**6)] == [cpu.MANY, 10, 3, 0]
    monkeypatch.setattr(cpu, "available_memory", lambda: 2 * 3 * 4096)  # the weights take 4 KiB
    report = run(folder, "--device", "cpu", "--measure")
    assert report["measured"]["reason"] == "there is not enough memory to time graphs of this size"
    assert report["measured"]["answer"] == "original"
    monkeypatch.setattr(cpu, "available_memory", lambda: 3 * 3 * 4096)
    measured = run(folder, "--device", "cpu", "--measure")["measured"]
    assert measured["ratio"] is not None
    assert [c["reason"] for c in measured["candidates"][1:]] == ["there is no memory left to time it"] * (
        len(measured["candidates"]) - 1
    )


def test_an_interrupt_leaves_the_input(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cpu, "time_in_fresh_process", interrupt)
    done = invoke("run", folder / "g.tsr", "--device", "cpu", "--measure", "-q", "--json", folder / "r")
    assert done.code == 130
    report = json.loads((folder / "r").read_text())
    assert report["measured"] is None
    assert report["operators"]["before"] == report["operators"]["after"]
    assert [note for note in report["notes"] if "interrupted" in note] == [
        "interrupted before candidates were timed: the input is the answer"
    ]


def test_an_interrupt_among_operators_still_gives_an_answer(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def interrupt(self: object, signatures: object) -> None:
        calls.append(signatures)
        raise KeyboardInterrupt

    monkeypatch.setattr(operators.OperatorTimer, "__call__", interrupt)
    done = invoke("run", folder / "g.tsr", "--device", "cpu", "--measure", "-q", "--json", folder / "r")
    assert done.code == 130
    assert len(calls) == 1
    report = json.loads((folder / "r").read_text())
    assert report["cost"]["measured_share"] == 0.0
    assert report["measured"] is None


def test_a_fresh_process_times_models(folder: Path) -> None:
    models = []
    for n in (1, 3):
        path = folder / f"{n}.onnx"
        path.write_bytes(operators._chain(n))
        models.append(path)
    np.savez(folder / "feeds.npz", x0=np.ones(1, np.float32))
    samples = FRESH([models[0], models[1]], folder / "feeds.npz", 1)
    assert timing.LEAST_ROUNDS <= len(samples) <= timing.MOST_ROUNDS
    assert all(len(seconds) == 2 and min(seconds) > 0 for seconds in samples)
    np.savez(folder / "feeds.npz", x0=np.ones((1, 2), np.float32))
    with pytest.raises(Failed, match="x0"):
        FRESH(models[:1], folder / "feeds.npz", 1)
