"""Which number a literal stands for."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensat_dl.verify.exact.constants import meant


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (0.0, Fraction(0)),
        (3.0, Fraction(3)),
        (0.1, Fraction(1, 10)),
        (-0.5, Fraction(-1, 2)),
        (1.0 / 3, Fraction(1, 3)),
        (1e-5, Fraction(1, 100_000)),
        (0.044715, Fraction(8943, 200_000)),
        (1e300, Fraction(int(1e300))),
    ],
)
def test_literals(value: float, number: Fraction) -> None:
    assert meant(value) == number


@given(st.fractions(-1000, 1000, max_denominator=10_000))
def test_fractions_are_found_again(number: Fraction) -> None:
    assert meant(float(number)) == number


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e100, max_value=1e100))
def test_what_is_meant_rounds_to_the_literal(value: float) -> None:
    number = meant(value)
    assert float(number) == value or number == 0


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_no_number(value: float) -> None:
    with pytest.raises(ValueError, match="not a number"):
        meant(value)
