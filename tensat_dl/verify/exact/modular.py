"""Tensors modulo a prime, with what the bound on errors needs to know of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tensat_dl.ir.graph import Node
from tensat_dl.ops.semantics.types import Array
from tensat_dl.verify.exact.arithmetic import Arithmetic, OutOfReach
from tensat_dl.verify.exact.bound import Degrees, Ledger
from tensat_dl.verify.exact.field import MOST_TERMS, Field
from tensat_dl.verify.exact.keyed import digest, generator, scrambled

#: Functions of which f(0) = 0 is known. Padding with zeros, before or after, is the same to them.
KEEP_ZERO = frozenset({"relu", "tanh", "erf", "gelu", "sqrt"})

CONSTANT = Degrees(0)
VARIABLE = Degrees(1)


@dataclass(frozen=True, slots=True)
class Residues:
    """A tensor of residues; of machine integers if ``integer``, which divide in another way than a field does."""

    array: Array
    degrees: Degrees
    integer: bool = False


class Modular(Arithmetic[Residues]):
    """The field of p elements; ``key`` decides what the random functions are."""

    def __init__(self, p: int, key: object) -> None:
        super().__init__()
        self.field = Field(p)
        self.key = key
        self.ledger = Ledger()

    def shape(self, x: Residues) -> tuple[int, ...]:
        return x.array.shape

    def whole(self, array: Array, like: Residues | None = None) -> Residues:
        return Residues(self.field.residues(array), CONSTANT, like is not None and like.integer)

    def constant(self, value: Fraction, shape: tuple[int, ...], integer: bool) -> Residues:
        self.note_constant(value)
        p = self.field.p
        if value.denominator % p == 0:
            raise OutOfReach(f"{value} is not a number modulo {p}")
        residue = value.numerator * pow(value.denominator, -1, p) % p
        return Residues(np.full(shape, residue, np.int64), CONSTANT, integer)

    def variable(self, array: Array, integer: bool) -> Residues:
        """Independent random residues."""
        return Residues(array, VARIABLE, integer)

    def add(self, x: Residues, y: Residues) -> Residues:
        return Residues(
            self.field.residues(x.array + y.array), x.degrees.plus(y.degrees), x.integer or y.integer
        )

    def subtract(self, x: Residues, y: Residues) -> Residues:
        return Residues(
            self.field.residues(x.array - y.array), x.degrees.plus(y.degrees), x.integer or y.integer
        )

    def multiply(self, x: Residues, y: Residues) -> Residues:
        product = self.field.multiply(x.array, y.array)
        return Residues(product, x.degrees.times(y.degrees), x.integer or y.integer)

    def divide(self, x: Residues, y: Residues) -> Residues:
        if x.integer or y.integer:
            raise OutOfReach("quotients of integers are rounded")
        self.ledger.divided(y.degrees, y.array.size)
        quotient = self.field.multiply(x.array, self.field.inverse(y.array))
        return Residues(quotient, x.degrees.over(y.degrees))

    def move(self, function: Callable[[Sequence[Array]], Array], xs: Sequence[Residues]) -> Residues:
        degrees = xs[0].degrees
        for x in xs[1:]:
            degrees = degrees.largest(x.degrees)
        return Residues(function([x.array for x in xs]), degrees, any(x.integer for x in xs))

    def sums(self, function: Callable[[Array], Array], terms: int, x: Residues) -> Residues:
        return Residues(self.field.residues(function(x.array)), x.degrees.summed(terms), x.integer)

    def products(
        self, function: Callable[[Array, Array], Array], terms: int, x: Residues, y: Residues
    ) -> Residues:
        if terms > MOST_TERMS:
            raise OutOfReach(f"sums of {terms} products are not exact")
        out = self.field.products(function, terms, x.array, y.array)
        return Residues(out, x.degrees.times(y.degrees).summed(terms), x.integer)

    def largest(self, function: Callable[[Array], Array], x: Residues) -> Residues:
        raise OutOfReach("a field has no order")

    def function(self, name: str, x: Residues) -> Residues:
        self.stand_ins.add(name)
        self.ledger.called(name, x.degrees, x.array.size)
        out = self.field.residues(scrambled(x.array, self.key, name) >> np.uint64(1))
        if name in KEEP_ZERO:
            out = np.where(x.array == 0, 0, out)
        return Residues(out, VARIABLE, x.integer)

    def opaque(self, node: Node, xs: Sequence[Residues]) -> tuple[Residues, ...]:
        degrees = CONSTANT
        for x in xs:
            degrees = degrees.largest(x.degrees)
        self.stand_ins.add(node.op)
        self.ledger.called(node.op, degrees, 1)
        key = (self.key, node.op, sorted(node.attrs), [digest(x.array) for x in xs])
        outs = []
        for i, type_ in enumerate(node.types):
            values = generator(*key, i).integers(0, self.field.p, type_.shape)
            outs.append(self.variable(np.asarray(values, np.int64), type_.dtype[0] in "iub"))
        return tuple(outs)
