"""Cleans up behind an export: order, and what nothing needs any more."""

from __future__ import annotations

import onnx_ir as ir


def sweep(model: ir.Model) -> None:
    """Sorts the nodes of a model's graph, and removes nodes and initialisers that no output needs."""
    graph = model.graph
    graph.sort()
    for node in reversed(graph):
        if not any(v.uses() or v.is_graph_output() for v in node.outputs):
            graph.remove(node, safe=True)
    inputs = set(graph.inputs)
    for name, value in list(graph.initializers.items()):
        if not value.uses() and not value.is_graph_output() and value not in inputs:
            del graph.initializers[name]
