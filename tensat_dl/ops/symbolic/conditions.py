"""Comparisons of integers that may be unknown, and what joins them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tensat_dl.ops.symbolic.integers import neg, sub
from tensat_dl.ops.symbolic.terms import LENGTH, Bool, Condition, EvaluationError, Int, Opaque, Sym, atom


def equal(a: Any, b: Any) -> Bool:
    """Equality of integers, lists, or values of any other kind."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        if len(a) != len(b):
            return False
        return all_of(equal(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, tuple) or isinstance(b, tuple):
        raise EvaluationError("a list is compared with something that is not a list")
    if isinstance(a, Condition) or isinstance(b, Condition):
        p, q = (equal(x, True) if isinstance(x, Opaque) else x for x in (a, b))
        if not (isinstance(p, bool | Condition) and isinstance(q, bool | Condition)):
            return False
        return any_of((all_of((p, q)), all_of((negate(p), negate(q)))))
    if isinstance(a, Opaque) or isinstance(b, Opaque):
        return True if a == b else Condition("same", tuple(sorted((a, b), key=repr)))
    if isinstance(a, float) and isinstance(b, Sym):
        a, b = b, a
    if isinstance(a, Sym) or isinstance(b, Sym):
        if isinstance(b, float):
            if not b.is_integer():
                return False
            b = int(b)
        p = sub(a, b)
        if isinstance(p, int):
            return p == 0
        if p.terms[0][1] < 0:  # a = b and b = a are one condition
            flipped = neg(p)
            assert isinstance(flipped, Sym)
            p = flipped
        return Condition("eq", (p,))
    return bool(a == b)


def at_most(a: Int, b: Int) -> Bool:
    p = sub(a, b)
    return p <= 0 if isinstance(p, int) else Condition("le", (p,))


def compared(kind: str, p: Int) -> Bool:
    """The condition that p = 0 (``eq``), p != 0 (``ne``) or p <= 0 (``le``)."""
    if kind == "le":
        return at_most(p, 0)
    return equal(p, 0) if kind == "eq" else negate(equal(p, 0))


def below(a: Any, b: Any) -> Bool:
    """a < b for numbers that may be floats."""
    if any(isinstance(x, Opaque | Sym) for x in (a, b)):
        return Condition("below", (a, b))
    return bool(a < b)


def negate(c: Bool) -> Bool:
    if isinstance(c, bool):
        return not c
    if c.kind == "not":
        inner: Bool = c.args[0]
        return inner
    if c.kind == "eq":
        return Condition("ne", c.args)
    if c.kind == "le":  # not p <= 0 is 1 - p <= 0 for integers
        return at_most(sub(1, c.args[0]), 0)
    return Condition("not", (c,))


def all_of(conditions: Iterable[Bool]) -> Bool:
    return _combined("and", conditions, True)


def any_of(conditions: Iterable[Bool]) -> Bool:
    return _combined("or", conditions, False)


def _combined(kind: str, conditions: Iterable[Bool], neutral: bool) -> Bool:
    """Conditions joined by "and" or "or", flattened; ``neutral`` is the truth value that makes no difference."""
    kept: list[Condition] = []
    for c in conditions:
        if isinstance(c, Condition):
            kept += [c] if c.kind != kind else list(c.args)
        elif c is not neutral:
            return c
    unique = tuple(dict.fromkeys(kept))
    if not unique:
        return neutral
    return unique[0] if len(unique) == 1 else Condition(kind, unique)


def every(item: Bool, length: Int) -> Bool:
    """Whether a condition, where `EACH` is the index, holds of that many members of a list, from the first on."""
    if item is True or (item is False and length == atom(*LENGTH)):  # of other members there may be none
        return item
    return Condition("every", (item, length))


def fact(function: str, tensor: str) -> Any:
    """The answer of a function that asks an e-graph about a tensor, as an unknown: see
    `tensat_dl.core.expression.Fact`."""
    match function:
        case "factors":
            return atom("factors", tensor)
        case "value":
            return Opaque(("value", tensor))
        case "varying":
            return negate(Condition("weight", (tensor,)))
    return Condition(function, (tensor,))
