"""Decides that an element is 0: by its normal form, in cases, and by steps that cost more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import permutations
from math import lcm

from tensat_dl.ops import symbolic as sym
from tensat_dl.ops.symbolic import Atom, Bool, Condition, Int, atoms_of
from tensat_dl.verify.symbolic import elements as el
from tensat_dl.verify.symbolic import reals
from tensat_dl.verify.symbolic.assumptions import Assumptions
from tensat_dl.verify.symbolic.canonical import canonical
from tensat_dl.verify.symbolic.context import Context, is_last
from tensat_dl.verify.symbolic.normal_form import TRUTHS, Factor, FunctionOf, Read, Summand, Value, atoms_in
from tensat_dl.verify.symbolic.polynomials import long_division

#: So many divisors are multiplied out.
MOST_DIVISORS = 8
#: The most logarithms, counted with their factors, of which a product is made.
MOST_LOGARITHMS = 8


class Remainder(Exception):
    """A difference was not seen to be 0: its ``value``."""

    def __init__(self, value: Value) -> None:
        super().__init__("the two sides have different normal forms")
        self.value = value


def settle(difference: Value, context: Context) -> None:
    """Raises `Remainder` unless a difference is 0, whatever its guards say and wherever operands stretch. A case that
    is not decided is possible, as far as was seen: only a remainder asks again."""
    v = _simplified(difference, context)
    if v.terms and not el.outer_guards(v):
        v = canonical(_with_one_name(v, context))
    if not v.terms:
        return
    for case in _cases(v, context):
        for c in (case, sym.negate(case)):
            narrower = replace(context, known=context.known.copy())
            narrower.known.add([c])
            settle(v, narrower)
        return
    for step in (
        _tight,
        _as_one_sum,
        _with_one_name,
        _by_cases,
        _without_logarithms,
        _without_divisors,
        _by_exponentials,
        _without_divisors,
    ):
        v = canonical(_pruned(step(v, context), context))
        if not v.terms:
            return
    if context.known.possible():
        raise Remainder(v)


def _cases(v: Value, context: Context) -> Iterator[Condition]:
    """Conditions on which a value depends, and that are not decided."""
    yield from el.outer_guards(v)
    ones = [sym.equal(n, 1) for _, _, n in _stretched(v)]
    orders = [sym.at_most(*a[1:]) for a in _atoms(v) if _is_limit(a)]
    for c in (*ones, *orders):
        if isinstance(c, Condition) and not _is_bound(c, context) and context.known.truth(c) is None:
            yield c


def _is_bound(c: Condition, context: Context) -> bool:
    """Whether a condition is about an index that a sum binds: it holds for some of its values, and not for others."""
    return any(a[0] == "bound" or (a in context.extents and a not in context.free) for a in atoms_of(c))


def _is_limit(a: Atom) -> bool:
    """Whether it is a place that is computed at run time, and limited."""
    return a[0] in ("max", "min") and any(b[0] == "element" for b in atoms_of(sym.atom(*a)))


# ---- integers ---------------------------------------------------------------------------------------------


def _simplified(v: Value, context: Context) -> Value:
    """A normal form under what is known in a context, which learns of new digits."""
    v = el.substituted(v, context.known.facts.known)
    while (digits := _digits(v, context)) is not None:
        v = el.substituted(v, digits)
        v = el.substituted(v, context.known.facts.known)
    return canonical(_pruned(el.substituted(v, _resolved(v, context.known)), context))


def _resolved(v: Value, known: Assumptions) -> Mapping[Atom, Int]:
    """Limits and quotients in a value that are known to be something simpler."""
    out: dict[Atom, Int] = {}
    for a, i, n in _stretched(v):
        if known.holds(sym.at_most(i, sym.sub(n, 1))):
            out[a] = i
        elif known.plainly(n, 1) and known.holds(sym.at_most(0, i)):
            out[a] = 0
    for a in _atoms(v):
        if a[0] == "max" or _is_limit(a):
            p, q = a[1:]
            if known.holds(sym.at_most(p, q)):
                out[a] = q if a[0] == "max" else p
            elif known.holds(sym.at_most(q, p)):
                out[a] = p if a[0] == "max" else q
        elif a[0] in ("div", "mod"):
            of = _of_what(a)
            quotient, rest = long_division(of, a[2])
            below = sym.at_most(sym.add(rest, 1), a[2])
            if quotient != 0 and known.holds(sym.all_of((sym.at_most(0, rest), below))):
                out[a] = quotient if a[0] == "div" else rest
    return out


def _of_what(a: Atom) -> Int:
    """What a quotient or a remainder is of: (p % q) % r is p % r if q is a multiple of r."""
    p: Int = a[1]
    while a[0] == "mod" and (inner := sym.only_atom(p)) is not None and inner[0] == "mod":
        if long_division(inner[2], a[2])[1] != 0:
            break
        p = inner[1]
    return p


def _atoms(v: Value) -> list[Atom]:
    return sorted(frozenset[Atom]().union(*(t.atoms for t, _ in v.terms)), key=repr)


def _digits(v: Value, context: Context) -> Mapping[Atom, Int] | None:
    """Quotient and remainder of an index of the result, as indices of their own; None if v has no such quotient."""
    for a in _atoms(v):
        if a[0] in ("div", "mod") and sym.only_atom(a[1]) in context.free:
            if not context.known.holds(sym.at_most(1, a[2])):  # remainders by others are negative
                continue
            high, low = sym.atom(*el.fresh()), sym.atom(*el.fresh())
            context.known.add((sym.at_most(0, high), sym.at_most(0, low)))
            context.known.add([sym.at_most(sym.add(low, 1), a[2])])
            context.known.add([sym.equal(a[1], sym.add(sym.mul(high, a[2]), low))])
            return {("div", *a[1:]): high, ("mod", *a[1:]): low}
    return None


def _stretched(v: Value) -> list[tuple[Atom, Int, Int]]:
    """The indices of operands that may be stretched, each with the result's index and the operand's dimension."""
    found = []
    for a in _atoms(v):
        if a[0] == "min" and [is_last(p) for p in a[1:]] in ([True, False], [False, True]):
            last, index = sorted(a[1:], key=is_last, reverse=True)
            found.append((a, index, sym.add(last, 1)))
    return found


# ---- guards -----------------------------------------------------------------------------------------------


def _pruned(v: Value, context: Context) -> Value:
    """v without guards that hold, and without terms whose guards do not."""
    out = []
    for t, c in v.terms:
        truths = {g: context.known.truth(g) for g in sorted(t.guards, key=repr)}
        if False not in truths.values():
            kept = frozenset(g for g, truth in truths.items() if truth is None)
            out.append((replace(t, guards=kept), c))
    return el.value(out)


def _tight(v: Value, context: Context) -> Value:
    """v without guards that follow from others and from the ranges of indices."""
    out = []
    for t, c in v.terms:
        guards = _needed(t.guards, t.over, context)
        if guards is not None:
            own = replace(t, guards=guards)
            inside = el.changed_term(own, c, lambda f: _tight_factor(f, context))
            out.append(el.add(*(_within(u, d, context) for u, d in inside.terms)))
    return el.add(*out)


def _within(t: Summand, c: Fraction, context: Context) -> Value:
    """A term with factors that are simpler where its guards hold and its indices are in their ranges. The guards
    stay: they may be why."""
    known = context.known.copy()
    known.add((*_ranges(t.over), *t.guards))
    simpler = _resolved(el.value([(Summand(t.factors), Fraction(1))]), known)
    return (
        el.changed_term(t, c, lambda f: el.substituted(el.single(f), simpler))
        if simpler
        else el.value([(t, c)])
    )


def _ranges(over: Sequence[tuple[Atom, Int]]) -> list[Bool]:
    """What is known of bound indices."""
    return [
        *(sym.at_most(0, sym.atom(*a)) for a, _ in over),
        *(sym.at_most(sym.add(sym.atom(*a), 1), n) for a, n in over),
    ]


def _tight_factor(f: Factor, context: Context) -> Value:
    if not isinstance(f, FunctionOf):
        return el.single(f)
    args = tuple(_tight(a, context) for a in f.args)
    guards = _needed(f.guards, f.over, context)
    return el.function(replace(f, args=args, guards=f.guards if guards is None else guards))


def _needed(
    guards: frozenset[Condition], over: Sequence[tuple[Atom, Int]], context: Context
) -> frozenset[Condition] | None:
    """The guards that do not follow from the others; None if they contradict each other."""
    ranges = _ranges(over)
    kept = sorted(guards, key=repr)
    for g in list(kept):
        others = [h for h in kept if h != g]
        known = context.known.copy()
        known.add((*ranges, *others))
        truth = known.truth(g)
        if truth is False:
            return None
        if truth is True:
            kept = others
    return frozenset(kept)


# ---- sums -------------------------------------------------------------------------------------------------


def _as_one_sum(v: Value, context: Context) -> Value:
    """v with one sum in place of two whose indices are the digits of one index; so are the operands of functions."""

    def inside(f: Factor) -> Value:
        if not isinstance(f, FunctionOf) or f.over:
            return el.single(f)
        return el.function(replace(f, args=tuple(_as_one_sum(a, context) for a in f.args)))

    v = el.add(*(el.changed_term(t, c, inside) for t, c in v.terms))
    return el.add(*(_joined(t, c) for t, c in v.terms))


def _joined(t: Summand, c: Fraction) -> Value:
    for (a, m), (b, n) in permutations(t.over, 2):
        if any({a, b} & atoms_of(extent) for _, extent in t.over):
            continue
        whole = el.fresh()
        low = sym.sub(sym.atom(*whole), sym.mul(sym.atom(*a), n))
        inside = el.substituted(el.value([(replace(t, over=()), c)]), {b: low})
        if all(a not in u.atoms for u, _ in inside.terms):
            others = tuple(x for x in t.over if x[0] not in (a, b))
            joined = el.summed(inside, frozenset(), (*others, (whole, sym.mul(m, n))))
            return el.add(*(_joined(u, d) for u, d in joined.terms))
    return el.value([(t, c)])


# ---- one name for what is equal ---------------------------------------------------------------------------


def _with_one_name(v: Value, context: Context) -> Value:
    """v with one expression for each extent, each guard, and each offset at which elements of a variable are read."""
    extents: dict[Int, Int] = {}
    for n in sorted({n for t, _ in v.terms for n in _extents(t)}, key=repr):
        extents[n] = extents.get(next((m for m in extents if context.known.equal(n, m)), n), n)
    v = el.reading(v, {}, {}, extents)
    guards: dict[Condition, Condition] = {}
    for g in sorted({g for t, _ in v.terms for g in _guards(t)}, key=repr):
        alike = (h for h in guards if h.kind == g.kind and context.known.equal(g.args[0], h.args[0]))
        guards[g] = guards.get(next(alike, g), g)
    v = el.reading(v, {}, guards, {})
    reads: dict[Read, Read] = {}
    for f in sorted({f for t, _ in v.terms for f in _reads(t)}, key=repr):
        same = (r for r in reads if r.tensor == f.tensor and _at_one_place(f, r, context))
        reads[f] = reads.get(next(same, f), f)
    return el.reading(v, reads, {}, {})


def _at_one_place(f: Read, g: Read, context: Context) -> bool:
    if f.index and len(f.index) == len(g.index):
        pairs = zip(f.index, g.index, strict=True)
        if all(context.known.equal(i, j) for i, j in pairs):
            return True
    return context.known.equal(f.offset, g.offset)


def _reads(t: Summand) -> Iterator[Read]:
    for f, _ in t.factors:
        if isinstance(f, Read):
            yield f
        elif isinstance(f, FunctionOf):
            yield from (g for a in f.args for u, _ in a.terms for g in _reads(u))


def _extents(t: Summand) -> Iterator[Int]:
    yield from (n for _, n in t.over)
    for f, _ in t.factors:
        if isinstance(f, FunctionOf):
            yield from (n for _, n in f.over)
            yield from (n for a in f.args for u, _ in a.terms for n in _extents(u))


def _guards(t: Summand) -> Iterator[Condition]:
    yield from (g for g in t.guards if g.kind in ("eq", "le"))
    for f, _ in t.factors:
        if isinstance(f, FunctionOf):
            yield from (g for g in f.guards if g.kind in ("eq", "le"))
            yield from (g for a in f.args for u, _ in a.terms for g in _guards(u))


# ---- functions --------------------------------------------------------------------------------------------


def _by_cases(v: Value, context: Context) -> Value:
    """0 where z3 sees that v is. Products with divisors would be 0 where these are."""
    return el.number(0) if reals.is_nothing(v, context) else v


def _without_logarithms(v: Value, context: Context) -> Value:
    """What is 0 if v is, for a sum v of logarithms and other terms: exp(r) a - b for r + log(a) - log(b)."""
    logarithms = [(x, c) for t, c in v.terms if (x := _logarithm_of(t)) is not None]
    unit = lcm(*(c.denominator for _, c in logarithms))
    if not logarithms or sum(abs(c) * unit for _, c in logarithms) > MOST_LOGARITHMS:
        return v
    rest = el.value((t, c * unit) for t, c in v.terms if _logarithm_of(t) is None)
    products = {1: el.exponential(rest), -1: el.number(1)}
    for x, c in logarithms:
        sign = 1 if c > 0 else -1
        products[sign] = el.multiply(products[sign], el.power(x, int(abs(c) * unit)))
    return _by_cases(canonical(el.subtract(products[1], products[-1])), context)


def _logarithm_of(t: Summand) -> Value | None:
    """Of what a term is the logarithm."""
    match t:
        case Summand(factors=((FunctionOf("log", (x,)), 1),)) if not t.guards and not t.over:
            return x
    return None


def _without_divisors(v: Value, context: Context) -> Value:
    """v times its divisors. Where one is 0, parts without it may differ, and what is 0 times it says nothing of them.
    So divisors stay below that are 0, or may be 0 times what is not."""
    for _ in range(MOST_DIVISORS):
        divisors = (
            f
            for t, _ in v.terms
            for f, n in t.factors
            if n < 0 and atoms_in(f).isdisjoint(a for a, _ in t.over) and not _has_squares(f, context)
        )
        divisor = next(divisors, None)
        if divisor is None or _is_nothing(divisor, context):
            break
        most = max(-n for t, _ in v.terms for f, n in t.factors if f == divisor)
        out = []
        for t, c in v.terms:
            power = dict(t.factors).get(divisor, 0) + most
            rest = replace(t, factors=tuple(x for x in t.factors if x[0] != divisor))
            out.append(el.multiply(el.value([(rest, c)]), el.power(el.function(divisor), power)))
        v = canonical(el.add(*out))
    return v


def _is_nothing(f: Factor, context: Context) -> bool:
    """Whether a factor is seen to be 0 by what may still be done with a product of it."""
    v = el.power(el.function(f), 1) if isinstance(f, FunctionOf) else el.single(f)
    for step in (_by_exponentials, _without_divisors):
        v = canonical(_pruned(v, context))
        v = step(v, context)
    return not canonical(_pruned(v, context)).terms


def _has_squares(f: Factor, context: Context) -> bool:
    """Whether a factor is one whose square is something else, or a sum with some. Two of these may have a product of
    0, as |x| + x and |x| - x do: roots and magnitudes matter where a part is chosen that has no such divisor."""
    match f:
        case FunctionOf("sum", (v,)):
            return any(_has_squares(g, context) for t, _ in v.terms for g, _ in t.factors)
        case FunctionOf(fn):
            return fn in TRUTHS or (context.chooses and (fn == "rsqrt" or el.is_magnitude(f)))
    return False


def _by_exponentials(v: Value, context: Context) -> Value:
    """v with sigmoid and tanh by their definitions."""
    return el.mapped(v, _defined)


def _defined(f: Factor) -> Value | None:
    if not isinstance(f, FunctionOf) or f.fn not in ("sigmoid", "tanh"):
        return None
    x = el.mapped(f.args[0], _defined)
    one = el.number(1)
    if f.fn == "sigmoid":
        return el.inverse(el.add(one, el.exponential(el.scaled(x, -1))))
    return el.subtract(one, el.scaled(el.inverse(el.add(one, el.exponential(el.scaled(x, 2)))), 2))
