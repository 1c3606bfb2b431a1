"""Arithmetic modulo a prime below 2^31, on int64 arrays of residues 0 .. p - 1."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tensat_dl.ops.semantics.types import Array

#: The two largest primes below 2^31.
PRIMES = (2**31 - 1, 2**31 - 19)

#: Sums of more products than this might not be exact.
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

        It is computed in float64, where matrix products are fast, and exactly: operands are cut into a high part
        below 2^15 and a low part below 2^16, so that a product of two sums of parts is below 2^34, and 2^18 of those
        add up to less than 2^53. Three calls are enough for the four products of parts (Karatsuba and Ofman, 1962).
        """
        assert terms <= MOST_TERMS
        (x1, x0), (y1, y0) = _parts(x), _parts(y)
        high, low = function(x1, y1), function(x0, y0)
        middle = function(x1 + x0, y1 + y0) - high - low
        out = self._shifted(high, 32) + self._shifted(middle, 16) + self.residues(low.astype(np.int64))
        return self.residues(out)

    def _shifted(self, x: Array, bits: int) -> Array:
        return self.multiply(self.residues(x.astype(np.int64)), np.asarray(2**bits % self.p))


def _parts(x: Array) -> tuple[Array, Array]:
    return (x >> 16).astype(np.float64), (x & 0xFFFF).astype(np.float64)
