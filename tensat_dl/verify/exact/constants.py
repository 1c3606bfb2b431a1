"""Which number a floating-point literal stands for."""

from __future__ import annotations

import math
from fractions import Fraction

#: A fraction with a larger denominator is taken for a rounded number that is not exactly what was meant, such as the
#: square root of 2.
LARGEST_DENOMINATOR = 1 << 24


def meant(value: float) -> Fraction:
    """The simplest fraction that rounds to ``value`` in float64: 0.1 is 1/10, and 1.0 / 3 is 1/3.

    An equation of exact numbers would fail by the rounding of its literals otherwise. Found by the Stern-Brocot tree,
    as the fraction with the least denominator between the midpoints to the neighbouring floats. Raises ``ValueError``
    for what is not a finite number.
    """
    if not math.isfinite(value):
        raise ValueError(f"{value} is not a number to compute with")
    exact = Fraction(value)
    if exact.denominator == 1:
        return exact
    if exact < 0:
        return -meant(-value)
    half = Fraction(1, 2)
    low = exact - (exact - Fraction(math.nextafter(value, 0.0))) * half
    high = exact + (Fraction(math.nextafter(value, math.inf)) - exact) * half
    return _simplest(low, high)


def _simplest(low: Fraction, high: Fraction) -> Fraction:
    """The fraction with the least denominator in ``low <= x <= high``, for 0 <= low < high: their continued
    fractions, as far as they agree, and then the next whole number."""
    floor = low.numerator // low.denominator
    if floor == low:
        return Fraction(floor)
    if floor + 1 <= high:
        return Fraction(floor + 1)
    return floor + 1 / _simplest(1 / (high - floor), 1 / (low - floor))
