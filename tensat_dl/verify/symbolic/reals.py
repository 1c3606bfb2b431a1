"""Maxima, comparisons and choices decided by z3, which goes into the cases of real numbers.

All that z3 need not know is a number of its own: an element of a variable, a sum over indices, a function with its
operands. Of functions it is told some laws, for the operands at hand. A divisor may be 0: 1 / 0 is then one number
of which nothing is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations
from typing import Any

from tensat_dl.ops.symbolic import Bool, Condition, Opaque
from tensat_dl.verify.symbolic import elements as el
from tensat_dl.verify.symbolic.context import Context
from tensat_dl.verify.symbolic.functions import INCREASING
from tensat_dl.verify.symbolic.normal_form import (
    INFINITY,
    TRUTHS,
    Factor,
    FunctionOf,
    Read,
    Summand,
    Symbol,
    Value,
)
from tensat_dl.verify.symbolic.solver import LONGEST, RealTerms

#: Of more functions of one name z3 is not told how each two compare.
MOST_ALIKE = 8
#: The condition that there is a number which a comparison needs.
_HAS = "has a number"
#: Functions that are one expression in one case and another one in another.
_CASES = frozenset(("max", *TRUTHS))


def is_nothing(v: Value, context: Context) -> bool:
    """Whether a value is 0, seen by z3: of sums over the same indices what is summed."""
    bodies: dict[tuple[Any, Any], list[tuple[Summand, Fraction]]] = {}
    for t, c in v.terms:
        bodies.setdefault((t.over, t.guards), []).append((Summand(t.factors), c))
    found = [el.value(terms) for terms in bodies.values()]
    if not all(len(body.text) <= LONGEST and _has_cases(body, context) for body in found):
        return False
    terms = context.known.real_terms()
    return terms is not None and all(_Reals(terms, context).is_nothing(body) for body in found)


def _has_cases(v: Value, context: Context) -> bool:
    """Whether a value has a maximum, a comparison or a truth value: what is 0 without these is seen to be, by its
    normal form. Of infinite numbers z3 knows nothing."""
    factors = list(_factors(v))
    cases = (
        _is_truth(f, context) if isinstance(f, Read) else isinstance(f, FunctionOf) and f.fn in _CASES
        for f in factors
    )
    return INFINITY not in factors and any(cases)


def _factors(v: Value) -> Iterator[Factor]:
    for t, _ in v.terms:
        for f, _ in t.factors:
            yield f
            if isinstance(f, FunctionOf):
                for a in f.args:
                    yield from _factors(a)


def _is_truth(f: Read, context: Context) -> bool:
    return bool(context.settled(context.dtypes[f.tensor]) == "bool")


class _Reals:
    """The expressions of one question."""

    def __init__(self, terms: RealTerms, context: Context) -> None:
        self._terms = terms
        self._context = context
        self._known: dict[Any, Any] = {}  #: by factor or term
        self._truths: dict[Factor, Any] = {}
        self._functions: dict[tuple[str, int], list[tuple[Sequence[Any], Any]]] = {}
        self._laws: list[Any] = []

    def is_nothing(self, v: Value) -> bool:
        claim = self._value(v) == 0
        facts = [f for c in self._context.known.facts.conditions if (f := self._fact(c)) is not None]
        return self._terms.follows(claim, [*facts, *self._laws, *self._comparisons()])

    def _value(self, v: Value) -> Any:
        return self._terms.sum([self._term(t, c) for t, c in v.terms])

    def _term(self, t: Summand, c: Fraction) -> Any:
        """A truth value as a factor is a case, so that z3 need not multiply by it."""
        if t.guards or t.over:
            return self._terms.product([self._terms.number(c), self._unknown(t)])
        truths = [truth for f, n in t.factors if n > 0 and (truth := self._truth(f)) is not None]
        rest = [self._power(f, n) for f, n in t.factors if n < 0 or self._truth(f) is None]
        product = self._terms.product([self._terms.number(c), *rest])
        return self._terms.where(truths, product) if truths else product

    def _power(self, f: Factor, n: int) -> Any:
        product = self._terms.product([self._factor(f)] * abs(n))
        return product if n > 0 else 1 / product

    def _truth(self, f: Factor) -> Any:
        """The condition that a factor is 1 and not 0; None for one that may be another number."""
        if f in self._truths:
            return self._truths[f]
        truth: Any = None
        match f:
            case Read() if _is_truth(f, self._context):
                truth = self._terms.unknown_truth()
            case FunctionOf("is positive" | "is zero", (x, *needed)) if not f.over and not f.guards:
                number = self._value(x)
                truth = number > 0 if f.fn == "is positive" else number == 0
                if needed:
                    truth = self._terms.all([truth, *(self._truth(FunctionOf(_HAS, (n,))) for n in needed)])
            case FunctionOf(fn) if fn == _HAS:
                truth = self._terms.unknown_truth()
        self._truths[f] = truth
        return truth

    def _factor(self, f: Factor) -> Any:
        if f not in self._known:
            truth = self._truth(f)
            if truth is not None:
                self._known[f] = self._terms.where([truth], self._terms.number(Fraction(1)))
            else:
                self._known[f] = self._function(f) if isinstance(f, FunctionOf) else self._unknown(f)
        return self._known[f]

    def _unknown(self, of: Factor | Summand) -> Any:
        if of not in self._known:
            x = self._known[of] = self._terms.unknown()
            if isinstance(of, Symbol) and isinstance(of.atom, tuple) and of.atom[0] == "dim":
                self._laws.append(x >= 1)
        return self._known[of]

    def _function(self, f: FunctionOf) -> Any:
        if f.over or f.guards:
            return self._unknown(f)
        args = [self._value(a) for a in f.args]
        match f.fn:
            case "max":
                return self._terms.greatest(args)
            case "sum":
                return args[0]
        y = self._unknown(f)
        self._functions.setdefault((f.fn, len(args)), []).append((args, y))
        self._laws += [law(args[0], y) for law in _LAWS.get(f.fn, ())]
        return y

    def _comparisons(self) -> Iterator[Any]:
        """How each two functions of one name compare."""
        for (fn, _), found in self._functions.items():
            if len(found) > MOST_ALIKE:
                continue
            for (a, x), (b, y) in combinations(found, 2):
                if fn in INCREASING:
                    yield (a[0] > b[0]) == (x > y)
                    yield (a[0] < b[0]) == (x < y)
                elif fn == "log":
                    yield self._terms.implies([a[0] > 0, b[0] > 0], (a[0] > b[0]) == (x > y))
                else:
                    yield self._terms.implies([p == q for p, q in zip(a, b, strict=True)], x == y)

    def _fact(self, c: Bool) -> Any:
        """A condition on floats for z3; None for one on other things."""
        match c:
            case Condition("not", (inner,)):
                found = self._fact(inner)
                return None if found is None else self._terms.negation(found)
            case Condition("below", (a, b)) if all(isinstance(x, Opaque | float | int) for x in (a, b)):
                low, high = self._context.real(a), self._context.real(b)
                if INFINITY not in (*_factors(low), *_factors(high)):
                    return self._value(low) < self._value(high)
        return None


_Law = Callable[[Any, Any], Any]
#: What is true of a function's value y at x.
_LAWS: dict[str, Iterable[_Law]] = {
    "exp": (
        lambda x, y: y > 0,
        lambda x, y: y >= 1 + x,
        lambda x, y: (x > 0) == (y > 1),
        lambda x, y: (x < 0) == (y < 1),
    ),
    "sigmoid": (
        lambda x, y: y > 0,
        lambda x, y: y < 1,
        lambda x, y: (x > 0) == (2 * y > 1),
        lambda x, y: (x < 0) == (2 * y < 1),
    ),
    **{
        fn: (
            lambda x, y: y > -1,
            lambda x, y: y < 1,
            lambda x, y: (x > 0) == (y > 0),
            lambda x, y: (x < 0) == (y < 0),
        )
        for fn in ("tanh", "erf")
    },
    "floor": (lambda x, y: y <= x, lambda x, y: x < y + 1),
}
