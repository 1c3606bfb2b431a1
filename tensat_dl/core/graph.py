"""A typed tensor graph: nodes in topological order, each with one output (or several, read by ``proj``)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tensat_dl.core.types import TensorType

#: The value of an attribute. Lists of integers are tuples, so that every attribute is hashable.
AttrValue = int | float | str | bool | tuple[int, ...]
Attrs = tuple[tuple[str, AttrValue], ...]


@dataclass(frozen=True, slots=True)
class Node:
    """One operator applied to earlier nodes.

    ``types`` has one entry per output. Nodes with several outputs are consumed only by ``proj`` nodes, whose
    attribute ``index`` selects one of them. ``input`` and ``weight`` nodes carry their ``name`` as an attribute.
    """

    op: str
    inputs: tuple[int, ...]
    attrs: Attrs
    types: tuple[TensorType, ...]
    name: str = field(default="", compare=False)

    @property
    def type(self) -> TensorType:
        """The type of a node with one output."""
        (only,) = self.types
        return only

    def attr(self, name: str) -> AttrValue:
        for key, value in self.attrs:
            if key == name:
                return value
        raise KeyError(name)


@dataclass(frozen=True, slots=True)
class Graph:
    """A tensor graph. ``nodes[i].inputs`` are indices below ``i``; ``outputs`` are (name, node index) pairs.

    ``opaque`` are those of its operators that have types only: nothing is known of their values.
    """

    name: str
    nodes: tuple[Node, ...]
    outputs: tuple[tuple[str, int], ...]
    opaque: frozenset[str] = frozenset()

    @property
    def inputs(self) -> tuple[int, ...]:
        return tuple(i for i, n in enumerate(self.nodes) if n.op == "input")

    @property
    def weights(self) -> tuple[int, ...]:
        return tuple(i for i, n in enumerate(self.nodes) if n.op == "weight")

    def consumers(self) -> list[list[int]]:
        """For each node the nodes that take it as an input, each once, in order."""
        users: list[list[int]] = [[] for _ in self.nodes]
        for i, node in enumerate(self.nodes):
            for j in dict.fromkeys(node.inputs):
                users[j].append(i)
        return users

    def weights_only(self) -> list[bool]:
        """For each node whether its value is known ahead of time: computed from weights and constants alone, by
        operators that can be computed."""
        unknown = {"input", *self.opaque}
        known: list[bool] = []
        for node in self.nodes:
            known.append(node.op not in unknown and all(known[j] for j in node.inputs))
        return known

    def count(self) -> Mapping[str, int]:
        """How many nodes of each operator the graph has."""
        counts: dict[str, int] = {}
        for node in self.nodes:
            counts[node.op] = counts.get(node.op, 0) + 1
        return counts


def needed(nodes: Sequence[Node], by: Iterable[int]) -> set[int]:
    """The nodes that some nodes are computed from, these included. Nodes come in topological order."""
    live = set(by)
    for i in range(len(nodes) - 1, -1, -1):
        if i in live:
            live.update(nodes[i].inputs)
    return live


def value_numbers(graph: Graph, numbers: dict[Hashable, int]) -> list[int]:
    """A number for each node. Nodes that compute the same in the same way have the same number, in all graphs that
    share ``numbers``. (Whole expressions as nested tuples would take exponential time to compare.)"""
    found: list[int] = []
    for n in graph.nodes:
        key = n.op, n.attrs, n.types, tuple(found[j] for j in n.inputs)
        found.append(numbers.setdefault(key, len(numbers)))
    return found


class GraphBuilder:
    """Builds a graph with common sub-expressions shared: equal nodes get the same index."""

    def __init__(self, name: str, opaque: Iterable[str] = ()) -> None:
        self.name = name
        self.opaque = frozenset(opaque)
        self.nodes: list[Node] = []
        self._index: dict[Node, int] = {}

    def add(
        self, op: str, inputs: Iterable[int], attrs: Attrs, types: tuple[TensorType, ...], name: str = ""
    ) -> int:
        node = Node(op, tuple(inputs), attrs, types, name)
        index = self._index.get(node)
        if index is None:
            index = len(self.nodes)
            self._index[node] = index
            self.nodes.append(node)
        return index

    def finish(self, outputs: Iterable[tuple[str, int]]) -> Graph:
        """The graph of what the outputs need, plus every input: unreachable nodes are dropped."""
        outs = tuple(outputs)
        live = needed(self.nodes, (i for _, i in outs))
        live.update(i for i, n in enumerate(self.nodes) if n.op == "input")
        order = sorted(live)
        new = {old: i for i, old in enumerate(order)}
        nodes = tuple(
            Node(n.op, tuple(new[j] for j in n.inputs), n.attrs, n.types, n.name)
            for n in (self.nodes[i] for i in order)
        )
        opaque = self.opaque & {n.op for n in nodes}
        return Graph(self.name, nodes, tuple((k, new[i]) for k, i in outs), opaque)
