"""The operators of ``rules/ops.tsr`` in exact arithmetic: the same definitions as in `tensat_dl.ops.semantics`.

Softmax and the normalisations are what they are defined as, by exp, rsqrt and divisions. ``sqrt`` is 1 / rsqrt(x),
so that normalisations need no division. ``sigmoid`` is 1 / (1 + exp(-x)) where an arithmetic asks for that. The other
elementwise functions stand for themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np

from tensat_dl.ops.semantics import leaves, movement, pooling, products, resizing
from tensat_dl.ops.semantics.elementwise import FUNCTIONS
from tensat_dl.ops.semantics.types import Attributes, computed_in, integer, integers, number, text
from tensat_dl.verify.exact.arithmetic import Arithmetic, V
from tensat_dl.verify.exact.constants import meant

#: An operator's value from its operands and attributes.
ExactSemantics = Callable[[Arithmetic[V], Sequence[V], Attributes], V]


def activation(a: Arithmetic[V], name: str, x: V) -> V:
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


def _one(a: Arithmetic[V]) -> V:
    return a.whole(np.asarray(1))


def _unary(name: str) -> ExactSemantics[V]:
    return lambda a, xs, _: activation(a, name, xs[0])


def _moving(name: str) -> ExactSemantics[V]:
    function = movement.SEMANTICS[name]
    return lambda a, xs, attrs: a.move(lambda arrays: function(arrays, attrs), xs)


# ---- elementwise ------------------------------------------------------------------------------------------

#: Up to which whole exponent a power is a product.
LARGEST_PRODUCT = 16


def ewmax(a: Arithmetic[V], xs: Sequence[V], _: Attributes) -> V:
    both = a.move(lambda arrays: np.stack(np.broadcast_arrays(*arrays)), xs)
    return a.largest(lambda x: np.asarray(np.sum(x, 0)), lambda x: np.asarray(np.max(x, 0)), 2, both)


def ewmin(a: Arithmetic[V], xs: Sequence[V], attrs: Attributes) -> V:
    return _negative(a, ewmax(a, [_negative(a, x) for x in xs], attrs))


def power(a: Arithmetic[V], xs: Sequence[V], attrs: Attributes) -> V:
    """Whole exponents are products, halves are square roots."""
    (x,), exponent = xs, meant(number(attrs, "exponent"))
    if abs(exponent) == Fraction(1, 2):
        return activation(a, "sqrt" if exponent > 0 else "rsqrt", x)
    if exponent.denominator != 1 or abs(exponent) > LARGEST_PRODUCT:
        return a.function(f"power {exponent}", x)
    out = a.constant(Fraction(1), a.shape(x), False)
    for _ in range(abs(int(exponent))):
        out = a.multiply(out, x)
    return out if exponent >= 0 else a.divide(_one(a), out)


def equal(a: Arithmetic[V], xs: Sequence[V], _: Attributes) -> V:
    return a.function("is zero", a.subtract(xs[0], xs[1]))


def greater(a: Arithmetic[V], xs: Sequence[V], _: Attributes) -> V:
    return a.function("is positive", a.subtract(xs[0], xs[1]))


def select(a: Arithmetic[V], xs: Sequence[V], _: Attributes) -> V:
    """y + c (x - y), which is right for any c that is 0 or 1. What is not equal for others need not differ."""
    c, x, y = xs
    a.stand_ins.add("select")
    return a.add(y, a.multiply(c, a.subtract(x, y)))


def _negative(a: Arithmetic[V], x: V) -> V:
    return a.subtract(a.whole(np.asarray(0), x), x)


# ---- constants --------------------------------------------------------------------------------------------


def fill(a: Arithmetic[V], _: Sequence[V], attrs: Attributes) -> V:
    whole = computed_in(text(attrs, "dtype")) is not np.float64
    return a.constant(meant(number(attrs, "value")), integers(attrs, "shape"), whole)


def iota(a: Arithmetic[V], _: Sequence[V], attrs: Attributes) -> V:
    return _typed(a, leaves.iota((), {**attrs, "dtype": "i64"}), attrs)


def eye(a: Arithmetic[V], _: Sequence[V], attrs: Attributes) -> V:
    # the reference gives floats where the type says so
    return _typed(a, leaves.eye((), {**attrs, "dtype": "i64"}), attrs)


def conv_identity(a: Arithmetic[V], _: Sequence[V], attrs: Attributes) -> V:
    return _typed(a, leaves.conv_identity((), {**attrs, "dtype": "i64"}), attrs)


def conv_average(a: Arithmetic[V], _: Sequence[V], attrs: Attributes) -> V:
    kernel = integers(attrs, "kernel")
    return a.constant(Fraction(1, prod(kernel)), (integer(attrs, "channels"), 1, *kernel), False)


def _typed(a: Arithmetic[V], array: np.ndarray[tuple[int, ...], np.dtype[np.int64]], attrs: Attributes) -> V:
    """Whole numbers as a tensor of the type that the attributes name."""
    whole = computed_in(text(attrs, "dtype")) is not np.float64
    return a.whole(array, a.constant(Fraction(0), (), whole))


# ---- products and pooling ---------------------------------------------------------------------------------


def matmul(a: Arithmetic[V], xs: Sequence[V], attrs: Attributes) -> V:
    x, y, *bias = xs
    out = a.products(np.matmul, a.shape(x)[-1], x, y)
    for vector in bias:
        out = a.add(out, vector)
    return activation(a, text(attrs, "act"), out)


def conv2d(a: Arithmetic[V], xs: Sequence[V], attrs: Attributes) -> V:
    x, weight, *bias = xs
    stride, dilation, pads = (integers(attrs, name) for name in ("stride", "dilation", "pads"))
    padded = a.move(lambda arrays: products.pad_spatial(arrays[0], pads), [x])
    out = a.products(
        lambda u, v: products.correlate(u, v, stride, dilation), prod(a.shape(weight)[1:]), padded, weight
    )
    for vector in bias:
        out = a.add(out, _reshaped(a, vector, (-1, 1, 1)))
    return activation(a, text(attrs, "act"), out)


def poolavg(a: Arithmetic[V], xs: Sequence[V], attrs: Attributes) -> V:
    (x,) = xs
    kernel = prod(integers(attrs, "kernel"))
    total = a.sums(lambda array: pooling.window_sums(array, attrs), kernel, x)
    # how many elements a window has does not depend on their values
    counts = pooling.window_counts(np.zeros(a.shape(x), np.int8), attrs)
    return activation(a, text(attrs, "act"), a.divide(total, a.whole(counts, x)))


def poolmax(a: Arithmetic[V], xs: Sequence[V], attrs: Attributes) -> V:
    out = a.largest(
        lambda array: pooling.window_sums(array, attrs),
        lambda array: pooling.poolmax([array], {**attrs, "act": "none"}),
        prod(integers(attrs, "kernel")),
        xs[0],
    )
    return activation(a, text(attrs, "act"), out)


# ---- normalisation and reductions -------------------------------------------------------------------------


def batchnorm(a: Arithmetic[V], xs: Sequence[V], attrs: Attributes) -> V:
    x, *parameters = xs
    per_channel = (-1, *(1,) * (len(a.shape(x)) - 2))
    scale, bias, mean, var = (_reshaped(a, p, per_channel) for p in parameters)
    root = _inverse_root(a, var, attrs)
    return a.add(a.multiply(a.multiply(a.subtract(x, mean), root), scale), bias)


def layernorm(a: Arithmetic[V], xs: Sequence[V], attrs: Attributes) -> V:
    x, scale, bias = xs
    centred = a.subtract(x, _mean(a, x, -1))
    root = _inverse_root(a, _mean(a, a.multiply(centred, centred), -1), attrs)
    return a.add(a.multiply(a.multiply(centred, root), scale), bias)


def rmsnorm(a: Arithmetic[V], xs: Sequence[V], attrs: Attributes) -> V:
    x, scale = xs
    root = _inverse_root(a, _mean(a, a.multiply(x, x), -1), attrs)
    return a.multiply(a.multiply(x, root), scale)


def softmax(a: Arithmetic[V], xs: Sequence[V], attrs: Attributes) -> V:
    powers = a.function("exp", xs[0])
    return a.divide(powers, _total(a, powers, integer(attrs, "axis")))


def reduce_sum(a: Arithmetic[V], xs: Sequence[V], attrs: Attributes) -> V:
    return _total(a, xs[0], integer(attrs, "axis"))


def reduce_mean(a: Arithmetic[V], xs: Sequence[V], attrs: Attributes) -> V:
    return _mean(a, xs[0], integer(attrs, "axis"))


def reduce_max(a: Arithmetic[V], xs: Sequence[V], attrs: Attributes) -> V:
    axis = integer(attrs, "axis")
    return a.largest(
        lambda array: np.asarray(np.sum(array, axis=axis, keepdims=True)),
        lambda array: np.asarray(np.max(array, axis=axis, keepdims=True)),
        a.shape(xs[0])[axis],
        xs[0],
    )


# ---- data movement ----------------------------------------------------------------------------------------


def pad(a: Arithmetic[V], xs: Sequence[V], attrs: Attributes) -> V:
    zeros = {**attrs, "value": 0.0}
    out = a.move(lambda arrays: movement.pad(arrays, zeros), xs)
    value = number(attrs, "value")
    if text(attrs, "mode") != "constant" or value == 0:
        return out
    inside = movement.pad([np.ones(a.shape(xs[0]), np.int64)], zeros)
    outside = a.whole(1 - inside, xs[0])
    exact = meant(value)
    if exact.denominator == 1:
        return a.add(out, a.multiply(a.whole(np.asarray(int(exact)), xs[0]), outside))
    return a.add(out, a.multiply(a.constant(exact, (), False), outside))


def gather(a: Arithmetic[V], xs: Sequence[V], attrs: Attributes) -> V:
    return a.pick(lambda x, places: movement.gather([x, places], attrs), xs[0], xs[1])


def resize(a: Arithmetic[V], xs: Sequence[V], attrs: Attributes) -> V:
    (x,) = xs
    for axis, new in zip((2, 3), integers(attrs, "size"), strict=True):
        made_of = resizing.sources(a.shape(x)[axis], new, attrs)
        low, high = _taken(a, x, made_of.low, axis), _taken(a, x, made_of.high, axis)
        if any(made_of.share):
            share = a.divide(
                a.whole(resizing.along(np.array([s.numerator for s in made_of.share]), axis)),
                a.whole(resizing.along(np.array([s.denominator for s in made_of.share]), axis)),
            )
            low = a.add(low, a.multiply(share, a.subtract(high, low)))
        x = low
    return x


def _taken(a: Arithmetic[V], x: V, places: tuple[int, ...], axis: int) -> V:
    return a.move(lambda arrays: np.take(arrays[0], places, axis), [x])


def _total(a: Arithmetic[V], x: V, axis: int) -> V:
    return a.sums(lambda array: np.asarray(np.sum(array, axis=axis, keepdims=True)), a.shape(x)[axis], x)


def _mean(a: Arithmetic[V], x: V, axis: int) -> V:
    return a.divide(_total(a, x, axis), a.whole(np.asarray(a.shape(x)[axis]), x))


def _inverse_root(a: Arithmetic[V], x: V, attrs: Attributes) -> V:
    """1 / sqrt(x + eps)."""
    return a.function("rsqrt", a.add(x, a.constant(meant(number(attrs, "eps")), (), False)))


def _reshaped(a: Arithmetic[V], x: V, shape: tuple[int, ...]) -> V:
    return a.move(lambda arrays: arrays[0].reshape(shape), [x])


#: By operator, for every arithmetic. What an operator table has beyond these is a leaf, a composition or opaque.
EXACT_SEMANTICS: Mapping[str, ExactSemantics[Any]] = {
    "fill": fill,
    "iota": iota,
    "eye": eye,
    "conv_identity": conv_identity,
    "conv_average": conv_average,
    "ewadd": lambda a, xs, _: a.add(xs[0], xs[1]),
    "ewsub": lambda a, xs, _: a.subtract(xs[0], xs[1]),
    "ewmul": lambda a, xs, _: a.multiply(xs[0], xs[1]),
    "ewdiv": lambda a, xs, _: a.divide(xs[0], xs[1]),
    "smul": lambda a, xs, _: a.multiply(xs[0], xs[1]),
    "ewmax": ewmax,
    "ewmin": ewmin,
    "power": power,
    "equal": equal,
    "greater": greater,
    "select": select,
    "cast": lambda a, xs, attrs: a.typed(xs[0], text(attrs, "to")),
    **{f: _unary(f) for f in FUNCTIONS},
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
    **{name: _moving(name) for name in movement.SEMANTICS},
    "pad": pad,
    "gather": gather,
    "resize": resize,
}
