"""Whether both sides of a rule round alike: run in float32, their elements are equal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tensat_dl.core.graph import Graph
from tensat_dl.core.types import FLOATS
from tensat_dl.ops.semantics.elementwise import ACTIVATIONS, cast
from tensat_dl.ops.semantics.products import pad_spatial
from tensat_dl.ops.semantics.types import Array, Attributes, Semantics, integers, text
from tensat_dl.verify.exact.draws import leaves
from tensat_dl.verify.execute import ExecutionError, execute
from tensat_dl.verify.rules.instance import Instance
from tensat_dl.verify.weights import draw_values


def rounds_alike(instance: Instance, semantics: Mapping[str, Semantics], seed: int) -> bool | None:
    """Whether the outputs are equal to the last bit in float32; None where nothing rounds or nothing can be run.

    Sums are taken first to last: hardware adds in other orders, but in the same one for equal sums.
    """
    if not any(n.types[0].dtype in FLOATS for n in (*instance.before.nodes, *instance.after.nodes)):
        return None
    single = {name: _single(f) for name, f in ({**semantics, **_IN_ORDER}).items()}
    types = leaves((instance.before, instance.after))
    values = {
        name: _as(v, types[name].dtype)
        for name, v in draw_values((instance.before, instance.after), seed, {}).items()
    }
    try:
        with np.errstate(all="ignore"):
            left, right = (_run(g, values, single) for g in (instance.before, instance.after))
    except ExecutionError:
        return None
    return all(np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in zip(left, right, strict=True))


def _run(graph: Graph, values: Mapping[str, Array], semantics: Mapping[str, Semantics]) -> list[Array]:
    return [_rounded(out) for out in execute(graph, values, semantics)]


def _rounded(out: Array) -> Array:
    return out.astype(np.float32) if out.dtype == np.float64 else out


def _single(function: Semantics) -> Semantics:
    """Every result in float32, constants too."""

    def apply(arrays: Sequence[Array], attrs: Attributes) -> Array:
        return _rounded(function(arrays, attrs))

    return apply


def _matmul(arrays: Sequence[Array], attrs: Attributes) -> Array:
    x, y, *bias = arrays
    total = np.zeros((*x.shape[:-1], y.shape[-1]), x.dtype)
    for k in range(x.shape[-1]):
        total = total + x[..., :, k : k + 1] * y[..., k : k + 1, :]
    return _finish(total, bias, attrs)


def _conv2d(arrays: Sequence[Array], attrs: Attributes) -> Array:
    x, weight, *bias = arrays
    (sh, sw), (dh, dw) = integers(attrs, "stride"), integers(attrs, "dilation")
    x = pad_spatial(x, integers(attrs, "pads"))
    (n, c, h, w), (o, per_group, kh, kw) = x.shape, weight.shape
    groups = c // per_group
    oh, ow = (h - (kh - 1) * dh - 1) // sh + 1, (w - (kw - 1) * dw - 1) // sw + 1
    images = x.reshape(n, groups, 1, per_group, h, w)
    kernel = weight.reshape(groups, o // groups, per_group, kh, kw, 1, 1)
    total = np.zeros((n, groups, o // groups, oh, ow), x.dtype)
    for k, i, j in np.ndindex(per_group, kh, kw):
        rows = slice(i * dh, i * dh + (oh - 1) * sh + 1, sh)
        columns = slice(j * dw, j * dw + (ow - 1) * sw + 1, sw)
        total = total + images[:, :, :, k, rows, columns] * kernel[:, :, k, i, j]
    return _finish(total.reshape(n, o, oh, ow), [b[:, None, None] for b in bias], attrs)


def _finish(total: Array, bias: Sequence[Array], attrs: Attributes) -> Array:
    for b in bias:
        total = total + b
    return ACTIVATIONS[text(attrs, "act")](total)


def _sum(arrays: Sequence[Array], attrs: Attributes) -> Array:
    (x,) = arrays
    axis = attrs["axis"]
    assert isinstance(axis, int)
    parts = np.split(x, x.shape[axis], axis)
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _cast(arrays: Sequence[Array], attrs: Attributes) -> Array:
    return _as(cast(arrays, attrs), text(attrs, "to"))


def _as(x: Array, dtype: str) -> Array:
    """Floats as their type has them, in float32."""
    if dtype not in FLOATS:
        return x
    x = x.astype(np.float32)
    if dtype == "f16":
        return x.astype(np.float16).astype(np.float32)
    if dtype == "bf16":  # the first half of a float32, rounded to even
        bits = x.view(np.uint32)
        half = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
        return half.astype(np.uint32).view(np.float32)
    return x


#: Products and sums whose terms are added first to last, and what rounds to other types.
_IN_ORDER: dict[str, Semantics] = {"matmul": _matmul, "conv2d": _conv2d, "reduce_sum": _sum, "cast": _cast}
