"""The graphs inside of nodes such as If and Loop, and the names within a graph."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir


def subgraphs(node: ir.Node) -> Iterator[ir.Graph]:
    """The graphs among a node's attributes."""
    for attr in node.attributes.values():
        if attr.type == ir.AttributeType.GRAPH and not attr.is_ref():
            yield attr.as_graph()
        elif attr.type == ir.AttributeType.GRAPHS and not attr.is_ref():
            yield from attr.as_graphs()


def captured(node: ir.Node) -> Iterator[ir.Value]:
    """The values that the subgraphs of a node take from outside of it."""
    inside = {v for graph in subgraphs(node) for v in _defined(graph)}
    for graph in subgraphs(node):
        taken = [v for n in ir.traversal.RecursiveGraphIterator(graph) for v in n.inputs if v is not None]
        for n in ir.traversal.RecursiveGraphIterator(graph):
            taken += [v for inner in subgraphs(n) for v in inner.outputs]
        yield from (v for v in (*taken, *graph.outputs) if v not in inside)


def release(node: ir.Node) -> None:
    """Lets the subgraphs of a node that is removed take nothing more: they would be uses of what is around it."""
    for graph in subgraphs(node):
        for every in (graph, *graph.subgraphs()):
            every.outputs.clear()
        for inner in ir.traversal.RecursiveGraphIterator(graph):
            for k in range(len(inner.inputs)):
                inner.replace_input_with(k, None)


def _defined(graph: ir.Graph) -> Iterator[ir.Value]:
    """Every value that is defined in a graph or within it."""
    for inner in (graph, *graph.subgraphs()):
        yield from inner.inputs
        yield from inner.initializers.values()
        for node in inner:
            yield from node.outputs


class UniqueNames:
    """The names of the values and nodes in a graph and within it, and new ones beside them."""

    def __init__(self, graph: ir.Graph) -> None:
        self._taken = {str(v.name) for v in (*graph.inputs, *graph.initializers.values())}
        self._counts: dict[str, int] = {}
        for node in ir.traversal.RecursiveGraphIterator(graph):
            self._taken.add(str(node.name))
            self._taken.update(str(v.name) for v in (*node.outputs, *node.inputs) if v is not None)

    def new(self, wanted: str) -> str:
        """A name that nothing has yet; from now on it is taken."""
        name = wanted
        while name in self._taken:
            self._counts[wanted] = self._counts.get(wanted, 0) + 1
            name = f"{wanted}_{self._counts[wanted]}"
        self._taken.add(name)
        return name
