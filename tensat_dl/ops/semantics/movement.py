"""Operators that compute nothing: constants, and operators that move the elements of arrays of any element type.

Constants of float types are float64 arrays, of integer types int64 arrays.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensat_dl.ops.semantics.arrays import Array, Semantics, computed_in

# ---- constants --------------------------------------------------------------------------------------------


def fill(*, value: float, dtype: str, shape: Sequence[int]) -> Array:
    """``shape``, every element ``value``. An integer type takes the value's whole part."""
    return np.full(shape, value).astype(computed_in(dtype))


def iota(*, shape: Sequence[int], axis: int, dtype: str) -> Array:
    """``shape``, every element its place along ``axis``."""
    places = np.arange(shape[axis], dtype=computed_in(dtype))
    along = [n if i == axis else 1 for i, n in enumerate(shape)]
    return np.broadcast_to(places.reshape(along), shape).copy()


def eye(*, n: int, dtype: str) -> Array:
    """[n, n]: the identity matrix."""
    return np.eye(n, dtype=computed_in(dtype))


def conv_identity(*, channels: int, groups: int, kernel: Sequence[int], dtype: str) -> Array:
    """[channels, channels / groups, kh, kw]: convolution with it copies the input.

    Output channel o belongs to group o // (channels / groups), whose inputs are numbered from 0 again:
    channel o's own input is number o % (channels / groups).
    """
    kh, kw = kernel
    inputs = channels // groups
    weight = np.zeros((channels, inputs, kh, kw), computed_in(dtype))
    outputs = np.arange(channels)
    weight[outputs, outputs % inputs, (kh - 1) // 2, (kw - 1) // 2] = 1
    return weight


def conv_average(*, channels: int, kernel: Sequence[int], dtype: str) -> Array:
    """[channels, 1, kh, kw]: every element 1 / (kh * kw)."""
    kh, kw = kernel
    return np.full((channels, 1, kh, kw), 1 / (kh * kw)).astype(computed_in(dtype))


CONSTANTS: dict[str, Semantics] = {
    "fill": fill,
    "iota": iota,
    "eye": eye,
    "conv_identity": conv_identity,
    "conv_average": conv_average,
}

# ---- movement ---------------------------------------------------------------------------------------------


def dropout(x: Array, p: float) -> Array:
    """Inference: the input, whatever ``p``."""
    return x


def transpose(x: Array, perm: Sequence[int]) -> Array:
    """Dimension i of the result is dimension ``perm[i]`` of the input: a view."""
    return x.transpose(perm)


def reshape(x: Array, shape: Sequence[int]) -> Array:
    """The elements in row-major order under another shape: a view where strides allow one."""
    return x.reshape(shape)


def concat(*arrays: Array, axis: int) -> Array:
    """[.., d_i, ..] for each i -> [.., sum of d_i, ..]."""
    return np.concatenate(arrays, axis=axis)


def slice_(x: Array, axis: int, start: int, stop: int) -> Array:
    """[.., d, ..] -> [.., stop - start, ..]: a view."""
    return x[(*(slice(None),) * axis, slice(start, stop))]


def expand(x: Array, shape: Sequence[int]) -> Array:
    """A view in which one element stands in several places."""
    return np.broadcast_to(x, shape)


def pad(x: Array, before: Sequence[int], after: Sequence[int], mode: str, value: float) -> Array:
    """[.., d_i, ..] -> [.., before_i + d_i + after_i, ..]."""
    widths = list(zip(before, after, strict=True))
    if x.ndim == 0:  # NumPy takes no empty list of widths
        return x
    if mode != "constant":
        return np.pad(x, widths, mode="reflect" if mode == "reflect" else "edge")
    return np.pad(x, widths, constant_values=np.asarray(value).astype(x.dtype))


def gather(x: Array, indices: Array, axis: int) -> Array:
    """x [a.., d, b..], indices [i..] -> [a.., i.., b..]. Every integer is the place of an element; so is the floor of
    a number that stands for an integer that is not known, see `surrogate`."""
    if indices.dtype.kind == "f":
        indices = np.floor(np.nan_to_num(indices)).astype(np.int64)
    # NumPy's own wrapping takes the size off again and again, for a long time if an integer is large.
    return np.asarray(np.take(x, np.mod(indices, x.shape[axis]), axis), x.dtype)


def enlarge(weight: Array, kernel: Sequence[int]) -> Array:
    """[o, i, kh, kw] -> [o, i, *kernel]: zeros around, (kernel - size) // 2 of them before the data."""
    o, i, kh, kw = weight.shape
    new_h, new_w = kernel
    top, left = (new_h - kh) // 2, (new_w - kw) // 2
    out = np.zeros((o, i, new_h, new_w), weight.dtype)
    out[:, :, top : top + kh, left : left + kw] = weight
    return out


def merge(weight: Array, groups: int, count: int) -> Array:
    """[o, i, kh, kw] with ``groups`` groups -> [o, count * i, kh, kw] with groups / count.

    Old group g becomes part g % count of its new group: its channels stand at that place, zeros elsewhere.
    """
    o, i, kh, kw = weight.shape
    old = weight.reshape(groups // count, count, o // groups, i, kh, kw)
    out = np.zeros((groups // count, count, o // groups, count, i, kh, kw), weight.dtype)
    for part in range(count):
        out[:, part, :, part] = old[:, part]
    return out.reshape(o, count * i, kh, kw)


MOVEMENTS: dict[str, Semantics] = {
    "dropout": dropout,
    "transpose": transpose,
    "reshape": reshape,
    "concat": concat,
    "slice": slice_,
    "expand": expand,
    "pad": pad,
    "gather": gather,
    "enlarge": enlarge,
    "merge": merge,
}
