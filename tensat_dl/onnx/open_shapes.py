"""Shapes of a graph, which are known, in a model some of whose dimensions are open.

The model is looked at with other sizes of its open dimensions, one at a time. What has another shape there is not to
be written down.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from tensat_dl.core.graph import Attrs, Graph, Node
from tensat_dl.core.types import TensorType
from tensat_dl.ops.symbolic import EvaluationError
from tensat_dl.ops.table import OpTable
from tensat_dl.ops.typing import IllTyped, infer
from tensat_dl.ops.values import Absent

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OfOperand:
    """A dimension that is the operand's dimension ``axis``."""

    axis: int


@dataclass(frozen=True, slots=True)
class OfInput:
    """A dimension that is dimension ``axis`` of the graph's input at a position."""

    position: int
    axis: int


#: A dimension that is asked for: a number, that of the operand at the same place, what is left, another of the
#: operand's, or one of an input. (0 and -1 are ONNX's own notation.)
Asked = int | OfOperand | OfInput
SAME, REST = 0, -1


#: What reshapes of a model make: from a shape to one, from what it is elsewhere, what there.
Reshapes = Mapping[tuple[Shape, Shape, Shape], Shape]


def shapes_elsewhere(
    graph: Graph, ops: OpTable, known: Mapping[str, Shape], reshapes: Reshapes
) -> list[Shape | None]:
    """The shape of each node at another size, as far as it can be said. ``known`` has those of the model's values,
    whose names nodes have that equal them; ``reshapes`` are those of the model."""
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
    reshapes: Reshapes,
) -> Shape | None:
    if not node.inputs and len(node.types) == 1:
        return node.type.shape
    if any(x is None for x in operands) or node.op in graph.opaque or node.op == "proj":
        return None
    there = [x for x in operands if x is not None]
    here = [graph.nodes[j].type for j in node.inputs]
    if node.op == "reshape":
        return reshaped(here[0].shape, there[0], node.type.shape, reshapes)
    return shape_of_application(ops, node.op, node.attrs, here, node.type, there)


def shape_of_application(
    ops: OpTable, op: str, attrs: Attrs, here: Sequence[TensorType], type: TensorType, there: Sequence[Shape]
) -> Shape | None:
    """The shape at another size of an application, no reshape, that has operands and result of these types here;
    None if it can't be applied there. A slice up to the end stays one."""
    if [t.shape for t in here] == list(there):
        return type.shape
    values = dict(attrs)
    axis = values.get("axis")
    if op == "slice" and isinstance(axis, int) and values["stop"] == here[0].shape[axis]:
        values["stop"] = there[0][axis]
    operands = [TensorType(t.dtype, x) for t, x in zip(here, there, strict=True)]
    try:
        (found,) = infer(ops, op, operands, values).concrete()
    except (IllTyped, Absent, EvaluationError):
        return None
    return found.shape


def reshapes_of(graph: Graph, there: Sequence[Shape | None]) -> Reshapes:
    """What the reshapes of a graph make of shapes, given those of its nodes there."""
    found = {}
    for i, node in enumerate(graph.nodes):
        if node.op == "reshape":
            (j,) = node.inputs
            old, new = there[j], there[i]
            if old is not None and new is not None:
                found[graph.nodes[j].type.shape, node.type.shape, old] = new
    return found


def reshaped(old: Shape, there: Shape, new: Shape, reshapes: Reshapes) -> Shape | None:
    """What a reshape from ``old`` to ``new`` most likely makes of ``there``: what one of the model's does.

    If it has none, both shapes are cut into the shortest runs of dimensions with equal products. In each run one
    dimension takes what is more: one as large as the dimension that has grown, or the first one, but none that is 1
    if others are not.
    """
    if (old, new, there) in reshapes:
        return reshapes[old, new, there]
    found: list[int] = []
    i = j = 0
    while i < len(old) or j < len(new):
        start, first = i, j
        i, j = min(i + 1, len(old)), min(j + 1, len(new))
        while (a := prod(old[start:i])) != (b := prod(new[first:j])):
            i, j = (i + 1, j) if a < b else (i, j + 1)
        while i < len(old) and old[i] == 1:
            i += 1
        while j < len(new) and new[j] == 1:
            j += 1
        if old[start:i] == there[start:i]:
            found += new[first:j]
            continue
        total = prod(there[start:i])
        grown = {o for o, t in zip(old[start:i], there[start:i], strict=True) if o != t}
        places = sorted(range(first, j), key=lambda k: (new[k] == 1, new[k] not in grown))
        for k in places:
            others = prod(new[first:k]) * prod(new[k + 1 : j])
            if total % others == 0:
                found += [*new[first:k], total // others, *new[k + 1 : j]]
                break
        else:
            return None
    return tuple(found)


def keeps_runs(old: Shape, there: Shape, new: Shape, result: Shape) -> bool:
    """Whether a reshape from ``there`` to ``result`` keeps those dimensions together that one from ``old`` to ``new``
    does: [1, c, n] as [c, n] is not [2, c, n] as [c, 2 n], which takes elements from elsewhere."""
    cuts: dict[int, bool] = {}
    for i in range(len(old) + 1):
        for j in range(len(new) + 1):
            size = prod(old[:i])
            if size == prod(new[:j]):
                cuts[size] = cuts.get(size, False) or prod(there[:i]) == prod(result[:j])
    return all(cuts.values()) and prod(there) == prod(result)


def asked_shape(
    old: Shape,
    new: Shape,
    elsewhere: Sequence[tuple[Shape, Shape]],
    inputs: Sequence[Sequence[Shape]] = (),
) -> list[Asked] | None:
    """What to ask of a reshape from ``old`` to ``new`` that is to fit other sizes, too: for pairs of the same shapes
    there. ``inputs`` has the shapes of each of the graph's inputs, here and there: open dimensions are theirs.

    None if it can't be asked for, such as two dimensions half as large as two of the operand's."""
    target: list[Asked] = list(new)
    sizes = [tuple(there[i] for _, there in elsewhere) for i in range(len(new))]  # of each dimension there
    varying = [i for i, n in enumerate(new) if any(size != n for size in sizes[i])]

    def follows(i: int, j: int) -> bool:
        return old[j] == new[i] and sizes[i] == tuple(before[j] for before, _ in elsewhere)

    def looked_up(i: int) -> Asked | None:
        operand = (OfOperand(j) for j in range(len(old)) if follows(i, j))
        of_input = (
            OfInput(k, axis)
            for k, (here, *there) in enumerate(inputs)
            for axis, n in enumerate(here)
            if n == new[i] and sizes[i] == tuple(shape[axis] for shape in there)
        )
        return next(operand, None) or next(of_input, None)

    for i in varying:
        if i < len(old) and follows(i, i):
            target[i] = SAME
    left = {i: looked_up(i) for i in varying if target[i] != SAME}
    unknown = [i for i, asked in left.items() if asked is None]
    if len(unknown) > 1:
        return None
    rest = next(iter(unknown or left), None)
    for i, asked in left.items():
        target[i] = REST if i == rest or asked is None else asked
    return target
