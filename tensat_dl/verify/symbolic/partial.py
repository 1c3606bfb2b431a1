"""Roots and logarithms, which negative numbers do not have, and divisors that are 0 for many numbers: a target has
those of its source alone."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from tensat_dl.ops import symbolic as sym
from tensat_dl.ops.symbolic import Atom
from tensat_dl.verify.symbolic import elements as el
from tensat_dl.verify.symbolic.context import Context
from tensat_dl.verify.symbolic.elements import Value
from tensat_dl.verify.symbolic.settle import Remainder, settle
from tensat_dl.verify.symbolic.unproved import Unproved

_REASON = (
    "its target has roots or logarithms of numbers that may be negative, or divisors that are 0 for many"
)


def check_needed(v: Value, before: Sequence[Value], context: Context) -> None:
    """Raises `Unproved` if the target applies such a function to a number, or divides by one, that is none of those
    ``before``, of the source."""
    inner = _inner(v, context)
    for u in before:
        own = _inner(u, context)
        if len(own) == len(inner) and all(
            context.known.equal(context.extents[a], context.extents[b])
            for a, b in zip(inner, own, strict=True)
        ):
            names = {a: sym.atom(*b) for a, b in zip(inner, own, strict=True)}
            with suppress(Remainder):
                settle(el.subtract(el.substituted(v, names), u), context)
                return
    raise Unproved(_REASON)


def _inner(v: Value, context: Context) -> list[Atom]:
    """The indices that a sum around an element will bind, as they come in its text."""
    atoms = frozenset[Atom]().union(*(t.atoms for t, _ in v.terms))
    inner = [a for a in atoms if a in context.extents and a not in context.free]
    return sorted(inner, key=lambda a: (v.text.find(repr(a)), repr(a)))
