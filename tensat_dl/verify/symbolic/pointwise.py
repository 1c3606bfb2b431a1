"""What elementwise operators and casts compute."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from fractions import Fraction
from functools import partial, reduce
from typing import Any

from tensat_dl.core.graph import FLOATS, INTEGERS
from tensat_dl.ops import symbolic as sym
from tensat_dl.ops.semantics.elementwise import FUNCTIONS
from tensat_dl.ops.symbolic import Int, Opaque
from tensat_dl.verify.symbolic import elements as el
from tensat_dl.verify.symbolic.context import Context, Index, Tensor, element_at
from tensat_dl.verify.symbolic.division import digits
from tensat_dl.verify.symbolic.functions import is_integer, only_factor
from tensat_dl.verify.symbolic.needs import both_ways
from tensat_dl.verify.symbolic.normal_form import Factor, FunctionOf, Read, Symbol, Value
from tensat_dl.verify.symbolic.unproved import Inexpressible

Attributes = Mapping[str, Any]
#: An element that is not written down yet.
Element = Callable[[], Value]
#: From attributes and the operands' elements at an index: the element there.
Pointwise = Callable[[Context, Attributes, Sequence[Element]], Value]


def _of_all(apply: Callable[[Context, Attributes, Sequence[Value]], Value]) -> Pointwise:
    """An operator whose result needs all of its operands."""
    return lambda context, attrs, elements: apply(context, attrs, [element() for element in elements])


def _comparing(apply: Callable[[Context, Sequence[Value], Sequence[Value]], Value]) -> Pointwise:
    """A comparison. Of what is no number it is false, whatever laws real numbers have: so it is made of what its
    operands need, too, which `apply` gets beside them."""

    def at(context: Context, attrs: Attributes, elements: Sequence[Element]) -> Value:
        operands, needed = context.losing(elements)
        return apply(context, operands, needed)

    return at


def _function(name: str) -> Pointwise:
    return _of_all(lambda context, attrs, operands: context.apply(name, *operands))


def _limit(fn: str) -> Pointwise:
    """The larger or the smaller of two elements. Of places it is a place."""
    fold = sym.maximum if fn == "max" else sym.minimum

    def apply(context: Context, attrs: Attributes, operands: Sequence[Value]) -> Value:
        p, q = (as_integer(v, context) for v in operands)
        if p is None or q is None:
            return context.apply(fn, *operands)
        low, high = (p, q) if fn == "max" else (q, p)
        if context.known.holds(sym.at_most(low, high)):
            return operands[1]
        return operands[0] if context.known.holds(sym.at_most(high, low)) else el.integer(fold(p, q))

    return _of_all(apply)


def _power(context: Context, attrs: Attributes, elements: Sequence[Element]) -> Value:
    """A power of a number. To the power 0, everything is 1, what is no number too."""
    exponent, (element,) = attrs["exponent"], elements
    e = context.real(exponent).constant
    if e == 0:
        return el.number(1)
    may_be_zero = e is None and not context.known.holds(sym.negate(sym.equal(exponent, 0.0)))
    with context.needs.lost(f"to the power {exponent}") if may_be_zero else nullcontext():
        x = element()
    if e is not None and e.denominator == 1 and abs(e) <= 8:
        return el.power(x if e > 0 else context.apply("inverse", x), abs(int(e)))
    if e is not None and e.denominator == 2 and abs(e) <= 4:
        root = context.apply("sqrt" if e > 0 else "rsqrt", x)
        return el.power(root, abs(int(2 * e)))
    return context.apply(f"power {exponent}", x)


def as_integer(v: Value, context: Context) -> Int | None:
    """An element that is an integer, made of indices, dimensions and elements of integer tensors, as such."""
    out: Int = 0
    for t, c in v.terms:
        if t.guards or t.over or c.denominator != 1:
            return None
        monomial: Int = int(c)
        for f, n in t.factors:
            if isinstance(f, Read) and n > 0 and context.has_integers(f.tensor):
                factor: Int = sym.element(f.tensor, f.offset)
            elif isinstance(f, Symbol) and n > 0 and is_integer(f.atom):
                factor = sym.atom(*f.atom)
            elif isinstance(f, FunctionOf) and f.fn == "max" and n > 0:
                args = [as_integer(a, context) for a in f.args]
                if f.over or any(a is None for a in args):
                    return None
                factor = reduce(sym.maximum, [a for a in args if a is not None])
            else:
                return None
            for _ in range(n):
                monomial = sym.mul(monomial, factor)
        out = sym.add(out, monomial)
    return out


def _is_zero(context: Context, operands: Sequence[Value], needed: Sequence[Value]) -> Value:
    d = el.subtract(*operands)
    whole = None if needed else as_integer(d, context)
    if whole is not None:
        return context.guarded(el.number(1), sym.equal(whole, 0))
    if d.terms and d.terms[0][1] < 0:
        d = el.scaled(d, -1)
    return context.apply("is zero", d, *needed)


def _greater(context: Context, operands: Sequence[Value], needed: Sequence[Value]) -> Value:
    d = el.subtract(*operands)
    if needed:
        return context.apply("is positive", d, *needed)
    if d.constant is not None:
        return el.number(int(d.constant > 0))
    whole = as_integer(d, context)
    if whole is not None:
        return context.guarded(el.number(1), sym.at_most(sym.sub(1, whole), 0))
    for t, c in d.terms:
        f = only_factor(el.value([(t, Fraction(1))]))
        if isinstance(f, FunctionOf) and f.fn == "max" and not f.over:
            rest = el.subtract(d, el.value([(t, c)]))
            parts = [_greater(context, (rest, el.scaled(a, -c)), ()) for a in f.args]
            return _all(parts) if c < 0 else _opposite(_all(map(_opposite, parts)))
    return context.apply("is positive", d)


def _all(truths: Iterable[Value]) -> Value:
    return reduce(el.multiply, truths)


def _opposite(truth: Value) -> Value:
    return el.subtract(el.number(1), truth)


def _divided(context: Context, attrs: Attributes, operands: Sequence[Value]) -> Value:
    return context.apply("quotient", *operands) if attrs["rounded"] else context.quotient(*operands)


def _select(context: Context, attrs: Attributes, elements: Sequence[Element]) -> Value:
    """An element of one operand; that of the other one need not be a number."""
    condition, (x, y) = elements[0](), elements[1:]
    if condition.constant is not None:
        return x() if condition.constant else y()
    taken, other = both_ways(condition)
    with context.under(taken):
        first = _where_chosen(x(), condition, taken=True)
    with context.under(other):
        second = _where_chosen(y(), condition, taken=False)
    return el.add(second, el.multiply(condition, el.subtract(first, second)))


def _where_chosen(v: Value, condition: Value, taken: bool) -> Value:
    """An element where a condition holds, or where it does not. Truth values that it is divided by are 1 there: times
    the condition they would cancel, where they are 0, too."""
    truths = {f for t, _ in condition.terms for f, _ in t.factors}
    for truth in {f for t, _ in v.terms for f, n in t.factors if n < 0} & truths:
        if _with(condition, truth, 0).constant != (not taken):
            raise Inexpressible("it divides by a truth value, which may be 0 where that matters")
        v = _with(v, truth, 1)
    return v


def _with(v: Value, factor: Factor, number: int) -> Value:
    """v with a number in place of a factor."""
    return el.mapped(v, lambda f: el.number(number) if f == factor else None)


#: Operators that compute element by element.
POINTWISE: Mapping[str, Pointwise] = {
    **{name: _function(name) for name in FUNCTIONS},
    "ewadd": _of_all(lambda context, attrs, v: el.add(*v)),
    "ewsub": _of_all(lambda context, attrs, v: el.subtract(*v)),
    "ewmul": _of_all(lambda context, attrs, v: el.multiply(*v)),
    "smul": _of_all(lambda context, attrs, v: el.multiply(*v)),
    "ewdiv": _of_all(_divided),
    "ewmax": _limit("max"),
    "ewmin": _limit("min"),
    "power": _power,
    "equal": _comparing(_is_zero),
    "greater": _comparing(_greater),
    "select": _select,
    "dropout": _of_all(lambda context, attrs, v: v[0]),
}


def broadcast(context: Context, x: Tensor, shape: Index, index: Index) -> Value:
    """The element of an operand that broadcasts to a shape."""
    own = index[len(shape) - len(x.shape) :]
    there: list[Int] = []
    for i, n, wide in zip(own, x.shape, shape[len(shape) - len(x.shape) :], strict=True):
        there.append(i if context.known.plainly(n, wide) else context.stretched(i, n))
    return x.at(tuple(there))


def pointwise(
    op: str, context: Context, xs: Sequence[Tensor], attrs: Attributes, shape: Index, dtype: str | Opaque
) -> Tensor:
    """An elementwise operator."""
    f = POINTWISE[op]

    def at(index: Index) -> Value:
        return f(context, attrs, [partial(broadcast, context, x, shape, index) for x in xs])

    def flat(offset: Int) -> Value:
        if all(context.same_shape(x.shape, shape) or not x.shape for x in xs):
            return f(
                context,
                attrs,
                [partial(element_at, x, offset, context) if x.shape else partial(x.at, ()) for x in xs],
            )
        return at(digits(context, offset, shape))

    return Tensor(shape, dtype, at, flat)


def is_type(context: Context, dtype: str | Opaque, *others: str | Opaque) -> bool:
    """Whether an element type is one of several. Raises `Undecided`."""
    facts = context.known.facts
    own = facts.value(dtype)
    return context.known.decide(sym.any_of(sym.equal(own, facts.value(d)) for d in others))


def cast(context: Context, x: Tensor, to: str | Opaque, shape: Index) -> Tensor:
    """Casts to floats keep numbers, but for rounding; so do casts of integers to wider types. Raises `Undecided`."""

    def kept(element: Element) -> Value:
        return element()

    def converted(element: Element) -> Value:
        (v,), needed = context.losing([element])  # integers have no NaN
        return context.apply(f"cast to {context.known.facts.value(to)}", v, *needed)

    def truth(element: Element) -> Value:
        (v,), needed = context.losing([element])
        return el.subtract(el.number(1), _is_zero(context, (v, el.number(0)), needed))

    f: Callable[[Element], Value]
    if is_type(context, x.dtype, to) or is_type(context, to, *FLOATS) or is_type(context, x.dtype, "bool"):
        f = kept
    elif is_type(context, to, "bool"):
        f = truth
    else:
        low, high = (INTEGERS.get(str(context.known.facts.value(t)), (0, 0)) for t in (x.dtype, to))
        f = kept if low != high and high[0] <= low[0] < low[1] <= high[1] else converted
    flat = x.flat
    return Tensor(
        shape,
        to,
        lambda index: f(partial(x.at, index)),
        flat and (lambda offset: f(partial(element_at, x, offset, context))),
    )
