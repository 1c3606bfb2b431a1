"""Operators that the exporter refuses, as others that it takes."""

from __future__ import annotations

import torch

_ATEN = torch.ops.aten


def use_equivalents(program: torch.export.ExportedProgram) -> None:
    """Replaces what the exporter refuses."""
    graph = program.graph
    for node in graph.find_nodes(op="call_function", target=_ATEN._is_all_true.default):
        node.target = _ATEN.all.default  # what an assertion looks at
    for node in graph.find_nodes(op="call_function", target=_ATEN.rsub.Scalar):
        _convert_first(graph, node)  # 1.0 - x of integers
    for op in (_ATEN.clamp.default, _ATEN.clip.default):
        for node in graph.find_nodes(op="call_function", target=op):
            if any(isinstance(a, float) for a in node.args[1:]):  # the others have to be floats, too
                node.args = (node.args[0], *(float(a) if isinstance(a, int) else a for a in node.args[1:]))
    program.graph_module.recompile()


def _convert_first(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    """Has the first operand be of the type of the result."""
    x, dtype = node.args[0], node.meta["val"].dtype
    if x.meta["val"].dtype != dtype:
        with graph.inserting_before(node):
            converted = graph.call_function(_ATEN._to_copy.default, (x,), {"dtype": dtype})
        converted.meta["val"] = x.meta["val"].to(dtype)
        node.update_arg(0, converted)
