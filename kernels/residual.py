"""A product, a sum with another tensor, and an activation, in one kernel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from tensat_dl.core.graph import Graph, Node
from tensat_dl.cost.signature import Signature
from tensat_dl.ops.traits import traits

from . import conv, matmul
from .activation import in_place
from .implementation import Implementation, Kernel

#: By product, the function that offers its kernels.
PRODUCTS = {"matmul": matmul.tiled, "conv2d": conv.implicit}


@dataclass(frozen=True)
class Residual:
    """act(product + more). ``operands`` are the inputs of the product, and ``more`` is the added input."""

    product: Node
    operands: tuple[int, ...]
    more: int
    act: str


def residual(definition: Graph) -> Residual | None:
    """The parts of a composition act(product + more); None for another composition."""
    nodes = definition.nodes
    last = nodes[definition.outputs[0][1]]
    act = "none"
    if traits(last.op).activation:
        act, last = last.op, nodes[last.inputs[0]]
    if last.op != "ewadd" or sum(n.op != "input" for n in nodes) != 2 + (act != "none"):
        return None
    for i, more in (last.inputs, last.inputs[::-1]):
        product = nodes[i]
        if product.op not in PRODUCTS or nodes[more].op != "input" or nodes[more].types != product.types:
            continue
        if dict(product.attrs)["act"] == "none":
            return Residual(product, product.inputs, more, act)
    return None


def offers(signature: Signature, found: Residual) -> Iterator[Implementation]:
    """The kernels for a composition that is a `Residual`."""
    attrs: dict[str, Any] = {**dict(found.product.attrs), "act": found.act}
    inputs = tuple(signature.inputs[i] for i in found.operands)
    inner = Signature(found.product.op, tuple(attrs.items()), inputs, signature.outputs, signature.device)
    order = (*found.operands, found.more)

    def of(implementation: Implementation) -> Implementation:
        def build() -> Kernel:
            kernel = implementation.build()
            return lambda operands: kernel([operands[i] for i in order])

        return replace(implementation, build=build)

    if found.product.op == "matmul" and len(inputs) == 2 and signature.outputs[0].rank in (2, 3):
        add = torch.addmm if signature.outputs[0].rank == 2 else torch.baddbmm

        def product(operands: Sequence[torch.Tensor]) -> torch.Tensor:
            x, y, more = operands
            return in_place(add(more, x, y), found.act)

        yield from map(of, matmul.vendor("cublas", product, inputs[0].dtype))
    yield from map(of, PRODUCTS[found.product.op](inner, more=True))
