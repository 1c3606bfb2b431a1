"""Normalisations, softmax, reductions along an axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from tensat_dl.core.graph import FLOATS
from tensat_dl.onnx.operator import OnnxRow, OnnxTensor, Reading, Unmapped, Writing, renamed


def _eps(r: Reading) -> float:
    return r.number_attr("epsilon", 1e-5)


def _read_batchnorm(r: Reading) -> int:
    if r.attr("training_mode", 0):
        raise Unmapped("it is in training mode")
    r.only_result()
    return r.op("batchnorm", *r.xs(), eps=_eps(r))


def _read_layernorm(r: Reading) -> int:
    x, scale = _of_rows(r)
    bias = r.x(2) if r.has(2) else r.number(0, x, r.type(x).shape[-1])
    return r.op("layernorm", x, scale, bias, eps=_eps(r))


def _of_rows(r: Reading) -> tuple[int, int]:
    """The input of a normalisation, and its scale. Raises `Unmapped` unless it is over the last dimension."""
    x = r.x()
    r.only_result()
    if r.axis(r.attr("axis", -1), x) != r.type(x).rank - 1:
        raise Unmapped("it is over more than one dimension")
    return x, r.x(1)


def _write_layernorm(w: Writing) -> ir.Value:
    """Its epsilon is an f32, which may be too far from the number that f64 are computed with."""
    eps = w.attrs["eps"]
    if w.opset >= 17 and (w.type.dtype != "f64" or np.float32(eps) == np.float64(eps)):
        return w.on_all("LayerNormalization", axis=-1, epsilon=eps)
    x, scale, bias = (t.value for t in w.xs)
    return w.op("Add", w.op("Mul", _scaled(w, w.op("Sub", x, _mean(w, x))), scale), bias)


def _write_rmsnorm(w: Writing) -> ir.Value:
    return w.op("Mul", _scaled(w, w.x), w.xs[1].value)


def _scaled(w: Writing, x: ir.Value) -> ir.Value:
    """x / sqrt(mean(x^2) + eps) over the last dimension, in the form in which ONNX Runtime finds normalisations."""
    square = _mean(w, w.op("Pow", x, w.number(2)))
    return w.op("Div", x, w.op("Sqrt", w.op("Add", square, w.number(w.attrs["eps"]))))


def _mean(w: Writing, x: ir.Value) -> ir.Value:
    return _reduced(w, "ReduceMean", x, (-1,))


def _read_softmax(r: Reading) -> int:
    x = r.x()
    axis = r.axis(r.attr("axis", -1 if r.opset >= 13 else 1), x)
    if r.opset < 13 and any(d != 1 for d in r.type(x).shape[axis + 1 :]):
        raise Unmapped("it is over more than one dimension")
    return r.op("softmax", x, axis=axis)


def _write_softmax(w: Writing) -> ir.Value:
    axis, rank = w.attrs["axis"], w.type.rank
    if w.opset >= 13 or axis == rank - 1:
        return w.op("Softmax", w.x, axis=axis)
    swap = list(range(rank))
    swap[axis], swap[-1] = swap[-1], swap[axis]
    last = w.op("Softmax", w.op("Transpose", w.x, perm=swap), axis=rank - 1)
    return w.op("Transpose", last, perm=swap)


def _reduction(onnx: str, op: str) -> OnnxRow:
    def read(r: Reading) -> int:
        x = r.x()
        kind = r.type(x)
        if kind.dtype not in FLOATS:
            raise Unmapped("its elements are integers")
        axes = r.attr("axes")  # an input in later versions
        if axes is None and r.has(1):
            axes = r.list_of(1)
        if not axes:
            axes = () if r.attr("noop_with_empty_axes", 0) else range(kind.rank)
        for axis in sorted(r.axis(a, x) for a in axes):
            x = r.op(op, x, axis=axis)
        return r.reshaped(x, r.result().shape)

    def write(w: Writing) -> OnnxTensor:
        (x,) = w.xs
        source, axes = x.value, (w.attrs["axis"],)
        if x.reduced is not None and x.reduced[0] == onnx:
            source, axes = x.reduced[1], (*x.reduced[2], *axes)
        return OnnxTensor(_reduced(w, onnx, source, axes), w.type, reduced=(onnx, source, axes))

    return OnnxRow(onnx, read, op, write)


def _reduced(w: Writing, onnx: str, x: ir.Value, axes: Sequence[int]) -> ir.Value:
    """A reduction that keeps its dimensions. Axes became an input with opset 13 (sums) and 18 (others)."""
    if w.opset >= (13 if onnx == "ReduceSum" else 18):
        return w.op(onnx, x, w.ints(*axes), keepdims=1)
    return w.op(onnx, x, axes=axes, keepdims=1)


def _write_instancenorm(w: Writing) -> ir.Value:
    x, scale, bias = w.xs
    return w.op("InstanceNormalization", x.value, w.as_list(scale), w.as_list(bias), epsilon=w.attrs["eps"])


ROWS = (
    OnnxRow("BatchNormalization", _read_batchnorm, "batchnorm", renamed("BatchNormalization", epsilon="eps")),
    OnnxRow("LayerNormalization", _read_layernorm, "layernorm", _write_layernorm),
    OnnxRow(
        "InstanceNormalization",
        lambda r: r.op("instancenorm", *r.xs(), eps=_eps(r)),
        "instancenorm",
        _write_instancenorm,
    ),
    OnnxRow(
        "RMSNormalization", lambda r: r.op("rmsnorm", *_of_rows(r), eps=_eps(r)), "rmsnorm", _write_rmsnorm
    ),
    OnnxRow("Softmax", _read_softmax, "softmax", _write_softmax),
    _reduction("ReduceSum", "reduce_sum"),
    _reduction("ReduceMean", "reduce_mean"),
    _reduction("ReduceMax", "reduce_max"),
)
