"""Divisors that are 0 for some sizes, whatever the elements are: of those a proof takes nothing for granted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from math import lcm

from tensat_dl.ops import symbolic as sym
from tensat_dl.ops.symbolic import Atom, Bool, Int
from tensat_dl.verify.symbolic.elements import Factor, FunctionOf, Read, Summand, Symbol, Value, names_in
from tensat_dl.verify.symbolic.functions import POSITIVE, is_integer, is_positive

#: Functions that are 0, or one number, for all elements of a range.
PIECEWISE = frozenset(("max", "largest", "floor", "is zero", "is positive"))


def may_differ(v: Value) -> Iterator[Bool]:
    """Conditions on integers under which v is not 0 for all elements of variables.

    A number is a sum of parts that differ in what is made of elements, each times a number made of sizes and indices:
    one of these is not 0, and so for what functions are applied to. What is 0 for some elements alone does not count.
    """
    scale = lcm(*(c.denominator for _, c in v.terms))
    below: dict[Atom, int] = {}  # divisors of terms, which are not 0: all terms are multiplied by them
    for t, _ in v.terms:
        for f, n in t.factors:
            if isinstance(f, Symbol) and is_integer(f.atom):
                below[f.atom] = max(below.get(f.atom, 0), -n)
    parts: dict[Summand, Int] = defaultdict(int)
    for t, c in v.terms:
        sizes: Int = int(c * scale)
        powers = dict(below)
        others: list[tuple[Factor, int]] = []
        for f, n in t.factors:
            if not isinstance(f, Symbol) or not is_integer(f.atom) or f.atom in names_in(t.over):
                others.append((f, n))
            else:
                powers[f.atom] += n
        for atom, n in powers.items():
            for _ in range(n):
                sizes = sym.mul(sizes, sym.atom(*atom))
        other = Summand(tuple(others), t.guards, t.over)
        parts[other] = sym.add(parts[other], sizes)
    yield sym.any_of(sym.negate(sym.equal(p, 0)) for p in parts.values())
    for other in parts:
        yield from _of_part(other)


def may_vanish(v: Value) -> bool:
    """Whether a number may be 0 for all elements of a range, as a maximum or a truth value is."""
    if not any(_is_piecewise(f) for t, _ in v.terms for f, n in t.factors if n > 0):
        return False
    return not is_positive(v) or not any(map(_is_above_zero, (t for t, _ in v.terms)))


def _is_piecewise(f: Factor) -> bool:
    """Whether a factor is such a function, or one of such a function that may be 0 where that is."""
    if not isinstance(f, FunctionOf) or f.fn in POSITIVE:
        return False
    inside = (g for a in f.args for t, _ in a.terms for g, _ in t.factors)
    return f.fn in PIECEWISE or f.fn.startswith("cast") or any(map(_is_piecewise, inside))


def _is_above_zero(t: Summand) -> bool:
    """Whether a term that is not negative is greater than 0 for sure."""
    return not t.guards and all(
        f.fn in POSITIVE if isinstance(f, FunctionOf) else isinstance(f, Symbol) and f.atom[0] == "dim"
        for f, _ in t.factors
    )


def _of_part(t: Summand) -> Iterator[Bool]:
    if t.over and not any(map(_has_elements, (f for f, _ in t.factors))):
        yield all(isinstance(f, FunctionOf) and f.fn in POSITIVE for f, _ in t.factors) and not t.guards
    for f, n in t.factors:
        if n > 0 and isinstance(f, FunctionOf) and f.fn not in POSITIVE:
            yield _has_elements(f)
            for a in f.args:
                if a.constant is None:
                    yield from may_differ(a)


def _has_elements(f: Factor) -> bool:
    """Whether a factor is made of what is not known, beside sizes."""
    if isinstance(f, FunctionOf):
        return any(_has_elements(g) for a in f.args for t, _ in a.terms for g, _ in t.factors)
    return isinstance(f, Read) or not is_integer(f.atom)
