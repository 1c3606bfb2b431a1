"""Products by one-hot rows, as exporters write them, from start to end."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnx_ir")

import numpy as np
import onnx
import onnxruntime
from onnx.helper import make_node

from tests.cli.running import invoke

from .models import model, random, read, rewriting, saved, tensor, value

pytestmark = pytest.mark.sampled(3)

ONE_HOT = {
    "OneHot": [make_node("OneHot", ["i", "n", "values"], ["h"], axis=2)],
    "Equal": [
        make_node("Unsqueeze", ["i", "last"], ["column"]),
        make_node("Equal", ["places", "column"], ["e"]),
        make_node("Cast", ["e"], ["h"], to=1),
    ],
}


@pytest.mark.parametrize("form", ONE_HOT)
def test_products_by_one_hot_rows_become_look_ups(form: str, tmp_path: Path) -> None:
    """Also at numbers that stand for no row, or that count from the end, and with what is computed of each row."""
    dtype = np.int64 if form != "Equal" else np.int32
    rows, columns, many = 600, 256, (32, 256)
    nodes = [
        *ONE_HOT[form],
        make_node("MatMul", ["h", "w"], ["m"]),
        make_node("Add", ["m", "b"], ["a"]),
        make_node("Sigmoid", ["a"], ["y"]),
    ]
    weights = [
        *(tensor("n", rows, dtype), tensor("values", [0, 1]), tensor("last", [-1], np.int64)),
        tensor("places", np.arange(rows).reshape(1, 1, rows), dtype),
        *(random("w", rows, columns), random("b", columns)),
    ]
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    proto = model(nodes, [value("i", *many, dtype=kind)], [value("y", *many, columns)], weights)
    imported = read(tmp_path, proto)
    assert dict(imported.unmapped) == {}
    assert rewriting(tmp_path, imported).status == "agrees"
    before, after = tmp_path / "model.onnx", tmp_path / "faster.onnx"
    done = invoke("run", before, "-o", after, "--device", "h100")
    assert (done.code, done.err) == (0, "")
    made = {n.op_type for n in onnx.load(after).graph.node}
    assert "Gather" in made
    assert made.isdisjoint({"MatMul", "Gemm", "OneHot", "Cast", "Sigmoid"})
    x = np.random.default_rng(0).integers(-2 * rows, 2 * rows, many, dtype)
    assert np.unique(np.floor_divide(x, rows)).tolist() == [-2, -1, 0, 1]
    first, second = (onnxruntime.InferenceSession(str(p)).run(None, {"i": x})[0] for p in (before, after))
    np.testing.assert_allclose(first, second, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("form", ONE_HOT)
def test_one_hot_rows_of_any_number(form: str, tmp_path: Path) -> None:
    """What is written for them fits other sizes than the one that it is optimized for."""
    nodes = [
        *(make_node("Neg", ["j"], ["k"]), make_node("Neg", ["k"], ["i"])),
        *ONE_HOT[form],
        *(make_node("Neg", ["h"], ["g"]), make_node("Neg", ["g"], ["y"])),
    ]
    weights = [
        *(tensor("n", 5, np.int64), tensor("values", [0, 1]), tensor("last", [-1], np.int64)),
        tensor("places", np.arange(5), np.int64),
    ]
    given = value("j", "batch", 4, dtype=onnx.TensorProto.INT64)
    path = saved(tmp_path, model(nodes, [given], [value("y", "batch", 4, 5)], weights))
    done = invoke("run", path, "-o", tmp_path / "faster.onnx", "--no-measure")
    assert (done.code, done.err) == (0, "")
    assert "Neg" not in {n.op_type for n in onnx.load(tmp_path / "faster.onnx").graph.node}
