"""Tensors modulo primes, with what the bound on errors needs to know of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tensat_dl.core.graph import Node
from tensat_dl.core.types import FLOATS, INTEGERS
from tensat_dl.ops.semantics.types import Array
from tensat_dl.ops.traits import having
from tensat_dl.verify.exact.arithmetic import Arithmetic, OutOfReach
from tensat_dl.verify.exact.bound import DegreeLedger, Degrees
from tensat_dl.verify.exact.field import MOST_TERMS, Field
from tensat_dl.verify.exact.keyed import digest, generator, packed, scrambled

#: Functions of which f(0) = 0 is known. Padding with zeros, before or after, is the same to them.
KEEP_ZERO = having(lambda t: t.keeps_zero) | {"whole part", "is not zero"}
#: Integer types to which casts wrap around. Whole numbers stand for i64.
WRAPPED = frozenset(INTEGERS) - {"i64"}

CONSTANT = Degrees(0)
VARIABLE = Degrees(1)

Pair = tuple[Array, Array]


@dataclass(frozen=True, slots=True)
class Residues:
    """A tensor modulo each of two primes; of machine integers if ``integer``, which divide in another way."""

    arrays: Pair
    degrees: Degrees
    integer: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        return self.arrays[0].shape


class Modular(Arithmetic[Residues]):
    """Numbers modulo two primes. A random function takes both residues into account for each of its own.

    ``key`` decides what the random functions are. ``sigmoid`` is one of them if ``keeps_sigmoid``.
    """

    def __init__(self, primes: tuple[int, int], key: object, keeps_sigmoid: bool = True) -> None:
        super().__init__(keeps_sigmoid)
        self.fields = Field(primes[0]), Field(primes[1])
        self.key = key
        self.ledger = DegreeLedger()

    def shape(self, x: Residues) -> tuple[int, ...]:
        return x.shape

    def dtype(self, x: Residues) -> str:
        return "i64" if x.integer else "f64"

    def whole(self, array: Array, like: Residues | None = None) -> Residues:
        return Residues(
            self._each(lambda f, i: f.residues(array)), CONSTANT, like is not None and like.integer
        )

    def constant(self, value: Fraction, shape: tuple[int, ...], integer: bool) -> Residues:
        self.note_constant(value)

        def residues(field: Field, _: int) -> Array:
            if value.denominator % field.p == 0:
                raise OutOfReach(f"{value} is not a number modulo {field.p}")
            residue = value.numerator * pow(value.denominator, -1, field.p) % field.p
            return np.full(shape, residue, np.int64)

        return Residues(self._each(residues), CONSTANT, integer)

    def variable(self, shape: tuple[int, ...], integer: bool, *key: object) -> Residues:
        """Independent random residues."""

        def residues(field: Field, i: int) -> Array:
            # Of 32 bits, which are enough, and drawn faster than of 64.
            drawn = generator(self.key, *key, i).integers(0, field.p, shape, np.uint32)
            return np.asarray(drawn, np.int64)

        return Residues(self._each(residues), VARIABLE, integer)

    def add(self, x: Residues, y: Residues) -> Residues:
        out = self._each(lambda f, i: f.residues(x.arrays[i] + y.arrays[i]))
        return Residues(out, x.degrees.plus(y.degrees), x.integer or y.integer)

    def subtract(self, x: Residues, y: Residues) -> Residues:
        out = self._each(lambda f, i: f.residues(x.arrays[i] - y.arrays[i]))
        return Residues(out, x.degrees.plus(y.degrees), x.integer or y.integer)

    def multiply(self, x: Residues, y: Residues) -> Residues:
        out = self._each(lambda f, i: f.multiply(x.arrays[i], y.arrays[i]))
        return Residues(out, x.degrees.times(y.degrees), x.integer or y.integer)

    def divide(self, x: Residues, y: Residues) -> Residues:
        if x.integer or y.integer:
            raise OutOfReach("quotients of integers are rounded")
        self.ledger.divided(y.degrees, y.arrays[0].size)
        out = self._each(lambda f, i: f.multiply(x.arrays[i], f.inverse(y.arrays[i])))
        return Residues(out, x.degrees.over(y.degrees))

    def move(self, function: Callable[[Sequence[Array]], Array], xs: Sequence[Residues]) -> Residues:
        degrees = xs[0].degrees
        for x in xs[1:]:
            degrees = degrees.largest(x.degrees)
        out = self._each(lambda _, i: function([x.arrays[i] for x in xs]))
        return Residues(out, degrees, any(x.integer for x in xs))

    def sums(self, function: Callable[[Array], Array], terms: int, x: Residues) -> Residues:
        out = self._each(lambda f, i: f.residues(function(x.arrays[i])))
        return Residues(out, x.degrees.summed(terms), x.integer)

    def products(
        self, function: Callable[[Array, Array], Array], terms: int, x: Residues, y: Residues
    ) -> Residues:
        if terms > MOST_TERMS:
            raise OutOfReach(f"sums of {terms} products are not exact")
        out = self._each(lambda f, i: f.products(function, terms, x.arrays[i], y.arrays[i]))
        return Residues(out, x.degrees.times(y.degrees).summed(terms), x.integer)

    def largest(
        self, sums: Callable[[Array], Array], largest: Callable[[Array], Array], terms: int, x: Residues
    ) -> Residues:
        """g(h(a) + h(b) + ..) for random functions g and h: it depends on the elements, but not on their order.

        What holds for all g and h holds for the largest number: with h(x) = exp(t x) and g(y) = log(y) / t that is
        the limit for large t.
        """
        self.stand_ins.add("max")
        return self._random("max g", self.sums(sums, terms, self._random("max h", x)))

    def pick(self, function: Callable[[Array, Array], Array], x: Residues, places: Residues) -> Residues:
        raise OutOfReach("places are integers, not residues")

    def typed(self, x: Residues, to: str) -> Residues:
        """Wrapping around is a function like any other, applied to the whole part."""
        if to in FLOATS:
            return Residues(x.arrays, x.degrees)
        if to == "bool":
            x = self.function("is not zero", x)
        elif not x.integer:
            x = self.function("whole part", x)
        if to in WRAPPED:
            x = self.function(f"wrapped to {to}", x)
        return Residues(x.arrays, x.degrees, integer=True)

    def function(self, name: str, x: Residues) -> Residues:
        self.stand_ins.add(name)
        return self._random(name, x)

    def _random(self, name: str, x: Residues) -> Residues:
        self.ledger.called(name, x.degrees, x.arrays[0].size)
        both = packed(*x.arrays)

        def residues(field: Field, i: int) -> Array:
            out = field.residues(scrambled(both, self.key, name, i) >> np.uint64(1))
            return np.where(both == 0, 0, out) if name in KEEP_ZERO else out

        return Residues(self._each(residues), VARIABLE, x.integer)

    def opaque(self, node: Node, xs: Sequence[Residues]) -> tuple[Residues, ...]:
        degrees = CONSTANT
        for x in xs:
            degrees = degrees.largest(x.degrees)
        self.stand_ins.add(node.op)
        self.ledger.called(node.op, degrees, 1)
        key = (node.op, sorted(node.attrs), [digest(array) for x in xs for array in x.arrays])
        return tuple(self.variable(t.shape, t.dtype not in FLOATS, *key, i) for i, t in enumerate(node.types))

    def _each(self, function: Callable[[Field, int], Array]) -> Pair:
        """A result for each prime."""
        return function(self.fields[0], 0), function(self.fields[1], 1)
