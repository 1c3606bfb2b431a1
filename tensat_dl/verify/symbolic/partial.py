"""Roots and logarithms, which negative numbers do not have, and divisors that are 0 for many numbers: a target has
those of its source alone."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress

from tensat_dl.core import expression as ex
from tensat_dl.core.expression import calls_of
from tensat_dl.core.rule import Attribute, RewriteRule, Side
from tensat_dl.ops import symbolic as sym
from tensat_dl.ops.symbolic import Atom
from tensat_dl.ops.table import OpTable
from tensat_dl.verify.symbolic import elements as el
from tensat_dl.verify.symbolic.context import Context
from tensat_dl.verify.symbolic.elements import Value
from tensat_dl.verify.symbolic.functions import PARTIAL
from tensat_dl.verify.symbolic.settle import Remainder, settle
from tensat_dl.verify.symbolic.unproved import Unproved

#: Powers that all numbers have.
WHOLE_POWERS = range(-8, 9)
#: Operators with a root of what is never negative, or of a variance.
NORMS = frozenset(("batchnorm", "layernorm", "rmsnorm"))
_REASON = (
    "its target has roots or logarithms of numbers that may be negative, or divisors that are 0 for many"
)


def check_partial(rule: RewriteRule, ops: OpTable) -> None:
    """Raises `Unproved` if the target alone has functions that not all numbers have."""
    if _is_partial(rule.target, ops) and not _is_partial(rule.source, ops, NORMS):
        raise Unproved(_REASON)


def check_needed(v: Value, before: Sequence[Value], context: Context) -> None:
    """Raises `Unproved` if the target applies such a function to an element to which the source applies none, or
    divides by one that is 0 for many numbers and by which the source does not divide."""
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


def _is_partial(side: Side, ops: OpTable, also: Collection[str] = ()) -> bool:
    """Whether a side has functions that not all numbers have, or operators that are ``also`` such."""
    return any(_applies_partial(n.op, n.attrs, ops, also) for n in side.nodes)


def _applies_partial(
    op: str, attrs: Sequence[Attribute | ex.KeywordArg], ops: OpTable, also: Collection[str]
) -> bool:
    if op == "power":
        exponents = (a.value for a in attrs if a.name == "exponent")
        return not any(isinstance(v, ex.Const) and v.value in WHOLE_POWERS for v in exponents)
    if op in PARTIAL or op in also:
        return True
    calls = [c for c in calls_of(ops[op].composition) if c.fn in ops] if op in ops else []
    return any(_applies_partial(c.fn, c.attrs, ops, also) for c in calls)
