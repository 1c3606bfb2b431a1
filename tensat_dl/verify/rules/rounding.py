"""Whether both sides of a rule round alike: run in float32, their elements are equal."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from tensat_dl.core.graph import FLOATS
from tensat_dl.ops.semantics.arrays import Array, Semantics
from tensat_dl.ops.semantics.elementwise import cast
from tensat_dl.ops.semantics.images import conv2d
from tensat_dl.ops.semantics.reductions import matmul
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
            left, right = (
                [_rounded(out) for out in execute(g, values, single)]
                for g in (instance.before, instance.after)
            )
    except ExecutionError:
        return None
    return all(np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in zip(left, right, strict=True))


def _rounded(out: Array) -> Array:
    return out.astype(np.float32) if out.dtype == np.float64 else out


def _single(function: Semantics) -> Semantics:
    """Every result in float32, constants too."""

    def apply(*arrays: Array, **attrs: Any) -> Array:
        return _rounded(function(*arrays, **attrs))

    return apply


def _in_order(x: Array, y: Array) -> Array:
    """The product of matrices."""
    total = np.zeros((*x.shape[:-1], y.shape[-1]), x.dtype)
    for k in range(x.shape[-1]):
        total = total + x[..., :, k : k + 1] * y[..., k : k + 1, :]
    return total


def _sum(x: Array, axis: int) -> Array:
    return np.take(np.add.accumulate(x, axis), [-1], axis)


def _cast(x: Array, to: str) -> Array:
    return _as(cast(x, to), to)


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
_IN_ORDER: dict[str, Semantics] = {
    "matmul": partial(matmul, product=_in_order),
    "conv2d": partial(conv2d, product=_in_order),
    "reduce_sum": _sum,
    "cast": _cast,
}
