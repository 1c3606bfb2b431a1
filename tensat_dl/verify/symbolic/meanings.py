"""What operators compute, element by element: the index functions of ``rules/ops.tsr``.

``MEANINGS`` has a function for each operator that is neither a leaf nor understood by its definition: from operands
as functions of indices, attributes and the result's shape to the result as a function of indices. What is here is
compared with the operators' executable semantics in the tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import reduce
from typing import Any

from tensat_dl.core.graph import FLOATS, INTEGERS
from tensat_dl.ops import symbolic as sym
from tensat_dl.ops.semantics.elementwise import FUNCTIONS
from tensat_dl.ops.symbolic import Condition, Int, Opaque
from tensat_dl.ops.typing import Inference
from tensat_dl.ops.values import SymType
from tensat_dl.verify.symbolic import elements as el
from tensat_dl.verify.symbolic.context import (
    Context,
    Index,
    Inexpressible,
    Tensor,
    element_at,
    is_integer,
    largest,
    only_factor,
)
from tensat_dl.verify.symbolic.elements import Value

Attributes = Mapping[str, Any]
#: From the context, operands, attributes and the result's shape: the element at an index.
Meaning = Callable[[Context, Sequence[Tensor], Attributes, Index], Callable[[Index], Value]]
#: From attributes and the operands' elements at an index: the element there.
Pointwise = Callable[[Context, Attributes, Sequence[Value]], Value]


# ---- element by element -----------------------------------------------------------------------------------


def _function(name: str) -> Pointwise:
    return lambda context, attrs, operands: context.apply(name, *operands)


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

    return apply


def _power(context: Context, x: Value, exponent: Any) -> Value:
    e = context.real(exponent).constant
    if e is not None and e.denominator == 1 and abs(e) <= 8:
        return el.power(x if e >= 0 else context.apply("inverse", x), abs(int(e)))
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
            if isinstance(f, el.Read) and n > 0 and context.has_integers(f.tensor):
                factor: Int = sym.element(f.tensor, f.offset)
            elif isinstance(f, el.Symbol) and n > 0 and is_integer(f.atom):
                factor = sym.atom(*f.atom)
            elif isinstance(f, el.FunctionOf) and f.fn == "max" and n > 0:
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


def _is_zero(context: Context, x: Value, y: Value) -> Value:
    d = el.subtract(x, y)
    whole = as_integer(d, context)
    if whole is not None:
        return context.guarded(el.number(1), sym.equal(whole, 0))
    if d.terms and d.terms[0][1] < 0:
        d = el.scaled(d, -1)
    return context.apply("is zero", d)


def _greater(context: Context, x: Value, y: Value) -> Value:
    d = el.subtract(x, y)
    if d.constant is not None:
        return el.number(int(d.constant > 0))
    whole = as_integer(d, context)
    if whole is not None:
        return context.guarded(el.number(1), sym.at_most(sym.sub(1, whole), 0))
    for t, c in d.terms:
        f = only_factor(el.value([(t, Fraction(1))]))
        if isinstance(f, el.FunctionOf) and f.fn == "max" and not f.over:
            rest = el.subtract(d, el.value([(t, c)]))
            parts = [_greater(context, rest, el.scaled(a, -c)) for a in f.args]
            return _all(parts) if c < 0 else _opposite(_all(map(_opposite, parts)))
    return context.apply("is positive", d)


def _all(truths: Iterable[Value]) -> Value:
    return reduce(el.multiply, truths)


def _opposite(truth: Value) -> Value:
    return el.subtract(el.number(1), truth)


def _select(c: Value, x: Value, y: Value) -> Value:
    return el.add(y, el.multiply(c, el.subtract(x, y)))


#: Operators that compute element by element.
POINTWISE: Mapping[str, Pointwise] = {
    **{name: _function(name) for name in FUNCTIONS},
    "ewadd": lambda context, attrs, v: el.add(*v),
    "ewsub": lambda context, attrs, v: el.subtract(*v),
    "ewmul": lambda context, attrs, v: el.multiply(*v),
    "smul": lambda context, attrs, v: el.multiply(*v),
    "ewdiv": lambda context, attrs, v: context.quotient(*v),
    "ewmax": _limit("max"),
    "ewmin": _limit("min"),
    "power": lambda context, attrs, v: _power(context, *v, **attrs),
    "equal": lambda context, attrs, v: _is_zero(context, *v),
    "greater": lambda context, attrs, v: _greater(context, *v),
    "select": lambda context, attrs, v: _select(*v),
    "dropout": lambda context, attrs, v: v[0],
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
        return f(context, attrs, [broadcast(context, x, shape, index) for x in xs])

    def flat(offset: Int) -> Value:
        if all(context.same_shape(x.shape, shape) or not x.shape for x in xs):
            return f(context, attrs, [element_at(x, offset, context) if x.shape else x.at(()) for x in xs])
        return at(context.digits(offset, shape))

    return Tensor(shape, dtype, at, flat)


# ---- products, pooling ------------------------------------------------------------------------------------


def _is(context: Context, dtype: str | Opaque, *others: str | Opaque) -> bool:
    """Whether an element type is one of several. Raises `Undecided`."""
    facts = context.known.facts
    own = facts.value(dtype)
    return context.known.decide(sym.any_of(sym.equal(own, facts.value(d)) for d in others))


def cast(context: Context, x: Tensor, to: str | Opaque, shape: Index) -> Tensor:
    """Casts to floats keep numbers, but for rounding; so do casts of integers to wider types. Raises `Undecided`."""

    def kept(v: Value) -> Value:
        return v

    def converted(v: Value) -> Value:
        return context.apply(f"cast to {context.known.facts.value(to)}", v)

    def truth(v: Value) -> Value:
        return el.subtract(el.number(1), _is_zero(context, v, el.number(0)))

    f: Callable[[Value], Value]
    if _is(context, x.dtype, to) or _is(context, to, *FLOATS) or _is(context, x.dtype, "bool"):
        f = kept
    elif _is(context, to, "bool"):
        f = truth
    else:
        low, high = (INTEGERS.get(str(context.known.facts.value(t)), (0, 0)) for t in (x.dtype, to))
        f = kept if low != high and high[0] <= low[0] < low[1] <= high[1] else converted
    flat = x.flat
    return Tensor(
        shape, to, lambda index: f(x.at(index)), flat and (lambda offset: f(element_at(x, offset, context)))
    )


def activation(context: Context, act: Any, v: Value) -> Value:
    act = context.known.facts.value(act) if isinstance(act, Opaque) else act
    return context.apply(str(act.atom) if isinstance(act, Opaque) else act, v)


def matmul(
    context: Context, xs: Sequence[Tensor], attrs: Attributes, shape: Index
) -> Callable[[Index], Value]:
    x, y, *bias = xs

    def at(index: Index) -> Value:
        *batch, i, j = index
        total = context.total(x.shape[-1], lambda k: el.multiply(x.at((*batch, i, k)), y.at((*batch, k, j))))
        return activation(context, attrs["act"], el.add(total, *(b.at((j,)) for b in bias)))

    return at


def _inside(context: Context, i: Int, n: Int) -> sym.Bool:
    return sym.all_of((sym.at_most(0, i), sym.at_most(sym.add(i, 1), n)))


def conv2d(
    context: Context, xs: Sequence[Tensor], attrs: Attributes, shape: Index
) -> Callable[[Index], Value]:
    x, w, *bias = xs
    stride, pads, dilation = attrs["stride"], attrs["pads"], attrs["dilation"]

    def at(index: Index) -> Value:
        image, o, *place = index
        first: Int = 0
        if not context.known.decide(sym.equal(x.shape[1], w.shape[1])):
            groups = context.simple(sym.floordiv(x.shape[1], w.shape[1]))
            size = sym.floordiv(w.shape[0], groups)
            group, _ = context.divided(o, size)
            first = sym.mul(group, w.shape[1])

        def part(c: Int, *taps: Int) -> Value:
            pixel = [
                sym.sub(sym.add(sym.mul(place[k], stride[k]), sym.mul(taps[k], dilation[k])), pads[k])
                for k in (0, 1)
            ]
            inside = sym.all_of(_inside(context, p, n) for p, n in zip(pixel, x.shape[2:], strict=True))
            read = x.at((image, sym.add(first, c), *pixel))
            return context.guarded(el.multiply(read, w.at((o, c, *taps))), inside)

        total = context.total(
            w.shape[1],
            lambda c: context.total(w.shape[2], lambda r: context.total(w.shape[3], lambda s: part(c, r, s))),
        )
        return activation(context, attrs["act"], el.add(total, *(b.at((o,)) for b in bias)))

    return at


def _window(
    context: Context, x: Tensor, attrs: Attributes, index: Index
) -> Callable[[Int, Int], tuple[Value, sym.Bool]]:
    """An element of a window, and whether there is one."""
    image, channel, *place = index
    stride, pads = attrs["stride"], attrs["pads"]

    def part(*taps: Int) -> tuple[Value, sym.Bool]:
        pixel = [sym.sub(sym.add(sym.mul(place[k], stride[k]), taps[k]), pads[k]) for k in (0, 1)]
        inside = sym.all_of(_inside(context, p, n) for p, n in zip(pixel, x.shape[2:], strict=True))
        return x.at((image, channel, *pixel)), inside

    return part


def poolavg(
    context: Context, xs: Sequence[Tensor], attrs: Attributes, shape: Index
) -> Callable[[Index], Value]:
    (x,) = xs
    high, wide = attrs["kernel"]

    def at(index: Index) -> Value:
        part = _window(context, x, attrs, index)

        def total(element: Callable[[Value], Value]) -> Value:
            def one(r: Int, s: Int) -> Value:
                v, inside = part(r, s)
                return context.guarded(element(v), inside)

            return context.total(high, lambda r: context.total(wide, lambda s: one(r, s)))

        padded = attrs["include_pad"]
        padded = context.known.facts.value(padded) if isinstance(padded, Opaque) else padded
        everything = el.integer(sym.mul(high, wide))
        if isinstance(padded, Opaque):
            padded = context.known.decide(Condition("same", (padded, True)))
        count = everything if padded else total(lambda _: el.number(1))
        return activation(context, attrs["act"], el.multiply(total(lambda v: v), el.inverse(count)))

    return at


def _largest(context: Context, extents: Sequence[Int], part: Callable[..., tuple[Value, sym.Bool]]) -> Value:
    indices = tuple(0 if context.known.plainly(n, 1) else context.index(n) for n in extents)
    over = tuple((a, n) for i, n in zip(indices, extents, strict=True) if (a := sym.only_atom(i)) is not None)
    v, inside = part(*indices)
    parts = inside.args if isinstance(inside, Condition) and inside.kind == "and" else (inside,)
    guards = frozenset(g for p in parts if isinstance(g := context.simpler(p), Condition))
    return largest(v, over, guards)


def poolmax(
    context: Context, xs: Sequence[Tensor], attrs: Attributes, shape: Index
) -> Callable[[Index], Value]:
    (x,) = xs

    def at(index: Index) -> Value:
        found = _largest(context, attrs["kernel"], _window(context, x, attrs, index))
        return activation(context, attrs["act"], found)

    return at


# ---- normalisation and reductions -------------------------------------------------------------------------


def _along(index: Index, axis: int, k: Int) -> Index:
    return (*index[:axis], k, *index[axis + 1 :])


def _sum(
    context: Context, x: Tensor, index: Index, axis: int, of: Callable[[Value], Value] = lambda v: v
) -> Value:
    return context.total(x.shape[axis], lambda k: of(x.at(_along(index, axis, k))))


def _mean(
    context: Context, x: Tensor, index: Index, axis: int, of: Callable[[Value], Value] = lambda v: v
) -> Value:
    return el.multiply(
        _sum(context, x, index, axis, of), el.inverse(el.integer(context.simple(x.shape[axis])))
    )


def reduce_sum(
    context: Context, xs: Sequence[Tensor], attrs: Attributes, shape: Index
) -> Callable[[Index], Value]:
    return lambda index: _sum(context, xs[0], index, attrs["axis"])


def reduce_mean(
    context: Context, xs: Sequence[Tensor], attrs: Attributes, shape: Index
) -> Callable[[Index], Value]:
    return lambda index: _mean(context, xs[0], index, attrs["axis"])


def reduce_max(
    context: Context, xs: Sequence[Tensor], attrs: Attributes, shape: Index
) -> Callable[[Index], Value]:
    x, axis = xs[0], attrs["axis"]
    return lambda index: _largest(context, [x.shape[axis]], lambda k: (x.at(_along(index, axis, k)), True))


def softmax(
    context: Context, xs: Sequence[Tensor], attrs: Attributes, shape: Index
) -> Callable[[Index], Value]:
    x, axis = xs[0], attrs["axis"]

    def exp(v: Value) -> Value:
        return context.apply("exp", v)

    return lambda index: context.quotient(exp(x.at(index)), _sum(context, x, index, axis, exp))


def _inverse_root(context: Context, v: Value, eps: Any) -> Value:
    return context.apply("rsqrt", el.add(v, context.real(eps)))


def batchnorm(
    context: Context, xs: Sequence[Tensor], attrs: Attributes, shape: Index
) -> Callable[[Index], Value]:
    x, *parameters = xs

    def at(index: Index) -> Value:
        scale, bias, mean, var = (p.at((index[1],)) for p in parameters)
        root = _inverse_root(context, var, attrs["eps"])
        return el.add(el.multiply(el.multiply(el.subtract(x.at(index), mean), root), scale), bias)

    return at


def layernorm(
    context: Context, xs: Sequence[Tensor], attrs: Attributes, shape: Index
) -> Callable[[Index], Value]:
    x, scale, bias = xs
    last = len(shape) - 1

    def at(index: Index) -> Value:
        mean = _mean(context, x, index, last)
        var = _mean(context, x, index, last, lambda v: el.power(el.subtract(v, mean), 2))
        centred = el.subtract(x.at(index), mean)
        root = _inverse_root(context, var, attrs["eps"])
        j = (index[-1],)
        return el.add(el.multiply(el.multiply(centred, root), scale.at(j)), bias.at(j))

    return at


def rmsnorm(
    context: Context, xs: Sequence[Tensor], attrs: Attributes, shape: Index
) -> Callable[[Index], Value]:
    x, scale = xs
    last = len(shape) - 1

    def at(index: Index) -> Value:
        square = _mean(context, x, index, last, lambda v: el.power(v, 2))
        root = _inverse_root(context, square, attrs["eps"])
        return el.multiply(el.multiply(x.at(index), root), scale.at((index[-1],)))

    return at


# ---- data movement ----------------------------------------------------------------------------------------


def transpose(
    context: Context, xs: Sequence[Tensor], attrs: Attributes, shape: Index
) -> Callable[[Index], Value]:
    perm = attrs["perm"]
    return lambda index: xs[0].at(tuple(sym.unselect(index, perm, axis) for axis in range(len(perm))))


def concat(
    context: Context, xs: Sequence[Tensor], attrs: Attributes, shape: Index
) -> Callable[[Index], Value]:
    axis = attrs["axis"]

    def at(index: Index) -> Value:
        start: Int = 0
        parts: list[Value] = []
        for x in xs:
            stop = sym.add(start, x.shape[axis])
            i = index[axis]
            inside = context.simpler(sym.all_of((sym.at_most(start, i), sym.at_most(sym.add(i, 1), stop))))
            if inside is not False:
                own = _along(index, axis, context.simple(sym.sub(i, start)))
                parts.append(context.guarded(x.at(own), inside))
            start = stop
        return el.add(*parts)

    return at


def slice_(
    context: Context, xs: Sequence[Tensor], attrs: Attributes, shape: Index
) -> Callable[[Index], Value]:
    axis = attrs["axis"]
    return lambda index: xs[0].at(_along(index, axis, sym.add(index[axis], attrs["start"])))


def expand(
    context: Context, xs: Sequence[Tensor], attrs: Attributes, shape: Index
) -> Callable[[Index], Value]:
    return lambda index: broadcast(context, xs[0], shape, index)


def pad(context: Context, xs: Sequence[Tensor], attrs: Attributes, shape: Index) -> Callable[[Index], Value]:
    (x,), before = xs, attrs["before"]
    if not _is(context, attrs["mode"], "constant"):
        edge = _is(context, attrs["mode"], "edge")

        def nearest(i: Int, n: Int) -> Int:
            last = sym.sub(n, 1)
            if edge:
                return sym.minimum(sym.maximum(i, 0), last)
            distance = sym.maximum(i, sym.neg(i))
            return sym.minimum(distance, sym.sub(sym.mul(2, last), distance))

        def mirrored(index: Index) -> Value:
            own = (sym.sub(i, b) for i, b in zip(index, before, strict=True))
            return x.at(
                tuple(
                    i if context.known.holds(_inside(context, i, n)) else nearest(i, n)
                    for i, n in zip(own, x.shape, strict=True)
                )
            )

        return mirrored
    value = context.real(attrs["value"])

    def at(index: Index) -> Value:
        own = tuple(sym.sub(i, b) for i, b in zip(index, before, strict=True))
        inside = sym.all_of(_inside(context, i, n) for i, n in zip(own, x.shape, strict=True))
        return el.add(value, context.guarded(el.subtract(x.at(own), value), inside))

    return at


def dilate(
    context: Context, xs: Sequence[Tensor], attrs: Attributes, shape: Index
) -> Callable[[Index], Value]:
    """Simpler than by its definition, where all elements stand in one row."""
    (x,) = xs
    value, axis = context.real(attrs["value"]), attrs["axis"]

    def at(index: Index) -> Value:
        own, between = context.divided(index[axis], sym.add(attrs["count"], 1))
        there = el.subtract(x.at(_along(index, axis, own)), value)
        return el.add(value, context.guarded(there, sym.equal(between, 0)))

    return at


def enlarge(
    context: Context, xs: Sequence[Tensor], attrs: Attributes, shape: Index
) -> Callable[[Index], Value]:
    (w,) = xs
    before = [sym.floordiv(sym.sub(k, n), 2) for k, n in zip(attrs["kernel"], w.shape[2:], strict=True)]

    def at(index: Index) -> Value:
        own = [sym.sub(i, b) for i, b in zip(index[2:], before, strict=True)]
        inside = sym.all_of(_inside(context, i, n) for i, n in zip(own, w.shape[2:], strict=True))
        return context.guarded(w.at((*index[:2], *own)), inside)

    return at


def merge(
    context: Context, xs: Sequence[Tensor], attrs: Attributes, shape: Index
) -> Callable[[Index], Value]:
    (w,) = xs
    size = context.simple(sym.floordiv(w.shape[0], attrs["groups"]))

    def at(index: Index) -> Value:
        o, c, *taps = index
        group, _ = context.divided(o, size)
        _, member = context.divided(group, attrs["count"])
        block, own = context.divided(c, w.shape[1])
        return context.guarded(w.at((o, own, *taps)), sym.equal(block, member))

    return at


def gather(
    context: Context, xs: Sequence[Tensor], attrs: Attributes, shape: Index
) -> Callable[[Index], Value]:
    (x, indices), axis = xs, attrs["axis"]
    last = axis + len(indices.shape)

    def at(index: Index) -> Value:
        row = as_integer(indices.at(index[axis:last]), context)
        if row is None:
            raise Inexpressible("an index of a look-up is no element of a tensor")
        if not context.known.holds(_inside(context, row, x.shape[axis])):
            row = sym.mod(row, x.shape[axis])
        return x.at((*index[:axis], row, *index[last:]))

    return at


def resize(
    context: Context, xs: Sequence[Tensor], attrs: Attributes, shape: Index
) -> Callable[[Index], Value]:
    """Means of old pixels, with weights that depend on the mode, the sizes and the places along each dimension, and
    that add up to 1."""
    (x,) = xs
    facts = context.known.facts
    mode = " ".join(str(facts.value(attrs[name])) for name in ("mode", "coordinates", "rounding"))

    def at(index: Index) -> Value:
        image, channel, *place = index
        first = x.at((image, channel, 0, 0))

        def share(k: int, old: Int) -> Value:
            return context.apply(
                f"weight {mode}", *map(el.integer, (place[k], old, shape[2 + k], x.shape[2 + k]))
            )

        def part(r: Int, s: Int) -> Value:
            difference = el.subtract(x.at((image, channel, r, s)), first)
            return el.multiply(el.multiply(share(0, r), share(1, s)), difference)

        high, wide = x.shape[2:]
        return el.add(first, context.total(high, lambda r: context.total(wide, lambda s: part(r, s))))

    return at


def fill(context: Context, xs: Sequence[Tensor], attrs: Attributes, shape: Index) -> Callable[[Index], Value]:
    value = context.real(attrs["value"])
    return lambda index: value


def iota(context: Context, xs: Sequence[Tensor], attrs: Attributes, shape: Index) -> Callable[[Index], Value]:
    return lambda index: el.integer(index[attrs["axis"]])


def eye(context: Context, xs: Sequence[Tensor], attrs: Attributes, shape: Index) -> Callable[[Index], Value]:
    return lambda index: context.guarded(el.number(1), sym.equal(index[0], index[1]))


def conv_identity(
    context: Context, xs: Sequence[Tensor], attrs: Attributes, shape: Index
) -> Callable[[Index], Value]:
    groups, kernel = attrs["groups"], attrs["kernel"]

    def at(index: Index) -> Value:
        o, c, *taps = index
        own = o if groups == 1 else context.divided(o, shape[1])[1]
        centre = [sym.floordiv(sym.sub(k, 1), 2) for k in kernel]
        there = [sym.equal(own, c), *(sym.equal(t, m) for t, m in zip(taps, centre, strict=True))]
        return context.guarded(el.number(1), sym.all_of(there))

    return at


def conv_average(
    context: Context, xs: Sequence[Tensor], attrs: Attributes, shape: Index
) -> Callable[[Index], Value]:
    share = el.inverse(el.integer(sym.mul(*attrs["kernel"])))
    return lambda index: share


MEANINGS: Mapping[str, Meaning] = {
    f.__name__.removesuffix("_"): f
    for f in (
        matmul, conv2d, poolavg, poolmax, reduce_sum, reduce_mean, reduce_max, softmax, batchnorm, layernorm,
        rmsnorm, transpose, concat, slice_, expand, pad, dilate, enlarge, merge, gather, resize, fill, iota, eye,
        conv_identity, conv_average,
    )
}  # fmt: skip


def reshape(context: Context, x: Tensor, shape: Index) -> Tensor:
    """The same elements in row-major order."""

    def flat(offset: Int) -> Value:
        return element_at(x, offset, context)

    return Tensor(shape, x.dtype, lambda index: flat(context.offset(index, shape)), flat)


def meaning(op: str, context: Context, xs: Sequence[Tensor], attrs: Attributes, infer: Inference) -> Tensor:
    """The result of an operator that is not understood by its definition. Raises `Inexpressible`, and `IllTyped` for
    operands that it does not take."""
    (t,) = infer(op, [SymType(x.dtype, x.shape) for x in xs], attrs).types
    shape = context.simple(t.shape)
    if op in POINTWISE:
        return pointwise(op, context, xs, attrs, shape, t.dtype)
    if op == "cast":
        return cast(context, xs[0], attrs["to"], shape)
    if op == "reshape":
        return reshape(context, xs[0], shape)
    if op not in MEANINGS:
        raise Inexpressible(f"`{op}` has no meaning by indices")
    return Tensor(shape, t.dtype, context.remembered(MEANINGS[op](context, xs, attrs, shape)))
