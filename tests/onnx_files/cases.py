"""Uses of ONNX operators, and the operators that they become."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from tensat_dl.onnx.model_files import NEWEST

from .models import random, tensor

X = (2, 6, 9, 8)


I64 = np.int64


#: The newest operator set to try: of what is read, as far as it is installed.
LATEST = min(NEWEST, onnx.defs.onnx_opset_version())


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
    until: int = LATEST,
    **attrs: Any,
) -> Case:
    changes = {v for v in range(since + 1, until + 1) if onnx.defs.get_schema(op, v).since_version == v}
    return Case(name, op, becomes.split(), weights, x, sorted({since, *changes, until}), attrs)


NO = tensor("no", [])


def scales(h: float, w: float) -> list[Any]:
    return [NO, tensor("f", [1, 1, h, w])]


#: What resizes, what it becomes with which operands, and attributes.
RESIZES: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    (
        "blocks",
        ("upsample", *scales(2, 3)),
        {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
    ),
    ("blocks by centres", ("upsample", *scales(2, 2)), {}),
    ("nearest", ("resize", *scales(2.5, 0.5)), {"x": (2, 3, 4, 6)}),
    (
        "down",
        ("resize", *scales(1.5, 1.5)),
        {"x": (2, 3, 4, 6), "nearest_mode": "ceil", "coordinate_transformation_mode": "asymmetric"},
    ),
    ("linear", ("resize", *scales(2, 2)), {"mode": "linear"}),
    (
        "linear, corners",
        ("resize", *scales(2, 2)),
        {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
    ),
    ("to a size", ("resize", NO, tensor("f", []), ints("n", 2, 6, 7, 5)), {"mode": "linear"}),
]


CASES = [
    *(
        case(op, op, name)
        for op, name in [
            ("Relu", "relu"),
            ("Sigmoid", "sigmoid"),
            ("Tanh", "tanh"),
            ("Exp", "exp"),
            ("Erf", "erf"),
            ("Neg", "neg"),
            ("Abs", "abs"),
            ("Floor", "floor"),
            ("Reciprocal", "ewdiv"),
            ("Softplus", "softplus"),
            ("Softsign", "softsign"),
            ("LeakyRelu", "leakyrelu"),
            ("Elu", "elu"),
            ("HardSigmoid", "hardsigmoid"),
        ]
    ),
    case("LeakyRelu of a slope", "LeakyRelu", "leakyrelu", alpha=0.3),
    case("Elu of a scale", "Elu", "elu", alpha=0.7),
    case("HardSigmoid of a slope", "HardSigmoid", "hardsigmoid", alpha=0.15, beta=0.4),
    case("HardSwish", "HardSwish", "hardswish", since=14),
    case("Mish", "Mish", "mish", since=18),
    case("Gelu by tanh", "Gelu", "gelu_tanh", since=20, approximate="tanh"),
    case("PRelu", "PRelu", "prelu", random("w", 6, 1, 1)),
    case("Clip", "Clip", "clip", tensor("l", -0.5), tensor("h", 0.7)),
    case("Clip from below", "Clip", "ewmax", tensor("l", -0.5)),
    case("Clip to zero", "Clip", "relu", tensor("l", 0)),
    case("Clip of vectors", "Clip", "clip", tensor("l", [-0.5]), tensor("h", [0.7])),
    *(
        case(op, op, name, random("w", 8))
        for op, name in [
            ("Add", "ewadd"),
            ("Sub", "ewsub"),
            ("Mul", "ewmul"),
            ("Div", "ewdiv"),
            ("Max", "ewmax"),
            ("Min", "ewmin"),
        ]
    ),
    *(
        case(f"{op} of one number", op, name, tensor("w", [[[3]]]))
        for op, name in [("Add", "ewadd"), ("Sub", "ewsub"), ("Mul", "smul"), ("Div", "ewdiv")]
    ),
    case("Add stretches x", "Add", "ewadd", random("w", 5, 8), x=(1, 8)),
    case("Gelu", "Gelu", "gelu", since=20),
    case("Pow", "Pow", "ewmul", tensor("e", 2)),
    case("Pow 3", "Pow", "power", tensor("e", [3])),
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
    case(
        "Conv of lines",
        "Conv",
        "reshape reshape conv2d reshape",
        random("w", 4, 3, 3),
        random("b", 4),
        x=(2, 6, 9),
        group=2,
        pads=[1, 2],
        strides=[2],
        dilations=[2],
    ),
    case(
        "Conv of lines, same",
        "Conv",
        "reshape reshape conv2d reshape",
        random("w", 4, 6, 2),
        x=(2, 6, 9),
        auto_pad="SAME_UPPER",
    ),
    case("ConvTranspose", "ConvTranspose", "upconv", random("w", 6, 3, 2, 2), random("b", 3), strides=[2, 2]),
    case(
        "ConvTranspose without bias",
        "ConvTranspose",
        "upconv",
        random("w", 6, 3, 3, 3),
        strides=[3, 3],
        kernel_shape=[3, 3],
    ),
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
    case("GlobalMaxPool of lines", "GlobalMaxPool", "reduce_max", x=(2, 6, 9)),
    case("GlobalAveragePool of lines", "GlobalAveragePool", "reduce_mean", x=(2, 6, 9)),
    case("GlobalMaxPool of solids", "GlobalMaxPool", "reduce_max reduce_max reduce_max", x=(2, 3, 4, 5, 2)),
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
    *(
        (case("RMSNormalization", "RMSNormalization", "rmsnorm", random("s", 8), since=23),)
        if LATEST >= 23
        else ()
    ),
    case(
        "InstanceNormalization",
        "InstanceNormalization",
        "instancenorm",
        random("s", 6),
        random("b", 6),
        epsilon=0.01,
    ),
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
    case("Slice backwards", "Slice", "reverse", ints("s", -1), ints("e", -99), ints("a", 1), ints("t", -1)),
    case(
        "Slice part backwards",
        "Slice",
        "slice reverse",
        ints("s", 4),
        ints("e", 1),
        ints("a", 3),
        ints("t", -1),
    ),
    case("Gather one", "Gather", "slice reshape", tensor("i", -2, I64), axis=1),
    case("Gather some", "Gather", "slice", ints("i", 2, 3, 4), axis=2),
    case("Gather anywhere", "Gather", "gather", tensor("i", [[2, -1], [0, 5]], I64), axis=1),
    case("Expand", "Expand", "expand", ints("s", 3, 1, 4, 1), x=(4, 2)),
    case("Pad", "Pad", "pad", ints("p", 0, 0, 1, 2, 0, 0, 3, 0), tensor("v", 0.5)),
    case("Pad reflect", "Pad", "pad", ints("p", 0, 0, 1, 2, 0, 0, 3, 0), mode="reflect"),
    case("Pad edge", "Pad", "pad", ints("p", 0, 0, 1, 2, 0, 0, 3, 0), mode="edge"),
    case("Pad of axes", "Pad", "pad", ints("p", 1, 2, 3, 0), tensor("v", 0), ints("a", -1, 2), since=18),
    *(case(f"Resize {text}", "Resize", *args, **attrs) for text, args, attrs in RESIZES),
    case("DepthToSpace", "DepthToSpace", "depth_to_space", x=(2, 12, 3, 4), blocksize=2),
    case("DepthToSpace CRD", "DepthToSpace", "pixel_shuffle", x=(2, 12, 3, 4), blocksize=2, mode="CRD"),
    case("SpaceToDepth", "SpaceToDepth", "space_to_depth", x=(2, 3, 4, 6), blocksize=2, since=13),
]
