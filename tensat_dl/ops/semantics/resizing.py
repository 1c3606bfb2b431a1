"""Images of another size: which pixels each new one is made of, and by which weights, as exact numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tensat_dl.ops.semantics.types import Array, Attributes, Semantics, integers, text

HALF = Fraction(1, 2)


@dataclass(frozen=True, slots=True)
class Sources:
    """For each new place along one axis the old places ``low`` and ``high``, and the share of ``high``."""

    low: tuple[int, ...]
    high: tuple[int, ...]
    share: tuple[Fraction, ...]


def sources(old: int, new: int, attrs: Attributes) -> Sources:
    """What the ``new`` places along an axis of ``old`` ones are made of."""
    places = [_place(i, old, new, text(attrs, "coordinates")) for i in range(new)]
    if text(attrs, "mode") == "nearest":
        nearest = tuple(min(max(_rounded(x, text(attrs, "rounding")), 0), old - 1) for x in places)
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


def resize(arrays: Sequence[Array], attrs: Attributes) -> Array:
    """[n, c, h, w] -> [n, c, *size]: rows first, then columns."""
    (x,) = arrays
    for axis, new in zip((2, 3), integers(attrs, "size"), strict=True):
        made_of = sources(x.shape[axis], new, attrs)
        low = np.take(x, made_of.low, axis)
        if any(made_of.share):
            share = along(np.array([float(s) for s in made_of.share], x.dtype), axis)
            low = low + share * (np.take(x, made_of.high, axis) - low)
        x = low
    return x


def along(vector: Array, axis: int) -> Array:
    """A vector that runs along an axis of an image."""
    return vector.reshape([-1 if i == axis else 1 for i in range(4)])


SEMANTICS: dict[str, Semantics] = {"resize": resize}
