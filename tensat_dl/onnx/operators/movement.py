"""Operators that move elements, and those that do nothing at inference."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import onnx_ir as ir

from tensat_dl.core.graph import TensorType
from tensat_dl.onnx.operator import NodeWriter, OnnxRow, OnnxTensor, Reading, Unmapped, Writing, renamed
from tensat_dl.onnx.tensors import ONNX_DTYPES, numpy_dtype
from tensat_dl.sizes.open_shapes import SAME, Asked, OfInput, stretched

#: Stands for "to the end" in the stops of slices.
END = 2**31 - 1


def _read_cast(r: Reading) -> int:
    """A cast to the type of its input does nothing."""
    x, dtype = r.x(), r.result().dtype
    return x if dtype == r.type(x).dtype else r.op("cast", x, to=dtype)


def _write_cast(w: Writing) -> ir.Value:
    return w.op("Cast", w.x, to=int(ONNX_DTYPES[w.attrs["to"]]))


def _read_dropout(r: Reading) -> int:
    if r.has(2) and r.constant(2).any():
        raise Unmapped("it is in training mode")
    r.only_result()
    return r.x()


# ---- shapes ----------------------------------------------------------------------------------------------


def _read_view(r: Reading) -> int:
    """The new shape is known from inference."""
    return r.op("reshape", r.x(), shape=r.result().shape)


def write_reshape(
    w: NodeWriter, x: OnnxTensor, type: TensorType, target: Sequence[Asked], inputs: Sequence[ir.Value] = ()
) -> OnnxTensor:
    """``target`` is the shape as a Reshape takes it, but for dimensions that it has to look up."""
    if x.wide is not None and x.wide.type.shape == type.shape:
        return x.wide
    wide = x if type.shape == (prod(x.type.shape[:-1]), *x.type.shape[-1:]) and x.type.rank > 2 else None
    known = [d for d in target if isinstance(d, int)]
    shape = w.ints(known) if len(known) == len(target) else _looked_up(w, x, target, inputs)
    return OnnxTensor(w.op("Reshape", x.value, shape), type, wide)


def _looked_up(w: NodeWriter, x: OnnxTensor, target: Sequence[Asked], inputs: Sequence[ir.Value]) -> ir.Value:
    """A shape some of whose dimensions are taken from those of ``x`` or of ``inputs``."""

    def part(asked: Asked) -> ir.Value:
        if isinstance(asked, int):
            return w.ints([asked])
        value = inputs[asked.position] if isinstance(asked, OfInput) else x.value
        return w.op("Gather", w.op("Shape", value), w.ints([asked.axis]), axis=0)

    return w.op("Concat", *map(part, target), axis=0)


def _read_expand(r: Reading) -> int:
    """The new shape is known from inference."""
    x, shape = r.x(), r.result().shape
    return x if r.type(x).shape == shape else r.op("expand", x, shape=shape)


def _write_expand(w: Writing) -> ir.Value:
    """A dimension that is not stretched is 1, so that it may have another size."""
    return w.op("Expand", w.x, w.ints(*stretched(w.xs[0].type.shape, w.attrs["shape"])))


def _read_transpose(r: Reading) -> int:
    x = r.x()
    return r.op("transpose", x, perm=tuple(r.attr("perm") or reversed(range(r.type(x).rank))))


# ---- parts -----------------------------------------------------------------------------------------------


def _read_concat(r: Reading) -> int:
    xs = r.xs()
    return r.op("concat", *xs, axis=r.axis(r.attr("axis"), xs[0])) if len(xs) > 1 else xs[0]


def _read_slice(r: Reading) -> int:
    x = r.x()
    starts, ends = r.list_of(1), r.list_of(2)
    axes = r.list_of(3) if r.has(3) else range(len(starts))
    steps = r.list_of(4) if r.has(4) else [1] * len(starts)
    if any(abs(step) != 1 for step in steps):
        raise Unmapped("its step is not 1")
    for start, end, axis, step in zip(starts, ends, (r.axis(a, x) for a in axes), steps, strict=True):
        x = _cut(r, x, axis, start, end, step)
    return x


def _cut(r: Reading, x: int, axis: int, start: int, end: int, step: int = 1) -> int:
    """The elements from start to end, which may count from the end, or lie beyond it."""
    size = r.type(x).shape[axis]
    start, stop, _ = slice(start, end, step).indices(size)
    if step < 0:
        start, stop = stop + 1, start + 1
    if (start, stop) != (0, size):
        x = r.op("slice", x, axis=axis, start=start, stop=stop)
    return x if step > 0 else r.op("reverse", x, axis=axis)


def _write_reverse(w: Writing) -> ir.Value:
    return w.op("Slice", w.x, w.ints(-1), w.ints(-END), w.ints(w.attrs["axis"]), w.ints(-1))


def _write_slice(w: Writing) -> OnnxTensor:
    x, axis, stop = w.xs[0], w.attrs["axis"], w.attrs["stop"]
    stop = END if stop == x.type.shape[axis] else stop

    def cut(t: OnnxTensor, _: TensorType) -> ir.Value:
        of_t = axis - x.type.rank + t.type.rank  # counted from the last one, which is the same in both
        return w.op("Slice", t.value, w.ints(w.attrs["start"]), w.ints(stop), w.ints(of_t))

    return w.in_rows(cut) if axis == x.type.rank - 1 else OnnxTensor(cut(x, w.type), w.type)


def _read_split(r: Reading) -> Sequence[int]:
    x = r.x()
    axis = r.axis(r.attr("axis", 0), x)
    parts, start = [], 0
    for k in range(len(r.node.outputs)):
        stop = start + r.result(k).shape[axis]
        parts.append(_cut(r, x, axis, start, stop))
        start = stop
    return parts


def _read_gather(r: Reading) -> int:
    """One element along an axis, or neighbouring ones, are a slice."""
    x = r.x()
    axis = r.axis(r.attr("axis", 0), x)
    size = r.type(x).shape[axis]
    indices = [i % size for i in r.list_of(1)] if r.is_known(1) else []
    if not indices or indices != list(range(indices[0], indices[0] + len(indices))):
        return r.op("gather", x, r.x(1), axis=axis)
    return r.reshaped(_cut(r, x, axis, indices[0], indices[-1] + 1), r.result().shape)


def _read_one_hot(r: Reading) -> int:
    """Ones among zeros, in the last dimension. Numbers from -n to -1 count from the end."""
    x = r.x()
    kind, n = r.type(x), int(r.number_of(1))
    if kind.dtype not in ("i32", "i64") or r.list_of(2) != [0, 1]:
        raise Unmapped("its numbers are not i32 or i64, or its values are not 0 and 1")
    if r.attr("axis", -1) not in (-1, kind.rank):
        raise Unmapped("its axis is not the last")
    negative = r.op("greater", r.number(0, x), x)
    place = r.op("select", negative, r.op("ewadd", x, r.number(n, x)), x)
    return r.op("one_hot", place, n=n, to=r.result().dtype)


def _write_one_hot(w: Writing) -> ir.Value:
    """As its definition is, but that dimensions may have other sizes."""
    x, n = w.xs[0], w.attrs["n"]
    column = w.op("Reshape", x.value, w.ints(*[SAME] * x.type.rank, 1))
    places = w.writer.constant(np.arange(n).astype(numpy_dtype(x.type.dtype)), "places")
    return w.op("Cast", w.op("Equal", column, places), to=int(ONNX_DTYPES[w.attrs["to"]]))


ROWS = (
    OnnxRow("Identity", lambda r: r.x()),
    OnnxRow("Cast", _read_cast, "cast", _write_cast),
    OnnxRow("CastLike", _read_cast),
    OnnxRow("Dropout", _read_dropout, "dropout", lambda w: w.xs[0]),
    OnnxRow(
        "Reshape", _read_view, "reshape", lambda w: write_reshape(w.writer, w.xs[0], w.type, w.type.shape)
    ),
    OnnxRow("Flatten", _read_view),
    OnnxRow("Squeeze", _read_view),
    OnnxRow("Unsqueeze", _read_view),
    OnnxRow("Expand", _read_expand, "expand", _write_expand),
    OnnxRow("Transpose", _read_transpose, "transpose", renamed("Transpose", perm="perm")),
    OnnxRow("Concat", _read_concat, "concat", renamed("Concat", axis="axis")),
    OnnxRow("Slice", _read_slice, "slice", _write_slice),
    OnnxRow(op="reverse", write=_write_reverse),
    OnnxRow("Split", _read_split),
    OnnxRow("Gather", _read_gather, "gather", renamed("Gather", axis="axis")),
    OnnxRow("OneHot", _read_one_hot),
    OnnxRow(op="one_hot", write=_write_one_hot),
)
