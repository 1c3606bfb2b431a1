"""Operators that the exporter refuses, or translates to what computes something else, as others."""

from __future__ import annotations

import operator

import torch

_ATEN = torch.ops.aten
#: What reductions start from, which changes no result.
_LEAST = {"amax": -float("inf"), "amin": float("inf")}


def use_equivalents(program: torch.export.ExportedProgram) -> None:
    """Replaces what the exporter refuses or gets wrong."""
    graph = program.graph
    for node in graph.find_nodes(op="call_function", target=_ATEN._is_all_true.default):
        node.target = _ATEN.all.default  # what an assertion looks at
    for node in graph.find_nodes(op="call_function", target=_ATEN.rsub.Scalar):
        _convert_first(graph, node)  # 1.0 - x of integers
    for op in (_ATEN.clamp.default, _ATEN.clip.default):
        for node in graph.find_nodes(op="call_function", target=op):
            if any(isinstance(a, float) for a in node.args[1:]):  # the others have to be floats, too
                node.args = (node.args[0], *(float(a) if isinstance(a, int) else a for a in node.args[1:]))
    for node in graph.find_nodes(op="call_function", target=_ATEN.masked_select.default):
        _index(graph, node)
    for node in graph.find_nodes(op="call_function", target=_ATEN.scatter_reduce.two):
        if node.args[4] in _LEAST and not node.kwargs.get("include_self", True):
            _begin_with_infinity(graph, node)
    for node in graph.find_nodes(op="call_function", target=_ATEN.split.Tensor):
        if isinstance(node.args[1], torch.fx.Node):  # the exporter's optimizer has to know the size
            _slice(graph, node)
    program.graph_module.recompile()


def _index(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    """Writes the selected elements as x[mask], both of the shape that they have together."""
    operands = [a.meta["val"] for a in node.args]
    shape = torch.broadcast_shapes(*(x.shape for x in operands))
    expanded = []
    for operand, value in zip(node.args, operands, strict=True):
        if value.shape != shape:
            if not all(isinstance(n, int) for n in shape):
                return
            with graph.inserting_before(node):
                operand = graph.call_function(_ATEN.expand.default, (operand, list(shape)))
            operand.meta["val"] = value.expand(shape)
        expanded.append(operand)
    if len(shape):
        node.target, node.args = _ATEN.index.Tensor, (expanded[0], [expanded[1]])


def _begin_with_infinity(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    """Has a reduction of floats that leaves out what is there start from an infinity, which is then there: the
    exporter starts from the largest finite number."""
    x, dim, index, _, kind = node.args
    if not node.meta["val"].dtype.is_floating_point:
        return
    with graph.inserting_before(node):
        start = graph.call_function(_ATEN.scatter.value, (x, dim, index, _LEAST[kind]))
    start.meta["val"] = node.meta["val"]
    node.update_arg(0, start)
    node.kwargs = {**node.kwargs, "include_self": True}


def _slice(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    """Writes the parts of a tensor, each but the last of an open size, as slices."""
    x, size, *rest = node.args
    dim = rest[0] if rest else node.kwargs.get("dim", 0)
    for part in list(node.users):
        ends = []
        for k in (part.args[1], part.args[1] + 1):
            with graph.inserting_before(part):
                end = graph.call_function(operator.mul, (size, k))
            end.meta["val"] = size.meta["val"] * k
            ends.append(end)
        part.target, part.args = _ATEN.slice.Tensor, (x, dim, *ends)
    graph.erase_node(node)


def _convert_first(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    """Has the first operand be of the type of the result."""
    x, dtype = node.args[0], node.meta["val"].dtype
    if x.meta["val"].dtype != dtype:
        with graph.inserting_before(node):
            converted = graph.call_function(_ATEN._to_copy.default, (x,), {"dtype": dtype})
        converted.meta["val"] = x.meta["val"].to(dtype)
        node.update_arg(0, converted)
