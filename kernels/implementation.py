"""The types of implementations of operators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from tensat_dl.core.graph import TensorType
from tensat_dl.cost.signature import Signature

#: Computes an operator's result from its operands, which may have any strides.
Kernel = Callable[[Sequence[torch.Tensor]], torch.Tensor]
Kind = Literal["triton", "vendor", "view"]

#: Floats that Triton kernels compute with. They accumulate in f32.
TRITON_FLOATS = ("f32", "f16", "bf16")


class Unsupported(Exception):
    """An application has no implementation. The message names it, as in "poolavg of i32"."""


@dataclass(frozen=True)
class Implementation:
    """One way to compute an application.

    ``name`` is unique among the implementations of a signature, as in ``triton 64x64x32``. ``tf32`` is set if the
    kernel rounds operands of products from f32 to ten bits of mantissa. ``build`` makes the kernel; results are
    contiguous, except for views.
    """

    name: str
    kind: Kind
    build: Callable[[], Kernel]
    tf32: bool = False


#: ``Offers`` lists implementations of an application. ``Meaning`` computes an operator by torch, in the element type
#: of its operands.
Offers = Callable[[Signature], Iterable[Implementation]]
Meaning = Callable[[Sequence[torch.Tensor], Mapping[str, Any]], torch.Tensor]


@dataclass(frozen=True)
class Family:
    """The operators of one file."""

    meaning: Mapping[str, Meaning]
    triton: Mapping[str, Offers]
    vendor: Mapping[str, Offers]  #: calls of libraries; without any, the meaning is called


def no_offers(_: Signature) -> Iterable[Implementation]:
    """No implementations: the meaning of the operator suffices."""
    return ()


def computable(types: Iterable[TensorType]) -> bool:
    """Whether Triton kernels compute with all of these types."""
    return all(t.dtype in TRITON_FLOATS for t in types)
