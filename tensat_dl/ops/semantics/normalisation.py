"""Normalisations and reductions along one axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensat_dl.ops.semantics.elementwise import quotient
from tensat_dl.ops.semantics.types import Array, Attributes, Semantics, integer, number


def batchnorm(arrays: Sequence[Array], attrs: Attributes) -> Array:
    """x [n, c, ..]; scale, bias, mean, var [c] -> (x - mean) / sqrt(var + eps) * scale + bias [n, c, ..]."""
    x, *parameters = arrays
    per_channel = (-1, *(1,) * (x.ndim - 2))
    scale, bias, mean, var = (p.reshape(per_channel) for p in parameters)
    return np.asarray((x - mean) / np.sqrt(var + number(attrs, "eps")) * scale + bias)


def layernorm(arrays: Sequence[Array], attrs: Attributes) -> Array:
    """x [.., d]; scale, bias [d] -> shaped as x. The variance is divided by d, not by d - 1."""
    x, scale, bias = arrays
    centred = x - _mean(x, -1)
    return np.asarray(centred / np.sqrt(_mean(centred * centred, -1) + number(attrs, "eps")) * scale + bias)


def rmsnorm(arrays: Sequence[Array], attrs: Attributes) -> Array:
    """x [.., d], scale [d] -> x / sqrt(mean(x^2) + eps) * scale, shaped as x."""
    x, scale = arrays
    return np.asarray(x / np.sqrt(_mean(x * x, -1) + number(attrs, "eps")) * scale)


def softmax(arrays: Sequence[Array], attrs: Attributes) -> Array:
    """Shaped as x. Taking the largest element off first changes nothing but avoids overflow."""
    (x,) = arrays
    axis = integer(attrs, "axis")
    powers = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return np.asarray(powers / np.sum(powers, axis=axis, keepdims=True))


def reduce_sum(arrays: Sequence[Array], attrs: Attributes) -> Array:
    """[.., d, ..] -> [.., 1, ..]."""
    (x,) = arrays
    return np.asarray(np.sum(x, axis=integer(attrs, "axis"), keepdims=True, dtype=x.dtype))


def reduce_mean(arrays: Sequence[Array], attrs: Attributes) -> Array:
    """[.., d, ..] -> [.., 1, ..]."""
    (x,) = arrays
    return _mean(x, integer(attrs, "axis"))


def reduce_max(arrays: Sequence[Array], attrs: Attributes) -> Array:
    """[.., d, ..] -> [.., 1, ..]."""
    (x,) = arrays
    return np.asarray(np.max(x, axis=integer(attrs, "axis"), keepdims=True))


def _mean(x: Array, axis: int) -> Array:
    """Not ``np.mean``, which leaves the numbers that the element type stands for (see ``quotient``)."""
    total = np.sum(x, axis=axis, keepdims=True, dtype=x.dtype)
    return quotient(total, np.asarray(x.shape[axis]).astype(x.dtype))


SEMANTICS: dict[str, Semantics] = {
    "batchnorm": batchnorm,
    "layernorm": layernorm,
    "rmsnorm": rmsnorm,
    "softmax": softmax,
    "reduce_sum": reduce_sum,
    "reduce_mean": reduce_mean,
    "reduce_max": reduce_max,
}
