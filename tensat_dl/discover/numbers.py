"""Whole numbers modulo 2^64, in which terms are fingerprinted. They have an order, so relu and maxima are computed.

Sums and products of numbers modulo 2^64 are exact however large they get. The numbers that fingerprints begin with
are small, so that the order is that of whole numbers. For operators that divide they are multiples of a unit, so that
means are whole numbers; elsewhere they are not, as a product of sixteen such numbers is 0 modulo 2^64. Where numbers
get too large, an equation is missed or seen where there is none; what is written was checked in other arithmetic.
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
#: Leaves have multiples of the unit up to this; random functions up to the second.
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


class NotWhole(OutOfReach):
    """A quotient is no whole number. It may be one of multiples of a unit."""


class Whole(Arithmetic[Array]):
    """Arrays of int64. Functions that are not in `FUNCTIONS` are keyed random ones. All that is drawn is a multiple
    of the unit."""

    def __init__(self, key: object, unit: int) -> None:
        super().__init__(keeps_sigmoid=True)
        self.key = key
        self.unit = unit

    def leaf(self, name: str, t: TensorType) -> Array:
        """Random numbers of both signs, none of them 0."""
        drawn = generator(self.key, "leaf", name)
        signs = drawn.choice((-1, 1), t.shape)
        return np.asarray(self.unit * signs * drawn.integers(1, LARGEST, t.shape), np.int64)

    def dtype(self, x: Array) -> str:
        return "f64"

    def whole(self, array: Array, like: Array | None = None) -> Array:
        return np.asarray(array, np.int64)

    def constant(self, value: Fraction, shape: tuple[int, ...], integer: bool) -> Array:
        if value.denominator != 1:
            raise OutOfReach(f"{value} is no whole number")
        return np.full(shape, int(value), np.int64)

    def add(self, x: Array, y: Array) -> Array:
        return np.asarray(x + y)

    def subtract(self, x: Array, y: Array) -> Array:
        return np.asarray(x - y)

    def multiply(self, x: Array, y: Array) -> Array:
        return np.asarray(x * y)

    def divide(self, x: Array, y: Array) -> Array:
        if not np.all(y):
            raise ZeroDivisionError
        if np.any(x % y):
            raise NotWhole("a quotient is no whole number")
        return np.asarray(x // y)

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
        values = 1 + (drawn >> np.uint64(8)).astype(np.int64) % VALUES
        if name not in POSITIVE:
            values = np.where(drawn & np.uint64(1), values, -values)
        found = np.asarray(self.unit * values)
        return np.where(x == 0, 0, found) if name in KEEP_ZERO else found

    def opaque(self, node: Node, xs: Sequence[Array]) -> tuple[Array, ...]:
        raise OutOfReach(f"{node.op} has types only")
