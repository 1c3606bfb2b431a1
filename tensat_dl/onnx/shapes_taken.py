"""Takes the shapes that a model asks for from what its answer computes anyway.

Models that were exported with open dimensions ask for the shapes of their own values, as in Shape(v). If the answer
has no other use for v, that would keep what computes v in the model, which costs time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod

import numpy as np
import onnx_ir as ir

from tensat_dl.onnx.operator import NodeWriter
from tensat_dl.onnx.subgraphs import captured
from tensat_dl.sizes.open_shapes import Shape

#: The shapes of a value at all sizes of open dimensions at which the model was looked at.
Shapes = tuple[Shape, ...]


def take_shapes(writer: NodeWriter, shapes: Mapping[ir.Value, Shapes]) -> bool:
    """Lets Shape and Size nodes take other values, if nothing else needs what they take: a value of this shape at all
    sizes, numbers, or dimensions of the model's inputs. Whether there was any."""
    graph = writer.graph
    needed = _computing(graph.outputs, lambda node: not asks_for_shape(node))
    alike: dict[Shapes, list[ir.Value]] = {}
    for value in dict.fromkeys((*graph.inputs, *shapes)):
        if value in shapes and (value.is_graph_input() or value.producer() in needed):
            alike.setdefault(shapes[value], []).append(value)
    inputs = [(v, shapes[v]) for v in graph.inputs if v in shapes]
    made: dict[Shapes, ir.Value] = {}
    changed = False
    for node in filter(asks_for_shape, needed):
        asked = node.inputs[0]
        if asked is None or asked.producer() is None or asked.producer() in needed or asked not in shapes:
            continue
        own = shapes[asked]
        other = next((v for v in alike.get(own, ()) if node not in _computing([v])), None)
        if other is not None:
            node.replace_input_with(0, other)
        elif (found := _written(node, own, writer, inputs, made)) is not None:
            node.outputs[0].replace_all_uses_with(found, replace_graph_outputs=False)
        changed = changed or other is not None or found is not None
    return changed


def asks_for_shape(node: ir.Node) -> bool:
    return node.op_type in ("Shape", "Size") and node.domain in ("", "ai.onnx")


def _computing(
    values: Iterable[ir.Value], beyond: Callable[[ir.Node], bool] = lambda _: True
) -> dict[ir.Node, None]:
    """The nodes that values are computed from, ``beyond`` some nodes."""
    found: dict[ir.Node, None] = {}
    waiting = [v.producer() for v in values]
    while waiting:
        node = waiting.pop()
        if node is None or node in found:
            continue
        found[node] = None
        if beyond(node):
            waiting += [v.producer() for v in (*node.inputs, *captured(node)) if v is not None]
    return found


def _written(
    node: ir.Node,
    shapes: Shapes,
    writer: NodeWriter,
    inputs: Sequence[tuple[ir.Value, Shapes]],
    made: dict[Shapes, ir.Value],
) -> ir.Value | None:
    """What a node gives for a value of these shapes: of numbers and of dimensions of ``inputs``. None if a dimension
    is neither."""
    if node.outputs[0].is_graph_output():
        return None
    if node.op_type == "Size":
        sizes = {prod(s) for s in shapes}
        return writer.constant(np.array(sizes.pop(), np.int64), "size") if len(sizes) == 1 else None
    start, end = (None if (a := node.attributes.get(k)) is None else a.as_int() for k in ("start", "end"))
    asked = tuple(s[start:end] for s in shapes)
    if asked in made:
        return made[asked]
    if len(set(asked)) == 1:
        return writer.ints(asked[0])
    parts = [_dimension(dims, writer, inputs) for dims in zip(*asked, strict=True)]
    found = [v for v in parts if v is not None]
    if len(found) < len(parts):
        return None
    made[asked] = writer.op("Concat", *found, axis=0) if len(found) > 1 else found[0]
    return made[asked]


def _dimension(dims: Shape, writer: NodeWriter, inputs: Sequence[tuple[ir.Value, Shapes]]) -> ir.Value | None:
    """A list of one dimension, which is so large at each of the sizes."""
    if len(set(dims)) == 1:
        return writer.ints(dims[:1])
    for value, shapes in inputs:
        for axis, there in enumerate(zip(*shapes, strict=True)):
            if there == dims:
                return writer.op("Gather", writer.op("Shape", value), writer.ints([axis]), axis=0)
    return None
