"""Batched matrix products, with bias and activation in the same kernel: Triton kernels, and cuBLAS."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import torch
import triton
import triton.language as tl

from tensat_dl.cost.signature import Signature

from .activation import activate, in_place
from .implementation import Family, Implementation, Kernel, computable
from .launch import MOST_ALONG_AXIS, ceil_div, interpreted, power_of_two
from .layout import collapse
from .split import add_up, parts_for, workspace


@dataclass(frozen=True)
class Tiles:
    """The tile [m, n] that one program computes, in steps of k; its numbers of warps and pipeline stages; and the
    parts of k that programs of their own compute."""

    m: int
    n: int
    k: int
    warps: int = 4
    stages: int = 3
    parts: int = 1

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k}" + f" split {self.parts}" * (self.parts > 1)

    def length(self, k: int) -> int:
        """How much of k a part has."""
        return ceil_div(ceil_div(k, self.k), self.parts) * self.k


#: The tiles for products of f32 (on ordinary arithmetic units) and for products on tensor cores.
PLAIN = (Tiles(16, 32, 64), Tiles(32, 32, 32), Tiles(64, 32, 32), Tiles(64, 64, 16), Tiles(128, 64, 16, 8))
TENSOR = (
    Tiles(16, 32, 128, 4, 4),
    Tiles(16, 64, 64, 4, 4),
    Tiles(32, 32, 64, 4, 4),
    Tiles(64, 32, 64, 4, 4),
    Tiles(64, 64, 64, 4, 4),
    Tiles(128, 64, 64, 4, 4),
    Tiles(128, 128, 64, 8, 3),
)
#: The most rows of a product that `_few_rows` computes, and the choices of [n, k] for its programs.
FEW_ROWS = 4
STRIPS = ((8, 256), (8, 512), (32, 128))
#: How many tiles are tried with a split k: of f32 and of the half-precision types, and of TF32.
SPLIT, SPLIT_TF32 = 2, 1


def tiles_for(
    dtype: str, tf32: bool, m: int, n: int, k: int, batch: int, half: Sequence[Tiles] = TENSOR
) -> list[Tiles]:
    """The tiles to try for so many [m, n] results of sums over k: of half-precision types, some of ``half``. Large
    tiles are left out: twice as large in a dimension, or more."""
    options = TENSOR if tf32 else PLAIN if dtype == "f32" else half
    if tf32:  # an element has twice the bytes of the half-precision types
        options = [replace(t, k=max(16, t.k // 2)) for t in options]
    fitting = [t for t in options if t.m <= max(16, power_of_two(m)) and t.n <= max(32, power_of_two(n))]
    fitting = fitting or [options[0]]
    split = []
    for t in fitting:
        parts = parts_for(batch * ceil_div(m, t.m) * ceil_div(n, t.n), ceil_div(k, t.k))
        if parts > 1 and max(t.m, t.n) <= 64:  # larger tiles keep their registers for too long
            split.append(replace(t, parts=parts))
    return [*fitting, *split[-(SPLIT_TF32 if tf32 else SPLIT) :]]


#: In products, Triton's interpreter reads the bits of bf16 as integers.
WIDEN = tl.constexpr(interpreted())


@triton.jit
def dot(left, right, total, PRECISION: tl.constexpr):
    """total + left right."""
    if WIDEN and left.dtype == tl.bfloat16:
        left = left.to(tl.float32)
        right = right.to(tl.float32)
    return tl.dot(left, right, total, input_precision=PRECISION)


@triton.jit
def _tiled(
    x, y, bias, more, out, M, N, K, B2, sxa, sxb, sxm, sxk, sya, syb, syk, syn, LENGTH,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPLIT: tl.constexpr,
    BIAS: tl.constexpr, MORE: tl.constexpr, ACT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """out[a, b, m, n] = act(sum over k of x[a, b, m, k] * y[a, b, k, n] + bias[n] + more[a, b, m, n]). A program
    computes one tile. With SPLIT, it computes a sum over LENGTH of k, and out[p, a, b, m, n] are the parts."""
    GROUP: tl.constexpr = 8  # rows of tiles that are computed together, so that they share cached operands
    pid = tl.program_id(0)
    batch = tl.program_id(1)
    first = tl.program_id(2) * LENGTH if SPLIT else 0
    last = tl.minimum(first + LENGTH, K) if SPLIT else K
    tiles_m = tl.cdiv(M, BM)
    tiles_n = tl.cdiv(N, BN)
    group = pid // (GROUP * tiles_n)
    height = tl.minimum(tiles_m - group * GROUP, GROUP)
    tile_m = group * GROUP + (pid % (GROUP * tiles_n)) % height
    tile_n = (pid % (GROUP * tiles_n)) // height
    outer = (batch // B2).to(tl.int64)  # after the division, which is slow in 64 bits
    inner = (batch % B2).to(tl.int64)
    x += outer * sxa + inner * sxb
    y += outer * sya + inner * syb
    m = (tile_m * BM + tl.arange(0, BM)).to(tl.int64)
    n = (tile_n * BN + tl.arange(0, BN)).to(tl.int64)
    k = tl.arange(0, BK)
    xs = x + m[:, None] * sxm + k[None, :] * sxk
    ys = y + k[:, None] * syk + n[None, :] * syn
    if SPLIT:
        part = tl.program_id(2).to(tl.int64)
        xs += part * LENGTH * sxk
        ys += part * LENGTH * syk
        out += part * tl.num_programs(1) * M * N
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(first, last, BK):
        left = tl.load(xs, (m[:, None] < M) & (k[None, :] < K - start), other=0.0)
        right = tl.load(ys, (k[:, None] < K - start) & (n[None, :] < N), other=0.0)
        total = dot(left, right, total, PRECISION)
        xs += BK * sxk
        ys += BK * syk
    if BIAS:
        total += tl.load(bias + n, n < N, other=0.0).to(tl.float32)[None, :]
    where = batch.to(tl.int64) * M * N + m[:, None] * N + n[None, :]
    inside = (m[:, None] < M) & (n[None, :] < N)
    if MORE:
        total += tl.load(more + where, inside, other=0.0).to(tl.float32)
    total = activate(total, ACT)
    tl.store(out + where, total.to(out.dtype.element_ty), inside)


@triton.jit
def _few_rows(
    x, y, bias, more, out, M, N, K, B2, sxa, sxb, sxm, sxk, sya, syb, syk, syn,
    BN: tl.constexpr, BK: tl.constexpr, BIAS: tl.constexpr, MORE: tl.constexpr, ACT: tl.constexpr,
):  # fmt: skip
    """`_tiled` for few rows, without tensor cores: reading y takes most time. A program computes part of a row."""
    n = (tl.program_id(0) * BN + tl.arange(0, BN)).to(tl.int64)
    m = tl.program_id(1).to(tl.int64)
    batch = tl.program_id(2)
    outer = (batch // B2).to(tl.int64)
    inner = (batch % B2).to(tl.int64)
    x += outer * sxa + inner * sxb + m * sxm
    y += outer * sya + inner * syb
    k = tl.arange(0, BK)
    total = tl.zeros((BK, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        left = tl.load(x + (start + k) * sxk, k < K - start, other=0.0).to(tl.float32)
        there = (k[:, None] < K - start) & (n[None, :] < N)
        right = tl.load(y + (start + k).to(tl.int64)[:, None] * syk + n[None, :] * syn, there, other=0.0)
        total += left[:, None] * right.to(tl.float32)
    row = tl.sum(total, 0)
    if BIAS:
        row += tl.load(bias + n, n < N, other=0.0).to(tl.float32)
    where = batch.to(tl.int64) * M * N + m * N + n
    if MORE:
        row += tl.load(more + where, n < N, other=0.0).to(tl.float32)
    row = activate(row, ACT)
    tl.store(out + where, row.to(out.dtype.element_ty), n < N)


@dataclass(frozen=True)
class _Product:
    """The operands of a kernel, their sizes, and their strides with the batch in at most two dimensions."""

    x: torch.Tensor
    y: torch.Tensor
    batch: tuple[int, int]
    numbers: tuple[int, ...]  #: M, N, K, B2 and the strides
    out: torch.Tensor


def _product(x: torch.Tensor, y: torch.Tensor) -> _Product:
    m, k = x.shape[-2:]
    n = y.shape[-1]
    lead = x.shape[:-2]
    sizes, (xs, ys) = collapse(lead, [x.stride()[:-2], y.stride()[:-2]])
    if len(sizes) > 2:
        return _product(x.contiguous(), y.contiguous())
    if len(sizes) == 1:
        sizes, xs, ys = (1, *sizes), (0, *xs), (0, *ys)
    strides = (*xs, *x.stride()[-2:], *ys, *y.stride()[-2:])
    out = torch.empty((*lead, m, n), dtype=x.dtype, device=x.device)
    return _Product(x, y, (sizes[0], sizes[1]), (m, n, k, sizes[1], *strides), out)


def added(operands: Sequence[torch.Tensor], more: bool) -> tuple[list[torch.Tensor], torch.Tensor]:
    """The operands of a product, and the tensor to add to it: the last operand if ``more``, else any tensor. Biases
    and the added tensor are made contiguous, because the kernels take no strides for them."""
    x, y, *others = operands
    dense = [t.contiguous() for t in others]
    return ([x, y, *dense[:-1]], dense[-1]) if more else ([x, y, *dense], x)


def _tiled_kernel(tiles: Tiles, act: str, precision: str, more: bool) -> Kernel:
    def run(operands: Sequence[torch.Tensor]) -> torch.Tensor:
        (x, y, *bias), last = added(operands, more)
        p = _product(x, y)
        grid = (ceil_div(x.shape[-2], tiles.m) * ceil_div(y.shape[-1], tiles.n), prod(p.batch), tiles.parts)
        whole = tiles.parts == 1
        out = p.out if whole else workspace(tiles.parts, p.out)
        _tiled[grid](
            p.x, p.y, bias[0] if bias else x, last, out, *p.numbers, tiles.length(x.shape[-1]),
            BM=tiles.m, BN=tiles.n, BK=tiles.k, SPLIT=not whole, BIAS=whole and bool(bias), MORE=whole and more,
            ACT=act if whole else "none", PRECISION=precision, num_warps=tiles.warps, num_stages=tiles.stages,
        )  # fmt: skip
        if not whole:
            add_up(out, bias[0] if bias else None, last if more else None, p.out, act, axis=-1)
        return p.out

    return run


def _strip_kernel(strip: tuple[int, int], act: str, more: bool) -> Kernel:
    bn, bk = strip

    def run(operands: Sequence[torch.Tensor]) -> torch.Tensor:
        (x, y, *bias), last = added(operands, more)
        p = _product(x, y)
        grid = (ceil_div(y.shape[-1], bn), x.shape[-2], prod(p.batch))
        _few_rows[grid](
            p.x, p.y, bias[0] if bias else x, last, p.out, *p.numbers,
            BN=bn, BK=bk, BIAS=bool(bias), MORE=more, ACT=act,
        )  # fmt: skip
        return p.out

    return run


def tiled(signature: Signature, more: bool = False) -> Iterator[Implementation]:
    """The Triton kernels. With ``more``, their last operand is a tensor of the result's type that they add before the
    activation."""
    *lead, m, n = signature.outputs[0].shape
    if not computable(signature.inputs) or prod(lead) > MOST_ALONG_AXIS:
        return
    act = str(dict(signature.attrs)["act"])
    dtype = signature.inputs[0].dtype
    if m <= FEW_ROWS:
        for strip in STRIPS:

            def few(strip: tuple[int, int] = strip) -> Kernel:
                return _strip_kernel(strip, act, more)

            yield Implementation(f"triton rows {strip[0]}x{strip[1]}", "triton", few)
    for tf32 in (False, True) if dtype == "f32" else (False,):
        for tiles in tiles_for(dtype, tf32, m, n, signature.inputs[0].shape[-1], prod(lead)):

            def by_tiles(tiles: Tiles = tiles, precision: str = "tf32" if tf32 else "ieee") -> Kernel:
                return _tiled_kernel(tiles, act, precision, more)

            yield Implementation(f"triton {tiles}{' tf32' * tf32}", "triton", by_tiles, tf32)


@contextmanager
def rounding(tf32: bool) -> Iterator[None]:
    """A context in which cuBLAS and cuDNN may round f32 to TF32, or may not."""
    # ``fp32_precision`` replaces these settings, but after it is set, torch itself fails where it reads them.
    settings = [torch.backends.cuda.matmul, torch.backends.cudnn]
    before = [s.allow_tf32 for s in settings]
    try:
        for s in settings:
            s.allow_tf32 = tf32
        yield
    finally:
        for s, old in zip(settings, before, strict=True):
            s.allow_tf32 = old


def in_precision(kernel: Kernel, tf32: bool) -> Kernel:
    """A vendor's kernel with TF32 or without it."""

    def run(operands: Sequence[torch.Tensor]) -> torch.Tensor:
        with rounding(tf32):
            return kernel(operands)

    return run


def vendor(name: str, kernel: Kernel, dtype: str) -> Iterator[Implementation]:
    """A vendor's kernel; for f32, without TF32 and with it."""
    for tf32 in (False, True) if dtype == "f32" else (False,):

        def build(tf32: bool = tf32) -> Kernel:
            return in_precision(kernel, tf32)

        yield Implementation(f"{name}{' tf32' * tf32}", "vendor", build, tf32)


def _vendor(signature: Signature) -> Iterable[Implementation]:
    attrs: dict[str, Any] = dict(signature.attrs)
    dtype = signature.inputs[0].dtype
    yield from vendor("cublas", lambda operands: meaning(operands, attrs), dtype)
    flat = signature.outputs[0].rank == 2
    if flat and len(signature.inputs) == 3 and attrs["act"] == "relu":

        def epilogue(operands: Sequence[torch.Tensor]) -> torch.Tensor:
            x, y, bias = operands
            return torch._addmm_activation(bias, x, y)

        yield from vendor("cublas epilogue", epilogue, dtype)


def meaning(operands: Sequence[torch.Tensor], attrs: Mapping[str, Any]) -> torch.Tensor:
    """x [.., m, k], y [.., k, n], optional bias [n] -> act(x y + bias) [.., m, n]."""
    x, y, *bias = operands
    if not x.is_floating_point():  # the vendor's library has no products of integers
        wide = torch.matmul(x.to(torch.float64), y.to(torch.float64)).to(x.dtype)
        return in_place(wide + bias[0] if bias else wide, attrs["act"])
    if bias and x.ndim == 2:
        out = torch.addmm(bias[0], x, y)
    elif bias and x.ndim == 3:
        out = torch.baddbmm(bias[0], x, y)
    else:
        out = torch.matmul(x, y)
        if bias:
            out += bias[0]
    return in_place(out, attrs["act"])


FAMILY = Family({"matmul": meaning}, {"matmul": tiled}, {"matmul": _vendor})
