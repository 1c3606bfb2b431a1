"""Elements of tensors as expressions in a normal form: sums of products of factors, over ranges of indices.

An element is ``sum of coefficient * [guards] * sum over bound indices of the product of factors``. A factor is an
element of a variable, a number that is not known, or a function of elements; it has a whole power. Guards are
conditions on integers: a term whose guards do not all hold is 0. All sums stand outside of all products. Two
elements are equal for all values if the terms of their difference cancel, with bound indices renamed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

from tensat_dl.ops import symbolic as sym
from tensat_dl.ops.symbolic import Atom, Condition, Int, atoms_of, remembered

#: Bound indices with their extents.
Over = tuple[tuple[Atom, Int], ...]

#: Functions that are 0 or 1.
TRUTHS = frozenset(("is zero", "is positive"))


@remembered
@dataclass(frozen=True)
class Read:
    """The element of a variable at an offset in row-major order, of which the ``index`` may be known."""

    tensor: str
    offset: Int
    index: tuple[Int, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Symbol:
    """A number that is not known: an integer such as a dimension, or the value of a float attribute or a constant."""

    atom: Any


@remembered
@dataclass(frozen=True)
class FunctionOf:
    """A function of elements. ``over`` has bound indices with their extents: of "max", whose operand is a set."""

    fn: str
    args: tuple[Value, ...]
    over: Over = ()
    guards: frozenset[Condition] = frozenset()


Factor = Read | Symbol | FunctionOf
#: The number beyond all others.
INFINITY = Symbol("infinity")


@remembered
@dataclass(frozen=True)
class Summand:
    factors: tuple[tuple[Factor, int], ...] = ()
    guards: frozenset[Condition] = frozenset()
    over: Over = ()

    @cached_property
    def text(self) -> str:
        return repr((self.factors, sorted(map(repr, self.guards)), self.over))

    @cached_property
    def atoms(self) -> frozenset[Atom]:
        """The integer atoms in it, bound indices excepted."""
        return _free((atoms_in(f) for f, _ in self.factors), self.guards, self.over)


@remembered
@dataclass(frozen=True)
class Value:
    """Terms with their coefficients, none of which is 0, in the order of their texts."""

    terms: tuple[tuple[Summand, Fraction], ...]

    @cached_property
    def text(self) -> str:
        return "+".join(f"{c}*{t.text}" for t, c in self.terms)

    @property
    def constant(self) -> Fraction | None:
        """The number that it is, if it is one."""
        if not self.terms:
            return Fraction(0)
        ((term, c), *rest) = self.terms
        return c if not rest and term == Summand() else None


def atoms_in(f: Factor) -> frozenset[Atom]:
    """The integer atoms in a factor, bound indices excepted."""
    match f:
        case Read(offset=offset):
            return atoms_of(offset)
        case Symbol(a):
            return sym.atom(*a).mentioned if isinstance(a, tuple) else frozenset()
        case FunctionOf(_, args, over, guards):
            return _free((t.atoms for v in args for t, _ in v.terms), guards, over)
    return frozenset()


def _free(inner: Iterable[frozenset[Atom]], guards: Iterable[Condition], over: Over) -> frozenset[Atom]:
    inside = frozenset[Atom]().union(*inner, *map(atoms_of, guards))
    return (inside - names_in(over)).union(*(atoms_of(n) for _, n in over))


def names_in(over: Over) -> frozenset[Atom]:
    """The bound indices."""
    return frozenset(a for a, _ in over)
