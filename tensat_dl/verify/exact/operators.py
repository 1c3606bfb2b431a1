"""The operators of ``rules/ops.tsr`` in exact arithmetic, by the definitions of `tensat_dl.ops.semantics`; and graphs
of them.

Softmax and the normalisations are defined by exp, rsqrt and divisions. ``sqrt`` is 1 / rsqrt(x), so that
normalisations need no division. ``sigmoid`` is 1 / (1 + exp(-x)) where an arithmetic asks for that. The other
elementwise functions stand for themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from math import prod
from typing import Any, TypeAlias

import numpy as np

from tensat_dl.core.graph import FLOATS, AttrValue, Graph, Node, TensorType
from tensat_dl.ops.compositions import compose
from tensat_dl.ops.semantics import images, movement
from tensat_dl.ops.semantics.arrays import Semantics, computed_in
from tensat_dl.ops.semantics.elementwise import FUNCTIONS
from tensat_dl.ops.table import OpTable
from tensat_dl.verify.exact.arithmetic import Arithmetic, OutOfReach
from tensat_dl.verify.exact.constants import meant
from tensat_dl.verify.execute import V, outputs

#: The value of one application, from the arithmetic, the operands in order, and the attributes by name.
ExactSemantics: TypeAlias = Callable[..., V]


def activation(name: str, a: Arithmetic[V], x: V) -> V:
    """``relu``, ``sigmoid``, .. of x; also the value of an attribute ``act``."""
    if name == "none":
        return x
    if name == "sigmoid" and not a.keeps_sigmoid:
        one = _one(a)
        powers = a.function("exp", a.subtract(a.whole(np.asarray(0)), x))
        return a.divide(one, a.add(one, powers))
    if name == "sqrt":
        return a.divide(_one(a), a.function("rsqrt", x))
    return a.function(name, x)


def _movement(function: Semantics, a: Arithmetic[V], *xs: V, **attrs: Any) -> V:
    return a.move(lambda arrays: function(*arrays, **attrs), xs)


def _one(a: Arithmetic[V]) -> V:
    return a.whole(np.asarray(1))


# ---- elementwise ------------------------------------------------------------------------------------------

#: Up to which whole exponent a power is a product.
LARGEST_PRODUCT = 16


def ewmax(a: Arithmetic[V], *xs: V) -> V:
    both = a.move(lambda arrays: np.stack(np.broadcast_arrays(*arrays)), xs)
    return a.largest(lambda x: np.asarray(np.sum(x, 0)), lambda x: np.asarray(np.max(x, 0)), 2, both)


def ewmin(a: Arithmetic[V], *xs: V) -> V:
    return _negative(a, ewmax(a, *(_negative(a, x) for x in xs)))


def equal(a: Arithmetic[V], x: V, y: V) -> V:
    """Whether (x - y)^2 is zero: the square is the same for both orders of the operands."""
    difference = a.subtract(x, y)
    return a.function("is zero", a.multiply(difference, difference))


def power(a: Arithmetic[V], x: V, exponent: float) -> V:
    """Whole exponents are products, halves are square roots."""
    exact = meant(exponent)
    if abs(exact) == Fraction(1, 2):
        return activation("sqrt" if exact > 0 else "rsqrt", a, x)
    if exact.denominator != 1 or abs(exact) > LARGEST_PRODUCT:
        return a.function(f"power {exact}", x)
    out = a.constant(Fraction(1), x.shape, False)
    for _ in range(abs(int(exact))):
        out = a.multiply(out, x)
    return out if exact >= 0 else a.divide(_one(a), out)


def _negative(a: Arithmetic[V], x: V) -> V:
    return a.subtract(a.whole(np.asarray(0), x), x)


# ---- constants --------------------------------------------------------------------------------------------


def fill(a: Arithmetic[V], *, value: float, dtype: str, shape: tuple[int, ...]) -> V:
    return a.constant(meant(value), shape, _is_whole(dtype))


def conv_average(a: Arithmetic[V], *, channels: int, kernel: tuple[int, ...], dtype: str) -> V:
    return a.constant(Fraction(1, prod(kernel)), (channels, 1, *kernel), False)


def _whole_numbers(function: Semantics, a: Arithmetic[V], *, dtype: str, **attrs: Any) -> V:
    """A constant of whole numbers, which the reference gives as floats where the type says so."""
    return a.whole(function(dtype="i64", **attrs), a.constant(Fraction(0), (), _is_whole(dtype)))


def _is_whole(dtype: str) -> bool:
    return computed_in(dtype) is not np.float64


# ---- products and pooling ---------------------------------------------------------------------------------


def matmul(a: Arithmetic[V], x: V, y: V, *bias: V, act: str) -> V:
    return _finished(a, a.products(np.matmul, x.shape[-1], x, y), bias, act)


def conv2d(
    a: Arithmetic[V],
    x: V,
    weight: V,
    *bias: V,
    stride: Sequence[int],
    pads: Sequence[int],
    dilation: Sequence[int],
    act: str,
) -> V:
    padded = a.move(lambda arrays: images.pad_spatial(arrays[0], pads), [x])
    out = a.products(
        lambda u, v: images.correlate(u, v, stride, dilation), prod(weight.shape[1:]), padded, weight
    )
    return _finished(a, out, [_reshaped(a, vector, (-1, 1, 1)) for vector in bias], act)


def _finished(a: Arithmetic[V], out: V, bias: Sequence[V], act: str) -> V:
    for vector in bias:
        out = a.add(out, vector)
    return activation(act, a, out)


def poolavg(a: Arithmetic[V], x: V, *, include_pad: bool, act: str, **window: Sequence[int]) -> V:
    total = a.sums(lambda array: images.window_sums(array, **window), prod(window["kernel"]), x)
    # how many elements a window has does not depend on their values
    counts = images.window_counts(x.shape, include_pad, **window)
    return activation(act, a, a.divide(total, a.whole(counts, x)))


def poolmax(a: Arithmetic[V], x: V, *, act: str, **window: Sequence[int]) -> V:
    out = a.largest(
        lambda array: images.window_sums(array, **window),
        lambda array: images.poolmax(array, act="none", **window),
        prod(window["kernel"]),
        x,
    )
    return activation(act, a, out)


# ---- normalisation and reductions -------------------------------------------------------------------------


def batchnorm(a: Arithmetic[V], x: V, *parameters: V, eps: float) -> V:
    per_channel = (-1, *(1,) * (len(x.shape) - 2))
    scale, bias, mean, var = (_reshaped(a, p, per_channel) for p in parameters)
    root = _inverse_root(a, var, eps)
    return a.add(a.multiply(a.multiply(a.subtract(x, mean), root), scale), bias)


def layernorm(a: Arithmetic[V], x: V, scale: V, bias: V, eps: float) -> V:
    centred = a.subtract(x, reduce_mean(a, x, -1))
    root = _inverse_root(a, reduce_mean(a, a.multiply(centred, centred), -1), eps)
    return a.add(a.multiply(a.multiply(centred, root), scale), bias)


def rmsnorm(a: Arithmetic[V], x: V, scale: V, eps: float) -> V:
    root = _inverse_root(a, reduce_mean(a, a.multiply(x, x), -1), eps)
    return a.multiply(a.multiply(x, root), scale)


def softmax(a: Arithmetic[V], x: V, axis: int) -> V:
    powers = a.function("exp", x)
    return a.divide(powers, reduce_sum(a, powers, axis))


def reduce_sum(a: Arithmetic[V], x: V, axis: int) -> V:
    return a.sums(lambda array: np.asarray(np.sum(array, axis=axis, keepdims=True)), x.shape[axis], x)


def reduce_mean(a: Arithmetic[V], x: V, axis: int) -> V:
    return a.divide(reduce_sum(a, x, axis), a.whole(np.asarray(x.shape[axis]), x))


def reduce_max(a: Arithmetic[V], x: V, axis: int) -> V:
    return a.largest(
        lambda array: np.asarray(np.sum(array, axis=axis, keepdims=True)),
        lambda array: np.asarray(np.max(array, axis=axis, keepdims=True)),
        x.shape[axis],
        x,
    )


# ---- data movement ----------------------------------------------------------------------------------------


def pad(a: Arithmetic[V], x: V, *, value: float, **how: Any) -> V:
    out = _movement(movement.pad, a, x, value=0, **how)  # 0.0 would be a float among exact numbers
    if how["mode"] != "constant" or value == 0:
        return out
    inside = movement.pad(np.ones(x.shape, np.int64), value=0, **how)
    outside = a.whole(1 - inside, x)
    exact = meant(value)
    whole = exact.denominator == 1
    around = a.whole(np.asarray(int(exact)), x) if whole else a.constant(exact, (), False)
    return a.add(out, a.multiply(around, outside))


def resize(a: Arithmetic[V], x: V, *, size: Sequence[int], **how: str) -> V:
    for axis, new in zip((2, 3), size, strict=True):
        made_of = images.sources(x.shape[axis], new, **how)
        low, high = _taken(a, x, made_of.low, axis), _taken(a, x, made_of.high, axis)
        if any(made_of.share):
            share = a.divide(
                a.whole(images.along(np.array([s.numerator for s in made_of.share]), axis)),
                a.whole(images.along(np.array([s.denominator for s in made_of.share]), axis)),
            )
            low = a.add(low, a.multiply(share, a.subtract(high, low)))
        x = low
    return x


def _taken(a: Arithmetic[V], x: V, places: tuple[int, ...], axis: int) -> V:
    return a.move(lambda arrays: np.take(arrays[0], places, axis), [x])


def _inverse_root(a: Arithmetic[V], x: V, eps: float) -> V:
    """1 / sqrt(x + eps)."""
    return a.function("rsqrt", a.add(x, a.constant(meant(eps), (), False)))


def _reshaped(a: Arithmetic[V], x: V, shape: tuple[int, ...]) -> V:
    return a.move(lambda arrays: arrays[0].reshape(shape), [x])


#: By operator, for every arithmetic. What an operator table has beyond these is a leaf, a composition or opaque.
EXACT_SEMANTICS: Mapping[str, ExactSemantics[Any]] = {
    "fill": fill,
    **{f.__name__: partial(_whole_numbers, f) for f in (movement.iota, movement.eye, movement.conv_identity)},
    "conv_average": conv_average,
    "ewadd": lambda a, x, y: a.add(x, y),
    "ewsub": lambda a, x, y: a.subtract(x, y),
    "ewmul": lambda a, x, y: a.multiply(x, y),
    "ewdiv": lambda a, x, y: a.divide(x, y),
    "smul": lambda a, x, y: a.multiply(x, y),
    "ewmax": ewmax,
    "ewmin": ewmin,
    "power": power,
    "equal": equal,
    "greater": lambda a, x, y: a.function("is positive", a.subtract(x, y)),
    "select": lambda a, c, x, y: a.choose(c, x, y),
    "cast": lambda a, x, to: a.typed(x, to),
    **{name: partial(activation, name) for name in FUNCTIONS},
    "matmul": matmul,
    "conv2d": conv2d,
    "poolavg": poolavg,
    "poolmax": poolmax,
    "batchnorm": batchnorm,
    "layernorm": layernorm,
    "rmsnorm": rmsnorm,
    "softmax": softmax,
    "reduce_sum": reduce_sum,
    "reduce_mean": reduce_mean,
    "reduce_max": reduce_max,
    **{name: partial(_movement, function) for name, function in movement.MOVEMENTS.items()},
    "pad": pad,
    "gather": lambda a, x, places, axis: a.pick(partial(movement.gather, axis=axis), x, places),
    "resize": resize,
}


# ---- graphs -----------------------------------------------------------------------------------------------


def evaluate(graph: Graph, values: Mapping[str, V], a: Arithmetic[V], ops: OpTable) -> list[V]:
    """The outputs of a graph, in order. ``values`` holds the inputs and weights by name.

    Raises `OutOfReach` where the arithmetic lacks what an operator does, `ZeroDivisionError` where a divisor is zero
    for these values, and `ExecutionError` where a value has another shape than the graph declares.
    """

    def apply(node: Node, operands: Sequence[V]) -> tuple[V, ...]:
        if node.op not in ops or ops[node.op].opaque:
            return a.opaque(node, operands)
        return (applied(node.op, operands, dict(node.attrs), a, ops),)

    return outputs(graph, values, apply)


def applied(
    op: str,
    operands: Sequence[V],
    attrs: Mapping[str, AttrValue],
    a: Arithmetic[V],
    ops: OpTable,
) -> V:
    if ops[op].composition is not None:
        return compose(
            ops[op],
            ops,
            operands,
            attrs,
            lambda x: TensorType(a.dtype(x), x.shape),
            lambda value, like: a.constant(meant(value), (), a.dtype(like) not in FLOATS),
            lambda inner, xs, values: applied(inner, xs, values, a, ops),
            ops.steps[type(a).__name__],
        )
    function: ExactSemantics[V] | None = EXACT_SEMANTICS.get(op)
    if function is None:
        raise OutOfReach(f"{op} has no exact semantics")
    try:
        return function(a, *operands, **attrs)
    except ValueError as error:
        raise OutOfReach(f"{op}: {error}") from error
