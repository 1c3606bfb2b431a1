"""Operators on images [n, c, h, w]: convolution, pooling over windows, and resizing."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tensat_dl.ops.semantics.arrays import Array
from tensat_dl.ops.semantics.elementwise import ACTIVATIONS, quotient
from tensat_dl.ops.semantics.reductions import Product, product

#: A convolution gathers the windows of a block of output rows at a time, in about this many bytes: the second
#: layer of VGG at 224 x 224 would take 230 MB at once. A product reads so many from a cache.
BLOCK_BYTES = 1 << 23
#: And one of a channel for each group adds up about this many bytes at a time.
CACHED_BYTES = 1 << 18

# ---- convolution ------------------------------------------------------------------------------------------


def conv2d(
    x: Array,
    weight: Array,
    *bias: Array,
    stride: Sequence[int],
    pads: Sequence[int],
    dilation: Sequence[int],
    act: str,
    product: Product = product,
) -> Array:
    """x [n, c, h, w], w [o, c / groups, kh, kw], optional bias [o] -> act(x * w + bias) [n, o, oh, ow]."""
    out = correlate(pad_spatial(x, pads), weight, stride, dilation, product)
    for vector in bias:
        out = out + vector[:, None, None]
    return ACTIVATIONS[act](out)


def pad_spatial(x: Array, pads: Sequence[int], value: object = 0) -> Array:
    """[n, c, h, w] framed by ``pads`` = (top, left, bottom, right) rows and columns of ``value``."""
    if not any(pads):
        return x
    top, left, bottom, right = pads
    n, c, h, w = x.shape
    out = np.full((n, c, top + h + bottom, left + w + right), value, x.dtype)
    out[:, :, top : top + h, left : left + w] = x
    return out


def correlate(
    x: Array,
    weight: Array,
    stride: Sequence[int],
    dilation: Sequence[int],
    product: Product = product,
) -> Array:
    """Grouped cross-correlation without padding: [n, c, h, w], [o, c / groups, kh, kw] -> [n, o, oh, ow]."""
    (n, c, h, w), (o, per_group, kh, kw) = x.shape, weight.shape
    groups = c // per_group
    (sh, sw), (dh, dw) = stride, dilation
    span_h, span_w = (kh - 1) * dh + 1, (kw - 1) * dw + 1
    oh, ow = (h - span_h) // sh + 1, (w - span_w) // sw + 1
    if per_group == 1:
        # One multiplication per kernel element over whole images: matrices of one row gain nothing from BLAS.
        kernel = weight.reshape(groups, o // groups, kh, kw, 1, 1)
        # A few channels at a time: what is added up stays in the processor's cache.
        total = np.zeros((n, groups, o // groups, oh, ow), np.result_type(x, weight))
        step = max(1, CACHED_BYTES // max(1, n * (o // groups) * oh * ow * total.itemsize))
        for first in range(0, groups, step):
            some = slice(first, first + step)
            part = total[:, some]
            term = np.empty_like(part)
            for i in range(kh):
                for j in range(kw):
                    rows = slice(i * dh, i * dh + (oh - 1) * sh + 1, sh)
                    columns = slice(j * dw, j * dw + (ow - 1) * sw + 1, sw)
                    np.multiply(x[:, some, None, rows, columns], kernel[some, :, i, j], out=term)
                    part += term
        return total.reshape(n, o, oh, ow)

    matrix = weight.reshape(groups, o // groups, per_group * kh * kw)
    if kh == kw == 1:
        pixels = x[:, :, ::sh, ::sw].reshape(n, groups, per_group, oh * ow)
        return np.asarray(product(matrix, pixels).reshape(n, o, oh, ow))

    windows = np.lib.stride_tricks.sliding_window_view(x, (span_h, span_w), axis=(2, 3))
    windows = windows[:, :, ::sh, ::sw, ::dh, ::dw].transpose(0, 1, 4, 5, 2, 3)  # [n, c, kh, kw, oh, ow]
    out = np.empty((n, groups, o // groups, oh, ow), np.result_type(x, weight))
    rows_per_block = max(1, BLOCK_BYTES // (c * kh * kw * ow * x.itemsize))
    for image in range(n):
        for start in range(0, oh, rows_per_block):
            block = windows[image, :, :, :, start : start + rows_per_block]
            gathered = block.reshape(groups, per_group * kh * kw, -1)
            part = product(matrix, gathered).reshape(groups, o // groups, -1, ow)
            out[image, :, :, start : start + rows_per_block] = part
    return out.reshape(n, o, oh, ow)


# ---- pooling ----------------------------------------------------------------------------------------------


def poolmax(x: Array, *, act: str, **window: Sequence[int]) -> Array:
    """[n, c, h, w] -> [n, c, oh, ow]: the largest element of each ``window`` (its kernel, stride and pads); padding
    never wins."""
    # Padding is smaller than the kernel, so each window holds an element of x, and what is not larger than
    # any of those never shows. For floats that is not the least element of x: it may be not-a-number.
    lowest = -np.inf if x.dtype.kind == "f" else x.min()
    return ACTIVATIONS[act](fold_windows(x, np.maximum, lowest, **window))


def poolavg(x: Array, *, include_pad: bool, act: str, **window: Sequence[int]) -> Array:
    """[n, c, h, w] -> [n, c, oh, ow]: the mean of each window, over padded zeros too if ``include_pad``."""
    total = window_sums(x, **window)
    return ACTIVATIONS[act](
        quotient(total, window_counts(x.shape, include_pad, **window).astype(total.dtype))
    )


def window_sums(x: Array, **window: Sequence[int]) -> Array:
    """[n, c, h, w] -> [n, c, oh, ow]: the sum of each window, padding being zero."""
    return fold_windows(x, np.add, 0, **window)


def window_counts(shape: Sequence[int], include_pad: bool, **window: Sequence[int]) -> Array:
    """[1, 1, oh, ow] integers: how many elements ``poolavg`` takes the mean of in each window of [n, c, h, w]."""
    return fold_windows(np.ones((1, 1, *shape[2:]), np.int64), np.add, 1 if include_pad else 0, **window)


def fold_windows(
    x: Array,
    combine: Callable[[Array, Array], Array],
    padding: object,
    *,
    kernel: Sequence[int],
    stride: Sequence[int],
    pads: Sequence[int],
) -> Array:
    """Combines the elements of each window, columns first and then rows: kh + kw steps, not kh * kw."""
    x = pad_spatial(x, pads, padding)
    for axis, size, step in zip((2, 3), kernel, stride, strict=True):
        count = (x.shape[axis] - size) // step + 1
        # Element i of every window, for each i.
        elements = [
            x[(*(slice(None),) * axis, slice(i, i + (count - 1) * step + 1, step))] for i in range(size)
        ]
        x = functools.reduce(combine, elements)
    return x


# ---- resizing ---------------------------------------------------------------------------------------------

HALF = Fraction(1, 2)


@dataclass(frozen=True, slots=True)
class Sources:
    """For each new place along one axis the old places ``low`` and ``high``, and the share of ``high``."""

    low: tuple[int, ...]
    high: tuple[int, ...]
    share: tuple[Fraction, ...]


def sources(old: int, new: int, *, mode: str, coordinates: str, rounding: str) -> Sources:
    """The old places that the ``new`` places along an axis of ``old`` ones are made of."""
    places = [_place(i, old, new, coordinates) for i in range(new)]
    if mode == "nearest":
        nearest = tuple(min(max(_rounded(x, rounding), 0), old - 1) for x in places)
        return Sources(nearest, nearest, (Fraction(0),) * new)
    places = [min(max(x, Fraction(0)), Fraction(old - 1)) for x in places]
    low = tuple(math.floor(x) for x in places)
    high = tuple(min(i + 1, old - 1) for i in low)
    return Sources(low, high, tuple(x - i for x, i in zip(places, low, strict=True)))


def _place(i: int, old: int, new: int, coordinates: str) -> Fraction:
    match coordinates:
        case "half_pixel":
            return (i + HALF) * old / new - HALF
        case "asymmetric":
            return Fraction(i * old, new)
        case "align_corners":
            return Fraction(i * (old - 1), new - 1) if new > 1 else Fraction(0)
    raise AssertionError(coordinates)


def _rounded(x: Fraction, rounding: str) -> int:
    match rounding:
        case "half_down":
            return math.ceil(x - HALF)
        case "half_up":
            return math.floor(x + HALF)
        case "down":
            return math.floor(x)
        case "up":
            return math.ceil(x)
    raise AssertionError(rounding)


def resize(x: Array, *, size: Sequence[int], **how: str) -> Array:
    """[n, c, h, w] -> [n, c, *size]: rows first, then columns."""
    for axis, new in zip((2, 3), size, strict=True):
        made_of = sources(x.shape[axis], new, **how)
        low = np.take(x, made_of.low, axis)
        if any(made_of.share):
            share = along(np.array([float(s) for s in made_of.share], x.dtype), axis)
            low = low + share * (np.take(x, made_of.high, axis) - low)
        x = low
    return x


def along(vector: Array, axis: int) -> Array:
    """A vector that runs along an axis of an image."""
    return vector.reshape([-1 if i == axis else 1 for i in range(4)])
