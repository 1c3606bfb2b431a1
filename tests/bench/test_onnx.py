"""``tensat-dl bench onnx``: its networks run, and its table says what its results do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx_ir")

import numpy as np
import onnx
import onnxruntime

from tensat_dl.bench import onnx_cell, onnx_nets
from tensat_dl.bench.common import Row
from tensat_dl.bench.onnx import line, mean, notes, speedup
from tensat_dl.bench.onnx_models import ONNX_MODELS, Entry
from tensat_dl.bench.onnx_nets import Net
from tests.cli.running import invoke
from tests.measure.quick import quick

pytestmark = pytest.mark.sampled(3)

NETS: dict[str, dict[str, int]] = {
    "bert": {"layers": 1, "c": 16, "heads": 2, "tokens": 4},
    "vit": {"layers": 1, "c": 16, "heads": 2, "image": 32},
    "gpt2": {"layers": 1, "c": 16, "heads": 2, "tokens": 4},
    "resnet50": {"image": 32},
    "squeezenet": {"image": 48},
    "inception_v3": {"image": 75},
}


@pytest.mark.parametrize("name", NETS)
def test_networks_run(name: str) -> None:
    model = getattr(onnx_nets, name)(**NETS[name])
    onnx.checker.check_model(model)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    x = np.random.default_rng(1).standard_normal(session.get_inputs()[0].shape).astype(np.float32)
    (y,) = session.run(None, {session.get_inputs()[0].name: x})
    assert np.isfinite(y).all()
    assert y.std() > 0


def row(**speedups: float) -> Row:
    """What there is to say of a model that tools made so many times as fast."""
    found = {t: {"median": s, "low": s - 0.01, "high": s + 0.01, "iqr": 0.01} for t, s in speedups.items()}
    agreement = {t: {"status": "agrees", "max_rel": 1e-6, "message": ""} for t in ("tensat-dl", *speedups)}
    return {
        "model": "made up",
        "operators": 10,
        "opaque": 1,
        "nodes": {"original": 10, "tensat-dl": 8},
        "answer": "candidate" if "tensat-dl" in speedups else "original",
        "predicted_ms": {"before": 0.9, "after": 0.5},
        "latency": {"original": {"median_ms": 1.0, "iqr_ms": 0.1}},
        "speedup": found,
        "agreement": agreement,
        "seconds": {"tensat-dl": 12.3},
    }


def test_the_table() -> None:
    faster, unchanged = row(**{"tensat-dl": 1.2, "peer": 0.9}), row(peer=1.0)
    assert line(faster, ["peer"]) == [
        *("made up", "10", "10%", "1.00 ± 0.10", "0.90 (-10%)"),
        *("1.20x (1.19-1.21)", "8", "0.90x (0.89-0.91)", "1e-06", "12"),
    ]
    assert line(unchanged, ["peer"])[5] == "1.00x unchanged"
    wrong = row()
    wrong["agreement"]["peer"] = {"status": "differs"}
    assert line(wrong, ["peer", "other"])[7:9] == ["wrong", "-"]
    assert speedup(wrong, "peer") is None
    assert mean([faster, unchanged, wrong], "tensat-dl") == (pytest.approx(1.2 ** (1 / 3)), 3)
    assert mean([faster, unchanged, wrong], "peer") == (pytest.approx(0.9**0.5), 2)
    assert "slower than the original: none" in notes([faster, unchanged])
    assert "slower than the original: made up" in notes([row(**{"tensat-dl": 0.98})])
    assert notes([{"model": "x", "error": "no"}]) == []


def test_what_is_not_installed_is_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Entry, "path", None)
    monkeypatch.setattr(onnx_cell, "PEERS", ("no_such_package",))
    done = invoke("bench", "onnx", "nudenet", "magika", "--json", tmp_path / "r.json")
    assert (done.code, done.err) == (0, "")
    assert "not installed: the models nudenet, magika; pip install --no-deps" in done.out
    assert json.loads((tmp_path / "r.json").read_text())["rows"] == []


def test_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text(json.dumps({"rows": [{**row(), "model": "bert"}, {"model": "vit", "error": "no"}]}))
    done = invoke("bench", "onnx", "bert", "--resume", "--json", path)
    assert (done.code, done.err) == (0, "")
    assert "1.00x unchanged" in done.out
    path.write_text("{}")
    assert invoke("bench", "onnx", "bert", "--resume", "--json", path).code == 2
    assert invoke("bench", "onnx", "bert", "--resume").code == 2


def test_a_model_from_start_to_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In this process, and quickly."""
    quick(monkeypatch, tmp_path / "profiles")

    def run(command: list[str], **_: Any) -> Any:
        done = invoke(*command[3:])

        class Finished:
            returncode, stderr = done.code, done.err

        return Finished

    monkeypatch.setattr(onnx_cell.subprocess, "run", run)
    monkeypatch.setattr(onnx_cell, "STARTS", 2)

    def tiny() -> onnx.ModelProto:
        net = Net("tiny")
        x = net.input("x", 4, 8)
        return net.model(net.op("Relu", net.op("Relu", net.linear(x, "", 8, 8))))

    monkeypatch.setattr(onnx_nets, "tiny", tiny, raising=False)
    found = onnx_cell.measure("tiny", Entry(build="tiny"), 1, ())
    assert found["latency"]["original"]["median_ms"] > 0
    assert found["agreement"]["tensat-dl"]["status"] == "agrees"
    assert found["nodes"]["original"] == 4
    assert line(found, [])[0] == "tiny"


def test_models_have_names_of_their_own() -> None:
    assert len({(e.package, e.file, e.build) for e in ONNX_MODELS.values()}) == len(ONNX_MODELS)
