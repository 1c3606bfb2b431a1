"""Normalisations and reductions along one axis: a row, of any stride, is read once and kept in registers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from math import prod
from typing import Any

import torch
from torch.nn import functional

from tensat_dl.cost.signature import Signature

from .implementation import Family, Implementation, Kernel, Meaning, computable, no_offers
from .launch import ceil_div, from_source, power_of_two
from .layout import collapse, coordinates, offset, wide

#: The longest row that a program holds, and the numbers of elements that its rows may have in all.
LONGEST = 16_384
ELEMENTS = (1024, 4096)

#: By operator, the code that turns x [ROWS, BLOCK] into the result. `there` is the mask of the rows' elements; the
#: parameters p0, p1 are vectors along the row. Reductions make x [ROWS, 1].
BODIES = {
    "softmax": """
    x = tl.where((j < d)[None, :], x, float("-inf"))
    x = tl.exp(x - tl.max(x, 1)[:, None])
    x = x / tl.sum(x, 1)[:, None]
""",
    "layernorm": """
    x = tl.where(there, x - tl.sum(x, 1)[:, None] / d, 0.0)
    x = x / tl.sqrt_rn(tl.sum(x * x, 1)[:, None] / d + EPS) * p0 + p1
""",
    "rmsnorm": """
    x = x / tl.sqrt_rn(tl.sum(x * x, 1)[:, None] / d + EPS) * p0
""",
    "reduce_sum": """
    x = tl.sum(x, 1)[:, None]
""",
    "reduce_mean": """
    x = tl.sum(x, 1)[:, None] / d
""",
    "reduce_max": """
    x = tl.max(tl.where((j < d)[None, :], x, float("-inf")), 1)[:, None]
""",
}


def source(op: str, rank: int, parameters: int) -> str:
    """The Triton source of an operator on rows that are numbered by ``rank`` dimensions.

    x and the result have a stride for each of these dimensions, and a stride along the row.
    """
    sizes = ["", *(f"n{k}" for k in range(1, rank))]
    xs, outs = ([f"{t}{k}" for k in range(rank)] for t in ("sx", "so"))
    pointers = [f"q{k}" for k in range(parameters)]
    names = ["out", "x_", *pointers, "rows", "d", *sizes[1:], *xs, "sxd", *outs, "sod"]
    reduced = op.startswith("reduce")
    lines = [
        f"def kernel({', '.join(names)},\n",
        "           EPS: tl.constexpr, WIDE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):\n",
        "    i = tl.program_id(0).to(tl.int64 if WIDE else tl.int32) * ROWS + tl.arange(0, ROWS)\n",
        "    j = tl.arange(0, BLOCK)\n",
        coordinates("i", sizes, "c"),
        "    there = (i < rows)[:, None] & (j < d)[None, :]\n",
        f"    at = ({offset('c', xs)})[:, None] + j[None, :] * sxd\n",
        "    x = tl.load(x_ + at, there, other=0.0).to(tl.float32)\n",
        *(
            f"    p{k} = tl.load({q} + j, j < d, other=0.0).to(tl.float32)[None, :]\n"
            for k, q in enumerate(pointers)
        ),
        BODIES[op].lstrip("\n"),
        f"    at = ({offset('c', outs)})[:, None]" + (" + j[None, :] * sod\n" if not reduced else "\n"),
        f"    tl.store(out + at, x.to(out.dtype.element_ty), {'(i < rows)[:, None]' if reduced else 'there'})\n",
    ]
    return "".join(lines)


@cache
def _compiled(op: str, rank: int, parameters: int) -> Any:
    return from_source(source(op, rank, parameters))


def _axis(signature: Signature) -> int:
    return int(dict(signature.attrs).get("axis", signature.inputs[0].rank - 1))  # type: ignore[arg-type]


def _kernel(signature: Signature, elements: int) -> Kernel:
    axis, op = _axis(signature), signature.op
    eps = float(dict(signature.attrs).get("eps", 0.0))  # type: ignore[arg-type]
    shape = signature.outputs[0].shape

    def run(operands: Sequence[torch.Tensor]) -> torch.Tensor:
        x, *parameters = (operands[0], *(p.contiguous() for p in operands[1:]))
        out = torch.empty(shape, dtype=x.dtype, device=x.device)

        def others(values: Sequence[int]) -> list[int]:
            return [v for k, v in enumerate(values) if k != axis]

        sizes, (xs, outs) = collapse(others(x.shape), [others(x.stride()), others(out.stride())])
        d, rows = x.shape[axis], prod(sizes)
        block = power_of_two(d)
        height = max(1, min(elements // block, power_of_two(rows)))
        strides = (*xs, x.stride(axis), *outs, out.stride(axis))
        far = wide(x.shape, [x.stride()], height * block)
        kernel = _compiled(op, len(sizes), len(parameters))
        kernel[(ceil_div(rows, height),)](
            out, x, *parameters, rows, d, *sizes[1:], *strides,
            EPS=eps, WIDE=far, ROWS=height, BLOCK=block, num_warps=8 if block >= 4096 else 4,
        )  # fmt: skip
        return out

    return run


def _triton(signature: Signature) -> Iterator[Implementation]:
    x = signature.inputs[0]
    if not computable(signature.inputs) or x.shape[_axis(signature)] > LONGEST:
        return
    for elements in ELEMENTS:

        def build(elements: int = elements) -> Kernel:
            return _kernel(signature, elements)

        yield Implementation(f"triton {elements}", "triton", build)


def _along(function: Callable[..., torch.Tensor]) -> Meaning:
    def apply(operands: Sequence[torch.Tensor], attrs: Mapping[str, Any]) -> torch.Tensor:
        return function(operands[0], dim=attrs["axis"], keepdim=True)

    return apply


def _sum(x: torch.Tensor, dim: int, keepdim: bool) -> torch.Tensor:
    return torch.sum(x, dim=dim, keepdim=keepdim, dtype=x.dtype)


def _mean(x: torch.Tensor, dim: int, keepdim: bool) -> torch.Tensor:
    return torch.mean(x, dim=dim, keepdim=keepdim)


def _layernorm(operands: Sequence[torch.Tensor], attrs: Mapping[str, Any]) -> torch.Tensor:
    x, scale, bias = operands
    return functional.layer_norm(x, x.shape[-1:], scale, bias, attrs["eps"])


def _rmsnorm(operands: Sequence[torch.Tensor], attrs: Mapping[str, Any]) -> torch.Tensor:
    x, scale = operands
    return functional.rms_norm(x, x.shape[-1:], scale, attrs["eps"])


MEANING: dict[str, Meaning] = {
    "softmax": lambda operands, attrs: torch.softmax(operands[0], attrs["axis"]),
    "layernorm": _layernorm,
    "rmsnorm": _rmsnorm,
    "reduce_sum": _along(_sum),
    "reduce_mean": _along(_mean),
    "reduce_max": _along(torch.amax),
}

FAMILY = Family(MEANING, dict.fromkeys(MEANING, _triton), dict.fromkeys(MEANING, no_offers))
