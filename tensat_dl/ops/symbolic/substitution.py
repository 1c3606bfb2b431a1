"""Symbolic values with others in the place of atoms, and sums over the members of a list, which that simplifies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tensat_dl.ops.symbolic.conditions import all_of, any_of, below, compared, equal, every, negate
from tensat_dl.ops.symbolic.integers import (
    add,
    element,
    floordiv,
    maximum,
    minimum,
    mod,
    mul,
    select,
    sub,
    unselect,
)
from tensat_dl.ops.symbolic.terms import (
    EACH,
    LENGTH,
    MEMBER,
    SUMS,
    Atom,
    Bool,
    Condition,
    Int,
    Monomial,
    Of,
    Sym,
    atom,
    inside,
    is_family,
    make,
    terms_of,
)


def substitute(value: Any, known: Mapping[Atom, Int]) -> Any:
    """The value with atoms replaced and simplified again."""
    if not known:
        return value
    if isinstance(value, Sym):
        if known.keys().isdisjoint(value.mentioned):
            return value
        total: dict[Monomial, int] = {}
        for monomial, coefficient in value.terms:
            kept = tuple(a for a in monomial if a not in known and known.keys().isdisjoint(inside(a)))
            if len(kept) == len(monomial):
                total[monomial] = total.get(monomial, 0) + coefficient
                continue
            product: Int = Sym(((kept, coefficient),)) if kept else coefficient
            for a in monomial:
                if a not in kept:
                    product = mul(product, _substitute_atom(a, known))
            for m, c in terms_of(product).items():
                total[m] = total.get(m, 0) + c
        return make(total)
    if isinstance(value, tuple):
        return tuple(substitute(v, known) for v in value)
    if isinstance(value, Condition):
        return _substitute_condition(value, known)
    return Of(value.name, substitute(value.index, known)) if isinstance(value, Of) else value


def _substitute_condition(c: Condition, known: Mapping[Atom, Int]) -> Bool:
    match c.kind:
        case "eq" | "ne" | "le":
            p = substitute(c.args[0], known)
            return c if p is c.args[0] else compared(c.kind, p)
        case "and":
            return all_of(substitute(x, known) for x in c.args)
        case "or":
            return any_of(substitute(x, known) for x in c.args)
        case "not":
            return negate(substitute(c.args[0], known))
        case "every":
            item, length = c.args
            inner = {a: x for a, x in known.items() if a != EACH}  # which it binds
            return every(substitute(item, inner), length)
        case "below" | "same":
            a, b = (substitute(x, known) for x in c.args)
            return c if (a, b) == c.args else below(a, b) if c.kind == "below" else equal(a, b)
    return c


def before(p: Int) -> Int:
    """The sum of p, where `EACH` is the index, over the members of a list before `MEMBER`."""
    return _over_members("before", p, atom(*MEMBER))


def after(p: Int) -> Int:
    """The sum of p, where `EACH` is the index, over the members of a list after `MEMBER`."""
    return _over_members("after", p, sub(atom(*LENGTH), add(atom(*MEMBER), 1)))


def _over_members(kind: str, p: Int, count: Int) -> Int:
    out: Int = 0
    for monomial, k in terms_of(p).items():
        varying = tuple(a for a in monomial if a == EACH or EACH in Sym((((a,), 1),)).mentioned)
        rest = (
            Sym(((tuple(a for a in monomial if a not in varying), k),)) if len(varying) < len(monomial) else k
        )
        out = add(out, mul(rest, _summed(kind, varying) if varying else count))
    return out


def _summed(kind: str, varying: Monomial) -> Int:
    next_one = add(atom(*EACH), 1)
    a = varying[0]
    if kind == "before" and len(varying) == 1 and is_family(a) and a[1].index == next_one:
        # f(1) + .. + f(m) = f(0) + .. + f(m - 1) + f(m) - f(0)
        this, member, first = (atom(a[0], Of(a[1].name, i), *a[2:]) for i in (atom(*EACH), atom(*MEMBER), 0))
        return sub(add(before(this), member), first)
    return atom(kind, Sym(((varying, 1),)))


def is_sum_of_dimensions(a: Atom) -> bool:
    """Whether an atom is a sum over members of a list that is not negative."""
    return a[0] in SUMS and all(b[0] == "dim" for b in a[1].atoms())


_REBUILD: Mapping[str, Callable[..., Int]] = {
    "div": floordiv,
    "mod": mod,
    "max": maximum,
    "min": minimum,
    "select": select,
    "unselect": unselect,
    "element": element,
    "before": before,
    "after": after,
}


def _substitute_atom(a: Atom, known: Mapping[Atom, Int]) -> Int:
    if a in known:
        return known[a]
    if is_family(a):
        return atom(a[0], *(substitute(x, known) for x in a[1:]))
    rebuild = _REBUILD.get(a[0])
    if rebuild is None:
        return Sym((((a,), 1),))
    parts = [substitute(x, known) for x in a[1:]]
    result: Int = rebuild(*parts)
    return result
