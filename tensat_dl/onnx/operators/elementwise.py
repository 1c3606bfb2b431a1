"""Elementwise operators. Both sides broadcast as NumPy does."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import onnx_ir as ir

from tensat_dl.ir.types import FLOATS, TensorType
from tensat_dl.onnx.operator import Reading, Row, Tensor, Unmapped, Writer, same


def _read_gelu(r: Reading) -> int:
    if r.attr("approximate", "none") != "none":
        raise Unmapped("the approximation by tanh is another function")
    return r.op("gelu", r.x())


def write_gelu(w: Writer, x: ir.Value, dtype: str) -> ir.Value:
    """ONNX has had Gelu since opset 20. ONNX Runtime finds it in its parts, too."""
    if w.opset >= 20:
        return w.op("Gelu", x)
    half, one, root = (w.number(v, dtype) for v in (0.5, 1.0, math.sqrt(2)))
    distribution = w.op("Add", w.op("Erf", w.op("Div", x, root)), one)
    return w.op("Mul", w.op("Mul", x, distribution), half)


def activated(w: Writer, x: ir.Value, act: str, dtype: str) -> ir.Value:
    """``x`` with the activation that an attribute ``act`` names."""
    match act:
        case "none":
            return x
        case "gelu":
            return write_gelu(w, x, dtype)
    return w.op(act.capitalize(), x)


def _read_pow(r: Reading) -> int:
    """Squares and square roots."""
    exponent = r.constant(1)
    x = r.x()
    if exponent.size != 1 or r.type(x) != r.result() or r.type(x).dtype not in FLOATS:
        raise Unmapped("the exponent is not one number")
    match float(exponent.reshape(())):
        case 1.0:
            return x
        case 2.0:
            return r.op("ewmul", x, x)
    raise Unmapped("the exponent is not 1 or 2")


def _read_neg(r: Reading) -> int:
    x = r.x()
    return r.op("ewmul", x, r.number(-1, r.type(x).dtype))


def _read_reciprocal(r: Reading) -> int:
    x = r.x()
    return r.op("ewdiv", r.number(1, r.type(x).dtype), x)


def _read_sum(r: Reading) -> int:
    total = r.x()
    for i in range(1, len(r.node.inputs)):
        total = r.op("ewadd", total, r.x(i))
    return total


def _write_rsqrt(w: Writer, xs: Sequence[Tensor], _: Mapping[str, Any], __: TensorType) -> ir.Value:
    return w.op("Reciprocal", w.op("Sqrt", xs[0].value))


ROWS = (
    same("Add", "ewadd"),
    same("Sub", "ewsub"),
    same("Mul", "ewmul"),
    same("Div", "ewdiv"),
    same("Relu", "relu"),
    same("Tanh", "tanh"),
    same("Sigmoid", "sigmoid"),
    same("Exp", "exp"),
    same("Sqrt", "sqrt"),
    same("Erf", "erf"),
    Row("Gelu", _read_gelu, "gelu", lambda w, xs, attrs, type: write_gelu(w, xs[0].value, type.dtype)),
    Row("Pow", _read_pow),
    Row("Neg", _read_neg),
    Row("Reciprocal", _read_reciprocal),
    Row("Sum", _read_sum),
    Row(op="smul", write=lambda w, xs, attrs, type: w.op("Mul", xs[0].value, xs[1].value)),
    Row(op="rsqrt", write=_write_rsqrt),
)
