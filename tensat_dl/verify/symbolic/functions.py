"""Functions of elements, with the laws that they have: of a maximum, of increasing functions, of positive ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

from tensat_dl.ops.symbolic import Condition
from tensat_dl.verify.symbolic import elements as el
from tensat_dl.verify.symbolic.normal_form import Factor, FunctionOf, Over, Summand, Symbol, Value
from tensat_dl.verify.symbolic.unproved import Inexpressible

#: Functions that grow with their operand.
INCREASING = frozenset(("sigmoid", "tanh", "exp", "erf"))
#: Functions whose values are greater than 0.
POSITIVE = frozenset(("sigmoid", "exp", "rsqrt"))
#: Functions that negative numbers do not have.
PARTIAL = frozenset(("sqrt", "rsqrt", "log"))


def applied(fn: str, args: Sequence[Value]) -> Value:
    """A function of elements."""
    x = args[0]
    match fn:
        case "inverse":
            if not x.terms:
                raise Inexpressible("a divisor is 0")
            return el.inverse(x)
        case "quotient" if args[1].constant == 1:
            return x
        case "max":
            parts: dict[Value, None] = {}
            for a in args:
                parts |= dict.fromkeys(_parts_of_max(a))
            constants = [c for p in parts if (c := p.constant) is not None]
            kept = [p for p in parts if p.constant is None]
            if constants and not (max(constants) <= 0 and any(map(is_positive, kept))):
                kept.append(el.number(max(constants)))
            if len(kept) == 1:
                return kept[0]
            inner = [_increasing(v) for v in kept]
            if inner[0] is not None and all(i is not None and i[0] == inner[0][0] for i in inner):
                return applied(inner[0][0], (applied("max", [i[1] for i in inner if i is not None]),))
            return el.greatest(kept)
        case "none":
            return x
        case "relu":
            return applied("max", (x, el.number(0)))
        case "exp":
            return el.exponential(x)
        case "floor":
            whole = el.value((t, c) for t, c in x.terms if _is_whole(t, c))
            rest = el.subtract(x, whole)
            return el.add(whole, el.single(FunctionOf("floor", (rest,)))) if rest.terms else whole
        case "sqrt":
            return el.multiply(x, applied("rsqrt", (x,)))
        case "rsqrt" | "log" if x.constant == 1:
            return el.number(1 if fn == "rsqrt" else 0)
        case "rsqrt" if len(x.terms) == 1 and len(x.terms[0][0].factors) > 1:
            return _root_of_product(*x.terms[0])
        case "tanh" | "erf" if not x.terms:
            return el.number(0)
        case "sigmoid" if not x.terms:
            return el.number(Fraction(1, 2))
    return el.single(FunctionOf(fn, tuple(args)))


def _root_of_product(t: Summand, c: Fraction) -> Value:
    """1 / sqrt(c t) with dimensions, which are positive, under roots of their own."""
    sizes = [(f, n) for f, n in t.factors if isinstance(f, Symbol) and is_positive(el.single(f))]
    rest = el.value([(replace(t, factors=tuple(fn for fn in t.factors if fn not in sizes)), c)])
    root = el.number(1) if rest.constant == 1 else el.single(FunctionOf("rsqrt", (rest,)))
    for f, n in sizes:
        root = el.multiply(root, el.power(el.single(FunctionOf("rsqrt", (el.single(f),))), n))
    return root


def _is_whole(t: Summand, c: Fraction) -> bool:
    """Whether a term is a whole number for sure."""
    return (
        c.denominator == 1
        and not t.over
        and all(
            n > 0
            and (
                f.fn == "floor" if isinstance(f, FunctionOf) else isinstance(f, Symbol) and is_integer(f.atom)
            )
            for f, n in t.factors
        )
    )


def is_integer(a: Any) -> bool:
    """Whether a number that is not known is an integer."""
    return isinstance(a, tuple) and a[0] != "float"


def clauses_of(v: Value) -> list[frozenset[Value]]:
    """v as the least of several numbers, each the greatest of several."""
    if len(v.terms) == 1:
        ((t, c),) = v.terms
        if len(t.factors) == 1 and not t.guards and not t.over:
            ((f, n),) = t.factors
            if isinstance(f, FunctionOf) and f.fn == "max" and not f.over and n == 1:
                parts = [clauses_of(el.scaled(a, c)) for a in f.args]
                if c < 0:
                    return [clause for clauses in parts for clause in clauses]
                return [frozenset[Value]().union(*choice) for choice in product(*parts)]
    return [frozenset((v,))]


def _increasing(v: Value) -> tuple[str, Value] | None:
    """The function and the operand, if v is an increasing function of something."""
    f = only_factor(v)
    if isinstance(f, FunctionOf) and f.fn in INCREASING:
        return f.fn, f.args[0]
    return None


def only_factor(v: Value) -> Factor | None:
    """The factor that v is."""
    if len(v.terms) == 1:
        ((t, c),) = v.terms
        if c == 1 and not t.guards and not t.over and len(t.factors) == 1 and t.factors[0][1] == 1:
            return t.factors[0][0]
    return None


def is_positive(v: Value) -> bool:
    """Whether v is not negative for sure."""

    def positive(f: Factor, n: int) -> bool:
        if n % 2 == 0:
            return True
        match f:
            case Symbol(a):
                return isinstance(a, tuple) and a[0] == "dim"
            case FunctionOf("max" | "largest", args):
                return any(map(is_positive, args))
            case FunctionOf("sum", args):
                return is_positive(args[0])
            case FunctionOf(fn):
                return fn in POSITIVE
        return False

    return all(c >= 0 and all(positive(f, n) for f, n in t.factors) for t, c in v.terms)


def largest(v: Value, over: Over, guards: frozenset[Condition]) -> Value:
    """The greatest v over indices, of which there are some."""
    if (not over and not guards) or el.sign_of_infinity(v):
        return v
    inner = _increasing(v)
    if inner is not None:
        return applied(inner[0], (largest(inner[1], over, guards),))
    f = only_factor(v)
    if isinstance(f, FunctionOf) and f.fn == "max" and not f.over:
        bound = {a for a, _ in over}
        parts = [
            a if not any(bound & t.atoms for t, _ in a.terms) else largest(a, over, guards) for a in f.args
        ]
        return applied("max", parts)
    return el.single(FunctionOf("largest", (v,), over, guards))


def _parts_of_max(v: Value) -> tuple[Value, ...]:
    f = only_factor(v)
    return f.args if isinstance(f, FunctionOf) and f.fn == "max" and not f.over else (v,)
