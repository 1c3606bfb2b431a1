"""What an implementation of an operator is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from tensat_dl.core.graph import TensorType
from tensat_dl.cost.signature import Signature

#: Computes an operator's result from its operands, which may be strided in any way.
Kernel = Callable[[Sequence[torch.Tensor]], torch.Tensor]
Kind = Literal["triton", "vendor", "view"]

#: Floats that Triton kernels compute with. They accumulate in f32.
TRITON_FLOATS = ("f32", "f16", "bf16")


class Unsupported(Exception):
    """No implementation computes this. The message says what, as in "poolavg of i32"."""


@dataclass(frozen=True)
class Implementation:
    """One way to compute an application.

    ``name`` tells it from the others of the same signature, as in ``triton 64x64x32``. ``tf32`` is set where products
    of f32 are rounded to ten bits on the way. ``build`` makes the kernel; results are contiguous, except for views.
    """

    name: str
    kind: Kind
    build: Callable[[], Kernel]
    tf32: bool = False


#: What a family file offers: by operator, the implementations of an application and, as torch computes it in the
#: element type of whatever it is given, its meaning.
Offers = Callable[[Signature], Iterable[Implementation]]
Meaning = Callable[[Sequence[torch.Tensor], Mapping[str, Any]], torch.Tensor]


@dataclass(frozen=True)
class Family:
    """The operators of one file."""

    meaning: Mapping[str, Meaning]
    triton: Mapping[str, Offers]
    vendor: Mapping[str, Offers]  #: where there is more than the meaning to call


def no_offers(_: Signature) -> Iterable[Implementation]:
    """For operators that have nothing but their meaning."""
    return ()


def computable(types: Iterable[TensorType]) -> bool:
    """Whether Triton kernels compute with all of these types."""
    return all(t.dtype in TRITON_FLOATS for t in types)
