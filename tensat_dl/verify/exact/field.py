"""Arithmetic modulo a prime below 2^31, on int64 arrays of residues 0 .. p - 1."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tensat_dl.ops.semantics.types import Array

#: The two largest primes below 2^31.
PRIMES = (2**31 - 1, 2**31 - 19)

#: Sums of more products are not computed: digits would be too narrow (`Field.products`).
MOST_TERMS = 1 << 18


class Field:
    """The field of p elements."""

    def __init__(self, p: int) -> None:
        if not 2 < p < 2**31:
            raise ValueError(f"{p} is not an odd prime below 2^31")
        self.p = p

    def residues(self, array: Array) -> Array:
        """Whole numbers below 2^63 in magnitude, modulo p."""
        return np.asarray(array % self.p, np.int64)

    def multiply(self, x: Array, y: Array) -> Array:
        """Products of residues fit into 62 bits."""
        return np.asarray(x * y % self.p, np.int64)

    def inverse(self, x: Array) -> Array:
        """x^(p - 2), which is 1 / x (Fermat). Raises `ZeroDivisionError` where an element is zero."""
        if not np.all(x):
            raise ZeroDivisionError
        result, power, exponent = np.ones_like(x), x, self.p - 2
        while exponent:
            if exponent & 1:
                result = self.multiply(result, power)
            power = self.multiply(power, power)
            exponent >>= 1
        return result

    def products(self, function: Callable[[Array, Array], Array], terms: int, x: Array, y: Array) -> Array:
        """A bilinear function of residues whose results are sums of at most ``terms`` products.

        It is computed in float64, where matrix products are fast, and exactly: the smaller operand is cut into
        digits, so narrow that a sum of products of digits and residues stays within 2^53. The larger operand, the
        weights of a layer for instance, is read as it is: to pass over it is what takes long where the other is a
        few rows.
        """
        assert 0 < terms <= MOST_TERMS
        bits = ((1 << 23) // terms).bit_length() - 1  # digits are from -2^(bits - 1) to 2^(bits - 1)
        if x.size <= y.size:
            whole = y.astype(np.float64)
            results = [function(digit, whole) for digit in _digits(x, bits)]
        else:
            whole = x.astype(np.float64)
            results = [function(whole, digit) for digit in _digits(y, bits)]
        out = self.residues(results.pop().astype(np.int64))
        while results:
            out = self.residues((out << bits) + results.pop().astype(np.int64))
        return out


def _digits(x: Array, bits: int) -> list[Array]:
    """Numbers from 0 to 2^31 in base 2^bits, as floats; the lowest digits come first. None is above 2^(bits - 1) in
    magnitude."""
    digits = []
    for _ in range(-(-32 // bits) - 1):
        higher = (x + (1 << bits - 1)) >> bits
        digits.append((x - (higher << bits)).astype(np.float64))
        x = higher
    return [*digits, x.astype(np.float64)]
