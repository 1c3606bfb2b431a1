"""Arithmetic and comparisons, element by element. Both sides broadcast as NumPy does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import onnx_ir as ir

from tensat_dl.core.types import FLOATS, TensorType
from tensat_dl.onnx.operator import NodeWriter, OnnxRow, OnnxTensor, Read, Reading, Unmapped, Write, same


def _read_binary(op: str) -> Read:
    return lambda r: r.op(op, *r.scalars(r.x(0), r.x(1)))


def _read_commutative(op: str) -> Read:
    """What is known ahead of time comes last, as rules expect it."""

    def read(r: Reading) -> int:
        xs = r.scalars(*(r.x(i) for i in range(len(r.node.inputs))))
        xs = sorted(xs, key=r.is_constant)
        return reduce(lambda x, y: _applied(r, op, x, y), xs)

    return read


def _applied(r: Reading, op: str, x: int, y: int) -> int:
    if op == "ewmul" and r.type(y).rank == 0:
        return r.op("smul", x, y)
    return r.op(op, x, y)


def _write_binary(onnx: str) -> Write:
    return lambda w, xs, attrs, type: w.op(onnx, *(x.value for x in xs))


def _read_pow(r: Reading) -> int:
    """To a power that is known."""
    exponent, x = r.number_of(1), r.x()
    if r.type(x) != r.result() or r.type(x).dtype not in FLOATS:
        raise Unmapped("its elements are integers, or the exponent is not one number")
    match exponent:
        case 1.0:
            return x
        case 2.0:
            return r.op("ewmul", x, x)
        case 0.5:
            return r.op("sqrt", x)
    return r.op("power", x, exponent=exponent)


def _write_power(
    w: NodeWriter, xs: Sequence[OnnxTensor], attrs: Mapping[str, Any], type: TensorType
) -> ir.Value:
    return w.op("Pow", xs[0].value, w.number(attrs["exponent"], type.dtype))


def _read_reciprocal(r: Reading) -> int:
    x = r.x()
    return r.op("ewdiv", r.number(1, r.type(x).dtype), x)


def _write_rsqrt(w: NodeWriter, xs: Sequence[OnnxTensor], _: Mapping[str, Any], __: TensorType) -> ir.Value:
    return w.op("Reciprocal", w.op("Sqrt", xs[0].value))


def _read_where(r: Reading) -> int:
    c, *branches = (r.x(i) for i in range(3))
    return r.op("select", c, *branches)


ROWS = (
    OnnxRow("Add", _read_commutative("ewadd"), "ewadd", _write_binary("Add")),
    OnnxRow("Mul", _read_commutative("ewmul"), "ewmul", _write_binary("Mul")),
    OnnxRow("Sub", _read_binary("ewsub"), "ewsub", _write_binary("Sub")),
    OnnxRow("Div", _read_binary("ewdiv"), "ewdiv", _write_binary("Div")),
    OnnxRow("Max", _read_commutative("ewmax"), "ewmax", _write_binary("Max")),
    OnnxRow("Min", _read_commutative("ewmin"), "ewmin", _write_binary("Min")),
    OnnxRow("Sum", _read_commutative("ewadd")),
    OnnxRow(op="smul", write=_write_binary("Mul")),
    OnnxRow("Pow", _read_pow, "power", _write_power),
    OnnxRow("Reciprocal", _read_reciprocal),
    OnnxRow(op="rsqrt", write=_write_rsqrt),
    same("Neg", "neg"),
    same("Abs", "abs"),
    same("Equal", "equal"),
    same("Greater", "greater"),
    OnnxRow("Less", lambda r: r.op("greater", r.x(1), r.x(0))),
    OnnxRow("Where", _read_where, "select", _write_binary("Where")),
)
