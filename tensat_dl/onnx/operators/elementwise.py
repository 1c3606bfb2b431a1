"""Arithmetic, comparisons and activations, element by element. Both sides broadcast as NumPy does."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import reduce

import onnx_ir as ir

from tensat_dl.core.graph import FLOATS
from tensat_dl.onnx.operator import OnnxRow, Read, Reading, Unmapped, Write, Writing, renamed, same
from tensat_dl.ops.semantics.elementwise import FUNCTIONS

# ---- arithmetic ------------------------------------------------------------------------------------------


def _binary(onnx: str, op: str) -> OnnxRow:
    return OnnxRow(onnx, lambda r: r.op(op, *r.scalars(*r.xs())), op, renamed(onnx))


def _commutative(onnx: str, op: str) -> OnnxRow:
    return OnnxRow(onnx, _read_commutative(op), op, renamed(onnx))


def _read_commutative(op: str) -> Read:
    """An operand that is known ahead of time comes last; a product by a scalar is `smul` then."""

    def read(r: Reading) -> int:
        def applied(x: int, y: int) -> int:
            return r.op("smul" if op == "ewmul" and r.type(y).rank == 0 else op, x, y)

        return reduce(applied, sorted(r.scalars(*r.xs()), key=r.is_constant))

    return read


def _read_pow(r: Reading) -> int:
    """Exponents must be known numbers."""
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


def _write_power(w: Writing) -> ir.Value:
    return w.op("Pow", w.x, w.number(w.attrs["exponent"]))


def _read_reciprocal(r: Reading) -> int:
    return r.op("ewdiv", r.number(1, r.x()), r.x())


def _write_rsqrt(w: Writing) -> ir.Value:
    return w.op("Reciprocal", w.op("Sqrt", w.x))


# ---- activations -----------------------------------------------------------------------------------------


def activated(w: Writing, x: ir.Value) -> ir.Value:
    """``x`` with the activation that the attribute ``act`` names."""
    match w.attrs["act"]:
        case "none":
            return x
        case "gelu":
            return _gelu(w, x)
        case "relu":
            return _relu(w, x)
        case act:
            return w.op(act.capitalize(), x)


def _relu(w: Writing, x: ir.Value) -> ir.Value:
    """Integers have Relu since opset 14, and those of 64 bits have none in ONNX Runtime. They have Max since 12."""
    if w.type.dtype not in ("i32", "i64"):
        return w.op("Relu", x)
    zero = w.number(0)
    return w.op("Max", x, zero) if w.opset >= 12 else w.op("Where", w.op("Greater", x, zero), x, zero)


def _in_parts(row: OnnxRow, parts: Write) -> OnnxRow:
    """The row, but the operator is written in parts for f64: ONNX Runtime has it for smaller floats alone, and the
    attributes of ONNX are f32."""
    write = row.write
    assert write is not None
    return replace(row, write=lambda w: parts(w) if w.type.dtype == "f64" else write(w))


def _sloped(w: Writing, slope: ir.Value) -> ir.Value:
    """x where it is positive, and so many times x elsewhere."""
    return w.op("Add", w.op("Relu", w.x), w.op("Mul", w.op("Min", w.x, w.number(0)), slope))


def _hardsigmoid_in_parts(w: Writing) -> ir.Value:
    line = w.op("Add", w.op("Mul", w.x, w.number(w.attrs["alpha"])), w.number(w.attrs["beta"]))
    return w.op("Min", w.op("Max", line, w.number(0)), w.number(1))


def _elu_in_parts(w: Writing) -> ir.Value:
    negative = w.op("Sub", w.op("Exp", w.op("Min", w.x, w.number(0))), w.number(1))
    return w.op("Add", w.op("Relu", w.x), w.op("Mul", negative, w.number(w.attrs["alpha"])))


def _softplus_in_parts(w: Writing) -> ir.Value:
    small = w.op("Exp", w.op("Neg", w.op("Abs", w.x)))
    return w.op("Add", w.op("Relu", w.x), w.op("Log", w.op("Add", small, w.number(1))))


def _write_leakyrelu(w: Writing) -> ir.Value:
    """Integers have no LeakyRelu."""
    if w.type.dtype in FLOATS:
        return w.renamed("LeakyRelu", alpha="alpha")
    negative = w.op("Mul", w.x, w.number(w.attrs["alpha"]))
    return w.op("Where", w.op("Greater", w.x, w.number(0)), w.x, negative)


def _gelu(w: Writing, x: ir.Value) -> ir.Value:
    """ONNX has had Gelu since opset 20. ONNX Runtime finds it in its parts, too."""
    if w.opset >= 20:
        return w.op("Gelu", x)
    half, one, root = map(w.number, (0.5, 1.0, math.sqrt(2)))
    distribution = w.op("Add", w.op("Erf", w.op("Div", x, root)), one)
    return w.op("Mul", w.op("Mul", x, distribution), half)


def _write_gelu_tanh(w: Writing) -> ir.Value:
    x = w.x
    if w.opset >= 20:
        return w.op("Gelu", x, approximate="tanh")
    half, one, cubic, root, three = map(w.number, (0.5, 1.0, 0.044715, math.sqrt(2 / math.pi), 3.0))
    inner = w.op("Mul", w.op("Add", x, w.op("Mul", w.op("Pow", x, three), cubic)), root)
    return w.op("Mul", w.op("Mul", x, half), w.op("Add", w.op("Tanh", inner), one))


def _read_gelu(r: Reading) -> int:
    return r.op("gelu" if r.attr("approximate", "none") == "none" else "gelu_tanh", r.x())


def _read_clip(r: Reading) -> int:
    """Bounds are optional. Those that are computed are operands, and integers that no float is."""
    x = r.x()
    low, high = (r.number_of(i) if r.has(i) and _is_float(r, i) else None for i in (1, 2))
    if low is not None and high is not None:
        return r.op("clip", x, low=low, high=high)
    if r.has(1):
        x = r.op("relu", x) if low == 0 else r.op("ewmax", *r.scalars(x, r.x(1)))
    return r.op("ewmin", *r.scalars(x, r.x(2))) if r.has(2) else x


def _is_float(r: Reading, i: int) -> bool:
    """Whether a bound is known, and a float has its value."""
    return r.is_known(i) and all(
        float(n) == n for n in r.constant(i).reshape(-1).tolist() if math.isfinite(n)
    )


def _write_clip(w: Writing) -> ir.Value:
    return w.op("Clip", w.x, w.number(w.attrs["low"]), w.number(w.attrs["high"]))


def _write_hardswish(w: Writing) -> ir.Value:
    """ONNX has had HardSwish since opset 14. Its slope, like that of HardSigmoid, is an f32."""
    if w.type.dtype == "f64":
        bounded = w.op("Min", w.op("Max", w.op("Add", w.x, w.number(3)), w.number(0)), w.number(6))
        return w.op("Mul", w.x, w.op("Div", bounded, w.number(6)))
    if w.opset >= 14:
        return w.op("HardSwish", w.x)
    return w.op("Mul", w.x, w.op("HardSigmoid", w.x, alpha=1 / 6, beta=0.5))


def _read_swish(r: Reading) -> int:
    """x sigmoid(alpha x)"""
    x, alpha = r.x(), r.number_attr("alpha", 1.0)
    scaled = x if alpha == 1 else r.op("smul", x, r.number(alpha, x))
    return r.op("ewmul", x, r.op("sigmoid", scaled))


def _write_mish(w: Writing) -> ir.Value:
    """ONNX has had Mish since opset 18."""
    return w.op("Mish", w.x) if w.opset >= 18 else w.op("Mul", w.x, w.op("Tanh", w.op("Softplus", w.x)))


def _write_greater_equal(w: Writing) -> ir.Value:
    """ONNX has had GreaterOrEqual since opset 12."""
    if w.opset >= 12:
        return w.renamed("GreaterOrEqual")
    return w.op("Or", w.renamed("Greater"), w.renamed("Equal"))


def _write_select(w: Writing) -> ir.Value:
    """ONNX Runtime has no Where for truth values."""
    if w.type.dtype != "bool":
        return w.renamed("Where")
    c, x, y = (operand.value for operand in w.xs)
    return w.op("Or", w.op("And", c, x), w.op("And", w.op("Not", c), y))


ROWS = (
    _commutative("Add", "ewadd"),
    _commutative("Mul", "ewmul"),
    _commutative("Max", "ewmax"),
    _commutative("Min", "ewmin"),
    _binary("Sub", "ewsub"),
    _binary("Div", "ewdiv"),
    OnnxRow("Sum", _read_commutative("ewadd")),
    OnnxRow(op="smul", write=renamed("Mul")),
    OnnxRow("Pow", _read_pow, "power", _write_power),
    OnnxRow("Reciprocal", _read_reciprocal),
    OnnxRow(op="rsqrt", write=_write_rsqrt),
    same("Neg", "neg"),
    same("Abs", "abs"),
    same("Equal", "equal"),
    same("Greater", "greater"),
    OnnxRow("Less", lambda r: r.op("greater", r.x(1), r.x(0))),
    OnnxRow(
        "GreaterOrEqual", lambda r: r.op("greater_equal", *r.xs()), "greater_equal", _write_greater_equal
    ),
    OnnxRow("LessOrEqual", lambda r: r.op("greater_equal", r.x(1), r.x(0))),
    same("Not", "logical_not"),
    same("And", "logical_and"),
    same("Or", "logical_or"),
    OnnxRow("Where", lambda r: r.op("select", *r.xs()), "select", _write_select),
    *(same(function.onnx, op) for op, function in FUNCTIONS.items() if function.onnx and op != "relu"),
    OnnxRow("Relu", lambda r: r.op("relu", r.x()), "relu", lambda w: _relu(w, w.x)),
    OnnxRow("Gelu", _read_gelu, "gelu", lambda w: _gelu(w, w.x)),
    OnnxRow(op="gelu_tanh", write=_write_gelu_tanh),
    OnnxRow("Clip", _read_clip, "clip", _write_clip),
    _in_parts(same("HardSigmoid", "hardsigmoid", alpha=0.2, beta=0.5), _hardsigmoid_in_parts),
    OnnxRow("HardSwish", lambda r: r.op("hardswish", r.x()), "hardswish", _write_hardswish),
    _in_parts(
        replace(same("LeakyRelu", "leakyrelu", alpha=0.01), write=_write_leakyrelu),
        lambda w: _sloped(w, w.number(w.attrs["alpha"])),
    ),
    _in_parts(same("Elu", "elu", alpha=1.0), _elu_in_parts),
    _in_parts(same("PRelu", "prelu"), lambda w: _sloped(w, w.xs[1].value)),
    _in_parts(same("Softplus", "softplus"), _softplus_in_parts),
    same("Softsign", "softsign"),
    OnnxRow("Swish", _read_swish),
    _in_parts(
        OnnxRow("Mish", lambda r: r.op("mish", r.x()), "mish", _write_mish),
        lambda w: w.op("Mul", w.x, w.op("Tanh", _softplus_in_parts(w))),
    ),
)
