"""Sums over a long k in parts: where a product's result has few tiles, several programs share the k of a tile.

Each part stores its sum in f32. A second kernel adds the parts, the bias and the tensor that is added, and applies
the activation. The order of the sum is the same in each run, as it would not be with atomic additions.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from .activation import activate
from .launch import ceil_div

#: Programs that fill a GPU once (an H100 has 132 multiprocessors), and the programs that parts should come to.
FULL, AIM = 132, 264
#: The fewest steps of a part, and the most parts.
LEAST_STEPS, MOST_PARTS = 4, 16
#: The number of elements that a program of the second kernel computes.
BLOCK = 256


@triton.jit
def _sum(
    parts, bias, more, out, SIZE, CHANNELS, INNER,
    PARTS: tl.constexpr, BLOCK: tl.constexpr, BIAS: tl.constexpr, MORE: tl.constexpr, ACT: tl.constexpr,
):  # fmt: skip
    """out[i] = act(sum over p of parts[p, i] + bias[i // INNER % CHANNELS] + more[i])."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < SIZE
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for p in tl.static_range(PARTS):
        total += tl.load(parts + p * SIZE + i, inside, other=0.0)
    if BIAS:
        total += tl.load(bias + i // INNER % CHANNELS, inside, other=0.0).to(tl.float32)
    if MORE:
        total += tl.load(more + i, inside, other=0.0).to(tl.float32)
    total = activate(total, ACT)
    tl.store(out + i, total.to(out.dtype.element_ty), inside)


def parts_for(programs: int, steps: int) -> int:
    """In how many parts so many programs should split their steps; 1 if they should not."""
    if programs >= FULL:
        return 1
    most = max(1, min(MOST_PARTS, AIM // programs, steps // LEAST_STEPS))
    parts = 1 << (most.bit_length() - 1)  # a power of two: few numbers, so that few kernels are compiled
    return ceil_div(steps, ceil_div(steps, parts))  # without empty parts


def workspace(parts: int, out: torch.Tensor) -> torch.Tensor:
    """Where the sums of the parts go: what comes out, so many times, in f32."""
    return torch.empty((parts, *out.shape), dtype=torch.float32, device=out.device)


def add_up(
    sums: torch.Tensor,
    bias: torch.Tensor | None,
    more: torch.Tensor | None,
    out: torch.Tensor,
    act: str,
    axis: int,
) -> None:
    """Fills ``out`` from the sums of the parts. The bias is along an axis."""
    shape = (out.numel(), out.shape[axis], out.stride(axis))
    _sum[(ceil_div(out.numel(), BLOCK),)](
        sums, sums if bias is None else bias, sums if more is None else more, out, *shape,
        PARTS=len(sums), BLOCK=BLOCK, BIAS=bias is not None, MORE=more is not None, ACT=act,
    )  # fmt: skip
