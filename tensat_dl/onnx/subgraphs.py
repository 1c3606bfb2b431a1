"""The graphs inside of nodes such as If and Loop."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir


def captured(node: ir.Node) -> Iterator[ir.Value]:
    """The values that the subgraphs of a node take from outside of it."""
    inside = {v for graph in subgraphs(node) for v in _defined(graph)}
    for graph in subgraphs(node):
        taken = [v for n in ir.traversal.RecursiveGraphIterator(graph) for v in n.inputs if v is not None]
        for n in ir.traversal.RecursiveGraphIterator(graph):
            taken += [v for inner in subgraphs(n) for v in inner.outputs]
        yield from (v for v in (*taken, *graph.outputs) if v not in inside)


def subgraphs(node: ir.Node) -> Iterator[ir.Graph]:
    """The graphs among a node's attributes."""
    for attr in node.attributes.values():
        if attr.type == ir.AttributeType.GRAPH and not attr.is_ref():
            yield attr.as_graph()
        elif attr.type == ir.AttributeType.GRAPHS and not attr.is_ref():
            yield from attr.as_graphs()


def _defined(graph: ir.Graph) -> Iterator[ir.Value]:
    """Every value that is defined in a graph or within it."""
    yield from graph.inputs
    yield from graph.initializers.values()
    for node in graph:
        yield from node.outputs
        for inner in subgraphs(node):
            yield from _defined(inner)
