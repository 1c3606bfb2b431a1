"""Tensor types: an element type and a static shape."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

#: Element types in a fixed order: the position is the code that stands first in an encoded type.
DTYPES = ("f32", "f16", "bf16", "f64", "i8", "i16", "i32", "i64", "u8", "bool")
#: The element types of floating-point numbers.
FLOATS = ("f32", "f16", "bf16", "f64")
ITEMSIZE = {
    "f32": 4,
    "f16": 2,
    "bf16": 2,
    "f64": 8,
    "i8": 1,
    "i16": 2,
    "i32": 4,
    "i64": 8,
    "u8": 1,
    "bool": 1,
}


#: The least and the greatest element of integer types.
INTEGERS = {
    "i8": (-(2**7), 2**7 - 1),
    "i16": (-(2**15), 2**15 - 1),
    "i32": (-(2**31), 2**31 - 1),
    "i64": (-(2**63), 2**63 - 1),
    "u8": (0, 2**8 - 1),
}


@dataclass(frozen=True, slots=True)
class TensorType:
    """The type of one tensor, such as ``f32[64, 1024]``."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * ITEMSIZE[self.dtype]

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"
