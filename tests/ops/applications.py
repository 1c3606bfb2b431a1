"""Random applications of every operator of the table: most are well-typed, some are nearly so."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from tensat_dl import resources
from tensat_dl.core.graph import DTYPES, TensorType
from tensat_dl.lang.program import load_program
from tensat_dl.ops.attributes import defaults
from tensat_dl.ops.semantics.elementwise import FUNCTIONS
from tensat_dl.ops.table import AttrDecl

TABLE = load_program(str(resources.rules() / "ops.tsr")).ops

ACTS = ("none", "relu", "sigmoid", "tanh", "gelu")
Rng = random.Random
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Application:
    """One operator on concrete types, every attribute given."""

    op: str
    inputs: tuple[TensorType, ...]
    attrs: Mapping[str, Any]


def application(op: str, rng: Rng, spoil: float = 0.0) -> Application:
    """An application that is well-typed, unless with probability ``spoil`` something about it is changed."""
    shapes, attrs = _WELL_TYPED[op](rng)
    dtype = rng.choice(("f32", "f32", "f16", "f64"))
    inputs = [TensorType(t, s) for t, s in zip(element_types(op, dtype, len(shapes)), shapes, strict=True)]
    complete = {**defaults(TABLE[op]), **attrs}
    if rng.random() < spoil:
        for _ in range(rng.choice((1, 1, 2))):
            _spoil(op, inputs, complete, rng)
    return Application(op, tuple(inputs), complete)


def element_types(op: str, dtype: str, count: int) -> list[str]:
    """Of ``count`` operands, where those that are numbers have ``dtype``."""
    own = {"select": ["bool", dtype, dtype], "gather": [dtype, "i64"], "one_hot": ["i32"]}
    own |= {"dynamic_slice": [dtype, "i64"], "dynamic_update_slice": [dtype, dtype, "i64"]}
    return own.get(op, ["bool" if op.startswith("logical_") else dtype] * count)


def _spoil(op: str, inputs: list[TensorType], attrs: dict[str, Any], rng: Rng) -> None:
    i = rng.randrange(len(inputs)) if inputs else -1
    how = rng.choice(("dim", "dim", "rank", "dtype", "attr", "attr", "attr"))
    if how == "attr" and attrs:
        name = rng.choice(sorted(attrs))
        a = TABLE[op].attr(name)
        assert a is not None
        attrs[name] = _other(a, attrs[name], rng)
    elif i >= 0:
        shape = list(inputs[i].shape)
        dtype = inputs[i].dtype
        if how == "dim" and shape:
            shape[rng.randrange(len(shape))] = rng.randint(1, 5)
        elif how == "rank":
            shape = shape[1:] if shape and rng.random() < 0.5 else [rng.randint(1, 3), *shape]
        elif how == "dtype":
            dtype = rng.choice(DTYPES)
        inputs[i] = TensorType(dtype, tuple(shape))


def _other(a: AttrDecl, value: Any, rng: Rng) -> Any:
    if isinstance(value, tuple):
        items = list(value)
        if a.length is None and rng.random() < 0.3:
            return (*items, rng.randint(0, 3)) if rng.random() < 0.5 else tuple(items[1:])
        if items:
            items[rng.randrange(len(items))] = rng.randint(-1, 5)
        return tuple(items)
    if isinstance(value, bool):
        return not value
    match a.type:
        case "int" | "axis":
            return rng.randint(-1, 5)
        case "float":
            return rng.choice((0.0, 1.0, 2.0, 2.7, -1.5))
        case "dtype":
            return rng.choice(DTYPES)
        case "choice":
            return rng.choice(a.choices)
    return value


# ---- well-typed ones -------------------------------------------------------------------------------------


def _shape(rng: Rng, low: int = 0, high: int = 5) -> Shape:
    return tuple(rng.randint(1, 4) for _ in range(rng.randint(low, high)))


def _unary(rng: Rng) -> tuple[list[Shape], dict[str, Any]]:
    return [_shape(rng)], {}


def _binary(rng: Rng) -> tuple[list[Shape], dict[str, Any]]:
    """Two shapes that broadcast: both are parts of one, some dimensions 1."""
    whole = _shape(rng)
    shapes = [
        tuple(d if rng.random() < 0.7 else 1 for d in whole[rng.randint(0, len(whole)) :]) for _ in range(2)
    ]
    return shapes, {}


def _axis(rng: Rng) -> tuple[list[Shape], dict[str, Any]]:
    shape = _shape(rng, 1)
    return [shape], {"axis": rng.randrange(len(shape))}


def _matmul(rng: Rng) -> tuple[list[Shape], dict[str, Any]]:
    batch, (m, k, n) = _shape(rng, 0, 3), (rng.randint(1, 4) for _ in range(3))
    bias = [(n,)] if rng.random() < 0.5 else []
    return [(*batch, m, k), (*batch, k, n), *bias], {"act": rng.choice(ACTS)}


def _windows(rng: Rng, count: int) -> list[int]:
    return [rng.randint(1, 3) for _ in range(count)]


def _conv2d(rng: Rng) -> tuple[list[Shape], dict[str, Any]]:
    groups, per_group, out = rng.choice((1, 1, 2, 3)), rng.randint(1, 3), rng.randint(1, 3)
    kernel, stride, dilation = _windows(rng, 2), _windows(rng, 2), _windows(rng, 2)
    pads = [rng.randint(0, 2) for _ in range(4)]
    span = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    size = [max(1, s - pads[i] - pads[i + 2] + rng.randint(0, 4)) for i, s in enumerate(span)]
    x = (rng.randint(1, 2), groups * per_group, *size)
    w = (groups * out, per_group, *kernel)
    bias = [(w[0],)] if rng.random() < 0.5 else []
    attrs = {"stride": tuple(stride), "dilation": tuple(dilation), "pads": tuple(pads)}
    return [x, w, *bias], {**attrs, "act": rng.choice(ACTS)}


def _pool(rng: Rng) -> tuple[list[Shape], dict[str, Any]]:
    kernel, stride = _windows(rng, 2), _windows(rng, 2)
    pads = [rng.randrange(kernel[i % 2]) for i in range(4)]
    size = [max(1, k - pads[i] - pads[i + 2] + rng.randint(0, 4)) for i, k in enumerate(kernel)]
    attrs = {"kernel": tuple(kernel), "stride": tuple(stride), "pads": tuple(pads)}
    return [(1, rng.randint(1, 3), *size)], {**attrs, "act": rng.choice(ACTS[:4])}


def _poolavg(rng: Rng) -> tuple[list[Shape], dict[str, Any]]:
    shapes, attrs = _pool(rng)
    return shapes, {**attrs, "include_pad": rng.random() < 0.5}


def _batchnorm(rng: Rng) -> tuple[list[Shape], dict[str, Any]]:
    x = _shape(rng, 2)
    return [x, *[(x[1],)] * 4], {}


def _layernorm(rng: Rng) -> tuple[list[Shape], dict[str, Any]]:
    x = _shape(rng, 1)
    return [x, (x[-1],), (x[-1],)], {}


def _rmsnorm(rng: Rng) -> tuple[list[Shape], dict[str, Any]]:
    x = _shape(rng, 1)
    return [x, (x[-1],)], {}


def _transpose(rng: Rng) -> tuple[list[Shape], dict[str, Any]]:
    shape = _shape(rng)
    perm = list(range(len(shape)))
    rng.shuffle(perm)
    return [shape], {"perm": tuple(perm)}


def _reshape(rng: Rng) -> tuple[list[Shape], dict[str, Any]]:
    shape = _shape(rng)
    rest, new = prod(shape), []
    while rest > 1 and len(new) < 4:
        new.append(rng.choice([d for d in range(1, rest + 1) if rest % d == 0]))
        rest //= new[-1]
    return [shape], {"shape": (*new, rest) if rest > 1 or rng.random() < 0.5 else tuple(new)}


def _concat(rng: Rng) -> tuple[list[Shape], dict[str, Any]]:
    shape = _shape(rng, 1)
    axis = rng.randrange(len(shape))
    parts = [(*shape[:axis], rng.randint(1, 4), *shape[axis + 1 :]) for _ in range(rng.randint(1, 4))]
    return parts, {"axis": axis}


def _slice(rng: Rng) -> tuple[list[Shape], dict[str, Any]]:
    shape = _shape(rng, 1)
    axis = rng.randrange(len(shape))
    start = rng.randrange(shape[axis])
    return [shape], {"axis": axis, "start": start, "stop": rng.randint(start + 1, shape[axis])}


def _dilate(rng: Rng) -> tuple[list[Shape], dict[str, Any]]:
    shapes, attrs = _axis(rng)
    return shapes, {**attrs, "count": rng.randint(0, 2), "value": rng.choice((0.0, 3.0))}


def _dynamic_slice(rng: Rng) -> tuple[list[Shape], dict[str, Any]]:
    (x,), attrs = _axis(rng)
    return [x, ()], {**attrs, "size": rng.randint(1, x[attrs["axis"]])}


def _dynamic_update_slice(rng: Rng) -> tuple[list[Shape], dict[str, Any]]:
    (x, start), attrs = _dynamic_slice(rng)
    axis = attrs["axis"]
    return [x, (*x[:axis], attrs["size"], *x[axis + 1 :]), start], {"axis": axis}


def _enlarge(rng: Rng) -> tuple[list[Shape], dict[str, Any]]:
    w = _shape(rng, 4, 4)
    return [w], {"kernel": tuple(d + rng.randint(0, 2) for d in w[2:])}


def _power(rng: Rng) -> tuple[list[Shape], dict[str, Any]]:
    return [_shape(rng)], {"exponent": rng.choice((0.0, 1.0, 2.0, 3.0, 5.0))}


def _select(rng: Rng) -> tuple[list[Shape], dict[str, Any]]:
    (x, y), _ = _binary(rng)
    return [x if rng.random() < 0.5 else y[:0], x, y], {}


def _norm(rng: Rng) -> tuple[list[Shape], dict[str, Any]]:
    x = _shape(rng, 3)
    return [x, (x[1],), (x[1],)], {}


def _expand(rng: Rng) -> tuple[list[Shape], dict[str, Any]]:
    (x, y), _ = _binary(rng)
    broadcast = tuple(max(pair) for pair in zip(x, y[len(y) - len(x) :], strict=len(y) >= len(x)))
    return [x], {"shape": (*y[: len(y) - len(x)], *broadcast) if len(y) >= len(x) else x}


def _pad(rng: Rng) -> tuple[list[Shape], dict[str, Any]]:
    x, mode = _shape(rng), rng.choice(("constant", "reflect", "edge"))
    most = [d - 1 if mode == "reflect" else 2 for d in x]
    before, after = (tuple(rng.randint(0, m) for m in most) for _ in range(2))
    return [x], {"before": before, "after": after, "mode": mode, "value": rng.choice((0.0, 3.0))}


def _gather(rng: Rng) -> tuple[list[Shape], dict[str, Any]]:
    (x,), attrs = _axis(rng)
    return [x, _shape(rng, 0, 2)], attrs


def _resize(rng: Rng) -> tuple[list[Shape], dict[str, Any]]:
    attrs: dict[str, Any] = {"size": tuple(rng.randint(1, 7) for _ in range(2))}
    return [_shape(rng, 4, 4)], {
        **attrs,
        "mode": rng.choice(("nearest", "linear")),
        "coordinates": rng.choice(("half_pixel", "asymmetric", "align_corners")),
        "rounding": rng.choice(("half_down", "half_up", "down", "up")),
    }


def _blocks(rng: Rng) -> tuple[list[Shape], dict[str, Any]]:
    n, c, h, w = _shape(rng, 4, 4)
    return [(n, 4 * c, 2 * h, 2 * w)], {"block": rng.randint(1, 2)}


def _upconv(rng: Rng) -> tuple[list[Shape], dict[str, Any]]:
    n, c, h, w = _shape(rng, 4, 4)
    out, block = rng.randint(1, 3), rng.randint(1, 3)
    return [(n, c, h, w), (c, out, block, block), (out,)], {}


def _merge(rng: Rng) -> tuple[list[Shape], dict[str, Any]]:
    count, groups = rng.randint(1, 3), rng.randint(1, 3)
    w = (count * groups * rng.randint(1, 2), *_shape(rng, 3, 3))
    return [w], {"groups": count * groups, "count": count}


def _conv_identity(rng: Rng) -> tuple[list[Shape], dict[str, Any]]:
    groups = rng.randint(1, 3)
    channels = groups * rng.randint(1, 3)
    return [], {"channels": channels, "groups": groups, "kernel": tuple(_windows(rng, 2)), "dtype": "f32"}


_Draw = Callable[[Rng], tuple[list[Shape], dict[str, Any]]]
_WELL_TYPED: dict[str, _Draw] = {
    "input": lambda rng: ([], {"name": "x", "dtype": rng.choice(DTYPES), "shape": _shape(rng)}),
    "weight": lambda rng: ([], {"name": "w", "dtype": rng.choice(DTYPES), "shape": _shape(rng)}),
    "fill": lambda rng: ([], {"value": rng.choice((2.0, 2.7)), "dtype": "f32", "shape": _shape(rng)}),
    "iota": lambda rng: ([], {"shape": (2, 3, 1), "axis": rng.randint(0, 2), "dtype": "i32"}),
    "eye": lambda rng: ([], {"n": rng.randint(1, 4), "dtype": "f32"}),
    "conv_identity": _conv_identity,
    "conv_average": lambda rng: (
        [],
        {"channels": rng.randint(1, 4), "kernel": tuple(_windows(rng, 2)), "dtype": "f32"},
    ),
    **dict.fromkeys(
        ("ewadd", "ewsub", "ewmul", "ewdiv", "ewmax", "ewmin", "prelu", "equal", "greater"), _binary
    ),
    **dict.fromkeys(("not_equal", "greater_equal", "logical_and", "logical_or", "mod"), _binary),
    "smul": lambda rng: ([_shape(rng), ()], {}),
    **dict.fromkeys((*FUNCTIONS, "silu", "dropout", "neg", "abs", "leakyrelu", "elu", "logical_not"), _unary),
    **dict.fromkeys(("hardsigmoid", "hardswish", "softplus", "softsign", "mish", "gelu_tanh"), _unary),
    "clip": lambda rng: ([_shape(rng)], {"low": -1.0, "high": rng.choice((1.0, 6.0, -2.0))}),
    "power": _power,
    "select": _select,
    "one_hot": lambda rng: ([_shape(rng)], {"n": rng.randint(1, 4), "to": rng.choice(("f32", "i64"))}),
    "cast": lambda rng: ([_shape(rng)], {"to": rng.choice(("f64", "i64", "bool"))}),
    "instancenorm": _norm,
    "expand": _expand,
    "pad": _pad,
    "gather": _gather,
    "resize": _resize,
    "upsample": lambda rng: ([_shape(rng, 4, 4)], {"factor": tuple(_windows(rng, 2))}),
    **dict.fromkeys(("depth_to_space", "pixel_shuffle", "space_to_depth"), _blocks),
    "upconv": _upconv,
    "matmul": _matmul,
    "conv2d": _conv2d,
    "poolmax": _pool,
    "poolavg": _poolavg,
    "batchnorm": _batchnorm,
    "layernorm": _layernorm,
    "rmsnorm": _rmsnorm,
    **dict.fromkeys(("softmax", "reduce_sum", "reduce_mean", "reduce_max"), _axis),
    "transpose": _transpose,
    "reshape": _reshape,
    "concat": _concat,
    "slice": _slice,
    "dilate": _dilate,
    "reverse": _axis,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "enlarge": _enlarge,
    "merge": _merge,
}
