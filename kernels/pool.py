"""Maxima and means over windows, with an activation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch.nn import functional

from tensat_dl.cost.signature import Signature

from .activation import activate, in_place
from .implementation import Family, Implementation, Kernel, computable, no_offers
from .launch import MOST_ALONG_AXIS, ceil_div

#: The numbers of pixels of one channel that a program may compute.
PIXELS = (128, 512)


@triton.jit(do_not_specialize=["CHANNELS", "H", "W", "OH", "OW"])  # else each shape is compiled
def _pool(
    x, out, CHANNELS, H, W, OH, OW, sxn, sxc, sxh, sxw,
    KH: tl.constexpr, KW: tl.constexpr, SH: tl.constexpr, SW: tl.constexpr, TOP: tl.constexpr, LEFT: tl.constexpr,
    MAX: tl.constexpr, INCLUDE_PAD: tl.constexpr, BLOCK: tl.constexpr, ACT: tl.constexpr,
):  # fmt: skip
    pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    plane = tl.program_id(1)  # a channel of an image
    row = (pixel // OW) * SH - TOP
    column = (pixel % OW) * SW - LEFT
    x += (plane // CHANNELS).to(tl.int64) * sxn + (plane % CHANNELS).to(tl.int64) * sxc
    empty = float("-inf") if MAX else 0.0
    total = tl.full((BLOCK,), empty, dtype=tl.float32)
    count = tl.zeros((BLOCK,), dtype=tl.float32)
    for r in range(KH):
        for s in range(KW):
            at_h = row + r
            at_w = column + s
            inside = (at_h >= 0) & (at_h < H) & (at_w >= 0) & (at_w < W) & (pixel < OH * OW)
            value = tl.load(x + at_h * sxh + at_w * sxw, inside, other=empty).to(tl.float32)
            if MAX:
                total = tl.maximum(total, value, propagate_nan=tl.PropagateNan.ALL)
            else:
                total += value
                count += tl.where(inside, 1.0, 0.0)
    if not MAX:
        total = total / (KH * KW) if INCLUDE_PAD else total / tl.maximum(count, 1.0)
    total = activate(total, ACT)
    tl.store(out + plane.to(tl.int64) * (OH * OW) + pixel, total.to(out.dtype.element_ty), pixel < OH * OW)


def _kernel(signature: Signature, block: int) -> Kernel:
    attrs: dict[str, Any] = dict(signature.attrs)
    shape = signature.outputs[0].shape
    (kh, kw), (sh, sw), (top, left, _, _) = attrs["kernel"], attrs["stride"], attrs["pads"]

    def run(operands: Sequence[torch.Tensor]) -> torch.Tensor:
        (x,) = operands
        images, channels, oh, ow = shape
        out = torch.empty(shape, dtype=x.dtype, device=x.device)
        _pool[(ceil_div(oh * ow, block), images * channels)](
            x, out, channels, x.shape[2], x.shape[3], oh, ow, *x.stride(),
            KH=kh, KW=kw, SH=sh, SW=sw, TOP=top, LEFT=left, MAX=signature.op == "poolmax",
            INCLUDE_PAD=bool(attrs.get("include_pad")), BLOCK=block, ACT=attrs["act"],
        )  # fmt: skip
        return out

    return run


def _triton(signature: Signature) -> Iterator[Implementation]:
    images, channels, _, _ = signature.outputs[0].shape
    if not computable(signature.inputs) or images * channels > MOST_ALONG_AXIS:
        return
    for block in PIXELS:

        def build(block: int = block) -> Kernel:
            return _kernel(signature, block)

        yield Implementation(f"triton {block}", "triton", build)


def _even(attrs: Mapping[str, Any]) -> bool:
    """Whether torch can pad: equally on both sides, and by at most half of the kernel."""
    top, left, bottom, right = attrs["pads"]
    kh, kw = attrs["kernel"]
    return (top, left) == (bottom, right) and 2 * top <= kh and 2 * left <= kw


def poolmax(operands: Sequence[torch.Tensor], attrs: Mapping[str, Any]) -> torch.Tensor:
    """[n, c, h, w] -> [n, c, oh, ow]."""
    (x,) = operands
    top, left, bottom, right = attrs["pads"]
    padding = (top, left)
    if not _even(attrs):
        x, padding = functional.pad(x, (left, right, top, bottom), value=float("-inf")), (0, 0)
    return in_place(functional.max_pool2d(x, attrs["kernel"], attrs["stride"], padding), attrs["act"])


def poolavg(operands: Sequence[torch.Tensor], attrs: Mapping[str, Any]) -> torch.Tensor:
    """[n, c, h, w] -> [n, c, oh, ow]."""
    (x,) = operands
    top, left, bottom, right = attrs["pads"]
    kernel, stride, counted = attrs["kernel"], attrs["stride"], attrs["include_pad"]
    if _even(attrs):
        out = functional.avg_pool2d(x, kernel, stride, (top, left), count_include_pad=counted)
    else:
        around = (left, right, top, bottom)
        out = functional.avg_pool2d(functional.pad(x, around), kernel, stride)
        if not counted:
            there = functional.pad(torch.ones_like(x[:1, :1]), around)
            out = out / functional.avg_pool2d(there, kernel, stride)
    return in_place(out, attrs["act"])


_OPS = ("poolmax", "poolavg")
FAMILY = Family(
    {"poolmax": poolmax, "poolavg": poolavg}, dict.fromkeys(_OPS, _triton), dict.fromkeys(_OPS, no_offers)
)
