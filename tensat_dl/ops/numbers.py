"""Which number a constant stands for.

A model that says 0.1 has the f32 next to it, and a person who writes 0.79788456 in an f32 graph means sqrt(2 / pi).
Rules compare numbers, so the number that was meant is read, as far as it can be told. It is the same number in the
element type.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

#: Irrational factors of activations, which are written with all digits of their type, or with fewer.
_FACTORS = (math.sqrt(2), math.sqrt(0.5), math.sqrt(2 / math.pi), math.sqrt(math.pi / 2), math.log(2))

#: Decimals with more digits are taken for results of a computation.
_DIGITS = 6

#: Nobody means a fraction with a larger denominator.
_DENOMINATOR = 100


def meant(element: np.generic) -> float:
    """The simplest number that is ``element`` in its element type: of few digits, a factor of activations, or a
    fraction; ``element`` itself if there is none."""
    value = float(element)
    if not math.isfinite(value) or value.is_integer():
        return value
    factors = (math.copysign(f, value) for f in _FACTORS)
    fraction = Fraction(value).limit_denominator(_DENOMINATOR)
    for candidate in (float(f"{value:.{_DIGITS - 1}e}"), *factors, fraction.numerator / fraction.denominator):
        if np.array(candidate).astype(element.dtype) == element:
            return candidate
    return value


def written(value: float, dtype: str = "f32") -> float:
    """The number that a literal of a .tsr file stands for, where elements are of this type. Literals in rules, which
    have no type of their own, are read as f32. A literal of more than ten digits stands for itself, unless it is the
    value of an f32."""
    if dtype not in ("f32", "f16", "bf16"):
        return value
    with np.errstate(over="ignore"):
        element = np.float32(value)
    if float(element) != value and float(f"{value:.10g}") != value:
        return value
    number = meant(element)
    return value if number == float(element) else number
