"""Pooling over windows of [n, c, h, w]."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tensat_dl.ops.semantics.elementwise import ACTIVATIONS, quotient
from tensat_dl.ops.semantics.products import pad_spatial
from tensat_dl.ops.semantics.types import Array, Attributes, Semantics, integers, text

Combine = Callable[[Array, Array], Array]


def poolmax(arrays: Sequence[Array], attrs: Attributes) -> Array:
    """[n, c, h, w] -> [n, c, oh, ow]: the largest element of each window; padding never wins."""
    (x,) = arrays
    # Padding is smaller than the kernel, so each window holds an element of x, and what is not larger than
    # any of those never shows. For floats that is not the least element of x: it may be not-a-number.
    lowest = -np.inf if x.dtype.kind == "f" else x.min()
    out = fold_windows(x, attrs, np.maximum, lowest)
    return ACTIVATIONS[text(attrs, "act")](out)


def poolavg(arrays: Sequence[Array], attrs: Attributes) -> Array:
    """[n, c, h, w] -> [n, c, oh, ow]: the mean of each window, over padded zeros too if ``include_pad``."""
    (x,) = arrays
    total = window_sums(x, attrs)
    out = quotient(total, window_counts(x, attrs).astype(total.dtype))
    return ACTIVATIONS[text(attrs, "act")](out)


def window_sums(x: Array, attrs: Attributes) -> Array:
    """[n, c, h, w] -> [n, c, oh, ow]: the sum of each window, padding being zero."""
    return fold_windows(x, attrs, np.add, 0)


def window_counts(x: Array, attrs: Attributes) -> Array:
    """[1, 1, oh, ow] integers: how many elements ``poolavg`` takes the mean of in each window."""
    ones = np.ones((1, 1, *x.shape[2:]), np.int64)
    return fold_windows(ones, attrs, np.add, 1 if attrs["include_pad"] else 0)


def fold_windows(x: Array, attrs: Attributes, combine: Combine, padding: object) -> Array:
    """Combines the elements of each window, columns first and then rows: kh + kw steps, not kh * kw."""
    kernel, stride = integers(attrs, "kernel"), integers(attrs, "stride")
    x = pad_spatial(x, integers(attrs, "pads"), padding)
    for axis in (0, 1):
        x = _fold_axis(x, 2 + axis, kernel[axis], stride[axis], combine)
    return x


def _fold_axis(x: Array, axis: int, size: int, stride: int, combine: Combine) -> Array:
    count = (x.shape[axis] - size) // stride + 1

    def element(i: int) -> Array:
        """Element i of every window."""
        return x[(*(slice(None),) * axis, slice(i, i + (count - 1) * stride + 1, stride))]

    out = element(0)
    for i in range(1, size):
        out = combine(out, element(i))
    return out


SEMANTICS: dict[str, Semantics] = {"poolmax": poolmax, "poolavg": poolavg}
