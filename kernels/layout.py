"""Walking strided tensors with as few dimensions as their strides allow."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch

Shape = tuple[int, ...]


def broadcast_strides(x: torch.Tensor, shape: Sequence[int]) -> Shape:
    """The strides of x broadcast to a shape: 0 along repeated dimensions."""
    return tuple(x.expand(tuple(shape)).stride())


def collapse(shape: Sequence[int], strides: Sequence[Sequence[int]]) -> tuple[Shape, tuple[Shape, ...]]:
    """A shape and strides with as few dimensions as possible, for the same elements in the same order.

    Dimensions of size 1 are dropped. Neighbouring dimensions are joined if one stride covers both in every tensor. At
    least one dimension is left.
    """
    dims = [(n, [s[i] for s in strides]) for i, n in enumerate(shape) if n != 1]
    out: list[tuple[int, list[int]]] = []
    for n, steps in dims:
        if out and all(outer == inner * n for outer, inner in zip(out[-1][1], steps, strict=True)):
            out[-1] = (out[-1][0] * n, steps)
        else:
            out.append((n, steps))
    out = out or [(1, [0] * len(strides))]
    return tuple(n for n, _ in out), tuple(tuple(s[k] for _, s in out) for k in range(len(strides)))


def wide(sizes: Sequence[int], strides: Sequence[Sequence[int]], beyond: int) -> bool:
    """Whether 32 bits are too few for the numbers of elements, as many as ``beyond`` after the last one included, or
    for the offsets of tensors with these strides. GPUs divide numbers of 64 bits by a routine of some hundred
    instructions."""
    ends = (sum((n - 1) * s for n, s in zip(sizes, own, strict=True)) for own in strides)
    return max(prod(sizes) + beyond, *ends) >= 2**31


def coordinates(index: str, sizes: Sequence[str], prefix: str, indent: str = "    ") -> str:
    """Source lines that split a row-major index into ``<prefix>0``, ``<prefix>1``, .., one for each dimension."""
    lines = []
    rest = index
    for i in range(len(sizes) - 1, 0, -1):
        lines.append(f"{indent}{prefix}{i} = {rest} % {sizes[i]}\n")
        lines.append(f"{indent}{prefix}r{i} = {rest} // {sizes[i]}\n")
        rest = f"{prefix}r{i}"
    lines.append(f"{indent}{prefix}0 = {rest}\n")
    return "".join(lines)


def offset(prefix: str, strides: Sequence[str]) -> str:
    """The source of the element offset at given coordinates."""
    return " + ".join(f"{prefix}{i} * {s}" for i, s in enumerate(strides))
