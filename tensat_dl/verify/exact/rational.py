"""Tensors of exact rational numbers (machine integers for integer types), for operators that need an order."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from fractions import Fraction

import numpy as np

from tensat_dl.core.graph import FLOATS, Node
from tensat_dl.ops.semantics import elementwise
from tensat_dl.ops.semantics.arrays import Array, computed_in, wrapped
from tensat_dl.verify.exact.arithmetic import Arithmetic
from tensat_dl.verify.exact.modular import KEEP_ZERO
from tensat_dl.verify.keyed import digest, generator

#: Values of random functions are between this and its negative.
RANGE = 1 << 20
#: Machine integers are computed with up to this magnitude.
LARGEST = 2.0**62


#: Functions that rational numbers have.
FUNCTIONS: Mapping[str, Callable[[Array], Array]] = {
    "relu": lambda x: _typed(elementwise.relu(x), x),
    "floor": lambda x: _typed(np.floor(x), x),
    "is zero": lambda x: np.asarray(x == 0, np.bool_),
    "is positive": lambda x: np.asarray(x > 0, np.bool_),
}


#: Those of them that compare, by the operator that does.
COMPARISONS = {"is zero": "equal", "is positive": "greater"}


class Rational(Arithmetic[Array]):
    """Object arrays of Python integers and fractions for float types; int64 for integer types. What an int64 does not
    hold is an `OverflowError`: integers stand for whole numbers, which do not wrap around.

    `FUNCTIONS` and the largest of several numbers are computed; other functions are random ones, with values also
    beyond each of the constants ``passed``. ``results`` is the range of those of opaque operators, and ``calls``
    tells what these were applied to. ``compared`` has the results of each comparison, and of each choice those
    that made a difference, in the order of evaluation.
    """

    def __init__(
        self,
        key: object,
        results: tuple[int, int] = (-RANGE, RANGE),
        passed: Collection[Fraction] = (),
    ) -> None:
        super().__init__()
        self.key = key
        self.results = results
        # A whole number from 1 to RANGE times these is above, below, above the reciprocal, below it.
        self.scales = (Fraction(1), *(x for c in passed for x in (c, c / RANGE, 1 / c, 1 / c / RANGE)))
        self.calls: set[tuple[object, ...]] = set()
        self.compared: list[tuple[str, frozenset[bool]]] = []

    def dtype(self, x: Array) -> str:
        return {"O": "f64", "b": "bool"}.get(x.dtype.kind, "i64")

    def whole(self, array: Array, like: Array | None = None) -> Array:
        return array.astype(object if like is None else like.dtype)

    def constant(self, value: Fraction, shape: tuple[int, ...], integer: bool) -> Array:
        self.note_constant(value)
        if integer:
            return np.full(shape, int(value), np.int64)
        return np.full(shape, int(value) if value.denominator == 1 else value, object)

    def add(self, x: Array, y: Array) -> Array:
        return _whole(np.add, x, y)

    def subtract(self, x: Array, y: Array) -> Array:
        if x.dtype == y.dtype == np.bool_:  # which NumPy does not subtract
            x = x.astype(np.int64)
        return _whole(np.subtract, x, y)

    def multiply(self, x: Array, y: Array) -> Array:
        return _whole(np.multiply, x, y)

    def divide(self, x: Array, y: Array) -> Array:
        if not np.all(y):
            raise ZeroDivisionError
        return _typed(elementwise.quotient(x, y), x, y)

    def choose(self, c: Array, x: Array, y: Array) -> Array:
        chosen, differ = np.broadcast_arrays(c, x != y)
        self.compared.append(("select", frozenset(map(bool, chosen[differ].tolist()))))
        return _typed(np.where(c, x, y), x, y)

    def move(self, function: Callable[[Sequence[Array]], Array], xs: Sequence[Array]) -> Array:
        return function(xs)

    def sums(self, function: Callable[[Array], Array], terms: int, x: Array) -> Array:
        return _whole(function, x)

    def products(self, function: Callable[[Array, Array], Array], terms: int, x: Array, y: Array) -> Array:
        return _whole(function, x, y)

    def largest(
        self, sums: Callable[[Array], Array], largest: Callable[[Array], Array], terms: int, x: Array
    ) -> Array:
        return _typed(largest(x), x)

    def pick(self, function: Callable[[Array, Array], Array], x: Array, places: Array) -> Array:
        return function(x, places)

    def typed(self, x: Array, to: str) -> Array:
        if to in FLOATS:
            return x.astype(np.int64).astype(object) if x.dtype == np.bool_ else x.astype(object)
        return np.asarray(x != 0, np.bool_) if to == "bool" else wrapped(x, to)

    def function(self, name: str, x: Array) -> Array:
        if name in FUNCTIONS:
            result = FUNCTIONS[name](x)
            if name in COMPARISONS:
                self.compared.append((COMPARISONS[name], frozenset(result.ravel().tolist())))
            return result
        self.stand_ins.add(name)
        values = {v: self._value(name, v) for v in set(x.ravel().tolist())}
        out = np.empty(x.shape, object)
        out.ravel()[:] = [values[v] for v in x.ravel().tolist()]
        return out

    def opaque(self, node: Node, xs: Sequence[Array]) -> tuple[Array, ...]:
        self.stand_ins.add(node.op)
        applied = (node.op, tuple(sorted(node.attrs)), tuple(digest(x) for x in xs))
        self.calls.add(applied)
        return tuple(
            np.asarray(generator(self.key, *applied, i).integers(*self.results, t.shape)).astype(
                exact_type(t.dtype)
            )
            for i, t in enumerate(node.types)
        )

    def _value(self, name: str, argument: object) -> int | Fraction:
        """The random function's value, positive where the true one is: exp."""
        if argument == 0 and name in KEEP_ZERO:
            return 0
        key = repr((self.key, name, str(argument))).encode()  # str, as 2 and Fraction(2, 1) are equal
        digest = hashlib.sha256(key).digest()
        whole = int.from_bytes(digest[:8], "little") % RANGE + 1
        scaled = whole * self.scales[int.from_bytes(digest[8:16], "little") % len(self.scales)]
        value = int(scaled) if scaled.denominator == 1 else scaled
        return value if name in ("exp", "rsqrt") or whole % 2 else -value


def exact_type(dtype: str) -> type:
    """The NumPy type that tensors of an element type are computed in."""
    computed = computed_in(dtype)
    return object if computed is np.float64 else computed


def _whole(function: Callable[..., Array], *operands: Array) -> Array:
    """A sum or a product. Raises `OverflowError` for machine integers that wrap around, or nearly: floats tell."""
    result = _typed(function(*operands), *operands)
    if result.dtype == np.int64:
        floats = np.asarray(function(*(x.astype(np.float64) for x in operands)))
        if np.max(np.abs(floats), initial=0.0) >= LARGEST:
            raise OverflowError("a number beyond i64")
    return result


def _typed(result: object, *operands: Array) -> Array:
    """NumPy hands back bare elements in place of arrays of rank 0, and these may become machine integers."""
    return np.asarray(result, object if any(x.dtype == object for x in operands) else None)
