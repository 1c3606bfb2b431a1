"""Views, and kernels that copy: transposes, slices, concatenations. torch moves elements for all other operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from math import prod
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from torch.nn import functional

from tensat_dl.cost.signature import Signature
from tensat_dl.ops.semantics.images import along, sources
from tensat_dl.ops.semantics.movement import CONSTANTS

from .implementation import Family, Implementation, Kernel, Meaning, no_offers
from .launch import MOST_ALONG_AXIS, TORCH_TYPES, ceil_div, from_source
from .layout import collapse, coordinates, offset, wide

#: The numbers of elements that a program may copy, and the side of a transpose's tiles.
BLOCKS = (256, 1024)
TILE = 32
#: The most operands of a concatenation that one kernel takes.
MOST_PARTS = 32


def slice_(operands: Sequence[torch.Tensor], attrs: Mapping[str, Any]) -> torch.Tensor:
    return operands[0].narrow(attrs["axis"], attrs["start"], attrs["stop"] - attrs["start"])


def reshape(operands: Sequence[torch.Tensor], attrs: Mapping[str, Any]) -> torch.Tensor:
    """A view where strides allow one, else a copy."""
    return operands[0].reshape(attrs["shape"])


#: Operators that leave data where it is.
VIEWS: dict[str, Meaning] = {
    "slice": slice_,
    "transpose": lambda operands, attrs: operands[0].permute(attrs["perm"]),
    "reshape": reshape,
    "dropout": lambda operands, _: operands[0],
}


@cache
def _plain(rank: int) -> Any:
    """The Triton kernel that copies a tensor that is collapsed to ``rank`` dimensions."""
    sizes = ["", *(f"n{k}" for k in range(1, rank))]
    steps = [f"s{k}" for k in range(rank)]
    return from_source(
        f"def kernel({', '.join(['out', 'x', 'n', *sizes[1:], *steps])}, WIDE: tl.constexpr, BLOCK: tl.constexpr):\n"
        "    i = tl.program_id(0).to(tl.int64 if WIDE else tl.int32) * BLOCK + tl.arange(0, BLOCK)\n"
        + coordinates("i", sizes, "c")
        + f"    tl.store(out + i, tl.load(x + {offset('c', steps)}, i < n), i < n)\n"
    )


def copy(x: torch.Tensor, block: int) -> torch.Tensor:
    """A contiguous copy of a tensor with any strides."""
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    sizes, strides = collapse(x.shape, [x.stride(), out.stride()])
    n = prod(sizes)
    _plain(len(sizes))[(ceil_div(n, block),)](
        out, x, n, *sizes[1:], *strides[0], WIDE=wide(sizes, strides, block), BLOCK=block
    )
    return out


@triton.jit
def _swap(out, x, P, J, B2, xa, xb, xp, xj, oa, ob, op, TILE: tl.constexpr):
    """out[a, b, p, j] = x[a, b, p, j], where neighbours along p are adjacent in x, and along j in out."""
    tiles = tl.cdiv(J, TILE)
    p = ((tl.program_id(0) // tiles) * TILE + tl.arange(0, TILE)).to(tl.int64)[:, None]
    j = ((tl.program_id(0) % tiles) * TILE + tl.arange(0, TILE)).to(tl.int64)[None, :]
    a = (tl.program_id(1) // B2).to(tl.int64)
    b = (tl.program_id(1) % B2).to(tl.int64)
    inside = (p < P) & (j < J)
    tile = tl.load(x + a * xa + b * xb + p * xp + j * xj, inside)
    tl.store(out + a * oa + b * ob + p * op + j, tile, inside)


def swap(x: torch.Tensor) -> torch.Tensor:
    """`copy` by tiles, if adjacent elements of x are not adjacent in the result: reads and writes cross in a tile."""
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    sizes, (xs, outs) = collapse(x.shape, [x.stride(), out.stride()])
    last = len(sizes) - 1
    inner = min(range(len(sizes)), key=lambda k: xs[k])
    batch = [k for k in range(last) if k != inner]
    if inner == last or len(batch) > 2 or prod(sizes[k] for k in batch) > MOST_ALONG_AXIS:
        return copy(x, BLOCKS[-1])
    (na, xa, oa), (nb, xb, ob) = [(1, 0, 0)] * (2 - len(batch)) + [(sizes[k], xs[k], outs[k]) for k in batch]
    grid = (ceil_div(sizes[inner], TILE) * ceil_div(sizes[last], TILE), na * nb)
    _swap[grid](
        out, x, sizes[inner], sizes[last], nb, xa, xb, xs[inner], xs[last], oa, ob, outs[inner], TILE=TILE
    )
    return out


def _copies(signature: Signature) -> Iterator[Implementation]:
    attrs = dict(signature.attrs)
    view = VIEWS[signature.op]
    yield Implementation("view", "view", lambda: lambda operands: view(operands, attrs))
    if signature.outputs[0].dtype == "bool":
        return
    for block in BLOCKS:

        def plain(block: int = block) -> Kernel:
            return lambda operands: copy(view(operands, attrs), block)

        yield Implementation(f"triton {block}", "triton", plain)
    if signature.op == "transpose":
        yield Implementation("triton tiles", "triton", lambda: lambda operands: swap(view(operands, attrs)))


def _copied(signature: Signature) -> Iterator[Implementation]:
    """torch's copy of a view."""
    attrs = dict(signature.attrs)
    view = VIEWS[signature.op]

    def clone(operands: Sequence[torch.Tensor]) -> torch.Tensor:
        return view(operands, attrs).clone(memory_format=torch.contiguous_format)

    yield Implementation("torch", "vendor", lambda: clone)


def _expand(signature: Signature) -> Iterator[Implementation]:
    shape = signature.outputs[0].shape
    if signature.outputs[0].dtype == "bool":
        return
    for block in BLOCKS:

        def build(block: int = block) -> Kernel:
            return lambda operands: copy(operands[0].expand(shape), block)

        yield Implementation(f"triton {block}", "triton", build)


def expand(operands: Sequence[torch.Tensor], attrs: Mapping[str, Any]) -> torch.Tensor:
    return operands[0].expand(attrs["shape"]).clone(memory_format=torch.contiguous_format)


def concat_source(parts: int, rank: int) -> str:
    """The Triton source that concatenates ``parts`` tensors: each program copies elements of one tensor.

    Tensor i is copied by the programs from b{i} on, and starts at the offset o{i} of the result.
    """
    steps = [f"t{k}" for k in range(rank)]
    names = ["out", *(f"x{i}" for i in range(parts)), *(f"b{i}" for i in range(1, parts)), *steps]
    for i in range(parts):
        names += [
            f"m{i}",
            f"o{i}",
            *(f"n{i}_{k}" for k in range(1, rank)),
            *(f"s{i}_{k}" for k in range(rank)),
        ]
    lines = [
        f"def kernel({', '.join(names)}, WIDE: tl.constexpr, BLOCK: tl.constexpr):\n",
        "    pid = tl.program_id(0).to(tl.int64 if WIDE else tl.int32)\n",
    ]
    for i in range(parts):
        first = f"b{i}" if i else "0"
        inside = f"(pid >= {first})" + (f" & (pid < b{i + 1})" if i + 1 < parts else "")
        lines += [
            f"    if {inside}:\n",
            f"        i{i} = (pid - {first}) * BLOCK + tl.arange(0, BLOCK)\n",
            coordinates(f"i{i}", ["", *(f"n{i}_{k}" for k in range(1, rank))], f"c{i}_", "        "),
            f"        v{i} = tl.load(x{i} + {offset(f'c{i}_', [f's{i}_{k}' for k in range(rank)])}, i{i} < m{i})\n",
            f"        tl.store(out + o{i} + {offset(f'c{i}_', steps)}, v{i}, i{i} < m{i})\n",
        ]
    return "".join(lines)


@cache
def _concat_compiled(parts: int, rank: int) -> Any:
    return from_source(concat_source(parts, rank))


def _concat_kernel(signature: Signature, block: int) -> Kernel:
    axis = int(dict(signature.attrs)["axis"])  # type: ignore[arg-type]
    shape = signature.outputs[0].shape

    def run(operands: Sequence[torch.Tensor]) -> torch.Tensor:
        out = torch.empty(shape, dtype=operands[0].dtype, device=operands[0].device)
        # Contiguous operands are copied in two dimensions: those before the axis, and the axis with those behind it.
        flat = all(x.is_contiguous() for x in operands)
        inner = prod(shape[axis + 1 :])
        views = [x.view(-1, x.shape[axis] * inner) for x in operands] if flat else list(operands)
        target = (out.view(-1, shape[axis] * inner)) if flat else out
        begins: list[int] = []
        numbers: list[int] = []
        programs = start = 0
        along_axis = 1 if flat else axis
        for x in views:
            begins.append(programs)
            programs += ceil_div(x.numel(), block)
            numbers += [x.numel(), start * target.stride(along_axis), *x.shape[1:], *x.stride()]
            start += x.shape[along_axis]
        kernel = _concat_compiled(len(views), target.ndim)
        far = any(wide(x.shape, [x.stride(), target.stride()], block) for x in (target, *views))
        kernel[(programs,)](out, *views, *begins[1:], *target.stride(), *numbers, WIDE=far, BLOCK=block)
        return out

    return run


def _concat(signature: Signature) -> Iterator[Implementation]:
    if len(signature.inputs) > MOST_PARTS or signature.outputs[0].dtype == "bool":
        return
    for block in BLOCKS:

        def build(block: int = block) -> Kernel:
            return _concat_kernel(signature, block)

        yield Implementation(f"triton {block}", "triton", build)


def concat(operands: Sequence[torch.Tensor], attrs: Mapping[str, Any]) -> torch.Tensor:
    return torch.cat(tuple(operands), attrs["axis"])


def pad(operands: Sequence[torch.Tensor], attrs: Mapping[str, Any]) -> torch.Tensor:
    """The modes `reflect` and `edge` take elements by their indices along each axis."""
    (x,) = operands
    if attrs["mode"] == "constant":
        around = [
            n for pair in zip(reversed(attrs["before"]), reversed(attrs["after"]), strict=True) for n in pair
        ]
        return functional.pad(x, around, value=attrs["value"])
    for axis, (before, after) in enumerate(zip(attrs["before"], attrs["after"], strict=True)):
        size = x.shape[axis]
        places = torch.arange(-before, size + after, device=x.device)
        if attrs["mode"] == "reflect":
            places = places.abs()
            places = torch.where(places >= size, 2 * (size - 1) - places, places)
        x = x.index_select(axis, places.clamp(0, size - 1))
    return x


def gather(operands: Sequence[torch.Tensor], attrs: Mapping[str, Any]) -> torch.Tensor:
    """x [a.., d, b..], indices [i..] -> [a.., i.., b..]."""
    x, indices = operands
    axis = attrs["axis"]
    taken = x.index_select(axis, torch.remainder(indices.reshape(-1), x.shape[axis]))
    return taken.reshape((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))


def enlarge(operands: Sequence[torch.Tensor], attrs: Mapping[str, Any]) -> torch.Tensor:
    (w,) = operands
    new_h, new_w = attrs["kernel"]
    top, left = (new_h - w.shape[2]) // 2, (new_w - w.shape[3]) // 2
    return functional.pad(w, (left, new_w - w.shape[3] - left, top, new_h - w.shape[2] - top))


def merge(operands: Sequence[torch.Tensor], attrs: Mapping[str, Any]) -> torch.Tensor:
    (w,) = operands
    groups, count = attrs["groups"], attrs["count"]
    o, i, kh, kw = w.shape
    old = w.reshape(groups // count, count, o // groups, i, kh, kw)
    out = w.new_zeros((groups // count, count, o // groups, count, i, kh, kw))
    for part in range(count):
        out[:, part, :, part] = old[:, part]
    return out.reshape(o, count * i, kh, kw)


def resize(operands: Sequence[torch.Tensor], attrs: Mapping[str, Any]) -> torch.Tensor:
    """[n, c, h, w] -> [n, c, *size]: rows first, then columns."""
    (x,) = operands
    how = tuple((name, attrs[name]) for name in ("mode", "coordinates", "rounding"))
    for axis, new in zip((2, 3), attrs["size"], strict=True):
        low, high, share = _made_of(x.shape[axis], new, axis, how, x.dtype, x.device)
        below = x.index_select(axis, low)
        x = below if share is None else below + share * (x.index_select(axis, high) - below)
    return x


@lru_cache(maxsize=256)
def _made_of(
    size: int, new: int, axis: int, how: tuple[tuple[str, str], ...], dtype: torch.dtype, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """For each new position along an axis: two old positions, and the share of the second; None if all shares are 0.
    The tensors are cached, because nothing can be copied to the GPU while calls are recorded."""
    found = sources(size, new, **dict(how))
    low, high = (torch.tensor(places, device=device) for places in (found.low, found.high))
    if not any(found.share):
        return low, high, None
    share = along(np.array([float(s) for s in found.share]), axis)
    return low, high, torch.from_numpy(share).to(device, dtype)


def _constant(function: Callable[..., Any]) -> Meaning:
    def apply(_: Sequence[torch.Tensor], attrs: Mapping[str, Any]) -> torch.Tensor:
        return torch.from_numpy(np.array(function(**attrs))).to(TORCH_TYPES[attrs["dtype"]])

    return apply


MEANING: dict[str, Meaning] = {
    **VIEWS,
    **{op: _constant(function) for op, function in CONSTANTS.items()},
    "expand": expand,
    "concat": concat,
    "pad": pad,
    "gather": gather,
    "enlarge": enlarge,
    "merge": merge,
    "resize": resize,
}

FAMILY = Family(
    MEANING,
    {
        **dict.fromkeys(MEANING, no_offers),
        **dict.fromkeys(VIEWS, _copies),
        "expand": _expand,
        "concat": _concat,
    },
    {**dict.fromkeys(MEANING, no_offers), **dict.fromkeys(VIEWS, _copied)},
)
