"""Matrix products and convolutions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import onnx_ir as ir

from tensat_dl.core.types import TensorType
from tensat_dl.onnx.operator import NodeWriter, OnnxRow, OnnxTensor, Reading, Unmapped, retyped
from tensat_dl.onnx.operators.activations import activated


def _read_matmul(r: Reading) -> int:
    """Operands of one rank are multiplied as they are. [.., m, k] by [k, n] is one product of [prod(..) * m, k]."""
    x, y = r.x(0), r.x(1)
    a, b = r.type(x).shape, r.type(y).shape
    if len(a) == 1 or len(b) == 1:
        rows = r.reshaped(x, (1, *a)) if len(a) == 1 else r.reshaped(x, (prod(a[:-1]), a[-1]))
        if len(b) > 2:
            raise Unmapped("a vector is multiplied by a batch")
        columns = r.reshaped(y, (*b, 1)) if len(b) == 1 else y
        return r.reshaped(r.op("matmul", rows, columns), r.result().shape)
    if len(b) == 2 and len(a) > 2:
        flat = r.op("matmul", r.reshaped(x, (prod(a[:-1]), a[-1])), y)
        return r.reshaped(flat, r.result().shape)
    return r.op("matmul", x, y)


def _read_gemm(r: Reading) -> int:
    """alpha A' B' + beta C, where A' and B' may be transposed."""
    x, y = r.x(0), r.x(1)
    if r.attr("transA", 0):
        x = r.op("transpose", x, perm=(1, 0))
    if r.attr("transB", 0):
        y = r.op("transpose", y, perm=(1, 0))
    dtype, alpha, beta = r.type(x).dtype, r.attr("alpha", 1.0), r.attr("beta", 1.0)
    c = r.x(2) if r.has(2) and beta != 0 else None
    if c is not None and beta != 1:
        c = r.op("ewmul", c, r.number(beta, dtype))
    if c is not None and alpha == 1 and r.type(c).size == r.type(y).shape[1] and r.type(c).rank > 0:
        shape = r.type(c).shape
        if shape[-1] == r.type(c).size:  # one for each column
            return r.op("matmul", x, y, r.reshaped(c, (shape[-1],)))
    product = r.op("matmul", x, y)
    if alpha != 1:
        product = r.op("ewmul", product, r.number(alpha, dtype))
    return product if c is None else r.op("ewadd", product, c)


def _write_matmul(
    w: NodeWriter, xs: Sequence[OnnxTensor], attrs: Mapping[str, Any], type: TensorType
) -> OnnxTensor:
    x, y, *bias = xs

    def product(a: OnnxTensor, result: TensorType) -> OnnxTensor:
        if bias and result.rank == 2:
            out = w.op("Gemm", a.value, y.value, bias[0].value)
        else:
            out = w.op("MatMul", a.value, y.value)
            out = w.op("Add", out, bias[0].value) if bias else out
        return OnnxTensor(activated(w, out, attrs["act"], type.dtype), result)

    wide = None
    if x.wide is not None and y.type.rank == 2:
        wide = product(x.wide, retyped(x.wide, (*x.wide.type.shape[:-1], y.type.shape[1])))
    narrow = product(x, type)
    return OnnxTensor(narrow.value, type, wide)


def _read_conv(r: Reading) -> int:
    """Over one dimension, it is one over images of one row."""
    x, kernel = r.x(0), r.x(1)
    if r.type(x).rank not in (3, 4) or r.type(kernel).rank != r.type(x).rank:
        raise Unmapped("it is over three dimensions or more")
    lines = r.type(x).rank == 3
    if r.type(x).shape[1] != r.attr("group", 1) * r.type(kernel).shape[1]:
        raise Unmapped("its groups do not fit")
    if lines:
        x, kernel = (r.op("reshape", t, shape=_with_row(r.type(t).shape)) for t in (x, kernel))
    stride, dilation = (_of_images(r.attr(name), (1,)) for name in ("strides", "dilations"))
    span = tuple((k - 1) * d + 1 for k, d in zip(r.type(kernel).shape[2:], dilation, strict=True))
    pads = paddings(r, x, span, stride)
    inputs = (x, kernel, *((r.x(2),) if r.has(2) else ()))
    found = r.op("conv2d", *inputs, stride=stride, pads=pads, dilation=dilation)
    return r.reshaped(found, r.result().shape)


def _with_row(shape: Sequence[int]) -> tuple[int, ...]:
    """[n, c, w] -> [n, c, 1, w]."""
    return (*shape[:2], 1, *shape[2:])


def _of_images(values: Sequence[int] | None, row: Sequence[int]) -> tuple[int, ...]:
    """What a node says of the dimensions of an image; ``row`` is what is said of the row of a line."""
    if values is None:
        return (*row, *row)
    return tuple(values) if len(values) == 2 * len(row) else (*row, *values)


def paddings(r: Reading, x: int, span: Sequence[int], stride: Sequence[int]) -> tuple[int, ...]:
    """The explicit pads of a convolution or pool over images, ``x``."""
    mode = r.attr("auto_pad", "NOTSET")
    if mode == "NOTSET":
        pads = tuple(r.attr("pads", (0, 0, 0, 0)))
        return pads if len(pads) == 4 else (0, pads[0], 0, pads[1])
    if mode == "VALID":
        return (0, 0, 0, 0)
    before, after = [], []
    for n, s, k in zip(r.type(x).shape[2:], stride, span, strict=True):
        total = max((-(-n // s) - 1) * s + k - n, 0)
        small = total // 2
        before.append(small if mode == "SAME_UPPER" else total - small)
        after.append(total - before[-1])
    return (*before, *after)


def _read_conv_transpose(r: Reading) -> int:
    """Only what makes a block of each pixel."""
    x, kernel = r.x(0), r.x(1)
    block = r.type(kernel).shape[2:]
    if len(block) != 2 or block[0] != block[1] or tuple(r.attr("strides", (1, 1))) != block:
        raise Unmapped("its windows overlap, or are not square")
    if r.attr("group", 1) != 1 or any(d != 1 for d in r.attr("dilations", ())):
        raise Unmapped("it has groups or is dilated")
    if any((*r.attr("pads", ()), *r.attr("output_padding", ()))):
        raise Unmapped("it is padded")
    dtype, channels = r.type(x).dtype, r.type(kernel).shape[1]
    bias = r.x(2) if r.has(2) else r.op("fill", value=0.0, dtype=dtype, shape=(channels,))
    return r.op("upconv", x, kernel, bias)


def _write_upconv(w: NodeWriter, xs: Sequence[OnnxTensor], _: Mapping[str, Any], __: TensorType) -> ir.Value:
    size = list(xs[1].type.shape[2:])
    return w.op("ConvTranspose", *(x.value for x in xs), kernel_shape=size, strides=size)


def _write_conv(
    w: NodeWriter, xs: Sequence[OnnxTensor], attrs: Mapping[str, Any], type: TensorType
) -> ir.Value:
    x, kernel = xs[:2]
    out = w.op(
        "Conv",
        *(t.value for t in xs),
        kernel_shape=list(kernel.type.shape[2:]),
        strides=list(attrs["stride"]),
        pads=list(attrs["pads"]),
        dilations=list(attrs["dilation"]),
        group=x.type.shape[1] // kernel.type.shape[1],
    )
    return activated(w, out, attrs["act"], type.dtype)


ROWS = (
    OnnxRow("MatMul", _read_matmul, "matmul", _write_matmul),
    OnnxRow("Gemm", _read_gemm),
    OnnxRow("Conv", _read_conv, "conv2d", _write_conv),
    OnnxRow("ConvTranspose", _read_conv_transpose, "upconv", _write_upconv),
)
