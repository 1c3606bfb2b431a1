"""Graphs in the machine arithmetic of their element types: floats round after each operator, integers wrap around."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tensat_dl.core.graph import FLOATS, INTEGERS, Graph, needed
from tensat_dl.ops.semantics import SEMANTICS, semantics_of
from tensat_dl.ops.semantics.arrays import Array, Semantics, wrapped
from tensat_dl.ops.semantics.elementwise import ACTIVATIONS, cast
from tensat_dl.ops.semantics.images import conv2d
from tensat_dl.ops.semantics.reductions import matmul
from tensat_dl.ops.table import OpTable
from tensat_dl.verify.execute import ExecutionError, surrogate

#: NumPy has no bf16: such numbers are rounded in float32.
_FLOATS = {"f16": np.float16, "bf16": np.float32, "f32": np.float32, "f64": np.float64}


def as_stored(x: Array, dtype: str) -> Array:
    """Numbers as an element type has them. Integers are in int64."""
    if dtype in INTEGERS:
        return wrapped(x, dtype)
    if dtype not in FLOATS:
        return x.astype(np.bool_)
    x = x.astype(_FLOATS[dtype])
    if dtype == "bf16":  # the first half of a float32, rounded to even; infinity and NaN have no other half
        bits = x.view(np.uint32)
        half = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
        return np.where(np.isfinite(x), half.astype(np.uint32).view(np.float32), x)
    return x


@dataclass(frozen=True, slots=True)
class MachineRun:
    """The outputs of a graph, whether an integer wrapped around, the largest magnitude of a finite float, and whether
    a float was infinite."""

    outputs: list[Array]
    wrapped: bool
    largest: float
    infinite: bool


class MachineArithmetic:
    """Runs graphs. Random functions stand in for operators that are not known."""

    def __init__(self, ops: OpTable) -> None:
        primitive = {name: _in_one_type(f) for name, f in {**SEMANTICS, **_IN_ORDER}.items()}
        self.ops = ops
        self._semantics = semantics_of(ops, primitive)

    def run(self, graph: Graph, values: Mapping[str, Array]) -> MachineRun:
        """Runs a graph. Sums are taken first to last: hardware adds in other orders, but in the same one for equal
        sums. Raises `ExecutionError`."""
        computed: dict[int, Array] = {}
        overflow = False
        for i in sorted(needed(graph.nodes, (i for _, i in graph.outputs))):
            node = graph.nodes[i]
            if node.op in ("input", "weight"):
                computed[i] = values[str(node.attr("name"))]
                continue
            operands, attrs, dtype = [computed[j] for j in node.inputs], dict(node.attrs), node.type.dtype
            act = str(attrs.get("act", "none"))
            if act != "none":  # what it is applied to is a number of the type
                attrs["act"] = "none"
            try:
                known = self._semantics.get(node.op)
                found = known(*operands, **attrs) if known else surrogate(node, operands)[0]
            except (ArithmeticError, LookupError, TypeError, ValueError) as error:
                raise ExecutionError(f"{node.op} cannot be computed: {error}") from error
            computed[i] = as_stored(found, dtype)
            if dtype in INTEGERS and node.op != "cast":
                overflow |= not np.array_equal(computed[i], found)
                overflow |= dtype == "i64" and known is not None and _is_beyond(known, operands, attrs)
            if act != "none":
                computed[i] = as_stored(ACTIVATIONS[act](computed[i]), dtype)
        floats = [x for x in computed.values() if x.dtype.kind == "f"]
        largest = max(map(_largest, floats), default=0.0)
        infinite = any(np.isinf(x).any() for x in floats)
        return MachineRun([computed[i] for _, i in graph.outputs], overflow, largest, infinite)


def _is_beyond(function: Semantics, operands: Sequence[Array], attrs: Mapping[str, Any]) -> bool:
    """Whether a result of i64 is beyond it, where NumPy's integers wrap around themselves: Python's do not. What does
    not take them, such as `gather`, computes nothing."""
    exact = (x.astype(object) if x.dtype.kind == "i" else x for x in operands)
    try:
        found = function(*exact, **attrs)
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return False
    least, most = INTEGERS["i64"]
    return bool(np.any((found < least) | (found > most)))


def _largest(x: Array) -> float:
    return float(np.max(np.abs(x), initial=0.0, where=np.isfinite(x)))


def _in_one_type(function: Semantics) -> Semantics:
    """Floats are computed in the narrowest type of the operands, constants too."""

    def apply(*arrays: Array, **attrs: Any) -> Array:
        floats = [x.dtype for x in arrays if x.dtype.kind == "f"]
        if not floats:
            return function(*arrays, **attrs)
        own = min(floats, key=lambda t: t.itemsize)
        out = function(*(x.astype(own) if x.dtype.kind == "f" else x for x in arrays), **attrs)
        return out.astype(own) if out.dtype.kind == "f" and "to" not in attrs else out

    return apply


def _in_order(x: Array, y: Array) -> Array:
    """The product of matrices."""
    total = np.zeros((*x.shape[:-1], y.shape[-1]), x.dtype)
    for k in range(x.shape[-1]):
        total = total + x[..., :, k : k + 1] * y[..., k : k + 1, :]
    return total


def _sum(x: Array, axis: int) -> Array:
    return np.take(np.add.accumulate(x, axis, dtype=x.dtype), [-1], axis)


def _cast(x: Array, to: str) -> Array:
    """Casts in a definition are to the types that stand for others in reference computations."""
    return as_stored(x if to in FLOATS else cast(x, to), to)


#: Products and sums whose terms are added first to last, and what rounds to other types.
_IN_ORDER: dict[str, Semantics] = {
    "matmul": partial(matmul, product=_in_order),
    "conv2d": partial(conv2d, product=_in_order),
    "reduce_sum": _sum,
    "cast": _cast,
}
