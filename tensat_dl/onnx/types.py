"""Element types and tensor types on both sides."""

from __future__ import annotations

import onnx
import onnx_ir as ir

from tensat_dl.core.types import TensorType

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


def static_shape(proto: onnx.TypeProto) -> tuple[int, ...] | None:
    """The shape of a tensor, or None for anything else, and where a dimension is not known."""
    if proto.WhichOneof("value") != "tensor_type" or not proto.tensor_type.HasField("shape"):
        return None
    dims = proto.tensor_type.shape.dim
    return tuple(d.dim_value for d in dims) if all(d.HasField("dim_value") for d in dims) else None


def tensor_type(proto: onnx.TypeProto | None) -> TensorType | None:
    """A type in the language, or None if it has no such type."""
    shape = None if proto is None else static_shape(proto)
    if proto is None or shape is None or any(d <= 0 for d in shape):
        return None
    dtype = DTYPES.get(ir.DataType(proto.tensor_type.elem_type))
    return None if dtype is None else TensorType(dtype, shape)


def of_tensor(tensor: ir.TensorProtocol) -> onnx.TypeProto:
    """The type of a constant."""
    return onnx.helper.make_tensor_type_proto(int(tensor.dtype), shape_of(tensor))


def shape_of(tensor: ir.TensorProtocol) -> tuple[int, ...]:
    """The shape of a constant."""
    return tuple(d for d in tensor.shape if isinstance(d, int))
