"""Which implementations an operator application has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from tensat_dl.cost.signature import Signature
from tensat_dl.ir.graph import Graph

from . import conv, elementwise, matmul, movement, pool, rows
from .implementation import Family, Implementation, Kernel, Meaning, Unsupported
from .launch import interpreted

FAMILIES: tuple[Family, ...] = tuple(f.FAMILY for f in (elementwise, matmul, conv, pool, rows, movement))
MEANING: dict[str, Meaning] = {op: meaning for family in FAMILIES for op, meaning in family.meaning.items()}


def implementations(signature: Signature, definition: Graph | None = None) -> list[Implementation]:
    """Every way to compute an application, vendors' first; ``definition`` is what a composition stands for.

    Raises `Unsupported` if there is none.
    """
    if definition is not None:
        found = [_torch(lambda operands: _run(definition, operands))]
        if elementwise.fusible(definition):
            found += elementwise.fused(definition)
    elif signature.op in MEANING:
        found = list(_found(signature))
    else:
        raise Unsupported(f"{signature.op}, of which only types are known")
    return found


def runnable(implementation: Implementation) -> bool:
    """Whether it runs here: Triton kernels need a GPU or Triton's interpreter."""
    return implementation.kind != "triton" or torch.cuda.is_available() or interpreted()


def _found(signature: Signature) -> Iterator[Implementation]:
    op, attrs = signature.op, dict(signature.attrs)
    family = next(f for f in FAMILIES if op in f.meaning)
    meaning = family.meaning[op]
    yield from list(family.vendor[op](signature)) or [_torch(lambda operands: meaning(operands, attrs))]
    yield from family.triton[op](signature)


def _torch(kernel: Kernel) -> Implementation:
    """What torch does by itself. Its elementwise results are laid out as the operands are; ours are contiguous."""
    return Implementation("torch", "vendor", lambda: lambda operands: kernel(operands).contiguous())


def _run(definition: Graph, operands: Sequence[torch.Tensor]) -> torch.Tensor:
    values: list[torch.Tensor] = []
    given = iter(operands)
    for node in definition.nodes:
        if node.op == "input":
            values.append(next(given))
            continue
        value = MEANING[node.op]([values[j] for j in node.inputs], dict(node.attrs))
        # Constants are made in the type that the operands have, which for a reference is wider than declared.
        values.append(value if node.inputs else value.to(operands[0]))
    return values[definition.outputs[0][1]]


def reference(signature: Signature, definition: Graph | None = None) -> Kernel:
    """What the application means, computed in the element type of the operands: in f64 if they are."""
    if definition is not None:
        return lambda operands: _run(definition, operands)
    if signature.op not in MEANING:
        raise Unsupported(f"{signature.op}, of which only types are known")
    meaning, attrs = MEANING[signature.op], dict(signature.attrs)

    def run(operands: Sequence[torch.Tensor]) -> torch.Tensor:
        with matmul.rounding(tf32=False):
            return meaning(operands, attrs)

    return run
