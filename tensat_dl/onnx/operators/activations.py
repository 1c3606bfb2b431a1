"""Activation functions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import onnx_ir as ir

from tensat_dl.core.types import TensorType
from tensat_dl.onnx.operator import NodeWriter, OnnxRow, OnnxTensor, Reading, same
from tensat_dl.ops.semantics.elementwise import FUNCTIONS


def _read_gelu(r: Reading) -> int:
    return r.op("gelu" if r.attr("approximate", "none") == "none" else "gelu_tanh", r.x())


def write_gelu(w: NodeWriter, x: ir.Value, dtype: str) -> ir.Value:
    """ONNX has had Gelu since opset 20. ONNX Runtime finds it in its parts, too."""
    if w.opset >= 20:
        return w.op("Gelu", x)
    half, one, root = (w.number(v, dtype) for v in (0.5, 1.0, math.sqrt(2)))
    distribution = w.op("Add", w.op("Erf", w.op("Div", x, root)), one)
    return w.op("Mul", w.op("Mul", x, distribution), half)


def _write_gelu_tanh(
    w: NodeWriter, xs: Sequence[OnnxTensor], _: Mapping[str, Any], type: TensorType
) -> ir.Value:
    x = xs[0].value
    if w.opset >= 20:
        return w.op("Gelu", x, approximate="tanh")
    half, one, cubic, root, three = (
        w.number(v, type.dtype) for v in (0.5, 1.0, 0.044715, math.sqrt(2 / math.pi), 3.0)
    )
    inner = w.op("Mul", w.op("Add", x, w.op("Mul", w.op("Pow", x, three), cubic)), root)
    return w.op("Mul", w.op("Mul", x, half), w.op("Add", w.op("Tanh", inner), one))


def activated(w: NodeWriter, x: ir.Value, act: str, dtype: str) -> ir.Value:
    """``x`` with the activation that an attribute ``act`` names."""
    match act:
        case "none":
            return x
        case "gelu":
            return write_gelu(w, x, dtype)
    return w.op(act.capitalize(), x)


def _read_clip(r: Reading) -> int:
    """Bounds are optional. Those that are computed are operands."""
    x = r.x()
    low, high = (r.number_of(i) if r.has(i) and r.is_known(i) else None for i in (1, 2))
    if low is not None and high is not None:
        return r.op("clip", x, low=low, high=high)
    if r.has(1):
        x = r.op("relu", x) if low == 0 else r.op("ewmax", *r.scalars(x, r.x(1)))
    return r.op("ewmin", *r.scalars(x, r.x(2))) if r.has(2) else x


def _write_clip(
    w: NodeWriter, xs: Sequence[OnnxTensor], attrs: Mapping[str, Any], type: TensorType
) -> ir.Value:
    return w.op("Clip", xs[0].value, *(w.number(attrs[bound], type.dtype) for bound in ("low", "high")))


def _read_hardsigmoid(r: Reading) -> int:
    slope, shift = r.number_attr("alpha", 0.2), r.number_attr("beta", 0.5)
    return r.op("hardsigmoid", r.x(), alpha=slope, beta=shift)


def _write_hardsigmoid(
    w: NodeWriter, xs: Sequence[OnnxTensor], attrs: Mapping[str, Any], _: TensorType
) -> ir.Value:
    return w.op("HardSigmoid", xs[0].value, alpha=attrs["alpha"], beta=attrs["beta"])


def _write_hardswish(
    w: NodeWriter, xs: Sequence[OnnxTensor], _: Mapping[str, Any], __: TensorType
) -> ir.Value:
    """ONNX has had HardSwish since opset 14."""
    x = xs[0].value
    if w.opset >= 14:
        return w.op("HardSwish", x)
    return w.op("Mul", x, w.op("HardSigmoid", x, alpha=1 / 6, beta=0.5))


def _read_prelu(r: Reading) -> int:
    return r.op("prelu", r.x(0), r.x(1))


def _read_swish(r: Reading) -> int:
    """x sigmoid(alpha x)"""
    x, alpha = r.x(), r.number_attr("alpha", 1.0)
    if alpha == 1:
        return r.op("ewmul", x, r.op("sigmoid", x))
    factor = r.op("fill", value=alpha, dtype=r.type(x).dtype, shape=())
    return r.op("ewmul", x, r.op("sigmoid", r.op("smul", x, factor)))


def _write_mish(w: NodeWriter, xs: Sequence[OnnxTensor], _: Mapping[str, Any], __: TensorType) -> ir.Value:
    """ONNX has had Mish since opset 18."""
    x = xs[0].value
    return w.op("Mish", x) if w.opset >= 18 else w.op("Mul", x, w.op("Tanh", w.op("Softplus", x)))


def _scaled(onnx: str, op: str, alpha: float) -> OnnxRow:
    """A function with an attribute ``alpha``."""

    def read(r: Reading) -> int:
        return r.op(op, r.x(), alpha=r.number_attr("alpha", alpha))

    return OnnxRow(onnx, read, op, lambda w, xs, attrs, type: w.op(onnx, xs[0].value, alpha=attrs["alpha"]))


ROWS = (
    *(same(function.onnx, op) for op, function in FUNCTIONS.items() if function.onnx),
    OnnxRow("Gelu", _read_gelu, "gelu", lambda w, xs, attrs, type: write_gelu(w, xs[0].value, type.dtype)),
    OnnxRow(op="gelu_tanh", write=_write_gelu_tanh),
    OnnxRow("Clip", _read_clip, "clip", _write_clip),
    OnnxRow("HardSigmoid", _read_hardsigmoid, "hardsigmoid", _write_hardsigmoid),
    OnnxRow("HardSwish", lambda r: r.op("hardswish", r.x()), "hardswish", _write_hardswish),
    _scaled("LeakyRelu", "leakyrelu", 0.01),
    _scaled("Elu", "elu", 1.0),
    OnnxRow("PRelu", _read_prelu, "prelu", lambda w, xs, attrs, type: w.op("PRelu", *(x.value for x in xs))),
    same("Softplus", "softplus"),
    OnnxRow("Swish", _read_swish),
    OnnxRow("Mish", lambda r: r.op("mish", r.x()), "mish", _write_mish),
)
