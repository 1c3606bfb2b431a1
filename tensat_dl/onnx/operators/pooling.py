"""Pools over two dimensions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx_ir as ir

from tensat_dl.core.types import TensorType
from tensat_dl.onnx.operator import NodeWriter, OnnxRow, OnnxTensor, Read, Reading, Unmapped, Write
from tensat_dl.onnx.operators.activations import activated
from tensat_dl.onnx.operators.products import paddings


def _window(r: Reading) -> tuple[int, dict[str, Any]]:
    """The input, and the attributes that both pools have."""
    x = r.x()
    r.only_result()
    if r.type(x).rank != 4:
        raise Unmapped("it is not two-dimensional")
    kernel = tuple(r.attr("kernel_shape"))
    stride = tuple(r.attr("strides", (1, 1)))
    if any(d != 1 for d in r.attr("dilations", (1, 1))):
        raise Unmapped("its windows are dilated")
    top, left, bottom, right = paddings(r, x, kernel, stride)
    if r.attr("ceil_mode", 0):  # windows that begin within the data, and end beyond it
        out = r.result().shape[2:]
        need = [
            (o - 1) * s + k - n for o, s, k, n in zip(out, stride, kernel, r.type(x).shape[2:], strict=True)
        ]
        bottom, right = max(bottom, need[0] - top), max(right, need[1] - left)
    return x, {"kernel": kernel, "stride": stride, "pads": (top, left, bottom, right)}


def _read_max(r: Reading) -> int:
    x, attrs = _window(r)
    return r.op("poolmax", x, **attrs)


def _read_average(r: Reading) -> int:
    x, attrs = _window(r)
    counted = bool(r.attr("count_include_pad", 0))
    if (
        counted
        and r.attr("ceil_mode", 0)
        and attrs["pads"] != paddings(r, x, attrs["kernel"], attrs["stride"])
    ):
        raise Unmapped("a part of its padding is counted")
    return r.op("poolavg", x, **attrs, include_pad=counted)


def _read_global(op: str, reduction: str) -> Read:
    """A window as large as an image; along other numbers of axes, one after the other."""

    def read(r: Reading) -> int:
        x = r.x()
        rank = r.type(x).rank
        if rank == 4:
            return r.op(op, x, kernel=r.type(x).shape[2:])
        for axis in range(2, rank):
            x = r.op(reduction, x, axis=axis)
        return x

    return read


def _write(name: str, more: Callable[[Mapping[str, Any]], dict[str, Any]]) -> Write:
    def write(
        w: NodeWriter, xs: Sequence[OnnxTensor], attrs: Mapping[str, Any], type: TensorType
    ) -> ir.Value:
        (x,) = xs
        if attrs["kernel"] == x.type.shape[2:] and not any(attrs["pads"]):
            out = w.op(f"Global{name}", x.value)
        else:
            out = w.op(
                name,
                x.value,
                kernel_shape=list(attrs["kernel"]),
                strides=list(attrs["stride"]),
                pads=list(attrs["pads"]),
                **more(attrs),
            )
        return activated(w, out, attrs["act"], type.dtype)

    return write


ROWS = (
    OnnxRow("MaxPool", _read_max, "poolmax", _write("MaxPool", lambda attrs: {})),
    OnnxRow(
        "AveragePool",
        _read_average,
        "poolavg",
        _write("AveragePool", lambda attrs: {"count_include_pad": int(attrs["include_pad"])}),
    ),
    OnnxRow("GlobalMaxPool", _read_global("poolmax", "reduce_max")),
    OnnxRow("GlobalAveragePool", _read_global("poolavg", "reduce_mean")),
)
