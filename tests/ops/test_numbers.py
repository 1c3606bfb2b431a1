"""Constants are read as the numbers that they stand for."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensat_dl.ops.numbers import meant, written

FACTORS = {
    "sqrt(2)": math.sqrt(2),
    "sqrt(1/2)": math.sqrt(0.5),
    "sqrt(2/pi)": math.sqrt(2 / math.pi),
    "sqrt(pi/2)": math.sqrt(math.pi / 2),
    "log(2)": math.log(2),
}


def cut(value: float, digits: int) -> float:
    """The number without its digits after the first ones."""
    scale = 10 ** (digits - 1 - math.floor(math.log10(value)))
    return math.floor(value * scale) / scale


@pytest.mark.parametrize("name", FACTORS)
@pytest.mark.parametrize("dtype", ["f64", "f32", "f16"])
def test_a_factor_of_six_or_more_digits(name: str, dtype: str) -> None:
    factor = FACTORS[name]
    for digits in range(6, 18):
        for value in (float(f"{factor:.{digits}g}"), cut(factor, digits)):
            if len(repr(value).replace(".", "").lstrip("0")) >= 6:
                assert written(value, dtype) == factor, value
                assert written(-value, dtype) == -factor, value


@pytest.mark.parametrize("value", [1 / 3, 1 / 6, 2 / 3, 1 / 7, 5 / 12, 1 / 49])
def test_a_fraction_of_nine_or_more_digits(value: float) -> None:
    for digits in range(9, 18):
        assert written(float(f"{value:.{digits}g}"), "f64") == value
        assert written(float(f"{value:.{digits}g}")) == value


@pytest.mark.parametrize(
    "value",
    [
        0.7071,
        1.4142,
        0.8,
        0.3333,
        0.333333,
        0.1,
        0.044715,
        1e-5,
        1e-12,
        0.9999999999999,
        1.702,
        3.0,
        0.7071069,
    ],
)
def test_other_numbers_stand_for_themselves(value: float) -> None:
    assert written(value) == value
    assert written(value, "f64") == value


@pytest.mark.parametrize("digits", [6, 8, 10])
def test_elements_are_read_alike(digits: int) -> None:
    for factor in FACTORS.values():
        assert meant(np.float32(f"{factor:.{digits}g}")) == factor


@settings(max_examples=300, deadline=None)
@given(st.floats(1e-6, 1e6))
def test_no_number_is_changed_by_more_than_its_digits_say(value: float) -> None:
    digits = len(repr(value).split("e")[0].replace(".", "").strip("0"))
    assert written(value) == pytest.approx(value, rel=max(10.0 ** (1 - digits), 6e-8), abs=0)
    assert written(value, "f64") == pytest.approx(value, rel=max(10.0 ** (1 - digits), 1e-15), abs=0)


@pytest.mark.parametrize("value", [0, 3, -2, 10**12])
def test_whole_numbers_are_what_they_are(value: int) -> None:
    assert written(value) == value
