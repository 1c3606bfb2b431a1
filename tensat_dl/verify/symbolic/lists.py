"""Proofs about any number of tensors: of the members of a list, one is in sight, and it may be any of them.

What is assumed of the member in sight holds of each. A concatenation of a list is read within the member in sight.
An index of the result along a concatenation lies within some member, and a proof takes that one for the member in
sight: once, as there is one member in sight for all lists of a rule. A group rule has an output for each member, of
which the proof shows that of the member in sight.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tensat_dl.ops import symbolic as sym
from tensat_dl.ops.lists import INDEX, LENGTH, Many
from tensat_dl.ops.symbolic import EACH, MEMBER, Atom, Bool, Condition, Int, Of, Sym
from tensat_dl.rewrite.conditions import conjuncts
from tensat_dl.verify.symbolic.assumptions import atoms_of
from tensat_dl.verify.symbolic.context import Context, Index, Inexpressible, Tensor
from tensat_dl.verify.symbolic.elements import Value


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


def about_members(conditions: Iterable[Bool]) -> tuple[list[Bool], Mapping[Atom, Int]]:
    """What follows of the member in sight and of the first one from what holds of each; and equations for what
    varies by member, with the index `EACH`."""
    given: list[Bool] = [sym.at_most(0, INDEX), sym.at_most(sym.add(INDEX, 1), LENGTH)]
    everywhere: list[Bool] = []
    earlier: list[Bool] = []
    for c in conditions:
        if isinstance(c, bool):
            given.append(c)
        elif c.kind == "every":
            item, length = c.args
            (everywhere if length == LENGTH else earlier).append(item)
        else:
            given.append(c)
            if _varies(c):
                everywhere.append(sym.substitute(c, {MEMBER: sym.atom(*EACH)}))
    equations = [p.args[0] for c in everywhere for p in conjuncts(c) if p.kind == "eq"]
    for c in everywhere:
        given += [sym.substitute(c, {EACH: i}) for i in (INDEX, 0)]
    for c in earlier:
        given += [sym.equal(sym.before(p.args[0]), 0) for p in conjuncts(c) if p.kind == "eq"]
    return given, _solved(equations)


def _varies(c: Condition) -> bool:
    """Whether a condition is about the member in sight as it is about each."""
    found = atoms_of(c)
    return MEMBER in found and not any(a[0] in ("before", "after") for a in found)


def _solved(equations: Iterable[Int]) -> Mapping[Atom, Int]:
    """Polynomials that are 0 for every member, each solved for something that varies by member."""
    known: dict[Atom, Int] = {}
    for equation in equations:
        p = sym.substitute(equation, known)
        for monomial, k in sym.terms_of(p).items():
            if len(monomial) != 1 or abs(k) != 1 or not _is_of_each(monomial[0]):
                continue
            rest = sym.mul(sym.sub(p, Sym(((monomial, k),))), -k)
            if monomial[0] not in atoms_of(rest):
                known = {a: sym.substitute(v, {monomial[0]: rest}) for a, v in known.items()}
                known[monomial[0]] = rest
                break
    return known


def _is_of_each(a: Atom) -> bool:
    return len(a) > 1 and isinstance(a[1], Of) and a[1].index == sym.atom(*EACH)
