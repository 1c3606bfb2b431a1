"""The Python API with an ONNX model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx_ir")

import onnx
from onnx.helper import make_node

import tensat_dl
from tensat_dl.gpu.this_gpu import GpuError
from tensat_dl.report.html import result_to_html
from tests.measure.quick import quick
from tests.onnx_files.models import model, random, saved, value

pytestmark = pytest.mark.sampled(3)


def products() -> Any:
    """x a + x b, and an operator that no rule knows."""
    nodes = [
        make_node("MatMul", ["x", "a"], ["xa"]),
        make_node("MatMul", ["x", "b"], ["xb"]),
        make_node("Add", ["xa", "xb"], ["sum"]),
        make_node("Relu", ["sum"], ["r"]),
        make_node("Cos", ["r"], ["y"]),
    ]
    return model(
        nodes, [value("x", "n", 64)], [value("y", "n", 32)], [random("a", 64, 32), random("b", 64, 32)]
    )


def test_a_model_is_measured_and_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick(monkeypatch, tmp_path / "profiles")
    path, out = saved(tmp_path, products()), str(tmp_path / "faster.onnx")
    loaded = tensat_dl.load(path, dims={"n": 16})
    result = tensat_dl.optimize(loaded)
    assert result.device == "cpu"
    found = result.measured
    assert found is not None
    assert found.before is not None
    assert found.after is not None
    assert found.agreement is not None
    assert found.agreement.status == "agrees"
    tensat_dl.save(loaded, result, out)
    counts = {False: 5, True: 3}
    assert len(onnx.load(out).graph.node) == counts[found.winner is not None]

    report = {"nodes": 5, "opaque": 1, "reasons": [{"operator": "Cos", "count": 1, "reason": "not known"}]}
    page = result_to_html(result, report)
    assert "Measured on this machine" in page
    assert "largest error" in page
    assert "1 of them opaque (20%)" in page
    assert ("The input is the answer" in page) == (found.winner is None)
    assert "Measured on" not in result_to_html(tensat_dl.optimize(loaded, measure=False))


def test_what_differs_is_not_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = tensat_dl.load(saved(tmp_path, products()), dims={"n": 16})
    result = tensat_dl.optimize(loaded, device="h100")
    assert result.measured is None
    monkeypatch.setattr("tensat_dl.onnx.write.export", lambda *_: tensat_dl.load(other).onnx.model)  # type: ignore[union-attr]
    nodes = [make_node("Neg", ["x"], ["y"])]
    other = saved(tmp_path, model(nodes, [value("x", 16, 64)], [value("y", 16, 64)]), "other.onnx")
    with pytest.raises(tensat_dl.Mismatch, match="output y differs"):
        tensat_dl.save(loaded, result, str(tmp_path / "faster.onnx"))
    assert not (tmp_path / "faster.onnx").exists()


def test_fused_operators_are_written_as_what_they_are_made_of(tmp_path: Path) -> None:
    nodes = [
        make_node("Relu", ["x"], ["r"]),
        make_node("Mul", ["r", "x"], ["m"]),
        make_node("Tanh", ["m"], ["y"]),
    ]
    path, out = saved(tmp_path, model(nodes, [value("x", 64, 64)], [value("y", 64, 64)])), tmp_path / "f.onnx"
    loaded = tensat_dl.load(path)
    result = tensat_dl.optimize(loaded, device="h100", fuse=True)
    assert any(n.op in result.declared for n in result.after.graph.nodes)
    tensat_dl.save(loaded, result, str(out))
    assert [n.op_type for n in onnx.load(out).graph.node] == ["Relu", "Mul", "Tanh"]


def test_only_this_machine_can_be_measured(tmp_path: Path) -> None:
    loaded = tensat_dl.load(saved(tmp_path, products()), dims={"n": 16})
    with pytest.raises(GpuError, match="GPU"):
        tensat_dl.optimize(loaded, device="h100", measure=True)
