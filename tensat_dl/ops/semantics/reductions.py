"""Matrix products, normalisations, and reductions along one axis."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tensat_dl.beside import both
from tensat_dl.ops.semantics.arrays import Array
from tensat_dl.ops.semantics.elementwise import ACTIVATIONS, quotient

#: The product of matrices.
Product = Callable[[Array, Array], Array]
#: Products of more multiplications are computed in halves at the same time: a thread takes as long to start as
#: thousands of them.
HALVED = 1 << 24


def product(x: Array, y: Array) -> Array:
    """x [.., m, k], y [.., k, n] -> x y [.., m, n]. Two threads compute a large one, each a half, by rows or by
    columns: the same numbers on any number of cores."""
    m, n = x.shape[-2], y.shape[-1]
    alike = x.shape[:-2] == y.shape[:-2] and x.dtype == y.dtype == np.float64
    if not alike or x.size * n < HALVED or max(m, n) == 1:
        return np.asarray(np.matmul(x, y))
    out = np.empty((*x.shape[:-1], n))
    half = max(m, n) // 2
    by_rows = m >= n

    def compute(part: slice) -> None:
        if by_rows:
            np.matmul(x[..., part, :], y, out=out[..., part, :])
        else:
            np.matmul(x, y[..., part], out=out[..., part])

    both(lambda: compute(slice(half)), lambda: compute(slice(half, None)))
    return out


def matmul(x: Array, y: Array, *bias: Array, act: str, product: Product = product) -> Array:
    """x [.., m, k], y [.., k, n], optional bias [n] -> act(x y + bias) [.., m, n]."""
    out = product(x, y)
    for vector in bias:
        out = out + vector
    return ACTIVATIONS[act](out)


def batchnorm(x: Array, *parameters: Array, eps: float) -> Array:
    """x [n, c, ..]; scale, bias, mean, var [c] -> (x - mean) / sqrt(var + eps) * scale + bias [n, c, ..]."""
    per_channel = (-1, *(1,) * (x.ndim - 2))
    scale, bias, mean, var = (p.reshape(per_channel) for p in parameters)
    return np.asarray((x - mean) / np.sqrt(var + eps) * scale + bias)


def layernorm(x: Array, scale: Array, bias: Array, eps: float) -> Array:
    """x [.., d]; scale, bias [d] -> shaped as x. The variance is divided by d, not by d - 1."""
    centred = x - reduce_mean(x, -1)
    return np.asarray(centred / np.sqrt(reduce_mean(centred * centred, -1) + eps) * scale + bias)


def rmsnorm(x: Array, scale: Array, eps: float) -> Array:
    """x [.., d], scale [d] -> x / sqrt(mean(x^2) + eps) * scale, shaped as x."""
    return np.asarray(x / np.sqrt(reduce_mean(x * x, -1) + eps) * scale)


def softmax(x: Array, axis: int) -> Array:
    """Shaped as x. Taking the largest element off first changes nothing but avoids overflow."""
    powers = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return np.asarray(powers / np.sum(powers, axis=axis, keepdims=True))


def reduce_sum(x: Array, axis: int) -> Array:
    """[.., d, ..] -> [.., 1, ..]."""
    return np.asarray(np.sum(x, axis=axis, keepdims=True, dtype=x.dtype))


def reduce_mean(x: Array, axis: int) -> Array:
    """[.., d, ..] -> [.., 1, ..]. Not ``np.mean``, which leaves the numbers that the element type stands for (see
    ``quotient``)."""
    return quotient(reduce_sum(x, axis), np.asarray(x.shape[axis]).astype(x.dtype))


def reduce_max(x: Array, axis: int) -> Array:
    """[.., d, ..] -> [.., 1, ..]."""
    return np.asarray(np.max(x, axis=axis, keepdims=True))
