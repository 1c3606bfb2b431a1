"""Arithmetic modulo a prime against Python's integers."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensat_dl.verify.exact.modular import LEAST_PRIME, MOST_TERMS, PRIMES, Field, fresh_primes
from tensat_dl.verify.keyed import generator

ELEMENTS = st.lists(st.integers(0, PRIMES[0] - 1), min_size=1, max_size=20)


@pytest.mark.parametrize("p", [3, 101, LEAST_PRIME - 1, *PRIMES])
def test_drawn_residues_are_equally_likely(p: int) -> None:
    drawn = Field(p).drawn((300, 301), generator("drawn", p))
    assert drawn.shape == (300, 301)
    assert drawn.min() >= 0
    assert drawn.max() < p
    bins = p if p < 1000 else 100
    counts = np.bincount(drawn.ravel() * bins // p, minlength=bins)
    # chi squared: its mean is bins - 1, its variance twice that
    distance = ((counts - drawn.size / bins) ** 2).sum() / (drawn.size / bins)
    assert abs(distance - (bins - 1)) < 5 * math.sqrt(2 * bins)


@given(ELEMENTS, st.sampled_from((3, 5, 101, *PRIMES)))
def test_inverses(elements: list[int], p: int) -> None:
    field = Field(p)
    x = field.residues(np.array(elements))
    x[x == 0] = 1
    assert (field.multiply(x, field.inverse(x)) == 1).all()


def test_zero_has_no_inverse() -> None:
    with pytest.raises(ZeroDivisionError):
        Field(7).inverse(np.array([1, 0]))


@given(ELEMENTS, ELEMENTS, st.sampled_from((3, 65537, *PRIMES)))
def test_products(xs: list[int], ys: list[int], p: int) -> None:
    field = Field(p)
    n = min(len(xs), len(ys))
    x, y = field.residues(np.array(xs[:n])), field.residues(np.array(ys[:n]))
    expected = sum(a * b for a, b in zip(x.tolist(), y.tolist(), strict=True)) % p
    assert field.products(np.dot, n, x, y) == expected
    assert field.multiply(x, y).tolist() == [a * b % p for a, b in zip(x.tolist(), y.tolist(), strict=True)]


@pytest.mark.parametrize("p", PRIMES)
def test_the_longest_sums_are_exact(p: int) -> None:
    """All operands as large as they can be, and as many as are allowed."""
    for largest in (p - 1, min(p - 1, 0x7FFEFFFF)):  # the second has the largest sum of parts
        x = np.full(MOST_TERMS, largest, np.int64)
        assert Field(p).products(np.dot, MOST_TERMS, x, x) == MOST_TERMS * largest**2 % p


@pytest.mark.parametrize("p", PRIMES)
def test_primes_are_prime(p: int) -> None:
    assert all(p % d for d in range(2, int(p**0.5) + 1))


@pytest.mark.parametrize("p", [2, 2**31 + 11])
def test_other_moduli_are_refused(p: int) -> None:
    with pytest.raises(ValueError, match="odd prime below"):
        Field(p)


def test_primes_are_drawn() -> None:
    """They are primes, others for each key, and none divides a given number."""
    drawn = {p for key in range(20) for p in fresh_primes((), key)}
    assert len(drawn) == 40
    for p in drawn:
        assert LEAST_PRIME < p < 2**31
        assert all(p % d for d in range(2, math.isqrt(p) + 1))
    p, q = fresh_primes((), "key")
    others = fresh_primes((Fraction(p), Fraction(1, q)), "key")
    assert not {p, q} & set(others)
