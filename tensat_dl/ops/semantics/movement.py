"""Operators that move elements and compute nothing: they work on arrays of any element type."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensat_dl.ops.semantics.types import Array, Attributes, Semantics, integer, integers, number, text


def dropout(arrays: Sequence[Array], _: Attributes) -> Array:
    """Inference: the input, whatever ``p``."""
    (x,) = arrays
    return x


def transpose(arrays: Sequence[Array], attrs: Attributes) -> Array:
    """Dimension i of the result is dimension ``perm[i]`` of the input: a view."""
    (x,) = arrays
    return x.transpose(integers(attrs, "perm"))


def reshape(arrays: Sequence[Array], attrs: Attributes) -> Array:
    """The elements in row-major order under another shape: a view where strides allow one."""
    (x,) = arrays
    return x.reshape(integers(attrs, "shape"))


def concat(arrays: Sequence[Array], attrs: Attributes) -> Array:
    """[.., d_i, ..] for each i -> [.., sum of d_i, ..]."""
    return np.concatenate(arrays, axis=integer(attrs, "axis"))


def slice_(arrays: Sequence[Array], attrs: Attributes) -> Array:
    """[.., d, ..] -> [.., stop - start, ..]: a view."""
    (x,) = arrays
    axis = integer(attrs, "axis")
    return x[(*(slice(None),) * axis, slice(integer(attrs, "start"), integer(attrs, "stop")))]


def expand(arrays: Sequence[Array], attrs: Attributes) -> Array:
    """A view in which one element stands in several places."""
    (x,) = arrays
    return np.broadcast_to(x, integers(attrs, "shape"))


def pad(arrays: Sequence[Array], attrs: Attributes) -> Array:
    """[.., d_i, ..] -> [.., before_i + d_i + after_i, ..]."""
    (x,) = arrays
    widths = list(zip(integers(attrs, "before"), integers(attrs, "after"), strict=True))
    mode = text(attrs, "mode")
    if x.ndim == 0:  # NumPy takes no empty list of widths
        return x
    if mode != "constant":
        return np.pad(x, widths, mode="reflect" if mode == "reflect" else "edge")
    value = np.asarray(number(attrs, "value")).astype(x.dtype)
    return np.pad(x, widths, constant_values=value)


def gather(arrays: Sequence[Array], attrs: Attributes) -> Array:
    """x [a.., d, b..], indices [i..] -> [a.., i.., b..]. Every integer is the place of an element."""
    x, indices = arrays
    return np.asarray(np.take(x, indices, integer(attrs, "axis"), mode="wrap"), x.dtype)


def enlarge(arrays: Sequence[Array], attrs: Attributes) -> Array:
    """[o, i, kh, kw] -> [o, i, *kernel]: zeros around, (kernel - size) // 2 of them before the data."""
    (weight,) = arrays
    o, i, kh, kw = weight.shape
    new_h, new_w = integers(attrs, "kernel")
    top, left = (new_h - kh) // 2, (new_w - kw) // 2
    out = np.zeros((o, i, new_h, new_w), weight.dtype)
    out[:, :, top : top + kh, left : left + kw] = weight
    return out


def merge(arrays: Sequence[Array], attrs: Attributes) -> Array:
    """[o, i, kh, kw] with ``groups`` groups -> [o, count * i, kh, kw] with groups / count.

    Old group g becomes part g % count of its new group: its channels stand at that place, zeros elsewhere.
    """
    (weight,) = arrays
    groups, count = integer(attrs, "groups"), integer(attrs, "count")
    o, i, kh, kw = weight.shape
    old = weight.reshape(groups // count, count, o // groups, i, kh, kw)
    out = np.zeros((groups // count, count, o // groups, count, i, kh, kw), weight.dtype)
    for part in range(count):
        out[:, part, :, part] = old[:, part]
    return out.reshape(o, count * i, kh, kw)


SEMANTICS: dict[str, Semantics] = {
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
