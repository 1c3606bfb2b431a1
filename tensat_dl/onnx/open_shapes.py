"""Shapes of a graph, which are known, in a model some of whose dimensions are open.

The model is looked at with other sizes of its open dimensions, one at a time. What has another shape there is not to
be written down.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from tensat_dl.ir.graph import Graph, Node
from tensat_dl.ir.types import TensorType
from tensat_dl.ops.symbolic import EvaluationError
from tensat_dl.ops.table import OpTable
from tensat_dl.ops.typing import IllTyped, infer
from tensat_dl.ops.values import Absent

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OfOperand:
    """A dimension that is the operand's dimension ``axis``."""

    axis: int


#: A dimension that is asked for: a number, that of the operand at the same place, what is left, or another of the
#: operand's. (0 and -1 are ONNX's own notation.)
Asked = int | OfOperand
SAME, REST = 0, -1


def shapes_elsewhere(
    graph: Graph,
    ops: OpTable,
    known: Mapping[str, Shape],
    reshapes: Mapping[tuple[Shape, Shape, Shape], Shape],
) -> list[Shape | None]:
    """The shape of each node at another size, as far as it can be said. ``known`` has those of the model's values,
    whose names nodes have that equal them; ``reshapes`` those that the model makes: from a shape to one, from what
    it is there."""
    found: list[Shape | None] = []
    for node in graph.nodes:
        old = [found[j] for j in node.inputs]
        found.append(known[node.name] if node.name in known else _shape(graph, ops, node, old, reshapes))
    return found


def _shape(
    graph: Graph,
    ops: OpTable,
    node: Node,
    operands: Sequence[Shape | None],
    reshapes: Mapping[tuple[Shape, Shape, Shape], Shape],
) -> Shape | None:
    if not node.inputs and len(node.types) == 1:
        return node.type.shape
    if any(x is None for x in operands) or node.op in graph.opaque or node.op == "proj":
        return None
    xs = [x for x in operands if x is not None]
    here = [graph.nodes[j].type for j in node.inputs]
    if [t.shape for t in here] == xs:
        return node.type.shape
    if node.op == "reshape":
        return reshapes.get((here[0].shape, node.type.shape, xs[0])) or _guessed(
            here[0].shape, xs[0], node.type.shape
        )
    attrs = dict(node.attrs)
    if node.op == "slice" and attrs["stop"] == here[0].shape[attrs["axis"]]:  # type: ignore[index]
        attrs["stop"] = xs[0][attrs["axis"]]  # type: ignore[index]
    try:
        (type,) = infer(
            ops, node.op, [TensorType(t.dtype, x) for t, x in zip(here, xs, strict=True)], attrs
        ).concrete()
    except (IllTyped, Absent, EvaluationError):
        return None
    return type.shape


def _guessed(old: Shape, there: Shape, new: Shape) -> Shape | None:
    """What a reshape from ``old`` to ``new`` makes of ``there``: dimensions that stay where they are follow, and one
    more has what is left."""
    stay = 0
    while stay < min(len(new), len(old)) and new[stay] == old[stay]:
        stay += 1
    for i in range(stay, len(new)):
        rest = prod(there[:stay]) * prod(new[stay:i]) * prod(new[i + 1 :])
        if prod(there) % rest == 0:
            return (*there[:stay], *new[stay:i], prod(there) // rest, *new[i + 1 :])
    return None


def asked_shape(old: Shape, new: Shape, elsewhere: Sequence[tuple[Shape, Shape]]) -> list[Asked]:
    """What to ask of a reshape from ``old`` to ``new`` that is to fit other sizes, too: for pairs of the same shapes
    there."""
    target: list[Asked] = list(new)
    varying = [i for i, n in enumerate(new) if any(there[i] != n for _, there in elsewhere)]

    def follows(i: int, j: int) -> bool:
        return old[j] == new[i] and all(before[j] == there[i] for before, there in elsewhere)

    for i in varying:
        if i < len(old) and follows(i, i):
            target[i] = SAME
    left = [i for i in varying if target[i] != SAME]
    for i in left[1:]:
        target[i] = next((OfOperand(j) for j in range(len(old)) if follows(i, j)), new[i])
    if left:
        target[left[0]] = REST
    return target
