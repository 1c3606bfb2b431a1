"""Which number a constant stands for.

A model that says 0.1 has the f32 next to it, and a person who writes 0.79788456 in an f32 graph means sqrt(2 / pi).
Rules compare numbers, so the number that was meant is read, as far as it can be told: a number that is the same one
in the element type, or one that has just these digits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction

import numpy as np

#: Irrational factors of activations, which are written with all digits of their type, or with fewer.
_FACTORS = (*map(math.sqrt, (2, 1 / 2, 2 / math.pi, math.pi / 2, 8 / math.pi)), math.log(2))

#: Decimals with more digits are taken for results of a computation.
_DIGITS = 6

#: Nobody means a fraction with a larger denominator.
_DENOMINATOR = 100

#: As many digits tell a factor, and a fraction, from another number that begins alike.
_OF_FACTOR, _OF_FRACTION = 6, 9


def meant(element: np.generic) -> float:
    """The simplest number that is ``element`` in its element type, or has the digits that it is written with there:
    of few digits, a factor of activations, or a fraction; ``element`` itself if there is none."""
    value = float(element)
    if not math.isfinite(value) or value.is_integer():
        return value
    digits = _with_digits(value, str(element), float(np.spacing(element)))
    if digits is not None:
        return digits
    for candidate in (float(f"{value:.{_DIGITS - 1}e}"), *_candidates(value)):
        if np.array(candidate).astype(element.dtype) == element:
            return candidate
    return value


def written(value: float, dtype: str = "f32") -> float:
    """The number that a literal of a .tsr file stands for, where elements are of this type. Literals in rules, which
    have no type of their own, are read as f32. A literal of more than ten digits that begins neither a factor nor a
    fraction stands for itself, unless it is the value of an f32."""
    if dtype not in ("f64", "f32", "f16", "bf16") or not math.isfinite(value) or int(value) == value:
        return value
    digits = _with_digits(value, repr(value), 4 * math.ulp(value))
    if digits is not None or dtype == "f64":
        return value if digits is None else digits
    with np.errstate(over="ignore"):
        element = np.float32(value)
    if float(element) != value and float(f"{value:.10g}") != value:
        return value
    number = meant(element)
    return value if number == float(element) else number


def _candidates(value: float) -> Iterator[float]:
    """The factors with the sign of a number, and the fraction next to it."""
    yield from (math.copysign(f, value) for f in _FACTORS)
    fraction = Fraction(value).limit_denominator(_DENOMINATOR)
    yield fraction.numerator / fraction.denominator


def _with_digits(value: float, text: str, spacing: float) -> float | None:
    """The factor or the fraction that is ``text`` if it is rounded, or cut off, to as many digits, and then to the
    nearest of elements of this ``spacing``, which is ``value``."""
    decimal = Decimal(text).as_tuple()
    assert isinstance(decimal.exponent, int), "it is finite"
    digits = len(decimal.digits)
    unit = max(10.0**decimal.exponent, abs(spacing)) * 1.001
    *factors, fraction = _candidates(value)
    for factor in factors if digits >= _OF_FACTOR else ():
        if abs(factor - value) <= unit:
            return factor
    endless = Fraction(fraction).limit_denominator(_DENOMINATOR).denominator
    for prime in (2, 5):
        while endless % prime == 0:
            endless //= prime
    return fraction if endless > 1 and digits >= _OF_FRACTION and abs(fraction - value) <= unit else None
