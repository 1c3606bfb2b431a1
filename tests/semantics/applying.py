"""Applies operators as a typed graph would: defaults filled in, types checked against the operator table."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensat_dl import resources
from tensat_dl.core.graph import TensorType
from tensat_dl.lang.program import load_program
from tensat_dl.ops.attributes import defaults
from tensat_dl.ops.semantics import SEMANTICS
from tensat_dl.ops.typing import infer

TABLE = load_program(str(resources.rules() / "ops.tsr")).ops

_DTYPES = {np.dtype(np.float64): "f64", np.dtype(np.float32): "f32", np.dtype(np.int64): "i64"}


def type_of(array: np.ndarray[Any, Any]) -> TensorType:
    return TensorType(_DTYPES.get(array.dtype, "f64"), array.shape)


def apply(op: str, *arrays: np.ndarray[Any, Any], **attrs: Any) -> np.ndarray[Any, Any]:
    """The operator's value, whose shape is seen to be the one that the operator's declaration gives."""
    complete = {**defaults(TABLE[op]), **attrs}
    (declared,) = infer(TABLE, op, [type_of(a) for a in arrays], complete).concrete()
    before = [a.copy() for a in arrays]
    result = SEMANTICS[op](*arrays, **complete)
    assert isinstance(result, np.ndarray)
    assert result.shape == declared.shape
    for old, new in zip(before, arrays, strict=True):
        np.testing.assert_array_equal(old, new, err_msg=f"{op} changes its operand")
    return result
