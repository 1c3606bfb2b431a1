"""Lists of unknown length, for proofs about any number of tensors: one member that may be any of them is in sight.

What varies by member is a *family*: ``Of("w", i)`` names member i of a list w, where i may be unknown. A list has an
``item``, in which the atom `EACH` stands for the index. A sum over all members is the sum over those before the one
in sight, plus what this one adds, plus the sum over those after it.
"""

from __future__ import annotations

from dataclasses import dataclass, is_dataclass, replace
from typing import Any

from tensat_dl.ops import symbolic as sym
from tensat_dl.ops.symbolic import EACH, MEMBER, Bool, Int, Opaque, Sym

#: The index of the member in sight, and the length of lists.
INDEX = sym.atom(*MEMBER)
LENGTH = sym.atom(*sym.LENGTH)


class AnyLength(Exception):
    """An expression about a list of unknown length that has no value here."""


@dataclass(frozen=True)
class Many:
    """The first ``length`` members of a list: integers, conditions, or types of tensors."""

    item: Any
    length: Int = LENGTH

    @staticmethod
    def like(value: Any) -> Many:
        """The list of which a value is the member in sight."""
        if any(a[0] in ("before", "after") for a in mentioned(value)):
            raise AnyLength("a member depends on the members before it")
        return Many(substituted(value, MEMBER, sym.atom(*EACH)))

    @property
    def dtype(self) -> Any:
        """The element type of all members that are tensors."""
        return self.item.dtype

    @property
    def shape(self) -> tuple[Int, ...]:
        """The shape of each member that is a tensor."""
        shape: tuple[Int, ...] = self.item.shape
        return shape

    def at(self, i: Int) -> Any:
        """Member i; a negative number counts from the end."""
        if isinstance(i, int) and i < 0:
            i = sym.add(self.length, i)
        return substituted(self.item, EACH, i)

    def first(self, n: Int) -> Many:
        """The members before member n; a negative number counts from the end. There must be so many."""
        if isinstance(n, int) and n < 0:
            n = sym.add(self.length, n)
        known = (INDEX, sym.add(INDEX, 1), LENGTH, sym.sub(LENGTH, 1))
        if n != self.length and (self.length != LENGTH or n not in known):
            raise AnyLength("a list may have fewer members than are taken")
        return replace(self, length=n)

    def total(self) -> Int:
        """The sum of the members."""
        if self.length == INDEX:
            return sym.before(self.item)
        if self.length == LENGTH:
            return sym.add(sym.add(sym.before(self.item), self.at(INDEX)), sym.after(self.item))
        raise AnyLength("a sum is over some members")

    def every(self) -> Bool:
        """Whether all members, which are conditions, hold."""
        return sym.every(self.item, self.length)


def mentioned(value: Any) -> frozenset[sym.Atom]:
    """The atoms in a value or type."""
    if is_dataclass(value) and hasattr(value, "shape"):
        value = value.shape
    if isinstance(value, str):
        return frozenset()
    if isinstance(value, Sym | Opaque):
        return value.mentioned
    if isinstance(value, sym.Condition):
        value = value.args
    return frozenset[sym.Atom]().union(*map(mentioned, value)) if isinstance(value, tuple) else frozenset()


def substituted(value: Any, a: sym.Atom, by: Int) -> Any:
    """A value or type with an integer in place of an atom."""
    if is_dataclass(value) and not isinstance(value, type) and hasattr(value, "shape"):
        return replace(value, shape=sym.substitute(value.shape, {a: by}))
    return sym.substitute(value, {a: by})
