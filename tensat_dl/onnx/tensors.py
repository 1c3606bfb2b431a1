"""Element types, tensor types and numbers on both sides."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from tensat_dl.core.graph import TensorType

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
