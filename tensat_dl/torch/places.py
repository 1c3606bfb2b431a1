"""Where outputs lie in memory, as PyTorch has them: models give each tensor memory of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch


class OutputPlace(NamedTuple):
    """Where a tensor lies: its strides; and if it shares ``memory`` of ``size`` elements with others, where it begins
    there."""

    strides: tuple[int, ...]
    memory: object = None
    size: int = 0
    offset: int = 0


def places_of(outputs: Sequence[Any]) -> list[OutputPlace | None]:
    """Those of tensors; None for what is none."""
    shared = Counter((memory_of(x), x.dtype) for x in outputs if isinstance(x, torch.Tensor))
    return [
        None
        if not isinstance(x, torch.Tensor)
        else OutputPlace(
            x.stride(), key, x.untyped_storage().nbytes() // x.element_size(), x.storage_offset()
        )
        if shared[key := (memory_of(x), x.dtype)] > 1
        else OutputPlace(x.stride())
        for x in outputs
    ]


def sharing(outputs: Sequence[torch.Tensor]) -> list[int]:
    """For each output the first one that it shares memory with; itself, if it has memory of its own."""
    first: dict[int, int] = {}
    return [k if not x.numel() else first.setdefault(memory_of(x), k) for k, x in enumerate(outputs)]


def memory_of(x: torch.Tensor) -> int:
    """Where the memory begins that a tensor is in, perhaps with others."""
    return int(x.untyped_storage().data_ptr())


def placed(outputs: Sequence[Any], places: Sequence[OutputPlace | None]) -> list[Any]:
    """The same outputs, which lie so."""
    memories: dict[object, torch.Tensor] = {}
    found = []
    for x, place in zip(outputs, places, strict=True):
        if place is not None and (place.memory is not None or x.stride() != place.strides):
            once = tuple(slice(0, 1) if s == 0 else slice(None) for s in place.strides)  # what is expanded
            if place.memory is None:
                there = torch.empty_strided(x[once].shape, place.strides, dtype=x.dtype).expand(x.shape)
            else:
                memory = memories.setdefault(place.memory, torch.empty(place.size, dtype=x.dtype))
                there = memory.as_strided(x.shape, place.strides, place.offset)
            there[once].copy_(x[once])
            x = there
        found.append(x)
    return found
