"""Which number a constant of a model stands for.

A model that says 0.1 has the f32 next to it, which is another number. Rules compare numbers, so what is read is the
one that was meant, as far as one can tell; as an f32 it is the same again.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

#: Irrational factors of activations, which stand in models to all the digits that their type has.
_FACTORS = (math.sqrt(2), math.sqrt(0.5), math.sqrt(2 / math.pi), math.sqrt(math.pi / 2), math.log(2))

#: Decimals with more digits are taken for results of a computation.
_DIGITS = 6

#: Nobody means a fraction with a larger denominator.
_DENOMINATOR = 100


def meant(element: np.generic) -> float:
    """The simplest number that is ``element`` in its element type: of few digits, a fraction, or one of the factors
    that activations have; ``element`` itself if there is none."""
    value = float(element)
    if not math.isfinite(value) or value.is_integer():
        return value
    dtype: Any = element.dtype
    factors = (math.copysign(f, value) for f in _FACTORS)
    fraction = Fraction(value).limit_denominator(_DENOMINATOR)
    for candidate in (float(f"{value:.{_DIGITS - 1}e}"), *factors, fraction.numerator / fraction.denominator):
        if np.array(candidate).astype(dtype) == element:
            return candidate
    return value


def meant_f32(value: float) -> float:
    """The same of an attribute, which is an f32 in the file."""
    return meant(np.float32(value))
