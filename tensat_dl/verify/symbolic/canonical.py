"""One name for what is equal: bound indices are named by their places."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import permutations, product
from math import factorial

from tensat_dl.ops.symbolic import Atom, Int
from tensat_dl.verify.symbolic.elements import (
    add,
    changed_term,
    function,
    function_over,
    greatest,
    opened,
    renamed,
    scaled,
    single,
)
from tensat_dl.verify.symbolic.normal_form import Factor, FunctionOf, Read, Summand, Value

#: Terms whose bound indices have more orders than this are not compared under all renamings.
MOST_ORDERS = 720
#: How often a term is named anew whose operands come in another order by the new names.
MOST_TURNS = 5
#: So many parts are kept that were named: the parts of nested norms come up again in each of their sums.
KEPT = 4_000


def forget() -> None:
    """Forgets what was named, which has names of one proof."""
    _canonical_factor.cache_clear()
    _named.cache_clear()


def canonical(v: Value) -> Value:
    """v with bound indices named by their places, so that terms which differ by these names are one."""
    return add(*(_canonical_term(t, c) for t, c in v.terms))


def _canonical_term(t: Summand, c: Fraction) -> Value:
    def named(u: Summand, d: Fraction) -> Value:
        return add(*(Value(((_named(w), e),)) for w, e in changed_term(u, d, _canonical_factor).terms))

    found = named(t, c)
    if t.over and any(isinstance(f, FunctionOf) for f, _ in t.factors):
        # The operands of a maximum stand in the order of their texts, which have new names now.
        for _ in range(MOST_TURNS):
            again = add(*(named(u, d) for u, d in found.terms))
            if again.text == found.text:
                break
            found = again
    return found


@lru_cache(maxsize=KEPT)
def _canonical_factor(f: Factor) -> Value:
    if not isinstance(f, FunctionOf):
        return single(f)
    args = tuple(canonical(a) for a in f.args)
    if f.over:
        named = _named(Summand(((FunctionOf(f.fn, args), 1),), f.guards, f.over))
        return function_over(named, Fraction(1))
    match f.fn:
        case "max":
            return greatest(args)
        case "sum" if args[0].terms:
            lead = args[0].terms[0][1]
            return scaled(single(FunctionOf("sum", (scaled(args[0], 1 / lead),))), lead)
    return function(FunctionOf(f.fn, args))


def _level(t: Summand) -> int:
    """How deep bound indices are nested in a term."""

    def below(f: Factor) -> int:
        if not isinstance(f, FunctionOf):
            return 0
        return max((_level(u) for a in f.args for u, _ in a.terms), default=0) + bool(f.over)

    return max((below(f) for f, _ in t.factors), default=0) + bool(t.over)


@lru_cache(maxsize=KEPT)
def _named(t: Summand) -> Summand:
    """A term with the names of bound indices that give the least text."""
    if not t.over:
        return t
    t = opened(t)
    level = _level(t)
    groups: dict[str, list[tuple[Atom, Int]]] = {}
    kinds = {an: repr((an[1], _occurrences(an[0], t))) for an in t.over}
    for an in sorted(t.over, key=kinds.__getitem__):
        groups.setdefault(kinds[an], []).append(an)
    best: Summand | None = None
    for order in _orders(list(groups.values())):
        names = {a: ("bound", level, k) for k, (a, _) in enumerate(order)}
        new = renamed(Summand(t.factors, t.guards, tuple(order)), names)
        if best is None or new.text < best.text:
            best = new
    assert best is not None
    return best


def _occurrences(a: Atom, t: Summand) -> list[tuple[str, int, int]]:
    """How often a bound index stands in each factor of a term, and in its guards and extents, which tells indices
    apart whatever their names are."""
    name = repr(a)
    parts = [(_kind(f), n, repr(f).count(name)) for f, n in t.factors]
    parts += [(g.kind, 0, repr(g).count(name)) for g in t.guards]
    parts += [("over", 0, repr(n).count(name)) for _, n in t.over]
    return sorted(parts)


def _kind(f: Factor) -> str:
    match f:
        case Read(tensor):
            return f"read {tensor}"
        case FunctionOf(fn):
            return fn
    return "symbol"


def _orders(groups: Iterable[Sequence[tuple[Atom, Int]]]) -> Iterable[list[tuple[Atom, Int]]]:
    """The orders of indices, those of one range in any order, the smallest groups first while these are not too
    many."""
    chosen: dict[int, list[tuple[tuple[Atom, Int], ...]]] = {}
    count = 1
    numbered = list(enumerate(groups))
    for k, group in sorted(numbered, key=lambda kg: len(kg[1])):
        count *= factorial(len(group))
        chosen[k] = [*permutations(group)] if count <= MOST_ORDERS else [tuple(group)]
    for orders in product(*(chosen[k] for k, _ in numbered)):
        yield [an for order in orders for an in order]
