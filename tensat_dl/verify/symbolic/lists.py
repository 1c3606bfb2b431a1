"""Proofs about any number of tensors: of the members of a list, one is in sight, and it may be any of them.

What is assumed of the member in sight holds of each. A concatenation of a list is read within the member in sight.
An index of the result along a concatenation lies within some member, and a proof takes that one for the member in
sight: once, as there is one member in sight for all lists of a rule. A group rule has an output for each member, of
which the proof shows that of the member in sight.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tensat_dl.core.expression import base_of, index_of
from tensat_dl.ops import symbolic as sym
from tensat_dl.ops.lists import INDEX, LENGTH, Many
from tensat_dl.ops.symbolic import EACH, MEMBER, Bool, Condition, Int, Opaque, Sym, atoms_of
from tensat_dl.rewrite.conditions import conjuncts
from tensat_dl.verify.symbolic.context import Context, Index, Tensor
from tensat_dl.verify.symbolic.normal_form import Value
from tensat_dl.verify.symbolic.unproved import Inexpressible


@dataclass(frozen=True, slots=True)
class From:
    """An index of the result is ``start`` and an index below ``extent``."""

    start: Int
    extent: Int


class Chosen(Exception):
    """A proof has to go on with the member in sight for the one in which an index of the result lies."""

    def __init__(self, index: Int, place: From) -> None:
        super().__init__(str(index))
        self.index = index
        self.place = place

    @property
    def condition(self) -> Bool:
        return _within(self.index, self.place)


def _within(i: Int, place: From) -> Bool:
    low = sym.at_most(place.start, i)
    return sym.all_of((low, sym.at_most(sym.add(i, 1), sym.add(place.start, place.extent))))


def joined(x: Tensor, sizes: Many, axis: int, context: Context) -> Tensor:
    """The concatenation of a list along an axis, of which x is the member in sight, given the dimensions of all."""
    place = From(context.simple(sym.before(sizes.item)), context.simple(x.shape[axis]))
    total = context.simple(sizes.total())

    def at(index: Index) -> Value:
        i = index[axis]
        truth = context.known.truth(_within(i, place))
        of_result = atoms_of(i) & context.extents.keys() <= context.free
        if truth is None and of_result and context.known.holds(_within(i, From(0, total))):
            raise Chosen(i, place)
        if truth is not True:
            raise Inexpressible("an element of a list is not seen to be of one member")
        return x.at((*index[:axis], context.simple(sym.sub(i, place.start)), *index[axis + 1 :]))

    return Tensor((*x.shape[:axis], total, *x.shape[axis + 1 :]), x.dtype, context.remembered(at))


def about_members(conditions: Iterable[Bool]) -> tuple[list[Bool], Sequence[Condition]]:
    """What follows of the member in sight and of the first one from what holds of each; and what holds of each, with
    the index `EACH`."""
    given: list[Bool] = [sym.at_most(0, INDEX), sym.at_most(sym.add(INDEX, 1), LENGTH)]
    everywhere: list[Bool] = []
    earlier: list[Condition] = []
    for c in conditions:
        if isinstance(c, bool):
            given.append(c)
        elif c.kind == "every":
            item, length = c.args
            if length == LENGTH:
                everywhere.append(item)
            elif length in (
                INDEX,
                sym.sub(LENGTH, 1),
            ):  # all before the member in sight, which may be the last
                earlier.append(c)
        else:
            given.append(c)
            if _varies(c):
                everywhere.append(sym.substitute(c, {MEMBER: sym.atom(*EACH)}))
    for c in everywhere:
        given += [sym.substitute(c, {EACH: i}) for i in (INDEX, 0)]
    return given, [p for c in everywhere for p in conjuncts(c)] + earlier


def _varies(c: Condition) -> bool:
    """Whether a condition is about the member in sight as it is about each. One that is about all members as well
    would need another name for the index, and what an e-graph knows of the member in sight has none."""
    found = atoms_of(c)
    plain = MEMBER in found and EACH not in found and not any(a[0] in ("before", "after") for a in found)
    return plain and not any(base_of(name) and index_of(name) for name in _names_in(c))


def _names_in(value: Any) -> Iterator[str]:
    """The names in a condition."""
    match value:
        case str():
            yield value
        case Condition(args=parts) | Opaque(atom=parts) | tuple(parts):
            for part in parts:
                yield from _names_in(part)
        case Sym():
            for a in value.atoms():
                yield from _names_in(a)
