"""Normalisations, softmax, reductions along an axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx_ir as ir

from tensat_dl.core.types import FLOATS, TensorType
from tensat_dl.onnx.operator import NodeWriter, OnnxRow, OnnxTensor, Reading, Unmapped

#: What ONNX takes where a node does not say.
EPS = 1e-5


def _read_batchnorm(r: Reading) -> int:
    if r.attr("training_mode", 0):
        raise Unmapped("it is in training mode")
    r.only_result()
    return r.op("batchnorm", *(r.x(i) for i in range(5)), eps=r.number_attr("epsilon", EPS))


def _write_batchnorm(
    w: NodeWriter, xs: Sequence[OnnxTensor], attrs: Mapping[str, Any], _: TensorType
) -> ir.Value:
    return w.op("BatchNormalization", *(x.value for x in xs), epsilon=attrs["eps"])


def _read_layernorm(r: Reading) -> int:
    x, scale = _of_rows(r)
    kind = r.type(x)
    bias = r.x(2) if r.has(2) else r.op("fill", value=0.0, dtype=kind.dtype, shape=(kind.shape[-1],))
    return r.op("layernorm", x, scale, bias, eps=r.number_attr("epsilon", EPS))


def _read_rmsnorm(r: Reading) -> int:
    return r.op("rmsnorm", *_of_rows(r), eps=r.number_attr("epsilon", EPS))


def _of_rows(r: Reading) -> tuple[int, int]:
    """What is normalised, and its scale. Raises `Unmapped` unless that is over the last dimension."""
    x = r.x()
    r.only_result()
    if r.axis(r.attr("axis", -1), x) != r.type(x).rank - 1:
        raise Unmapped("it is over more than one dimension")
    return x, r.x(1)


def _write_layernorm(
    w: NodeWriter, xs: Sequence[OnnxTensor], attrs: Mapping[str, Any], type: TensorType
) -> ir.Value:
    if w.opset >= 17:
        return w.op("LayerNormalization", *(x.value for x in xs), axis=-1, epsilon=attrs["eps"])
    x, scale, bias = (t.value for t in xs)
    centred = w.op("Sub", x, _mean(w, x))
    return w.op("Add", w.op("Mul", _scaled(w, centred, attrs["eps"], type), scale), bias)


def _read_instancenorm(r: Reading) -> int:
    return r.op("instancenorm", *(r.x(i) for i in range(3)), eps=r.number_attr("epsilon", EPS))


def _write_instancenorm(
    w: NodeWriter, xs: Sequence[OnnxTensor], attrs: Mapping[str, Any], _: TensorType
) -> ir.Value:
    return w.op("InstanceNormalization", *(x.value for x in xs), epsilon=attrs["eps"])


def _write_rmsnorm(
    w: NodeWriter, xs: Sequence[OnnxTensor], attrs: Mapping[str, Any], type: TensorType
) -> ir.Value:
    return w.op("Mul", _scaled(w, xs[0].value, attrs["eps"], type), xs[1].value)


def _scaled(w: NodeWriter, x: ir.Value, eps: float, type: TensorType) -> ir.Value:
    """x / sqrt(mean(x^2) + eps) over the last dimension, in the form in which ONNX Runtime finds normalisations."""
    square = _mean(w, w.op("Pow", x, w.number(2, type.dtype)))
    return w.op("Div", x, w.op("Sqrt", w.op("Add", square, w.number(eps, type.dtype))))


def _mean(w: NodeWriter, x: ir.Value) -> ir.Value:
    return reduce(w, "ReduceMean", x, (-1,))


def _read_softmax(r: Reading) -> int:
    x = r.x()
    axis = r.axis(r.attr("axis", -1 if r.opset >= 13 else 1), x)
    if r.opset < 13 and any(d != 1 for d in r.type(x).shape[axis + 1 :]):
        raise Unmapped("it is over more than one dimension")
    return r.op("softmax", x, axis=axis)


def _write_softmax(
    w: NodeWriter, xs: Sequence[OnnxTensor], attrs: Mapping[str, Any], type: TensorType
) -> ir.Value:
    (x,), axis = xs, attrs["axis"]
    if w.opset >= 13 or axis == type.rank - 1:
        return w.op("Softmax", x.value, axis=axis)
    swap = list(range(type.rank))
    swap[axis], swap[-1] = swap[-1], swap[axis]
    last = w.op("Softmax", w.op("Transpose", x.value, perm=swap), axis=type.rank - 1)
    return w.op("Transpose", last, perm=swap)


def _reduction(onnx: str, op: str) -> OnnxRow:
    def read(r: Reading) -> int:
        x = r.x()
        kind = r.type(x)
        if kind.dtype not in FLOATS:
            raise Unmapped("its elements are integers")
        axes = r.ints("axes", 1)
        if axes is None and r.has(1):
            raise Unmapped("its axes are not known")
        if not axes:
            axes = () if r.attr("noop_with_empty_axes", 0) else tuple(range(kind.rank))
        for axis in sorted(r.axis(a, x) for a in axes):
            x = r.op(op, x, axis=axis)
        return r.reshaped(x, r.result().shape)

    def write(
        w: NodeWriter, xs: Sequence[OnnxTensor], attrs: Mapping[str, Any], type: TensorType
    ) -> OnnxTensor:
        (x,) = xs
        source, axes = x.value, (attrs["axis"],)
        if x.reduced is not None and x.reduced[0] == onnx:
            source, axes = x.reduced[1], (*x.reduced[2], *axes)
        return OnnxTensor(reduce(w, onnx, source, axes), type, reduced=(onnx, source, axes))

    return OnnxRow(onnx, read, op, write)


def reduce(w: NodeWriter, onnx: str, x: ir.Value, axes: Sequence[int]) -> ir.Value:
    """A reduction that keeps its dimensions. Axes became an input with opset 13 (sums) and 18 (others)."""
    if w.opset >= (13 if onnx == "ReduceSum" else 18):
        return w.op(onnx, x, w.ints(axes), keepdims=1)
    return w.op(onnx, x, axes=list(axes), keepdims=1)


ROWS = (
    OnnxRow("BatchNormalization", _read_batchnorm, "batchnorm", _write_batchnorm),
    OnnxRow("LayerNormalization", _read_layernorm, "layernorm", _write_layernorm),
    OnnxRow("InstanceNormalization", _read_instancenorm, "instancenorm", _write_instancenorm),
    OnnxRow("RMSNormalization", _read_rmsnorm, "rmsnorm", _write_rmsnorm),
    OnnxRow("Softmax", _read_softmax, "softmax", _write_softmax),
    _reduction("ReduceSum", "reduce_sum"),
    _reduction("ReduceMean", "reduce_mean"),
    _reduction("ReduceMax", "reduce_max"),
)
