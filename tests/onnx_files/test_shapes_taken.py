"""Models ask for shapes of values that their answers do not compute: answers take them from others."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.helper import make_graph, make_node

from tests.cli.running import invoke
from tests.onnx_files.models import model, random, saved, tensor, value

pytestmark = pytest.mark.sampled(2)

#: x (v + w) for two weights: the answer has one product.
PRODUCTS = (
    make_node("MatMul", ["x", "v"], ["a"]),
    make_node("MatMul", ["x", "w"], ["b"]),
    make_node("Add", ["a", "b"], ["h"]),
)


def answer(tmp_path: Path, proto: onnx.ModelProto) -> onnx.ModelProto:
    """The answer, which computes what the model does at several sizes."""
    path, out = saved(tmp_path, proto), tmp_path / "out.onnx"
    done = invoke("run", path, "--no-measure", "-o", out)
    assert done.code == 0, done.err
    before, after = onnxruntime.InferenceSession(path), onnxruntime.InferenceSession(out)
    for rows, width in ((2, 5), (1, 1), (7, 3)):
        shape = [
            d if isinstance(d, int) else {"rows": rows, "width": width}[d]
            for d in before.get_inputs()[0].shape
        ]
        x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        for p, q in zip(before.run(None, {"x": x}), after.run(None, {"x": x}), strict=True):
            np.testing.assert_allclose(p, q, rtol=1e-4, atol=1e-5)
    return onnx.load(out)


def operators(proto: onnx.ModelProto) -> Counter[str]:
    return Counter(n.op_type for n in proto.graph.node)


def ones_of(shape: str) -> list[onnx.NodeProto]:
    """What only a node that is opaque makes of a shape."""
    one = onnx.helper.make_tensor("one", onnx.TensorProto.FLOAT, [1], [1.0])
    return [
        make_node("ConstantOfShape", [shape], ["ones"], value=one),
        make_node("CumSum", ["ones", "axis"], ["places"]),
    ]


def test_from_a_value_of_the_same_shape(tmp_path: Path) -> None:
    nodes = [
        *PRODUCTS,
        make_node("Shape", ["a"], ["s"]),
        *ones_of("s"),
        make_node("Add", ["h", "places"], ["y"]),
    ]
    weights = [random("v", 8, 8), random("w", 8, 8), tensor("axis", 1, np.int64)]
    found = answer(tmp_path, model(nodes, [value("x", "rows", "width", 8)], ["y"], weights))
    assert operators(found)["MatMul"] == 1
    (shape,) = (n for n in found.graph.node if n.op_type == "Shape")
    assert list(shape.input) == ["x"]


def test_from_dimensions_of_inputs(tmp_path: Path) -> None:
    """No value of the answer has the shape [rows, 8, width]."""
    nodes = [
        make_node("Transpose", ["x"], ["t"], perm=[0, 2, 1]),
        make_node("Transpose", ["t"], ["back"], perm=[0, 2, 1]),
        make_node("Shape", ["t"], ["s"], start=1),
        *ones_of("s"),
        make_node("ReduceMax", ["places"], ["most"], keepdims=0),
        make_node("Mul", ["back", "most"], ["y"]),
    ]
    proto = model(nodes, [value("x", "rows", "width", 8)], ["y"], [tensor("axis", 1, np.int64)], 18)
    found = answer(tmp_path, proto)
    assert "Transpose" not in operators(found)
    assert {n.input[0] for n in found.graph.node if n.op_type == "Shape"} == {"x"}


def test_known_shapes_are_numbers(tmp_path: Path) -> None:
    nodes = [
        *PRODUCTS,
        make_node("Shape", ["a"], ["s"]),
        *ones_of("s"),
        make_node("Add", ["h", "places"], ["y"]),
    ]
    weights = [random("v", 8, 8), random("w", 8, 8), tensor("axis", 1, np.int64)]
    found = answer(tmp_path, model(nodes, [value("x", 3, 4, 8)], ["y"], weights))
    assert operators(found)["MatMul"] == 1
    assert "Shape" not in operators(found)


def test_not_from_what_is_computed_from_the_shape(tmp_path: Path) -> None:
    """The sums are all that has the shape [width, rows] of the transpose, but they need it."""
    nodes = [
        make_node("ReduceSum", ["x", "last"], ["r"], keepdims=0),
        make_node("Transpose", ["r"], ["t"], perm=[1, 0]),
        make_node("Transpose", ["t"], ["back"], perm=[1, 0]),
        make_node("Shape", ["t"], ["s"]),
        *ones_of("s"),
        make_node("Transpose", ["places"], ["p"], perm=[1, 0]),
        make_node("Add", ["back", "p"], ["y"]),
    ]
    weights = [tensor("axis", 1, np.int64), tensor("last", [-1], np.int64)]
    found = answer(tmp_path, model(nodes, [value("x", "rows", "width", 8)], ["y"], weights, 18))
    onnx.checker.check_model(found, full_check=True)


def test_what_only_a_replaced_branch_took_is_removed(tmp_path: Path) -> None:
    """The If is written anew, with another operand. The first one's branches took the model's own products."""
    branches = {
        f"{name}_branch": make_graph(
            [make_node(op, ["h"], [f"{name}_y"])], name, [], [value(f"{name}_y", None, None, 8)]
        )
        for name, op in (("then", "Neg"), ("else", "Abs"))
    }
    nodes = [
        *PRODUCTS,
        make_node("ReduceMax", ["x"], ["most"], keepdims=0),
        make_node("Greater", ["most", "zero"], ["positive"]),
        make_node("If", ["positive"], ["y"], **branches),
    ]
    weights = [random("v", 8, 8), random("w", 8, 8), tensor("zero", 0.0)]
    found = answer(tmp_path, model(nodes, [value("x", "rows", "width", 8)], ["y"], weights))
    assert operators(found)["MatMul"] == 1
