"""The Python API with an ONNX model."""

from __future__ import annotations

import gc
import io
import tempfile
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

    assert loaded.onnx is not None
    reasons = [{"operator": "Cos", "count": 1, "reason": "not known"}]
    page = result_to_html(result, {**loaded.onnx.to_json(), "nodes": 5, "opaque": 1, "reasons": reasons})
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
    with pytest.raises(tensat_dl.Mismatch, match="output y has another shape or type, or infinities"):
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


def test_a_model_takes_the_place_of_a_link_to_itself(tmp_path: Path) -> None:
    """As a text does. Before Python 3.13 `Path.resolve` raises a RuntimeError for it."""
    nodes = [make_node("Relu", ["x"], ["r"]), make_node("Relu", ["r"], ["y"])]
    loaded = tensat_dl.load(saved(tmp_path, model(nodes, [value("x", 4, 4)], [value("y", 4, 4)])))
    out = tmp_path / "loop.onnx"
    out.symlink_to(out)
    tensat_dl.save(loaded, tensat_dl.optimize(loaded, measure=False), out)
    assert not out.is_symlink()
    onnx.checker.check_model(str(out))


def test_only_this_machine_can_be_measured(tmp_path: Path) -> None:
    loaded = tensat_dl.load(saved(tmp_path, products()), dims={"n": 16})
    with pytest.raises(GpuError, match="GPU"):
        tensat_dl.optimize(loaded, device="h100", measure=True)


def test_open_files(tmp_path: Path) -> None:
    """A file that is open, or is no file at all, is the same model as its path, weights of other files included."""
    proto = products()
    path = saved(tmp_path, proto)
    onnx.save(proto, tmp_path / "apart.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    by_path = tensat_dl.load(path, dims={"n": 16})
    for name in (path, tmp_path / "apart.onnx"):
        with open(name, "rb") as file:
            by_file = tensat_dl.load(file, dims={"n": 16})
        assert by_file.graph == by_path.graph
        assert by_file.file == str(name)
    model = tensat_dl.load(io.BytesIO(Path(path).read_bytes()), dims={"n": 16})
    assert model.graph == by_path.graph
    assert [r.name for r in model.rules] == [r.name for r in by_path.rules]
    result = tensat_dl.optimize(model, device="h100")
    for out in ("faster.onnx", "faster.tsr"):
        tensat_dl.save(model, result, tmp_path / out)
    onnx.checker.check_model(str(tmp_path / "faster.onnx"))
    assert (tmp_path / "faster.tsr").read_text().splitlines()[-1] == "}"
    assert "// made by: tensat-dl run - --device h100 --dim n=16\n" in (tmp_path / "faster.tsr").read_text()
    assert model.onnx is not None
    kept = Path(model.onnx.path)
    assert kept.exists()
    del model
    gc.collect()
    assert not kept.exists()


def test_bytes_that_are_no_model() -> None:
    before = set(Path(tempfile.gettempdir()).glob("tensat-dl-*"))
    with pytest.raises(tensat_dl.TsrError, match=r"^<file>: error: this is not an ONNX file"):
        tensat_dl.load(io.BytesIO(b"graph g { input x : f32[2] }"))
    assert set(Path(tempfile.gettempdir()).glob("tensat-dl-*")) <= before


def test_views_of_a_model(tmp_path: Path) -> None:
    loaded = tensat_dl.load(saved(tmp_path, products()), dims={"n": 16})
    assert "5 nodes, 1 of them opaque (20%): Cos" in loaded.summary()
    assert max(len(repr(x)) for x in (loaded, loaded.onnx, loaded.program)) < 250 + 2 * len(str(tmp_path))
