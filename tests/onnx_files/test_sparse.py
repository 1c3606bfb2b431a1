"""Sparse weights mean what ONNX Runtime takes them for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnx_ir")

import numpy as np
import onnx
import onnxruntime
from onnx.helper import make_attribute, make_node, make_sparse_tensor, make_tensor

from tests.cli.running import invoke

from .models import model, saved, value


def sparse(name: str, indices: list[Any], shape: tuple[int, ...] = (3, 4)) -> onnx.SparseTensorProto:
    """The values 1, 2, .. at these indices."""
    shape_of = [len(indices), len(indices[0])] if isinstance(indices[0], list) else [len(indices)]
    values = make_tensor(name, onnx.TensorProto.FLOAT, [len(indices)], np.arange(1.0, len(indices) + 1))
    flat = np.asarray(indices).reshape(-1)
    return make_sparse_tensor(values, make_tensor("", onnx.TensorProto.INT64, shape_of, flat), shape)


def product(weight: onnx.SparseTensorProto) -> onnx.ModelProto:
    proto = model(
        [make_node("MatMul", ["x", "w"], ["p"]), make_node("Relu", ["p"], ["y"])],
        [value("x", 2, 3)],
        [value("y", 2, 4)],
    )
    proto.graph.sparse_initializer.append(weight)
    return proto


def constant() -> onnx.ModelProto:
    proto = product(sparse("w", [0, 5, 7]))
    del proto.graph.sparse_initializer[:]
    node = make_node("Constant", [], ["w"])
    node.attribute.append(make_attribute("sparse_value", sparse("w", [0, 5, 7])))
    proto.graph.node.insert(0, node)
    return proto


@pytest.mark.parametrize(
    "proto",
    [product(sparse("w", [0, 5, 7])), product(sparse("w", [[0, 0], [1, 1], [1, 3]])), constant()],
    ids=["numbers", "rows", "constant"],
)
def test_a_sparse_weight(proto: onnx.ModelProto, tmp_path: Path) -> None:
    path, out = saved(tmp_path, proto), tmp_path / "out.onnx"
    done = invoke("run", path, "-o", out, "--no-measure")
    assert (done.code, done.err) == (0, "")
    x = np.random.default_rng(0).standard_normal((2, 3), np.float32)
    before, after = (onnxruntime.InferenceSession(str(p)).run(None, {"x": x})[0] for p in (path, out))
    np.testing.assert_allclose(before, np.maximum(x @ [[1, 0, 0, 0], [0, 2, 0, 3], [0] * 4], 0), rtol=1e-6)
    np.testing.assert_allclose(after, before, rtol=1e-6)


@pytest.mark.parametrize(
    ("weight", "say"),
    [
        (sparse("w", [0, 5, 12]), "the sparse weight w has indices that are not of its shape [3, 4]"),
        (sparse("w", [[0, 0], [1, 4]]), "the sparse weight w has indices that are not of its shape [3, 4]"),
        (sparse("w", [0], (2**20, 2**20)), "too large to be written out"),
    ],
    ids=["number", "row", "size"],
)
def test_a_sparse_weight_that_can_not_be(weight: onnx.SparseTensorProto, say: str, tmp_path: Path) -> None:
    done = invoke("run", saved(tmp_path, product(weight)), "-o", tmp_path / "out.onnx")
    assert done.code == 2
    assert say in done.err
    assert not (tmp_path / "out.onnx").exists()
