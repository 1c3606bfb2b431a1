"""What operators compute, element by element: the index functions of ``rules/ops.tsr``.

``MEANINGS`` has a function for each operator that is neither a leaf nor understood by its definition: from operands
as functions of indices, attributes and the result's shape to the result as a function of indices. What is here is
compared with the operators' executable semantics in the tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from tensat_dl.core.graph import INTEGERS
from tensat_dl.ops import symbolic as sym
from tensat_dl.ops.symbolic import Condition, Int, Opaque
from tensat_dl.ops.typing import Inference
from tensat_dl.ops.values import SymType
from tensat_dl.verify.symbolic import elements as el
from tensat_dl.verify.symbolic.context import Context, Index, Tensor
from tensat_dl.verify.symbolic.division import divided
from tensat_dl.verify.symbolic.functions import largest
from tensat_dl.verify.symbolic.movement import (
    along,
    concat,
    conv_average,
    conv_identity,
    dilate,
    enlarge,
    expand,
    eye,
    fill,
    gather,
    iota,
    merge,
    pad,
    reshape,
    resize,
    slice_,
    transpose,
    within,
)
from tensat_dl.verify.symbolic.normal_form import Value
from tensat_dl.verify.symbolic.pointwise import POINTWISE as POINTWISE
from tensat_dl.verify.symbolic.pointwise import Attributes, Element, cast, is_type, pointwise
from tensat_dl.verify.symbolic.unproved import Inexpressible

#: From the context, operands, attributes and the result's shape: the element at an index.
Meaning = Callable[[Context, Sequence[Tensor], Attributes, Index], Callable[[Index], Value]]

# ---- products, pooling ------------------------------------------------------------------------------------


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
            group, _ = divided(context, o, size)
            first = sym.mul(group, w.shape[1])

        def part(c: Int, *taps: Int) -> Value:
            pixel = [
                sym.sub(sym.add(sym.mul(place[k], stride[k]), sym.mul(taps[k], dilation[k])), pads[k])
                for k in (0, 1)
            ]
            inside = sym.all_of(within(context, p, n) for p, n in zip(pixel, x.shape[2:], strict=True))
            read = image, sym.add(first, c), *pixel
            return context.inside(inside, lambda: el.multiply(x.at(read), w.at((o, c, *taps))), fills=True)

        total = context.total(
            w.shape[1],
            lambda c: context.total(w.shape[2], lambda r: context.total(w.shape[3], lambda s: part(c, r, s))),
        )
        return activation(context, attrs["act"], el.add(total, *(b.at((o,)) for b in bias)))

    return at


def _window(
    context: Context, x: Tensor, attrs: Attributes, index: Index
) -> Callable[[Int, Int], tuple[Element, sym.Bool]]:
    """An element of a window, and whether there is one."""
    image, channel, *place = index
    stride, pads = attrs["stride"], attrs["pads"]

    def part(*taps: Int) -> tuple[Element, sym.Bool]:
        pixel = [sym.sub(sym.add(sym.mul(place[k], stride[k]), taps[k]), pads[k]) for k in (0, 1)]
        inside = sym.all_of(within(context, p, n) for p, n in zip(pixel, x.shape[2:], strict=True))
        return partial(x.at, (image, channel, *pixel)), inside

    return part


def poolavg(
    context: Context, xs: Sequence[Tensor], attrs: Attributes, shape: Index
) -> Callable[[Index], Value]:
    (x,) = xs
    high, wide = attrs["kernel"]

    def at(index: Index) -> Value:
        part = _window(context, x, attrs, index)

        def total(of: Callable[[Element], Value]) -> Value:
            def one(r: Int, s: Int) -> Value:
                element, inside = part(r, s)
                return context.inside(inside, lambda: of(element), fills=True)

            return context.total(high, lambda r: context.total(wide, lambda s: one(r, s)))

        padded = attrs["include_pad"]
        padded = context.known.facts.value(padded) if isinstance(padded, Opaque) else padded
        everything = el.integer(sym.mul(high, wide))
        if isinstance(padded, Opaque):
            padded = context.known.decide(Condition("same", (padded, True)))
        count = everything if padded else total(lambda _: el.number(1))
        return activation(
            context, attrs["act"], _quotient(context, attrs, total(lambda element: element()), count)
        )

    return at


def _largest(
    context: Context, extents: Sequence[Int], part: Callable[..., tuple[Element, sym.Bool]]
) -> Value:
    indices = tuple(0 if context.known.plainly(n, 1) else context.index(n) for n in extents)
    over = tuple((a, n) for i, n in zip(indices, extents, strict=True) if (a := sym.only_atom(i)) is not None)
    element, inside = part(*indices)
    parts = inside.args if isinstance(inside, Condition) and inside.kind == "and" else (inside,)
    guards = frozenset(g for p in parts if isinstance(g := context.simpler(p), Condition))
    with context.under(guards, fills=True):
        return largest(element(), over, guards)


def poolmax(
    context: Context, xs: Sequence[Tensor], attrs: Attributes, shape: Index
) -> Callable[[Index], Value]:
    (x,) = xs

    def at(index: Index) -> Value:
        found = _largest(context, attrs["kernel"], _window(context, x, attrs, index))
        return activation(context, attrs["act"], found)

    return at


# ---- normalisation and reductions -------------------------------------------------------------------------


def _sum(
    context: Context, x: Tensor, index: Index, axis: int, of: Callable[[Value], Value] = lambda v: v
) -> Value:
    return context.total(x.shape[axis], lambda k: of(x.at(along(index, axis, k))))


def _mean(
    context: Context, x: Tensor, index: Index, axis: int, of: Callable[[Value], Value] = lambda v: v
) -> Value:
    return el.multiply(
        _sum(context, x, index, axis, of), el.inverse(el.integer(context.simple(x.shape[axis])))
    )


def _quotient(context: Context, attrs: Attributes, total: Value, count: Value) -> Value:
    """A mean, given how many numbers it is of: at least one."""
    return (
        context.apply("quotient", total, count) if attrs["rounded"] else el.multiply(total, el.inverse(count))
    )


def reduce_sum(
    context: Context, xs: Sequence[Tensor], attrs: Attributes, shape: Index
) -> Callable[[Index], Value]:
    return lambda index: _sum(context, xs[0], index, attrs["axis"])


def reduce_mean(
    context: Context, xs: Sequence[Tensor], attrs: Attributes, shape: Index
) -> Callable[[Index], Value]:
    x, axis = xs[0], attrs["axis"]
    size = el.integer(context.simple(x.shape[axis]))
    return lambda index: _quotient(context, attrs, _sum(context, x, index, axis), size)


def reduce_max(
    context: Context, xs: Sequence[Tensor], attrs: Attributes, shape: Index
) -> Callable[[Index], Value]:
    x, axis = xs[0], attrs["axis"]
    return lambda index: _largest(
        context, [x.shape[axis]], lambda k: (partial(x.at, along(index, axis, k)), True)
    )


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


#: Operators that divide, and round if they divide integers.
ROUNDED = frozenset(("ewdiv", "reduce_mean", "poolavg"))
MEANINGS: Mapping[str, Meaning] = {
    f.__name__.removesuffix("_"): f
    for f in (
        matmul, conv2d, poolavg, poolmax, reduce_sum, reduce_mean, reduce_max, softmax, batchnorm, layernorm,
        rmsnorm, transpose, concat, slice_, expand, pad, dilate, enlarge, merge, gather, resize, fill, iota, eye,
        conv_identity, conv_average,
    )
}  # fmt: skip


#: Operators that may make numbers of infinite operands.
BOUNDING = frozenset((
    "relu", "tanh", "sigmoid", "exp", "rsqrt", "erf", "gelu", "power", "ewmax", "ewmin", "reduce_max", "poolmax",
    "softmax", "rmsnorm",
))  # fmt: skip
#: Operators that do so of their last operand alone.
BOUNDING_LAST = frozenset(("ewdiv", "batchnorm"))


def _bounded(op: str, context: Context, xs: Sequence[Tensor], attrs: Attributes) -> Sequence[Tensor]:
    """The operands of an operator, noted as what it may make numbers of where they are infinite."""
    first = 0 if op in BOUNDING or attrs.get("act", "none") != "none" else len(xs)
    if op in BOUNDING_LAST:
        first = len(xs) - 1
    applied = op, tuple(map(id, xs)), repr(sorted(attrs.items()))
    return [x if k < first else context.bounded((k, *applied), x) for k, x in enumerate(xs)]


def meaning(op: str, context: Context, xs: Sequence[Tensor], attrs: Attributes, infer: Inference) -> Tensor:
    """The result of an operator that is not understood by its definition. Raises `Inexpressible`, and `IllTyped` for
    operands that it does not take."""
    (t,) = infer(op, [SymType(x.dtype, x.shape) for x in xs], attrs).types
    shape = context.simple(t.shape)
    xs = _bounded(op, context, xs, attrs)
    if op in ROUNDED:
        attrs = {**attrs, "rounded": is_type(context, t.dtype, *INTEGERS)}
    if op in POINTWISE:
        return pointwise(op, context, xs, attrs, shape, t.dtype)
    if op == "cast":
        return cast(context, xs[0], attrs["to"], shape)
    if op == "reshape":
        return reshape(context, xs[0], shape)
    if op not in MEANINGS:
        raise Inexpressible(f"`{op}` has no meaning by indices")
    if not isinstance(attrs.get("axis", 0), int):
        raise Inexpressible(f"the axis of `{op}` stays unknown")
    return Tensor(shape, t.dtype, context.remembered(MEANINGS[op](context, xs, attrs, shape)))
