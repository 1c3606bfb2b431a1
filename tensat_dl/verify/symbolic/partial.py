"""Roots and logarithms, which negative numbers do not have, and divisors that may be 0: a target has those of its
source alone."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from contextlib import suppress

from tensat_dl.ops import symbolic as sym
from tensat_dl.ops.symbolic import Atom, Bool, Int
from tensat_dl.verify.symbolic import elements as el
from tensat_dl.verify.symbolic.context import Context
from tensat_dl.verify.symbolic.needs import COMPARED, Bounded, Need
from tensat_dl.verify.symbolic.normal_form import Value
from tensat_dl.verify.symbolic.settle import Remainder, settle
from tensat_dl.verify.symbolic.unproved import Unproved

_REASON = (
    "its target has roots or logarithms of numbers that may be negative, or divisors that may be 0, "
    "which its source has not"
)


def check_needs(after: Iterable[Need], before: Iterable[Need], context: Context) -> None:
    """Raises `Unproved` if an element of the target applies such a function to a number, or divides by one, where
    the source does not."""
    known = dict.fromkeys(before)
    for need in after:
        alike = [n for n in known if n.kind == need.kind]
        if not _is_met(need, alike, context):
            raise Unproved(_REASON)


def _has_as_few_numbers(source: Need, target: Need, names: Mapping[Atom, Int]) -> bool:
    """Whether a result that has one need is a number only where one is that has the other: what is lost in one way
    need not be in another. Comparisons are numbers everywhere."""
    if not source.lost or COMPARED in target.lost:
        return True
    return source.lost == tuple(_with_names(way, names) for way in target.lost)


def _with_names(way: Hashable, names: Mapping[Atom, Int]) -> Hashable:
    return Bounded(way.operator, sym.substitute(way.place, names)) if isinstance(way, Bounded) else way


def _is_met(need: Need, known: Collection[Need], context: Context) -> bool:
    """Whether one of several needs is there wherever this one is."""
    if need in known:
        return True
    elsewhere = sym.negate(need.where({}))
    if context.known.holds(elsewhere):
        return True
    covered: list[Bool] = []
    for other in known:
        for names in _alike(need.of, other.of, context):
            if not _has_as_few_numbers(other, need, names):
                continue
            with suppress(Remainder):
                settle(el.subtract(el.substituted(need.of, names), other.of), context)
                covered.append(other.where({}))
                if context.known.holds(sym.any_of([sym.negate(need.where(names)), *covered])):
                    return True
    return False


def _alike(v: Value, u: Value, context: Context) -> Iterator[Mapping[Atom, Int]]:
    """The indices of v that a sum around it will bind as those of u, if they have the same extents."""
    inner, own = _inner(v, context), _inner(u, context)
    if len(own) == len(inner) and all(
        context.known.equal(context.extents[a], context.extents[b]) for a, b in zip(inner, own, strict=True)
    ):
        yield {a: sym.atom(*b) for a, b in zip(inner, own, strict=True)}


def _inner(v: Value, context: Context) -> list[Atom]:
    """The indices that a sum around an element will bind, as they come in its text."""
    atoms = frozenset[Atom]().union(*(t.atoms for t, _ in v.terms))
    inner = [a for a in atoms if a in context.extents and a not in context.free]
    return sorted(inner, key=lambda a: (v.text.find(repr(a)), repr(a)))
