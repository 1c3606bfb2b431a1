"""Arithmetic with elements of tensors in their normal form: over the real numbers, where divisors are not 0."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import count

from tensat_dl.ops import symbolic as sym
from tensat_dl.ops.symbolic import Atom, Bool, Condition, Int, atoms_of
from tensat_dl.verify.symbolic.normal_form import (
    INFINITY,
    TRUTHS,
    Factor,
    FunctionOf,
    Over,
    Read,
    Summand,
    Symbol,
    Value,
    names_in,
)

_names = count()


class TooLarge(Exception):
    """A normal form has too many terms."""


class NotReal(Exception):
    """Arithmetic with an infinite number, which has none of the laws of real numbers."""

    def __init__(self) -> None:
        super().__init__("it computes with an infinite number")


#: The most terms of a normal form.
MOST_TERMS = 400


def fresh() -> Atom:
    """An index that nothing else mentions."""
    return ("index", next(_names))


def name_anew() -> None:
    """Begins to name indices as at first, so that a proof does not depend on earlier proofs."""
    global _names, _infinite
    _names = count()
    _infinite = False


#: Whether a proof has an infinite number: only then elements are looked at for one.
_infinite = False


def infinity(sign: int) -> Value:
    """The number beyond all others, or below all others. Raises `NotReal` wherever one computes with it."""
    global _infinite
    _infinite = True
    return value([(Summand(((INFINITY, 1),)), Fraction(sign))])


def sign_of_infinity(v: Value) -> int:
    """1 or -1 of an infinite number, 0 of others."""
    if _infinite and len(v.terms) == 1 and v.terms[0][0].factors == ((INFINITY, 1),):
        return 1 if v.terms[0][1] > 0 else -1
    return 0


def _check_real(terms: Sequence[tuple[Summand, Fraction]]) -> None:
    """Raises `NotReal` if an infinite number is part of a sum or a product."""
    for t, c in terms:
        if any(f == INFINITY for f, _ in t.factors):
            alone = len(terms) == 1 and t == Summand(((INFINITY, 1),))
            if not alone or abs(c) != 1:
                raise NotReal


def value(terms: Iterable[tuple[Summand, Fraction]]) -> Value:
    """A sum of terms."""
    found: dict[Summand, Fraction] = {}
    if _infinite:
        terms = list(terms)
        _check_real(terms)
    for t, c in terms:
        found[t] = found.get(t, Fraction(0)) + c
    kept = [(t, c) for t, c in found.items() if c]
    if len(kept) > MOST_TERMS:
        raise TooLarge(f"more than {MOST_TERMS} terms")
    return Value(tuple(sorted(kept, key=lambda tc: tc[0].text)))


def number(c: Fraction | int) -> Value:
    return value([(Summand(), Fraction(c))])


def single(f: Factor, power: int = 1) -> Value:
    return value([(Summand(((f, power),)), Fraction(1))])


def _factor(a: Atom) -> Factor:
    return Read(*a[1:]) if a[0] == "element" else Symbol(a)


def integer(p: Int) -> Value:
    """An integer as a number."""
    if isinstance(p, int):
        return number(p)
    out: list[tuple[Summand, Fraction]] = []
    for monomial, k in p.terms:
        powers = {a: monomial.count(a) for a in monomial}
        out.append((Summand(_ordered({_factor(a): n for a, n in powers.items()})), Fraction(k)))
    return value(out)


def add(*values: Value) -> Value:
    return value(tc for v in values for tc in v.terms)


def scaled(v: Value, by: Fraction | int) -> Value:
    return value((t, c * by) for t, c in v.terms)


def subtract(a: Value, b: Value) -> Value:
    return add(a, scaled(b, -1))


def multiply(a: Value, b: Value) -> Value:
    if len(a.terms) * len(b.terms) > 16 * MOST_TERMS:
        raise TooLarge("a product has too many terms")
    for v, other in ((a, b), (b, a)):
        if _infinite and sign_of_infinity(v) and other.constant not in (1, -1):
            raise NotReal
    return add(*(_product(t, c, u, d) for t, c in a.terms for u, d in b.terms))


def _product(t: Summand, c: Fraction, u: Summand, d: Fraction) -> Value:
    # What one binds must be nothing that the other mentions.
    if not names_in(u.over).isdisjoint(t.atoms | names_in(t.over)):
        u = opened(u)
    if not names_in(t.over).isdisjoint(u.atoms):
        t = opened(t)
    factors = dict(t.factors)
    for f, n in u.factors:
        factors[f] = factors.get(f, 0) + n
    return _made(factors, c * d, t.guards | u.guards, (*t.over, *u.over))


def _made(
    factors: Mapping[Factor, int],
    c: Fraction,
    guards: frozenset[Condition],
    over: Over,
) -> Value:
    """A product with the laws of functions: products of exponentials are one, rsqrt(x)^2 = 1 / x, |x|^2 = x^2, and a
    truth value is its own square."""
    plain: dict[Factor, int] = {}
    more: list[Value] = []
    exponent: list[Value] = []
    for f, n in factors.items():
        if isinstance(f, FunctionOf) and f.fn == "exp":
            exponent.append(scaled(f.args[0], n))
        elif isinstance(f, FunctionOf) and f.fn == "rsqrt" and n not in (0, 1):
            more.append(power(f.args[0], -(n // 2)))
            plain[f] = n % 2
        elif isinstance(f, FunctionOf) and f.fn in TRUTHS and n > 1:
            plain[f] = 1
        elif isinstance(f, FunctionOf) and n not in (0, 1) and is_magnitude(f):
            more.append(power(f.args[0], n - n % 2))
            plain[f] = n % 2
        elif isinstance(f, FunctionOf) and f.fn == "sum" and n > 0:
            more.append(power(Value(tuple((opened(t), k) for t, k in f.args[0].terms)), n))
        else:
            plain[f] = n
    if exponent:
        total = add(*exponent)
        if total.terms:
            plain[FunctionOf("exp", (total,))] = 1
    out = value([(Summand(_ordered(plain), guards, over), c)])
    for v in more:
        out = multiply(out, v)
    return out


def is_magnitude(f: FunctionOf) -> bool:
    """Whether it is the larger of x and -x."""
    return f.fn == "max" and not f.over and len(f.args) == 2 and f.args[0] == scaled(f.args[1], -1)


def _ordered(factors: Mapping[Factor, int]) -> tuple[tuple[Factor, int], ...]:
    return tuple(sorted(((f, n) for f, n in factors.items() if n), key=repr))


def function(f: Factor) -> Value:
    """A factor as a value: of a sum of one product that product."""
    if isinstance(f, FunctionOf) and f.fn == "sum" and len(f.args[0].terms) == 1:
        ((t, _),) = f.args[0].terms
        if not t.guards and not t.over:
            return f.args[0]
    return single(f)


def exponential(v: Value) -> Value:
    """exp(v)."""
    return _made({FunctionOf("exp", (v,)): 1}, Fraction(1), frozenset(), ())


def power(v: Value, n: int) -> Value:
    if n < 0:
        return power(inverse(v), -n)
    out = number(1)
    for _ in range(n):
        out = multiply(out, v)
    return out


def inverse(v: Value) -> Value:
    """1 / v: of a product without sums by its factors, else as a factor ``sum(v)`` to the power -1. Raises `NotReal`
    for 0."""
    if not v.terms:
        raise NotReal
    (term, c), *rest = v.terms
    if not rest and not term.over and not term.guards:
        return _made({f: -n for f, n in term.factors}, 1 / c, frozenset(), ())
    return scaled(single(FunctionOf("sum", (scaled(v, 1 / c),)), -1), 1 / c)


def greatest(parts: Iterable[Value]) -> Value:
    """The greatest of several values. A common factor stands outside."""
    found = tuple(parts)
    if not any(v.terms for v in found):
        return number(0)
    _, scale = min((v.terms[0][0].text, abs(v.terms[0][1])) for v in found if v.terms)
    unit = sorted((scaled(v, 1 / scale) for v in found), key=lambda v: v.text)
    return scaled(single(FunctionOf("max", tuple(unit))), scale)


def guarded(v: Value, condition: Bool) -> Value:
    """v where a condition holds, 0 elsewhere."""
    if isinstance(condition, bool):
        return v if condition else number(0)
    return guarded_by(v, frozenset(condition.args if condition.kind == "and" else (condition,)))


def guarded_by(v: Value, guards: frozenset[Condition]) -> Value:
    """v where all guards hold, 0 elsewhere."""
    return value((Summand(t.factors, t.guards | guards, t.over), c) for t, c in v.terms)


def outer_guards(v: Value) -> list[Condition]:
    """Conditions on which v depends as a whole: those of terms, without bound indices."""
    found: dict[Condition, None] = {}
    for t, _ in v.terms:
        bound = {a for a, _ in t.over}
        found |= dict.fromkeys(g for g in sorted(t.guards, key=repr) if not atoms_of(g) & bound)
    return list(found)


def where(v: Value, condition: Condition, holds: bool) -> Value:
    """v, given that a condition that guards its terms holds, or does not."""
    out = []
    for t, c in v.terms:
        if condition not in t.guards:
            out.append((t, c))
        elif holds:
            out.append((Summand(t.factors, t.guards - {condition}, t.over), c))
    return value(out)


def summed(v: Value, guards: frozenset[Condition], over: Over) -> Value:
    """v under guards, summed over indices that it mentions."""
    if single := {a: 0 for a, n in over if n == 1}:
        v = substituted(guarded_by(v, guards), single)
        return summed(v, frozenset(), tuple((a, n) for a, n in over if n != 1))
    if names_in(over) & {a for t, _ in v.terms for a in names_in(t.over)}:
        v = Value(tuple((opened(t), c) for t, c in v.terms))
    return value((Summand(t.factors, t.guards | guards, (*over, *t.over)), c) for t, c in v.terms)


def opened(t: Summand) -> Summand:
    """A term with new names for its bound indices."""
    return renamed(t, {a: fresh() for a, _ in t.over})


def renamed(t: Summand, names: Mapping[Atom, Atom]) -> Summand:
    """A term with other names for its bound indices, none of which is in use in it."""
    if not names:
        return t
    known = {a: sym.atom(*new) for a, new in names.items()}
    ((inside, _),) = substituted(Value(((Summand(t.factors, t.guards), Fraction(1)),)), known).terms
    over = tuple((names.get(a, a), n) for a, n in t.over)
    return Summand(inside.factors, inside.guards, over)


def substituted(v: Value, known: Mapping[Atom, Int]) -> Value:
    """v with integers in place of atoms that are not bound."""
    if not known:
        return v
    inside = frozenset[Atom]().union(*map(atoms_of, known.values()))
    out: list[Value] = []
    for t, c in v.terms:
        if known.keys().isdisjoint(t.atoms):
            out.append(Value(((t, c),)))
            continue
        if not names_in(t.over).isdisjoint(inside | known.keys()):
            t = opened(t)
        product = number(c)
        for f, n in t.factors:
            product = multiply(product, power(_substituted(f, known), n))
        for g in sorted(t.guards, key=repr):
            product = guarded(product, sym.substitute(g, known))
        out.append(summed(product, frozenset(), tuple((a, sym.substitute(n, known)) for a, n in t.over)))
    return add(*out)


def _substituted(f: Factor, known: Mapping[Atom, Int]) -> Value:
    match f:
        case Read(tensor, offset, index):
            return single(Read(tensor, sym.substitute(offset, known), sym.substitute(index, known)))
        case Symbol(a) if isinstance(a, tuple):
            return integer(sym.substitute(sym.atom(*a), known))
        case FunctionOf(fn, args, over, guards):
            if over:
                # As a term, which looks after the names that it binds.
                term = Summand(((replace(f, over=(), guards=frozenset()), 1),), guards, over)
                return add(
                    *(function_over(t, c) for t, c in substituted(Value(((term, Fraction(1)),)), known).terms)
                )
            return function(FunctionOf(fn, tuple(substituted(a, known) for a in args), over, guards))
    return single(f)


def function_over(t: Summand, c: Fraction) -> Value:
    """The function that a term, its only factor, stands for."""
    ((f, n),) = t.factors
    assert isinstance(f, FunctionOf)
    assert n == 1
    assert c == 1
    return single(replace(f, over=t.over, guards=t.guards))


def reading(
    v: Value,
    reads: Mapping[Read, Read],
    guards: Mapping[Condition, Condition],
    extents: Mapping[Int, Int],
) -> Value:
    """v with other elements of variables, other guards, and other extents of bound indices."""

    def ranges(over: Over) -> Over:
        return tuple((a, extents.get(n, n)) for a, n in over)

    def changed(f: Factor) -> Value | None:
        if isinstance(f, FunctionOf):
            own = frozenset(guards.get(g, g) for g in f.guards)
            args = tuple(reading(a, reads, guards, extents) for a in f.args)
            return function(FunctionOf(f.fn, args, ranges(f.over), own))
        return single(reads.get(f, f)) if isinstance(f, Read) else None

    others = (
        (Summand(t.factors, frozenset(guards.get(g, g) for g in t.guards), ranges(t.over)), c)
        for t, c in v.terms
    )
    return mapped(value(others), changed)


def mapped(v: Value, change: Callable[[Factor], Value | None]) -> Value:
    """v with ``change(f)`` in place of each factor; where that is None, with the factor, changed inside."""

    def changed(f: Factor) -> Value:
        new = change(f)
        if new is None:
            return single(f) if not isinstance(f, FunctionOf) else function(_mapped_inside(f, change))
        return new

    return add(*(changed_term(t, c, changed) for t, c in v.terms))


def changed_term(t: Summand, c: Fraction, change: Callable[[Factor], Value]) -> Value:
    """A term with ``change(f)`` in place of each factor."""
    product = number(c)
    for f, n in t.factors:
        product = multiply(product, power(change(f), n))
    return summed(product, t.guards, t.over)


def _mapped_inside(f: FunctionOf, change: Callable[[Factor], Value | None]) -> FunctionOf:
    return replace(f, args=tuple(mapped(a, change) for a in f.args))
