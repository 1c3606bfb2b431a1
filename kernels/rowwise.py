"""Chains of elementwise operators, reductions and normalisations along the last axis: one generated kernel per chain.

Each program reads its rows once and keeps them in registers. A value has all elements of the rows, or one element for
each row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from math import prod
from typing import Any

import torch

from tensat_dl.core.graph import Graph, Node, TensorType

from .elementwise import FUSIBLE, term, with_helpers
from .implementation import TRITON_FLOATS, Implementation, Kernel
from .launch import TORCH_TYPES, ceil_div, power_of_two
from .layout import broadcast_strides, coordinates, offset, wide
from .rows import ELEMENTS, LONGEST

#: By operator, the code of its value ``y`` for an operand ``x`` and the parameters along the row, ``p`` and ``q``.
ROWWISE = {
    "reduce_sum": "y = tl.sum(tl.where(there, x, 0.0), 1)[:, None]",
    "reduce_mean": "y = tl.sum(tl.where(there, x, 0.0), 1)[:, None] / d",
    "reduce_max": "y = tl.max(tl.where(there, x, float('-inf')), 1)[:, None]",
    "softmax": "y = tl.where((j < d)[None, :], x, float('-inf'))\n"
    "y = tl.exp(y - tl.max(y, 1)[:, None])\n"
    "y = y / tl.sum(y, 1)[:, None]",
    "layernorm": "y = tl.where(there, x - tl.sum(tl.where(there, x, 0.0), 1)[:, None] / d, 0.0)\n"
    "y = y / tl.sqrt_rn(tl.sum(y * y, 1)[:, None] / d + EPS) * p + q",
    "rmsnorm": "y = tl.where(there, x, 0.0)\ny = y / tl.sqrt_rn(tl.sum(y * y, 1)[:, None] / d + EPS) * p",
}


def rowwise(expression: Graph) -> TensorType | None:
    """The type of the rows, if there is a kernel for an expression; else None."""
    computed = [n for n in expression.nodes if n.op not in ("input", "fill")]
    rows = {expression.nodes[n.inputs[0]].type for n in computed if n.op in ROWWISE}
    if len(rows) != 1 or len(expression.outputs) != 1:
        return None
    (full,) = rows
    if not 1 < full.shape[-1] <= LONGEST or {t.dtype for n in expression.nodes for t in n.types} - {
        *TRITON_FLOATS
    }:
        return None
    shapes = (full.shape, (*full.shape[:-1], 1))
    for node in computed:
        axis = dict(node.attrs).get("axis", full.rank - 1)
        along = node.op in ROWWISE and axis == full.rank - 1
        if not (along or node.op in FUSIBLE) or node.type.shape not in shapes:
            return None
    return full if all(n.type.shape == () for n in expression.nodes if n.op == "fill") else None


def fused(expression: Graph, full: TensorType) -> Iterator[Implementation]:
    """The kernels of an expression on rows of this type."""
    for elements in ELEMENTS:

        def build(elements: int = elements) -> Kernel:
            return _kernel(expression, full, elements)

        yield Implementation(f"triton {elements}", "triton", build)


def _kernel(expression: Graph, full: TensorType, elements: int) -> Kernel:
    result = expression.nodes[expression.outputs[0][1]].type
    *lead, d = full.shape
    sizes = lead or [1]
    count = prod(sizes)
    block = power_of_two(d)
    height = max(1, min(elements // block, power_of_two(count)))

    def run(operands: Sequence[torch.Tensor]) -> torch.Tensor:
        out = torch.empty(result.shape, dtype=TORCH_TYPES[result.dtype], device=operands[0].device)
        strides = [broadcast_strides(x, full.shape) for x in operands]
        far = wide(full.shape, strides, height * block)
        steps = [s for own in strides for s in (own if lead else (0, *own))]
        _compiled(expression, full)[(ceil_div(count, height),)](
            out, *operands, count, d, *sizes[1:], *steps,
            WIDE=far, ROWS=height, BLOCK=block, num_warps=8 if block >= 4096 else 4,
        )  # fmt: skip
        return out

    return run


@cache
def _compiled(expression: Graph, full: TensorType) -> Any:
    return with_helpers(source(expression, full))


def source(expression: Graph, full: TensorType) -> str:
    """The Triton source of an expression on rows of this type."""
    inputs = [i for i, n in enumerate(expression.nodes) if n.op == "input"]
    lead = max(1, full.rank - 1)
    sizes = ["", *(f"n{k}" for k in range(1, lead))]
    strides = [[f"s{i}_{k}" for k in range(lead + 1)] for i in range(len(inputs))]
    names = [
        "out",
        *(f"x{i}" for i in range(len(inputs))),
        "rows",
        "d",
        *sizes[1:],
        *(s for own in strides for s in own),
    ]
    lines = [
        f"def kernel({', '.join(names)}, WIDE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):\n",
        "    i = tl.program_id(0).to(tl.int64 if WIDE else tl.int32) * ROWS + tl.arange(0, ROWS)\n",
        "    j = tl.arange(0, BLOCK)\n",
        coordinates("i", sizes, "c"),
        "    row = (i < rows)[:, None]\n",
        "    there = row & (j < d)[None, :]\n",
    ]
    for k, (i, own) in enumerate(zip(inputs, strides, strict=True)):
        wide = expression.nodes[i].type.shape[-1:] == full.shape[-1:]
        at = f"({offset('c', own[:-1])})[:, None]" + f" + j[None, :] * {own[-1]}" * wide
        lines.append(
            f"    v{i} = tl.load(x{k} + {at}, {'there' if wide else 'row'}, other=0.0).to(tl.float32)\n"
        )
    for i, node in enumerate(expression.nodes):
        if node.op != "input":
            lines += [f"    {line}\n" for line in _lines(node, f"v{i}", [f"v{j}" for j in node.inputs])]
    result = expression.outputs[0][1]
    wide = expression.nodes[result].type.shape == full.shape
    at, mask = ("i[:, None] * d + j[None, :]", "there") if wide else ("i[:, None]", "row")
    lines.append(f"    tl.store(out + {at}, v{result}, {mask})\n")
    return "".join(lines)


def _lines(node: Node, name: str, operands: Sequence[str]) -> list[str]:
    body = ROWWISE.get(node.op)
    if body is None:
        return [f"{name} = {term(node, operands)}"]
    given = [f"{p} = {v}" for p, v in zip("xpq", operands, strict=False)]
    return [*given, *body.replace("EPS", repr(dict(node.attrs).get("eps"))).split("\n"), f"{name} = y"]
