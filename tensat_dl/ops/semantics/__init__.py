"""The reference semantics: what each operator of ``rules/ops.tsr`` computes, in NumPy.

``SEMANTICS`` maps an operator's name to a function of arrays, and of attributes by name, that computes in the element
type of the arrays it gets; constants (``fill``, ``eye``, ..), which get none, are float64 for float types and
int64 for integer types. Polynomial operators, comparisons and data movement also work, exactly, on int64
arrays and on object arrays of Python integers, fractions or elements of a field.

``input`` and ``weight`` have no semantics (their values are given), nor have compositions such as ``silu``
(they are what their definition says).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from tensat_dl.core.graph import TensorType
from tensat_dl.ops.compositions import compose
from tensat_dl.ops.semantics import elementwise, images, movement, reductions
from tensat_dl.ops.semantics.arrays import Array, Semantics, computed_in
from tensat_dl.ops.table import OpDecl, OpTable

__all__ = ["SEMANTICS", "Array", "Semantics", "computed_in", "semantics_of"]

SEMANTICS: Mapping[str, Semantics] = MappingProxyType(
    {
        **movement.CONSTANTS,
        **movement.MOVEMENTS,
        **elementwise.SEMANTICS,
        "matmul": reductions.matmul,
        "batchnorm": reductions.batchnorm,
        "layernorm": reductions.layernorm,
        "rmsnorm": reductions.rmsnorm,
        "softmax": reductions.softmax,
        "reduce_sum": reductions.reduce_sum,
        "reduce_mean": reductions.reduce_mean,
        "reduce_max": reductions.reduce_max,
        "conv2d": images.conv2d,
        "poolmax": images.poolmax,
        "poolavg": images.poolavg,
        "resize": images.resize,
    }
)


def semantics_of(ops: OpTable, primitive: Mapping[str, Semantics] = SEMANTICS) -> dict[str, Semantics]:
    """The semantics of each operator of a table: the reference semantics, or others of the ``primitive`` operators,
    and the expanded compositions.

    Opaque operators are not in it.
    """
    known: dict[str, Semantics] = dict(primitive)
    for decl in ops.values():
        if decl.composition is not None:
            known[decl.name] = _composed(decl, ops, known)
    return known


def _composed(decl: OpDecl, ops: OpTable, known: Mapping[str, Semantics]) -> Semantics:
    def apply(*arrays: Array, **attrs: Any) -> Array:
        return compose(
            decl,
            ops,
            arrays,
            attrs,
            lambda x: TensorType({"f": "f64", "b": "bool"}.get(x.dtype.kind, "i64"), x.shape),
            lambda x, like: np.asarray(x, like.dtype),
            lambda op, operands, values: known[op](*operands, **values),
            ops.steps["arrays"],
        )

    return apply
