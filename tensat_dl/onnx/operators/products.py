"""Matrix products and convolutions."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from tensat_dl.core.graph import TensorType
from tensat_dl.onnx.operator import OnnxRow, OnnxTensor, Reading, Unmapped, Writing
from tensat_dl.onnx.operators.elementwise import activated
from tensat_dl.ops.products import aligned


def _read_matmul(r: Reading) -> int:
    x, y = r.x(0), r.x(1)
    found = aligned(r.type(x).shape, r.type(y).shape)
    if found is None or found.expanded:
        raise Unmapped("a leading dimension is stretched")
    rows, columns = r.reshaped(x, found.left), r.reshaped(y, found.right)
    return r.reshaped(r.op("matmul", rows, columns), r.result().shape)


def _read_gemm(r: Reading) -> int:
    """alpha A' B' + beta C, where A' and B' may be transposed."""
    x, y = r.x(0), r.x(1)
    if r.attr("transA", 0):
        x = r.op("transpose", x, perm=(1, 0))
    if r.attr("transB", 0):
        y = r.op("transpose", y, perm=(1, 0))
    alpha, beta = r.attr("alpha", 1.0), r.attr("beta", 1.0)
    c = r.x(2) if r.has(2) and beta != 0 else None
    if c is not None and beta != 1:
        c = r.op("ewmul", c, r.number(beta, x))
    if c is not None and alpha == 1 and r.type(c).size == r.type(y).shape[1] and r.type(c).rank > 0:
        shape = r.type(c).shape
        if shape[-1] == r.type(c).size:  # one for each column
            return r.op("matmul", x, y, r.reshaped(c, (shape[-1],)))
    product = r.op("matmul", x, y)
    if alpha != 1:
        product = r.op("ewmul", product, r.number(alpha, x))
    return product if c is None else r.op("ewadd", product, c)


def _write_matmul(w: Writing) -> OnnxTensor:
    y, *bias = (x.value for x in w.xs[1:])

    def product(a: OnnxTensor, result: TensorType) -> ir.Value:
        if bias and result.rank == 2:
            out = w.op("Gemm", a.value, y, *bias)
        else:
            out = w.op("MatMul", a.value, y)
            out = w.op("Add", out, *bias) if bias else out
        return activated(w, out)

    return w.in_rows(product)


def _read_conv(r: Reading) -> int:
    """A convolution over one dimension is one over images of one row."""
    x, kernel = r.x(0), r.x(1)
    if r.type(x).rank not in (3, 4) or r.type(kernel).rank != r.type(x).rank:
        raise Unmapped("it is over three dimensions or more")
    lines = r.type(x).rank == 3
    if r.type(x).shape[1] != r.attr("group", 1) * r.type(kernel).shape[1]:
        raise Unmapped("its groups do not match its channels")
    if lines:
        x, kernel = (r.op("reshape", t, shape=_with_row(r.type(t).shape)) for t in (x, kernel))
    stride, dilation = (_of_images(r.attr(name, ())) for name in ("strides", "dilations"))
    span = tuple((k - 1) * d + 1 for k, d in zip(r.type(kernel).shape[2:], dilation, strict=True))
    inputs = (x, kernel, *((r.x(2),) if r.has(2) else ()))
    found = r.op("conv2d", *inputs, stride=stride, pads=paddings(r, x, span, stride), dilation=dilation)
    return r.reshaped(found, r.result().shape)


def _with_row(shape: Sequence[int]) -> tuple[int, ...]:
    """[n, c, w] -> [n, c, 1, w]."""
    return (*shape[:2], 1, *shape[2:])


def _of_images(values: Sequence[int]) -> tuple[int, ...]:
    """A stride or dilation for each of an image's two dimensions. It is 1 where a node says nothing of one."""
    return (*[1] * (2 - len(values)), *values)


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


def _write_conv(w: Writing) -> ir.Value:
    x, kernel = (t.type.shape for t in w.xs[:2])
    out = w.on_all(
        "Conv",
        kernel_shape=kernel[2:],
        strides=w.attrs["stride"],
        pads=w.attrs["pads"],
        dilations=w.attrs["dilation"],
        group=x[1] // kernel[1],
    )
    return activated(w, out)


def _read_conv_transpose(r: Reading) -> int:
    """Only convolutions that make a block of each pixel."""
    x, kernel = r.x(0), r.x(1)
    block = r.type(kernel).shape[2:]
    if len(block) != 2 or block[0] != block[1] or tuple(r.attr("strides", (1, 1))) != block:
        raise Unmapped("its windows overlap, or are not square")
    if r.attr("group", 1) != 1 or any(d != 1 for d in r.attr("dilations", ())):
        raise Unmapped("it has groups or is dilated")
    if any((*r.attr("pads", ()), *r.attr("output_padding", ()))):
        raise Unmapped("it is padded")
    bias = r.x(2) if r.has(2) else r.number(0, x, r.type(kernel).shape[1])
    return r.op("upconv", x, kernel, bias)


def _write_upconv(w: Writing) -> ir.Value:
    x, kernel, bias = w.xs
    size = kernel.type.shape[2:]
    return w.op("ConvTranspose", x.value, kernel.value, w.as_list(bias), kernel_shape=size, strides=size)


ROWS = (
    OnnxRow("MatMul", _read_matmul, "matmul", _write_matmul),
    OnnxRow("Gemm", _read_gemm),
    OnnxRow("Conv", _read_conv, "conv2d", _write_conv),
    OnnxRow("ConvTranspose", _read_conv_transpose, "upconv", _write_upconv),
)
