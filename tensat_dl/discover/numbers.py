"""Whole numbers modulo 2^64, in which terms are fingerprinted. They have an order, so relu and maxima are computed.

Sums and products of numbers modulo 2^64 are exact however large they get. The numbers that fingerprints begin with
are small, so that the order is that of whole numbers. For operators that divide they are multiples of a unit, so
that means are whole numbers; elsewhere they are not, as a product of sixteen such numbers is 0 modulo 2^64. Other
quotients are those of the ring, where odd numbers have inverses and 1 / 2 is some number. Where numbers get too
large, or where x / x is not 1, an equation is missed or seen where there is none; what is written was checked in
other arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

import numpy as np

from tensat_dl.core.graph import FLOATS, Node, TensorType
from tensat_dl.ops.semantics.arrays import Array
from tensat_dl.verify.exact.arithmetic import Arithmetic, OutOfReach
from tensat_dl.verify.exact.modular import KEEP_ZERO
from tensat_dl.verify.keyed import generator, scrambled

#: What all numbers are multiples of at first: any, or such that can be divided by the sizes of small windows.
UNITS = (1, 144)
#: Leaves have odd multiples of the unit up to this; random functions up to the second.
LARGEST = 50
VALUES = 1 << 12
#: Functions that are computed.
FUNCTIONS: Mapping[str, Callable[[Array], Array]] = {
    "relu": lambda x: np.maximum(x, 0),
    "is zero": lambda x: np.asarray(x == 0, np.int64),
    "is positive": lambda x: np.asarray(x > 0, np.int64),
}
#: Functions without a negative value.
POSITIVE = ("exp", "rsqrt", "sigmoid")
#: Arrays wrap around silently; NumPy warns of scalars, which it makes of arrays without axes.
_wraps = np.errstate(over="ignore")


class Whole(Arithmetic[Array]):
    """Arrays of int64. Functions that are not in `FUNCTIONS` are keyed random ones. All that is drawn is a multiple
    of the unit. ``inexact`` says whether a quotient was not whole so far."""

    def __init__(self, key: object, unit: int) -> None:
        super().__init__(keeps_sigmoid=True)
        self.key = key
        self.unit = unit
        self.inexact = False
        half = np.uint64(2 * generator(key, "half").integers(1 << 62) + 1)
        self._halves = np.concatenate(([np.uint64(1)], np.cumprod(np.full(63, half))))

    def leaf(self, name: str, t: TensorType) -> Array:
        """Random numbers of both signs, none of them 0."""
        drawn = generator(self.key, "leaf", name)
        signs = drawn.choice((-1, 1), t.shape)
        return np.asarray(self.unit * signs * (drawn.integers(0, LARGEST, t.shape) | 1), np.int64)

    def dtype(self, x: Array) -> str:
        return "f64"

    def whole(self, array: Array, like: Array | None = None) -> Array:
        return np.asarray(array, np.int64)

    @_wraps
    def constant(self, value: Fraction, shape: tuple[int, ...], integer: bool) -> Array:
        inverse = self._inverse(np.asarray(value.denominator))
        return np.asarray(np.full(shape, value.numerator, np.int64) * inverse)

    @_wraps
    def add(self, x: Array, y: Array) -> Array:
        return np.asarray(x + y)

    @_wraps
    def subtract(self, x: Array, y: Array) -> Array:
        return np.asarray(x - y)

    @_wraps
    def multiply(self, x: Array, y: Array) -> Array:
        return np.asarray(x * y)

    def divide(self, x: Array, y: Array) -> Array:
        if not np.all(y):
            raise ZeroDivisionError
        self.inexact |= bool(np.any(x % y))
        common = _twos(x | y)
        return np.asarray(x // common * self._inverse(y // common))

    @_wraps
    def _inverse(self, y: Array) -> Array:
        """Of odd numbers modulo 2^64, by Newton's method. For each factor 2 a number stands for 1 / 2."""
        low = _twos(y)
        odd = (y // low).astype(np.uint64)
        inverse = odd  # right in three bits
        for _ in range(5):
            inverse = inverse * (np.uint64(2) - odd * inverse)
        twos = np.log2(low.astype(np.uint64).astype(np.float64)).astype(int)
        return np.asarray(inverse * self._halves[twos], np.int64)

    def move(self, function: Callable[[Sequence[Array]], Array], xs: Sequence[Array]) -> Array:
        return function(xs)

    def sums(self, function: Callable[[Array], Array], terms: int, x: Array) -> Array:
        return np.asarray(function(x))

    def products(self, function: Callable[[Array, Array], Array], terms: int, x: Array, y: Array) -> Array:
        return np.asarray(function(x, y))

    def largest(
        self, sums: Callable[[Array], Array], largest: Callable[[Array], Array], terms: int, x: Array
    ) -> Array:
        return np.asarray(largest(x))

    def pick(self, function: Callable[[Array, Array], Array], x: Array, places: Array) -> Array:
        raise OutOfReach("indices are places, not numbers")

    def typed(self, x: Array, to: str) -> Array:
        if to not in FLOATS:
            raise OutOfReach("casts to integers")
        return x

    def function(self, name: str, x: Array) -> Array:
        if name in FUNCTIONS:
            return FUNCTIONS[name](x)
        drawn = scrambled(x, self.key, name)
        values = (drawn >> np.uint64(8)).astype(np.int64) % VALUES | 1
        if name not in POSITIVE:
            values = np.where(drawn & np.uint64(1), values, -values)
        found = np.asarray(self.unit * values)
        return np.where(x == 0, 0, found) if name in KEEP_ZERO else found

    def opaque(self, node: Node, xs: Sequence[Array]) -> tuple[Array, ...]:
        raise OutOfReach(f"{node.op} has types only")


def _twos(x: Array) -> Array:
    """The largest power of 2 that divides a number."""
    return np.asarray(x & -x)
