"""Element types, tensor types and numbers on both sides."""

from __future__ import annotations

from math import copysign, isfinite
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from tensat_dl.core.graph import Attrs, TensorType, leaf_attrs
from tensat_dl.ops.numbers import meant

#: The language's name of each element type of ONNX that it has.
DTYPES = {
    ir.DataType.FLOAT: "f32",
    ir.DataType.FLOAT16: "f16",
    ir.DataType.BFLOAT16: "bf16",
    ir.DataType.DOUBLE: "f64",
    ir.DataType.INT8: "i8",
    ir.DataType.INT16: "i16",
    ir.DataType.INT32: "i32",
    ir.DataType.INT64: "i64",
    ir.DataType.UINT8: "u8",
    ir.DataType.BOOL: "bool",
}
ONNX_DTYPES = {name: dtype for dtype, name in DTYPES.items()}

#: Stands for the type of a value that the language has no type for: strings, sequences, tensors of unknown shape or
#: without elements. Such a value goes from one opaque operator to the next, which is all that a graph has to know.
HANDLE = TensorType("u8", (1,))


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """The NumPy type in which elements of a type are stored."""
    return np.dtype(ONNX_DTYPES[dtype].numpy())


def static_shape(proto: onnx.TypeProto | None) -> tuple[int, ...] | None:
    """The shape of a tensor, or None for anything else, and where a dimension is not known."""
    if proto is None or proto.WhichOneof("value") != "tensor_type" or not proto.tensor_type.HasField("shape"):
        return None
    dims = proto.tensor_type.shape.dim
    return tuple(d.dim_value for d in dims) if all(d.HasField("dim_value") for d in dims) else None


def tensor_type(proto: onnx.TypeProto | None) -> TensorType | None:
    """A type in the language, or None if it has no such type."""
    shape = static_shape(proto)
    if proto is None or shape is None or any(d <= 0 for d in shape):
        return None
    dtype = DTYPES.get(ir.DataType(proto.tensor_type.elem_type))
    return None if dtype is None else TensorType(dtype, shape)


def shape_of(tensor: ir.TensorProtocol) -> tuple[int, ...]:
    """The shape of a constant."""
    return tuple(d for d in tensor.shape if isinstance(d, int))


def constant(name: str, tensor: ir.TensorProtocol, type: TensorType) -> tuple[str, Attrs]:
    """The operator and the attributes of a constant: a number, places, or a weight."""
    return _number(tensor) or _places(tensor) or ("weight", leaf_attrs(name, type))


def _number(tensor: ir.TensorProtocol) -> tuple[str, Attrs] | None:
    """A constant with one element is a number, if a float is one that is stored as this element."""
    dtype = DTYPES.get(tensor.dtype)
    if tensor.size != 1 or dtype is None:
        return None
    element = tensor.numpy().reshape(-1)[0]
    value = meant(element)
    if not isfinite(value) or np.array(value).astype(element.dtype) != element:
        return None
    if value == 0 and copysign(1, value) < 0:
        return None
    return "fill", (("value", value), ("dtype", dtype), ("shape", shape_of(tensor)))


def _places(tensor: ir.TensorProtocol) -> tuple[str, Attrs] | None:
    """The integers 0, 1, .., n - 1 along one dimension are places."""
    dtype, shape = DTYPES.get(tensor.dtype), shape_of(tensor)
    if dtype not in ("i32", "i64") or sum(d != 1 for d in shape) != 1 or not tensor.size:
        return None
    if not np.array_equal(tensor.numpy().reshape(-1), np.arange(tensor.size)):
        return None
    axis = next(i for i, d in enumerate(shape) if d != 1)
    return "iota", (("shape", shape), ("axis", axis), ("dtype", dtype))
