"""Every operator that is read: in all its versions it becomes the expected operators, and comes back as a model that
computes the same in ONNX Runtime."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnx_ir")

import numpy as np
import onnx
from onnx.helper import make_node

from .models import model, operators, random, read, rewriting, round_trip, tensor, value

X = (2, 6, 9, 8)
I64 = np.int64


def ints(name: str, *values: int) -> Any:
    return tensor(name, values, I64)


@dataclass(frozen=True)
class Case:
    """One use of an ONNX operator, in the opsets that have it so, and the operators that it becomes."""

    name: str
    op: str
    becomes: list[str]
    weights: tuple[Any, ...]
    x: tuple[int, ...]
    opsets: list[int]  #: the first and the last, and those between that changed the operator
    attrs: dict[str, Any]


def case(
    name: str,
    op: str,
    becomes: str,
    *weights: Any,
    x: tuple[int, ...] = X,
    since: int = 11,
    until: int = 22,
    **attrs: Any,
) -> Case:
    changes = {v for v in range(since + 1, until + 1) if onnx.defs.get_schema(op, v).since_version == v}
    return Case(name, op, becomes.split(), weights, x, sorted({since, *changes, until}), attrs)


CASES = [
    *(
        case(op, op, name)
        for op, name in [
            ("Relu", "relu"),
            ("Sigmoid", "sigmoid"),
            ("Tanh", "tanh"),
            ("Exp", "exp"),
            ("Erf", "erf"),
            ("Neg", "ewmul"),
            ("Reciprocal", "ewdiv"),
        ]
    ),
    *(
        case(op, op, name, random("w", 8))
        for op, name in [("Add", "ewadd"), ("Sub", "ewsub"), ("Mul", "ewmul"), ("Div", "ewdiv")]
    ),
    case("Add stretches x", "Add", "ewadd", random("w", 5, 8), x=(1, 8)),
    case("Gelu", "Gelu", "gelu", since=20),
    case("Pow", "Pow", "ewmul", tensor("e", 2)),
    case("Sum", "Sum", "ewadd ewadd", random("w", 8), random("v", 9, 1)),
    case("MatMul", "MatMul", "matmul", random("w", 8, 7), x=(5, 8)),
    case("MatMul of a batch", "MatMul", "reshape matmul reshape", random("w", 8, 7)),
    case("MatMul of batches", "MatMul", "matmul", random("w", 2, 8, 7), x=(2, 5, 8)),
    case("MatMul by a vector", "MatMul", "reshape reshape matmul reshape", random("w", 8), x=(4, 5, 8)),
    case("MatMul of a vector", "MatMul", "reshape matmul reshape", random("w", 8, 7), x=(8,)),
    case("Gemm", "Gemm", "matmul", random("w", 8, 7), random("b", 7), x=(5, 8)),
    case("Gemm without bias", "Gemm", "matmul", random("w", 8, 7), x=(5, 8)),
    case(
        "Gemm transposed",
        "Gemm",
        "transpose transpose reshape matmul",
        random("w", 7, 8),
        random("b", 1, 7),
        x=(8, 5),
        transA=1,
        transB=1,
    ),
    case(
        "Gemm scaled",
        "Gemm",
        "ewmul matmul ewmul ewadd",
        random("w", 8, 7),
        random("b", 5, 1),
        x=(5, 8),
        alpha=0.5,
        beta=2.0,
    ),
    case("Gemm with a scalar", "Gemm", "matmul ewadd", random("w", 8, 7), tensor("b", 3), x=(5, 8)),
    case(
        "Conv",
        "Conv",
        "conv2d",
        random("w", 4, 6, 3, 2),
        random("b", 4),
        pads=[1, 0, 2, 1],
        strides=[2, 1],
        dilations=[1, 2],
    ),
    case("Conv in groups", "Conv", "conv2d", random("w", 4, 3, 3, 3), group=2),
    case("Conv same upper", "Conv", "conv2d", random("w", 4, 6, 2, 3), auto_pad="SAME_UPPER", strides=[2, 2]),
    case("Conv same lower", "Conv", "conv2d", random("w", 4, 6, 2, 4), auto_pad="SAME_LOWER"),
    case("Conv valid", "Conv", "conv2d", random("w", 4, 6, 2, 3), auto_pad="VALID"),
    case("MaxPool", "MaxPool", "poolmax", kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1]),
    case("MaxPool ceil", "MaxPool", "poolmax", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    case("MaxPool same", "MaxPool", "poolmax", kernel_shape=[3, 2], strides=[2, 2], auto_pad="SAME_UPPER"),
    case("AveragePool", "AveragePool", "poolavg", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    case(
        "AveragePool counting",
        "AveragePool",
        "poolavg",
        kernel_shape=[3, 2],
        pads=[1, 1, 1, 1],
        count_include_pad=1,
    ),
    case("AveragePool ceil", "AveragePool", "poolavg", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    case("GlobalAveragePool", "GlobalAveragePool", "poolavg"),
    case("GlobalMaxPool", "GlobalMaxPool", "poolmax"),
    case(
        "BatchNormalization",
        "BatchNormalization",
        "batchnorm",
        random("s", 6),
        random("b", 6),
        random("m", 6),
        tensor("v", [1, 2, 3, 4, 5, 6]),
        epsilon=0.001,
    ),
    case(
        "LayerNormalization",
        "LayerNormalization",
        "layernorm",
        random("s", 8),
        random("b", 8),
        since=17,
        axis=3,
    ),
    case("LayerNormalization without bias", "LayerNormalization", "layernorm", random("s", 8), since=17),
    case("Softmax", "Softmax", "softmax", axis=3),
    case("Softmax inside", "Softmax", "softmax", since=13, axis=-3),
    case("ReduceMean", "ReduceMean", "reduce_mean reduce_mean", until=17, axes=[-1, 1]),
    case("ReduceMean 18", "ReduceMean", "reduce_mean", ints("a", -1), since=18),
    case("ReduceMean of all", "ReduceMean", "reduce_mean reduce_mean reshape", x=(2, 3), keepdims=0),
    case("ReduceMax", "ReduceMax", "reduce_max reshape", until=17, axes=[2], keepdims=0),
    case("ReduceSum", "ReduceSum", "reduce_sum", until=12, axes=[0]),
    case("ReduceSum 13", "ReduceSum", "reduce_sum reshape", ints("a", 0), since=13, keepdims=0),
    case("Transpose", "Transpose", "transpose", perm=[0, 2, 3, 1]),
    case("Transpose all", "Transpose", "transpose"),
    case("Reshape", "Reshape", "reshape", ints("s", 0, -1, 4, 2)),
    case("Flatten", "Flatten", "reshape", axis=2),
    case("Squeeze", "Squeeze", "reshape", x=(2, 1, 3, 1)),
    case("Squeeze axes", "Squeeze", "reshape", x=(2, 1, 3, 1), until=12, axes=[1]),
    case("Squeeze axes 13", "Squeeze", "reshape", ints("a", -1), x=(2, 1, 3, 1), since=13),
    case("Unsqueeze", "Unsqueeze", "reshape", x=(2, 3), until=12, axes=[0, 2]),
    case("Unsqueeze 13", "Unsqueeze", "reshape", ints("a", 0, -1), x=(2, 3), since=13),
    case("Concat", "Concat", "concat", random("w", 2, 6, 1, 8), axis=-2),
    case("Slice", "Slice", "slice slice", ints("s", 1, -3), ints("e", 4, 9999), ints("a", 1, -2)),
    case("Slice with step", "Slice", "slice", ints("s", 1), ints("e", 4), ints("a", 1), ints("t", 1)),
    case("Gather one", "Gather", "slice reshape", tensor("i", -2, I64), axis=1),
    case("Gather some", "Gather", "slice", ints("i", 2, 3, 4), axis=2),
]


@pytest.mark.parametrize(
    ("case", "opset"), [pytest.param(c, v, id=f"{c.name}, {v}") for c in CASES for v in c.opsets]
)
def test_is_read_and_written(case: Case, opset: int, tmp_path: Path) -> None:
    node = make_node(case.op, ["x", *(w.name for w in case.weights)], ["y"], **case.attrs)
    imported = read(tmp_path, model([node], [value("x", *case.x)], ["y"], case.weights, opset))
    assert dict(imported.unmapped) == {}
    assert operators(imported.graph) == case.becomes
    found = rewriting(tmp_path, imported)
    assert (found.status, found.message) == ("agrees", "")


#: name -> (node, inputs, weights, why it is opaque)
OPAQUE: dict[str, tuple[Any, list[Any], list[Any], str]] = {
    "Conv of one dimension": (
        make_node("Conv", ["x", "w"], ["y"]),
        [value("x", 1, 3, 8)],
        [random("w", 4, 3, 3)],
        "two-dim",
    ),
    "MaxPool dilated": (
        make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], dilations=[2, 2]),
        [value("x", *X)],
        [],
        "dilated",
    ),
    "Softmax over two": (make_node("Softmax", ["x"], ["y"], axis=1), [value("x", *X)], [], "more than one"),
    "Slice backwards": (
        make_node("Slice", ["x", "s", "e", "a", "t"], ["y"]),
        [value("x", *X)],
        [ints("s", 5), ints("e", 0), ints("a", 1), ints("t", -1)],
        "step",
    ),
    "Cube": (make_node("Pow", ["x", "e"], ["y"]), [value("x", *X)], [tensor("e", 3)], "exponent"),
    "Unknown": (make_node("Abs", ["x"], ["y"]), [value("x", *X)], [], "no such operator"),
    "Batch by matrix": (
        make_node("MatMul", ["w", "x"], ["y"]),
        [value("x", 2, 3, 4)],
        [random("w", 5, 3)],
        "matmul requires",
    ),
}


@pytest.mark.parametrize("case", OPAQUE)
def test_is_opaque(case: str, tmp_path: Path) -> None:
    """What the language can't say passes through, and its reason is kept."""
    node, inputs, weights, reason = OPAQUE[case]
    imported = read(tmp_path, model([node], inputs, ["y"], weights, 12))
    ((op, why),) = imported.unmapped
    assert op == node.op_type
    assert reason in why
    assert operators(imported.graph) == [op]
    assert rewriting(tmp_path, imported).status == "agrees"
    assert round_trip(tmp_path, imported).status == "agrees"


@pytest.mark.parametrize("opset", [11, 13, 18, 22])
def test_several_results(opset: int, tmp_path: Path) -> None:
    """Split, whose sizes became an input, and a second use of a part."""
    sizes = [ints("s", 1, 3, 2)] if opset >= 13 else []
    attrs = {} if sizes else {"split": [1, 3, 2]}
    nodes = [
        make_node("Split", ["x", *(s.name for s in sizes)], ["a", "b", "c"], axis=1, **attrs),
        make_node("Concat", ["c", "a", "c"], ["y"], axis=1),
    ]
    imported = read(tmp_path, model(nodes, [value("x", *X)], ["y", "b"], sizes, opset))
    assert operators(imported.graph) == ["slice", "slice", "slice", "concat"]
    assert rewriting(tmp_path, imported).status == "agrees"


def test_what_does_nothing_is_dropped(tmp_path: Path) -> None:
    """Identity, a cast to the same type, dropout: aliases, one of them an output."""
    nodes = [
        make_node("Identity", ["x"], ["a"]),
        make_node("Cast", ["a"], ["b"], to=1),
        make_node("Dropout", ["b"], ["c"]),
        make_node("Relu", ["c"], ["y"]),
        make_node("Identity", ["y"], ["z"]),
        make_node("Relu", ["x"], ["again"]),
        make_node("Exp", ["again"], ["e"]),
    ]
    imported = read(tmp_path, model(nodes, [value("x", 4)], ["y", "z", "a", "e"]))
    assert operators(imported.graph) == ["relu", "exp"]
    assert imported.aliases == {"a": "x", "b": "x", "c": "x", "z": "y", "again": "y"}
    assert round_trip(tmp_path, imported).status == "agrees"
    assert sorted(n.op_type for n in onnx.load(tmp_path / "out.onnx").graph.node) == [
        "Exp",
        "Identity",
        "Identity",
        "Relu",
    ]


def test_a_cast_that_converts_is_opaque(tmp_path: Path) -> None:
    nodes = [make_node("Cast", ["x"], ["y"], to=7)]
    imported = read(tmp_path, model(nodes, [value("x", 4)], [value("y", 4, dtype=7)]))
    assert operators(imported.graph) == ["Cast"]
    assert rewriting(tmp_path, imported).status == "agrees"


@pytest.mark.parametrize("dtype", ["float16", "float64", "int32", "int64"])
def test_element_types(dtype: str, tmp_path: Path) -> None:
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    w = tensor("w", [[1, 2], [3, 5], [7, 11]], np.dtype(dtype))
    nodes = [make_node("MatMul", ["x", "w"], ["m"]), make_node("Add", ["m", "one"], ["y"])]
    proto = model(
        nodes,
        [value("x", 4, 3, dtype=kind)],
        [value("y", 4, 2, dtype=kind)],
        [w, tensor("one", 1, np.dtype(dtype))],
    )
    imported = read(tmp_path, proto)
    assert operators(imported.graph) == ["matmul", "ewadd"]
    assert rewriting(tmp_path, imported).status == "agrees"
