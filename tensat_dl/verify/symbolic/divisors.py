"""Which divisors are not 0 for all elements, whatever the sizes: a proof takes for granted that these are not 0.

What is divided by 0 has no value, so a divisor that is 0 for some elements alone is a divisor of the target only if
the source has it, for the same element. So is one that is 0 for all elements, at some sizes or for some attributes,
or for a whole range of elements; and there nothing cancels.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from fractions import Fraction

from tensat_dl.ops import symbolic as sym
from tensat_dl.ops.symbolic import Bool, Opaque, atoms_of
from tensat_dl.verify.symbolic import elements as el
from tensat_dl.verify.symbolic.functions import POSITIVE, is_integer, is_positive
from tensat_dl.verify.symbolic.normal_form import (
    Factor,
    FunctionOf,
    Read,
    Summand,
    Symbol,
    Value,
    atoms_in,
    names_in,
)

#: Functions that are 0, or one number, for all elements of a range. The root of a square is so, too.
PIECEWISE = frozenset(("max", "largest", "floor", "is zero", "is positive"))
#: What an integer may be made of that does not grow with it.
PIECEWISE_INTEGERS = frozenset(("mod", "div", "max", "min", "select", "unselect"))
#: Functions that are 0 for 0 alone.
THROUGH_ZERO = frozenset(("tanh", "erf", "gelu"))

#: Whether a condition on integers follows from what is assumed.
Holds = Callable[[Bool], bool]


def is_divisor(v: Value, holds: Holds, truths: Collection[str]) -> bool:
    """Whether v is 0 at most for single elements, whatever the sizes. ``truths`` are variables that may have truth
    values."""
    return not _may_vanish(v, holds, truths) and _is_nonzero(v, holds)


def _may_vanish(v: Value, holds: Holds, truths: Collection[str]) -> bool:
    """Whether a number may be 0 for all elements of a range, as a maximum or a truth value is."""
    factors = [f for t, _ in v.terms for f, _ in t.factors]
    if len(v.terms) == 1:  # a product is not 0 for a divisor or a root, whose operand is looked at by itself
        ((t, _),) = v.terms
        factors = [f for f, n in t.factors if n > 0 and not (isinstance(f, FunctionOf) and f.fn in POSITIVE)]
    if not any(_is_piecewise(f, holds, truths) for f in factors):
        return False
    return not is_positive(v) or not any(_is_above_zero(t, holds) for t, _ in v.terms)


def _is_piecewise(f: Factor, holds: Holds, truths: Collection[str]) -> bool:
    """Whether a factor is such a number, or a function of one: also the root of a square, which is a magnitude."""
    match f:
        case Read():
            return f.tensor in truths
        case Symbol(atom):
            return is_integer(atom) and atom[0] in PIECEWISE_INTEGERS and bool(_tensors_in(f))
    inside = (g for a in f.args for t, _ in a.terms for g, _ in t.factors)
    if any(_is_piecewise(g, holds, truths) for g in inside):
        return True
    if f.fn == "rsqrt" or f.fn.startswith("power"):
        (v,) = f.args
        return not is_positive(v) or not any(_is_above_zero(t, holds) for t, _ in v.terms)
    return f.fn in PIECEWISE or f.fn.startswith("cast")


def _tensors_in(f: Factor) -> set[str]:
    """The integer tensors of which elements are part of integers in a factor."""
    return {a[1] for a in atoms_in(f) if a[0] == "element"}


def _is_above_zero(t: Summand, holds: Holds) -> bool:
    """Whether a term that is not negative is greater than 0 for sure."""
    return _is_somewhere(t, holds) and all(
        f.fn in POSITIVE if isinstance(f, FunctionOf) else isinstance(f, Symbol) and f.atom[0] == "dim"
        for f, _ in t.factors
    )


def _is_somewhere(t: Summand, holds: Holds) -> bool:
    """Whether a term's guards hold for sure, and its sums are not empty."""
    return not t.guards and all(holds(sym.at_most(1, n)) for _, n in t.over)


def may_be_zero(v: Value, holds: Holds) -> Iterator[Value]:
    """What of v is 0 for some elements where v is: its factors, without what scales them, or all of it."""
    match v.terms:
        case ((t, _),) if not t.guards and not t.over:
            for f, n in t.factors:
                if (
                    n > 0
                    and not (isinstance(f, Symbol) and _is_nonzero_factor(f, holds))
                    and not _is_above_zero(Summand(((f, 1),)), holds)
                ):
                    yield el.single(f)
        case ((_, c), *_) if not (is_positive(v) and any(_is_above_zero(t, holds) for t, _ in v.terms)):
            yield el.scaled(v, 1 / c)


# ---- not 0 for all elements ---------------------------------------------------------------------------------


def _is_nonzero(v: Value, holds: Holds) -> bool:
    """Whether v is not 0 for all elements of variables: it is not 0 where all of them are 1, or it is a product of
    such numbers, or one element of a variable changes it."""
    if any(_at_ones(el.scaled(v, side), holds) == 1 for side in (1, -1)):
        return True
    if len(v.terms) == 1 and _is_somewhere(v.terms[0][0], holds) and not v.terms[0][0].over:
        return all(_is_nonzero_factor(f, holds) for f, _ in v.terms[0][0].factors)
    return _depends_on_one(v, holds)


def _at_ones(v: Value, holds: Holds) -> int | None:
    """The sign of v where all elements are 1: 1, or 0 if it is not negative; None for what is not known."""
    signs = [_term_at_ones(t, c, holds) for t, c in v.terms]
    return None if None in signs else max((s for s in signs if s is not None), default=0)


def _term_at_ones(t: Summand, c: Fraction, holds: Holds) -> int | None:
    signs = [_factor_at_ones(f, n, holds) for f, n in t.factors]
    if c < 0 or None in signs:
        return None
    return min([int(_is_somewhere(t, holds)), *(s for s in signs if s is not None)])


def _factor_at_ones(f: Factor, n: int, holds: Holds) -> int | None:
    found: int | None = None
    match f:
        case Read():
            found = 1
        case Symbol(("float", str(number))):
            found = 1 if float(number) > 0 else None
        case Symbol(atom) if isinstance(atom, tuple) and atom[0] == "dim":
            found = 1
        case FunctionOf(fn) if fn in POSITIVE:
            found = 1
        case FunctionOf("sum", (v,)):
            found = _at_ones(v, holds)
        case FunctionOf("max", args, over) if not over:
            found = max((s for a in args if (s := _at_ones(a, holds)) is not None), default=None)
    return 0 if found is None and n % 2 == 0 else found


def _is_nonzero_factor(f: Factor, holds: Holds) -> bool:
    match f:
        case Read():
            return True
        case Symbol(atom) if is_integer(atom):
            return holds(sym.negate(sym.equal(sym.atom(*atom), 0)))
        case Symbol(("float", str(number))):
            return float(number) != 0
        case Symbol(("float", tuple(atom))):
            x = Opaque(atom)
            return any(map(holds, (*_other_than_zero(x), sym.below(0.0, x), sym.below(x, 0.0))))
        case FunctionOf(fn) if fn in POSITIVE:
            return True
        case FunctionOf("sum", (v,)):
            return _is_nonzero(v, holds)
        case FunctionOf(fn, (v,)) if fn in THROUGH_ZERO or fn.startswith("power"):
            return _is_nonzero(v, holds)
        case FunctionOf("log", (v,)):
            return _depends_on_one(v, holds)
        case FunctionOf("max", args) if not f.over:
            return any(a.constant is not None and a.constant > 0 for a in args)
    return False


def _other_than_zero(x: Opaque) -> Iterator[Bool]:
    return (sym.negate(sym.equal(x, zero)) for zero in (0.0, 0))


def _depends_on_one(v: Value, holds: Holds) -> bool:
    """Whether there is an element of a variable of which v is a polynomial, and no constant one: one of its
    coefficients is not 0."""
    hidden = {r.tensor for r, inside in _reads(v) if inside}
    for t, _ in v.terms:
        hidden |= {a[1] for a in t.atoms if a[0] == "element"}
    for read in dict.fromkeys(r for r, _ in _reads(v)):
        others = {r for r, _ in _reads(v) if r.tensor == read.tensor and r.offset != read.offset}
        if read.tensor in hidden or any(
            not holds(sym.negate(sym.equal(r.offset, read.offset))) for r in others
        ):
            continue
        parts: dict[int, list[tuple[Summand, Fraction]]] = {}
        for t, c in v.terms:
            powers = dict(t.factors)
            n = powers.pop(read, 0)
            parts.setdefault(n, []).append((Summand(tuple(powers.items()), t.guards, t.over), c))
        if any(n and _is_nonzero(el.value(terms), holds) for n, terms in parts.items()):
            return True
    return False


def _reads(v: Value, inside: bool = False) -> Iterator[tuple[Read, bool]]:
    """The elements of variables in v, and whether they are ``inside`` a function or a sum over their place."""
    for t, _ in v.terms:
        for f, _ in t.factors:
            if isinstance(f, Read):
                yield f, inside or not atoms_of(f.offset).isdisjoint(names_in(t.over))
            elif isinstance(f, FunctionOf):
                for a in f.args:
                    yield from _reads(a, inside=True)
