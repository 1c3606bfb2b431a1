"""Whether outputs agree block by block: scores up to 1 beside coordinates up to 640 are far off before they differ by
much of the largest magnitude of the output."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from tensat_dl.ops.semantics.arrays import Array

#: A block has at least so many elements: few can be close to zero all together, by chance.
ELEMENTS = 64
#: A block may differ by so many times as much, relative to its own largest magnitude, as the output relative to its
#: own, since sums of terms that cancel are inexact. What differs by less than as small a part of what the output may
#: differ by is rounding anyway: functions are as inexact near 0 as near 1.
FACTOR = 100.0
#: A block may differ so many times as far as the original's own outputs move.
SLACK = 4.0
#: Inputs are changed by up to so much, relative, to see how far outputs move: a little more than f32 rounds.
CHANGE = 2.0**-20


def apart(x: Any, y: Any, tolerance: float, moved: Callable[[], Iterable[Any]]) -> str:
    """A block that differs by more than it may, in words, of two outputs that differ by no more than the tolerance as
    a whole, and are finite in the same places. ``moved`` has the first output as small changes move it; it is asked
    if it decides."""
    if not tolerance or not np.size(x):
        return ""
    p, q = np.asarray(x).astype(np.float64), np.asarray(y).astype(np.float64)
    difference = _distance(p, q)
    size = np.nan_to_num(np.maximum(np.abs(p), np.abs(q)), nan=0.0, posinf=0.0)
    least = tolerance / FACTOR * float(size.max())
    limits = [(b, np.maximum(tolerance * FACTOR * _largest(size, *b), least)) for b in _blocks(p.shape)]
    far = [(b, limit) for b, limit in limits if (_largest(difference, *b) > limit).any()]
    distances = [_distance(p, z) for z in moved() if np.shape(z) == p.shape] if far else []
    for (axis, starts), limit in far:
        error = _largest(difference, axis, starts)
        allowed = np.max([limit, *(SLACK * _largest(d, axis, starts) for d in distances)], axis=0)
        if (error > allowed).any():
            k = int((error - allowed).argmax())
            last = int(starts[k + 1]) - 1 if k + 1 < len(starts) else p.shape[axis] - 1
            where = f"{starts[k]} to {last}" if last > starts[k] else f"{last}"
            relative = float(error[k] / _largest(size, axis, starts)[k])
            return f"at {where} of axis {axis} by {relative:.1e} of the largest magnitude there"
    return ""


def nudged(x: Array) -> Array:
    """An input whose numbers, if they are floats, are changed by little more than what rounding may change."""
    if x.dtype.kind != "f":
        return x
    return np.asarray(x * (1 + CHANGE * np.random.default_rng(0).uniform(-1, 1, x.shape)), x.dtype)


def _blocks(shape: Sequence[int]) -> Iterator[tuple[int, Array]]:
    """For each axis, where blocks of neighbouring indices start, if there is more than one block."""
    for axis, n in enumerate(shape):
        step = -(-ELEMENTS * n // prod(shape))
        starts = np.arange(0, n - step + 1, step)  # the last block may be longer than the others, not shorter
        if len(starts) > 1:
            yield axis, starts


def _largest(x: Array, axis: int, starts: Array) -> Array:
    """Of each block."""
    others = tuple(k for k in range(x.ndim) if k != axis)
    return np.asarray(np.maximum.reduceat(x.max(axis=others, initial=0.0), starts))


def _distance(p: Array, z: Any) -> Array:
    """By element, 0 where one is not finite."""
    with np.errstate(invalid="ignore"):
        d = np.abs(p - np.asarray(z).astype(np.float64))
    return np.where(np.isfinite(d), d, 0.0)
