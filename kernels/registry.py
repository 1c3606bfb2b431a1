"""The implementations of an operator application."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from tensat_dl.core.graph import FLOATS, Graph, Node
from tensat_dl.cost.signature import Signature

from . import conv, elementwise, matmul, movement, pool, residual, rows, rowwise
from .implementation import Family, Implementation, Kernel, Meaning, Unsupported
from .launch import interpreted

FAMILIES: tuple[Family, ...] = tuple(f.FAMILY for f in (elementwise, matmul, conv, pool, rows, movement))
#: Operators that torch computes for floats only.
OF_FLOATS = frozenset({"reduce_mean", "poolmax", "poolavg"})
MEANING: dict[str, Meaning] = {op: meaning for family in FAMILIES for op, meaning in family.meaning.items()}


def implementations(signature: Signature, definition: Graph | None = None) -> list[Implementation]:
    """All implementations of an application, vendors' first. ``definition`` is the graph of a composition.

    Raises `Unsupported` if there is none.
    """
    _refuse(signature, definition)
    if definition is not None:
        found = list(_by_torch(definition))
        if elementwise.fusible(definition):
            found += elementwise.fused(definition)
        elif (sum_of_product := residual.residual(definition)) is not None:
            found += residual.offers(signature, sum_of_product)
        elif (rows_of := rowwise.rowwise(definition)) is not None:
            found += rowwise.fused(definition, rows_of)
    else:
        found = list(_found(signature))
    return found


def _refuse(signature: Signature, definition: Graph | None) -> None:
    """Raises `Unsupported` if nothing computes an operator of the application."""
    if definition is None:
        applied = [(signature.op, signature.inputs[0].dtype if signature.inputs else "")]
    else:
        nodes = [n for n in definition.nodes if n.inputs]
        applied = [(n.op, definition.nodes[n.inputs[0]].type.dtype) for n in nodes]
    for op, dtype in applied:
        if op not in MEANING:
            raise Unsupported(f"{op}, of which only types are known")
        if op in OF_FLOATS and dtype not in FLOATS:
            raise Unsupported(f"{op} of {dtype}")


def usable(found: Sequence[Implementation], tf32: bool) -> list[Implementation]:
    """The implementations that run on this machine, without views; with rounding to TF32 only if ``tf32``. Triton
    kernels need a GPU, or Triton's interpreter."""
    runs_triton = torch.cuda.is_available() or interpreted()
    return [
        f for f in found if f.kind != "view" and (f.kind != "triton" or runs_triton) and (tf32 or not f.tf32)
    ]


def _found(signature: Signature) -> Iterator[Implementation]:
    op, attrs = signature.op, dict(signature.attrs)
    family = next(f for f in FAMILIES if op in f.meaning)
    meaning = family.meaning[op]
    alone = Implementation("torch", "vendor", lambda: _contiguous(lambda operands: meaning(operands, attrs)))
    yield from list(family.vendor[op](signature)) or [alone]
    yield from family.triton[op](signature)


def _by_torch(definition: Graph) -> Iterator[Implementation]:
    """A composition by torch, operator by operator; with products, in each precision of products."""
    if any(n.op in residual.PRODUCTS for n in definition.nodes):
        dtype = definition.nodes[definition.outputs[0][1]].type.dtype
        yield from matmul.vendor("torch", _contiguous(_composed(definition)), dtype)
    else:
        yield Implementation("torch", "vendor", lambda: _contiguous(_composed(definition)))


def _contiguous(kernel: Kernel) -> Kernel:
    """torch's kernel, with a contiguous result: torch gives elementwise results the layout of the operands."""
    return lambda operands: kernel(operands).contiguous()


def _composed(definition: Graph) -> Kernel:
    """A composition, operator by operator. Float constants get the type of the float operands, which in a reference
    is wider than declared. They are made once: while calls are recorded, nothing can be copied to the GPU."""
    made: dict[tuple[torch.dtype | None, torch.device], dict[int, torch.Tensor]] = {}

    def run(operands: Sequence[torch.Tensor]) -> torch.Tensor:
        device = operands[0].device
        floats = next((x.dtype for x in operands if x.is_floating_point()), None)
        constants = made.get((floats, device))
        if constants is None:
            constants = made[floats, device] = {
                i: _constant(node, floats).to(device)
                for i, node in enumerate(definition.nodes)
                if not node.inputs and node.op != "input"
            }
        values: list[torch.Tensor] = []
        given = iter(operands)
        for i, node in enumerate(definition.nodes):
            if node.op == "input":
                values.append(next(given))
            elif i in constants:
                values.append(constants[i])
            else:
                values.append(MEANING[node.op]([values[j] for j in node.inputs], dict(node.attrs)))
        return values[definition.outputs[0][1]]

    return run


def _constant(node: Node, floats: torch.dtype | None) -> torch.Tensor:
    made = MEANING[node.op]((), dict(node.attrs))
    return made.to(floats) if made.is_floating_point() and floats is not None else made


def reference(signature: Signature, definition: Graph | None = None) -> Kernel:
    """The application computed by torch, in the element type of the operands: in f64 for f64 operands. Raises
    `Unsupported`."""
    _refuse(signature, definition)
    if definition is not None:
        return matmul.in_precision(_composed(definition), tf32=False)
    meaning, attrs = MEANING[signature.op], dict(signature.attrs)

    def run(operands: Sequence[torch.Tensor]) -> torch.Tensor:
        with matmul.rounding(tf32=False):
            return meaning(operands, attrs)

    return run
