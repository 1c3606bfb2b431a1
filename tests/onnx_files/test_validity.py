"""Models that ONNX's checker and ONNX Runtime refuse. One that only one of them refuses is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnx_ir")

import onnx
from onnx.helper import make_node

from tests.cli.running import invoke

from .models import model, random, read, saved, tensor, value
from .refusing import refused

pytestmark = pytest.mark.sampled(5)


def single(op: str, *operands: str, **attributes: Any) -> onnx.ModelProto:
    """One node on x : f32[4, 64], its weights w : f32[64, 64], and lists."""
    weights = [random("w", 64, 64), tensor("thirds", [3, -1], np.int64), tensor("floats", [0.0, 1.0])]
    inputs = [value("x", 4, 64), value("i", 4, 64, dtype=onnx.TensorProto.INT64)]
    outputs = [onnx.helper.make_tensor_value_info("y", 1, None)]
    return model([make_node(op, operands, ["y"], **attributes)], inputs, outputs, weights)


@pytest.mark.parametrize(
    ("proto", "say"),
    [
        (single("Softmax", "x", axis="one"), "Mismatched attribute type in 'y : axis'"),
        (single("Softmax", "x", axis=[1.5]), "Mismatched attribute type in 'y : axis'"),
        (single("Softmax", "x", axis=7), "'axis' must be in [-2 , 1]"),
        (single("AveragePool", "x", kernel_shape=[1], pads=99), "Mismatched attribute type in 'y : pads'"),
        (single("Shape"), "has input size 0 not in range [min=1, max=1]"),
        (single("Relu", ""), "input 0 is marked single but has an empty string"),
        (single("Slice", "x", "floats", "floats"), "Only supports `int32_t` or `int64_t`"),
        (single("MatMul", "w", "x"), "Incompatible dimensions for matrix multiplication"),
        (single("Add", "x", "i"), "B has inconsistent type tensor(int64)"),
        (single("Transpose", "x", perm=[0, 0]), "Attribute perm for Transpose has repeated value"),
        (single("Reshape", "x", "thirds"), "Dimension could not be inferred"),
        (single("Frobnicate", "x"), "No Op registered for Frobnicate"),
    ],
)
def test_a_node_that_is_not_valid_is_named(proto: onnx.ModelProto, say: str, tmp_path: Path) -> None:
    op = proto.graph.node[0].op_type
    path = saved(tmp_path, proto)
    refused(path, say=say, hint="the model is not valid")
    refused(path, say=f"the node {op} that gives y is not valid: ")


def test_inputs_that_are_not_valid(tmp_path: Path) -> None:
    proto = single("Relu", "x")
    proto.graph.input.append(proto.graph.input[0])
    refused(saved(tmp_path, proto), say="two inputs have the name x")
    proto = single("Relu", "x")
    proto.graph.input[0].ClearField("type")
    refused(saved(tmp_path, proto), say="the input x has no type")


def test_a_node_in_a_branch(tmp_path: Path) -> None:
    inner = make_node("Softmax", ["x"], ["p"], axis="one")
    branch = onnx.helper.make_graph([inner], "branch", [], [value("p", 4, 64)])
    proto = model(
        [make_node("If", ["flag"], ["y"], then_branch=branch, else_branch=branch)],
        [value("x", 4, 64), value("flag", dtype=onnx.TensorProto.BOOL)],
        [value("y", 4, 64)],
    )
    refused(saved(tmp_path, proto), say="the node Softmax that gives p is not valid")


def test_weights_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They may take gigabytes: the check has their shapes alone."""
    sizes: list[int] = []
    infer = onnx.shape_inference.infer_shapes

    def noted(proto: Any, **options: Any) -> Any:
        sizes.append(proto.ByteSize())
        return infer(proto, **options)

    monkeypatch.setattr(onnx.shape_inference, "infer_shapes", noted)
    nodes = [make_node("MatMul", ["x", "w"], ["y"])]
    read(tmp_path, model(nodes, [value("x", 4, 512)], [value("y", 4, 512)], [random("w", 512, 512)]))
    assert max(sizes) < 10_000
    with pytest.raises(Exception, match="Incompatible dimensions"):
        read(tmp_path, model(nodes, [value("x", 4, 64)], [value("y", 4, 512)], [random("w", 512, 512)]))


def test_what_onnx_runtime_does_not_have_is_a_warning(tmp_path: Path) -> None:
    """An operator of a domain that nobody knows is valid."""
    nodes = [make_node("Secret", ["x"], ["s"], domain="acme"), make_node("MatMul", ["s", "w"], ["y"])]
    proto = model(nodes, [value("x", 4, 64)], [value("y", 4, 8)], [random("w", 64, 8)], domains={"acme": 1})
    done = invoke("run", saved(tmp_path, proto), "-o", tmp_path / "new.onnx", "--no-measure")
    assert done.code == 0
    assert "does not load" in done.err


@pytest.mark.parametrize("attributes", [{"value_float": 2.0}, {"value": "text"}])
def test_constants_that_are_not_valid(attributes: dict[str, Any], tmp_path: Path) -> None:
    """ONNX Runtime loads some, of several values or with a text for a tensor. These stay as they are."""
    constant = make_node("Constant", [], ["c"], **({"value": tensor("c", [1.0, 2.0])} | attributes))
    imported = read(tmp_path, model([constant], [value("x", 4, 2)], ["c"]))
    assert "1 nodes, 1 of them opaque (100%): Constant" in imported.summary()
    sums = [constant, make_node("Add", ["x", "c"], ["y"])]
    if "value" in attributes:
        proto = model(sums, [value("x", 4, 2)], [value("y", 4, 2)])
        refused(saved(tmp_path, proto), say="Mismatched attribute type in 'c : value'")
