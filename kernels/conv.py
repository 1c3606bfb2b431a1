"""Grouped two-dimensional convolutions with bias and activation: implicit matrix products in Triton, and cuDNN."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

import torch
import triton
import triton.language as tl
from torch.nn import functional

from tensat_dl.cost.signature import Signature

from .activation import activate, in_place
from .implementation import Family, Implementation, Kernel, computable
from .launch import MOST_ALONG_AXIS, ceil_div
from .matmul import TENSOR, Tiles, added, dot, tiles_for, vendor
from .split import add_up, workspace

#: Tiles of half-precision types. Each element of the left one has an address, so that with the warps of a matrix
#: product these run out of registers on sm_90: 64x64x64 by 312 bytes, 128x64x64 by 1,648.
HALF = (*TENSOR[:4], Tiles(64, 64, 64, 8, 4), Tiles(128, 64, 32, 8, 4), Tiles(128, 128, 32, 16, 3))
#: The numbers of pixels of one channel that a program of a depth-wise convolution may compute.
PIXELS = (128, 512)
#: The most pixels of a result of implicit products, which count them in 32 bits, a tile beyond the last included.
MOST_PIXELS = 2**31 - 1024


#: A row that is outside of all images. So is twice this row.
OUTSIDE = tl.constexpr(-(2**30))


@triton.jit
def _inside(row, column, H, W):
    """Whether places are inside of an image. As unsigned numbers, negative ones are large: one comparison looks at
    both ends."""
    return (row.to(tl.uint32, bitcast=True) < H) & (column.to(tl.uint32, bitcast=True) < W)


@triton.jit(do_not_specialize=["IMAGES", "H", "W", "OH", "OW", "PER_GROUP", "OUT_PER_GROUP", "LENGTH"])
def _implicit(
    x, w, bias, more, out, IMAGES, H, W, OH, OW, PER_GROUP, OUT_PER_GROUP, LENGTH,
    sxn, sxc, sxh, sxw, swo, swc, swh, sww,
    KH: tl.constexpr, KW: tl.constexpr, SH: tl.constexpr, SW: tl.constexpr, TOP: tl.constexpr, LEFT: tl.constexpr,
    DH: tl.constexpr, DW: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    SPLIT: tl.constexpr, BIAS: tl.constexpr, MORE: tl.constexpr, ACT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """[pixels, channels of a group * kh * kw] times [channels of a group * kh * kw, outputs of the group], without
    storing the left matrix. The pixels are the pixels of all images of the result. SPLIT is as in `matmul`."""
    M = IMAGES * OH * OW
    K = PER_GROUP * KH * KW
    first = tl.program_id(2) * LENGTH if SPLIT else 0
    last = tl.minimum(first + LENGTH, K) if SPLIT else K
    tiles_n = tl.cdiv(OUT_PER_GROUP, BN)
    pid = tl.program_id(0)
    group = tl.program_id(1).to(tl.int64)
    m = (pid // tiles_n) * BM + tl.arange(0, BM)
    n = ((pid % tiles_n) * BN + tl.arange(0, BN)).to(tl.int64)
    image = (m // (OH * OW)).to(tl.int64)
    pixel = m % (OH * OW)
    row = (pixel // OW) * SH - TOP
    column = (pixel % OW) * SW - LEFT
    # An element of the left matrix is at the place of its pixel plus an offset that k alone determines.
    xs = x + image * sxn + group * PER_GROUP * sxc + row.to(tl.int64) * sxh + column.to(tl.int64) * sxw
    row = tl.where(m < M, row, OUTSIDE)
    ws = w + (group * OUT_PER_GROUP + n) * swo
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(first, last, BK):
        k = start + tl.arange(0, BK)
        c = (k // (KH * KW)).to(tl.int64)
        r = (k // KW) % KH
        s = k % KW
        offset = c * sxc + (r * DH).to(tl.int64) * sxh + (s * DW).to(tl.int64) * sxw
        if KH * KW == 1:  # which pixels are inside does not change from step to step
            inside = _inside(row, column, H, W)[:, None] & (k < K)[None, :]
        else:
            at_h = row[:, None] + tl.where(k < K, r * DH, OUTSIDE)[None, :]
            inside = _inside(at_h, column[:, None] + (s * DW)[None, :], H, W)
        left = tl.load(xs[:, None] + offset[None, :], inside, other=0.0)
        there = (k[:, None] < K) & (n[None, :] < OUT_PER_GROUP)
        right = tl.load(ws[None, :] + (c * swc + r * swh + s * sww)[:, None], there, other=0.0)
        total = dot(left, right, total, PRECISION)
    channel = group * OUT_PER_GROUP + n
    if BIAS:
        total += tl.load(bias + channel, n < OUT_PER_GROUP, other=0.0).to(tl.float32)[None, :]
    channels = tl.num_programs(1) * OUT_PER_GROUP
    if SPLIT:
        out += tl.program_id(2).to(tl.int64) * M * channels
    where = (image[:, None] * channels + channel[None, :]) * (OH * OW) + pixel[:, None]
    valid = (m[:, None] < M) & (n[None, :] < OUT_PER_GROUP)
    if MORE:
        total += tl.load(more + where, valid, other=0.0).to(tl.float32)
    total = activate(total, ACT)
    tl.store(out + where, total.to(out.dtype.element_ty), valid)


@triton.jit(do_not_specialize=["CHANNELS", "H", "W", "OH", "OW", "MULTIPLIER"])  # else each shape is compiled
def _depthwise(
    x, w, bias, out, CHANNELS, H, W, OH, OW, MULTIPLIER, sxn, sxc, sxh, sxw, swo, swh, sww,
    KH: tl.constexpr, KW: tl.constexpr, SH: tl.constexpr, SW: tl.constexpr, TOP: tl.constexpr, LEFT: tl.constexpr,
    DH: tl.constexpr, DW: tl.constexpr, BLOCK: tl.constexpr, BIAS: tl.constexpr, ACT: tl.constexpr,
):  # fmt: skip
    """Each output channel from one input channel. A program computes pixels of one output channel."""
    pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    plane = tl.program_id(1)  # an output channel of an image
    channel = plane % CHANNELS
    row = (pixel // OW) * SH - TOP
    column = (pixel % OW) * SW - LEFT
    x += (plane // CHANNELS).to(tl.int64) * sxn + (channel // MULTIPLIER).to(tl.int64) * sxc
    w += channel.to(tl.int64) * swo
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for r in range(KH):
        for s in range(KW):
            at_h = row + r * DH
            at_w = column + s * DW
            inside = (at_h >= 0) & (at_h < H) & (at_w >= 0) & (at_w < W) & (pixel < OH * OW)
            value = tl.load(x + at_h * sxh + at_w * sxw, inside, other=0.0).to(tl.float32)
            total += value * tl.load(w + r * swh + s * sww).to(tl.float32)
    if BIAS:
        total += tl.load(bias + channel).to(tl.float32)
    total = activate(total, ACT)
    tl.store(out + plane.to(tl.int64) * (OH * OW) + pixel, total.to(out.dtype.element_ty), pixel < OH * OW)


def _windows(attrs: Mapping[str, Any], w: torch.Tensor) -> dict[str, Any]:
    """The compile-time constants that give the kernels the positions of windows."""
    (sh, sw), (dh, dw), (top, left, _, _) = attrs["stride"], attrs["dilation"], attrs["pads"]
    kh, kw = w.shape[2:]
    return {"KH": kh, "KW": kw, "SH": sh, "SW": sw, "TOP": top, "LEFT": left, "DH": dh, "DW": dw}


def _implicit_kernel(signature: Signature, tiles: Tiles, precision: str, more: bool) -> Kernel:
    attrs: dict[str, Any] = dict(signature.attrs)
    shape = signature.outputs[0].shape

    def run(operands: Sequence[torch.Tensor]) -> torch.Tensor:
        (x, w, *bias), last = added(operands, more)
        images, outputs, oh, ow = shape
        groups = x.shape[1] // w.shape[1]
        out = torch.empty(shape, dtype=x.dtype, device=x.device)
        grid = (
            ceil_div(images * oh * ow, tiles.m) * ceil_div(outputs // groups, tiles.n),
            groups,
            tiles.parts,
        )
        whole = tiles.parts == 1
        to = out if whole else workspace(tiles.parts, out)
        _implicit[grid](
            x, w, bias[0] if bias else x, last, to, images, x.shape[2], x.shape[3], oh, ow, w.shape[1],
            outputs // groups, tiles.length(w[0].numel()), *x.stride(), *w.stride(), **_windows(attrs, w),
            BM=tiles.m, BN=tiles.n, BK=tiles.k, SPLIT=not whole, BIAS=whole and bool(bias), MORE=whole and more,
            ACT=attrs["act"] if whole else "none", PRECISION=precision,
            num_warps=tiles.warps, num_stages=tiles.stages,
        )  # fmt: skip
        if not whole:
            add_up(to, bias[0] if bias else None, last if more else None, out, attrs["act"], axis=1)
        return out

    return run


def _depthwise_kernel(signature: Signature, block: int) -> Kernel:
    attrs: dict[str, Any] = dict(signature.attrs)
    shape = signature.outputs[0].shape

    def run(operands: Sequence[torch.Tensor]) -> torch.Tensor:
        (x, w, *bias), _ = added(operands, False)
        images, outputs, oh, ow = shape
        out = torch.empty(shape, dtype=x.dtype, device=x.device)
        swo, _, swh, sww = w.stride()
        _depthwise[(ceil_div(oh * ow, block), images * outputs)](
            x, w, bias[0] if bias else x, out, outputs, x.shape[2], x.shape[3], oh, ow, outputs // x.shape[1],
            *x.stride(), swo, swh, sww, **_windows(attrs, w), BLOCK=block, BIAS=bool(bias), ACT=attrs["act"],
        )  # fmt: skip
        return out

    return run


def _triton(signature: Signature) -> Iterator[Implementation]:
    if not computable(signature.inputs):
        return
    x, w = signature.inputs[:2]
    images, outputs, *_ = signature.outputs[0].shape
    if w.shape[1] == 1 and x.shape[1] > 1 and images * outputs <= MOST_ALONG_AXIS:
        for block in PIXELS:

            def pixels(block: int = block) -> Kernel:
                return _depthwise_kernel(signature, block)

            yield Implementation(f"triton depthwise {block}", "triton", pixels)
        return
    yield from implicit(signature)


def implicit(signature: Signature, more: bool = False) -> Iterator[Implementation]:
    """The kernels that are implicit matrix products. ``more`` is as in `matmul.tiled`."""
    x, w = signature.inputs[:2]
    images, outputs, oh, ow = signature.outputs[0].shape
    groups = x.shape[1] // w.shape[1]
    if not computable(signature.inputs) or groups > MOST_ALONG_AXIS or images * oh * ow > MOST_PIXELS:
        return
    for tf32 in (False, True) if x.dtype == "f32" else (False,):
        sizes = images * oh * ow, outputs // groups, prod(w.shape[1:]), groups
        for tiles in tiles_for(x.dtype, tf32, *sizes, HALF):

            def by_tiles(tiles: Tiles = tiles, precision: str = "tf32" if tf32 else "ieee") -> Kernel:
                return _implicit_kernel(signature, tiles, precision, more)

            yield Implementation(f"triton {tiles}{' tf32' * tf32}", "triton", by_tiles, tf32)


def _vendor(signature: Signature) -> Iterator[Implementation]:
    attrs: dict[str, Any] = dict(signature.attrs)
    x, w = signature.inputs[:2]

    def plain(operands: Sequence[torch.Tensor]) -> torch.Tensor:
        return meaning(operands, attrs).contiguous()  # cuDNN's result has the layout of its operands

    yield from vendor("cudnn", plain, x.dtype)

    def channels_last(operands: Sequence[torch.Tensor]) -> torch.Tensor:
        x, w, *bias = operands
        x, w = (t.contiguous(memory_format=torch.channels_last) for t in (x, w))
        return plain([x, w, *bias])

    yield from vendor("cudnn nhwc", channels_last, x.dtype)
    if (
        w.shape[2:] == (1, 1)
        and w.shape[1] == x.shape[1]
        and attrs["stride"] == (1, 1)
        and not any(attrs["pads"])
    ):

        def product(operands: Sequence[torch.Tensor]) -> torch.Tensor:
            x, w, *bias = operands
            images, channels, height, width = x.shape
            pixels = x.reshape(images, channels, height * width)
            out = torch.matmul(w.reshape(w.shape[0], channels), pixels)
            if bias:
                out += bias[0][:, None]
            return in_place(out, attrs["act"]).reshape(images, w.shape[0], height, width)

        yield from vendor("cublas", product, x.dtype)


def meaning(operands: Sequence[torch.Tensor], attrs: Mapping[str, Any]) -> torch.Tensor:
    """x [n, c, h, w], w [o, c / groups, kh, kw], optional bias [o] -> act(x * w + bias) [n, o, oh, ow]."""
    x, w, *bias = operands
    top, left, bottom, right = attrs["pads"]
    padding = (top, left)
    if (top, left) != (bottom, right):
        x, padding = functional.pad(x, (left, right, top, bottom)), (0, 0)
    groups = x.shape[1] // w.shape[1]
    out = functional.conv2d(
        x, w, bias[0] if bias else None, attrs["stride"], padding, attrs["dilation"], groups
    )
    return in_place(out, attrs["act"])


FAMILY = Family({"conv2d": meaning}, {"conv2d": _triton}, {"conv2d": _vendor})
