"""Matrix products and convolutions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import onnx_ir as ir

from tensat_dl.ir.types import TensorType
from tensat_dl.onnx.operator import Reading, Row, Tensor, Unmapped, Writer, retyped
from tensat_dl.onnx.operators.elementwise import activated


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


def _write_matmul(w: Writer, xs: Sequence[Tensor], attrs: Mapping[str, Any], type: TensorType) -> Tensor:
    x, y, *bias = xs

    def product(a: Tensor, result: TensorType) -> Tensor:
        if bias and result.rank == 2:
            out = w.op("Gemm", a.value, y.value, bias[0].value)
        else:
            out = w.op("MatMul", a.value, y.value)
            out = w.op("Add", out, bias[0].value) if bias else out
        return Tensor(activated(w, out, attrs["act"], type.dtype), result)

    wide = None
    if x.wide is not None and y.type.rank == 2:
        wide = product(x.wide, retyped(x.wide, (*x.wide.type.shape[:-1], y.type.shape[1])))
    narrow = product(x, type)
    return Tensor(narrow.value, type, wide)


def _read_conv(r: Reading) -> int:
    x, kernel = r.x(0), r.x(1)
    if r.type(x).rank != 4:
        raise Unmapped("it is not two-dimensional")
    stride = tuple(r.attr("strides", (1, 1)))
    dilation = tuple(r.attr("dilations", (1, 1)))
    size = r.type(kernel).shape[2:]
    span = tuple((k - 1) * d + 1 for k, d in zip(size, dilation, strict=True))
    groups = r.attr("group", 1)
    if r.type(kernel).rank != 4 or r.type(x).shape[1] != groups * r.type(kernel).shape[1]:
        raise Unmapped("its groups do not fit")
    inputs = (x, kernel, *((r.x(2),) if r.has(2) else ()))
    return r.op("conv2d", *inputs, stride=stride, pads=paddings(r, x, span, stride), dilation=dilation)


def paddings(r: Reading, x: int, span: Sequence[int], stride: Sequence[int]) -> tuple[int, ...]:
    """The explicit pads of a convolution or pool over two dimensions."""
    mode = r.attr("auto_pad", "NOTSET")
    if mode == "NOTSET":
        return tuple(r.attr("pads", (0, 0, 0, 0)))
    if mode == "VALID":
        return (0, 0, 0, 0)
    before, after = [], []
    for n, s, k in zip(r.type(x).shape[2:], stride, span, strict=True):
        total = max((-(-n // s) - 1) * s + k - n, 0)
        small = total // 2
        before.append(small if mode == "SAME_UPPER" else total - small)
        after.append(total - before[-1])
    return (*before, *after)


def _write_conv(w: Writer, xs: Sequence[Tensor], attrs: Mapping[str, Any], type: TensorType) -> ir.Value:
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
    Row("MatMul", _read_matmul, "matmul", _write_matmul),
    Row("Gemm", _read_gemm),
    Row("Conv", _read_conv, "conv2d", _write_conv),
)
