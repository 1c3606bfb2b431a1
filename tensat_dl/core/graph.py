"""Tensor types, and tensor graphs: operators applied to earlier operators, each with one output (or several, read by
``proj``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, prod
from typing import Any, TypeVar

K = TypeVar("K", bound=Hashable)

#: Element types in a fixed order: the position is the code that stands first in an encoded type.
DTYPES = ("f32", "f16", "bf16", "f64", "i8", "i16", "i32", "i64", "u8", "bool")
#: The element types of floating-point numbers.
FLOATS = ("f32", "f16", "bf16", "f64")
ITEMSIZE = {
    "f32": 4,
    "f16": 2,
    "bf16": 2,
    "f64": 8,
    "i8": 1,
    "i16": 2,
    "i32": 4,
    "i64": 8,
    "u8": 1,
    "bool": 1,
}
#: The least and the greatest element of integer types.
INTEGERS = {
    "i8": (-(2**7), 2**7 - 1),
    "i16": (-(2**15), 2**15 - 1),
    "i32": (-(2**31), 2**31 - 1),
    "i64": (-(2**63), 2**63 - 1),
    "u8": (0, 2**8 - 1),
}
#: What is rounded to infinity in floating-point types, from there on.
INFINITE_FROM = {
    "f16": (2 - 2**-11) * 2.0**15,
    "bf16": (2 - 2**-8) * 2.0**127,
    "f32": (2 - 2**-24) * 2.0**127,
}


@dataclass(frozen=True, slots=True)
class TensorType:
    """The type of one tensor, such as ``f32[64, 1024]``."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * ITEMSIZE[self.dtype]

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


#: Operators whose results have elements that equal their attribute ``value``.
CONSTANTS = ("fill", "pad")

#: The value of an attribute. Lists of integers are tuples, so that every attribute is hashable.
AttrValue = int | float | str | bool | tuple[int, ...]
Attrs = tuple[tuple[str, AttrValue], ...]


def attr_text(value: object) -> str:
    """An attribute's value as messages show it: lists in brackets, words without quotation marks."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(attr_text, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def leaf_attrs(name: str, type: TensorType) -> Attrs:
    """The attributes of an input or a weight."""
    return (("name", name), ("dtype", type.dtype), ("shape", type.shape))


def fill_attrs(value: float, type: TensorType) -> Attrs:
    """The attributes of a tensor all of whose elements are one number."""
    return (("value", value), ("dtype", type.dtype), ("shape", type.shape))


def overflows(dtype: str, value: float) -> bool:
    """Whether a finite number would be an infinite element of a floating-point type."""
    return INFINITE_FROM.get(dtype, inf) <= abs(value) < inf


def constant_overflows(op: str, attrs: Attrs, dtype: str) -> bool:
    """Whether an application with results of an element type writes down a number that is infinite there."""
    value = dict(attrs)["value"] if op in CONSTANTS else None
    return isinstance(value, float) and overflows(dtype, value)


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


@dataclass(frozen=True, slots=True, repr=False)
class Graph:
    """A tensor graph. ``nodes[i].inputs`` are indices below ``i``; ``outputs`` are (name, node index) pairs.

    ``opaque`` names its operators that have types only: their values are unknown.
    """

    name: str
    nodes: tuple[Node, ...]
    outputs: tuple[tuple[str, int], ...]
    opaque: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        return f"<Graph {self.name}: {len(self.nodes)} nodes>"

    @property
    def inputs(self) -> tuple[int, ...]:
        return tuple(i for i, n in enumerate(self.nodes) if n.op == "input")

    @property
    def weights(self) -> tuple[int, ...]:
        return tuple(i for i, n in enumerate(self.nodes) if n.op == "weight")

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
        return Counter(node.op for node in self.nodes)


def needed(nodes: Sequence[Node], by: Iterable[int], known: Container[int] = ()) -> set[int]:
    """The nodes that some nodes are computed from, these included; ``known`` ones are computed from none. Nodes come
    in topological order."""
    live = set(by)
    for i in range(len(nodes) - 1, -1, -1):
        if i in live and i not in known:
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


def splits(graph: Graph) -> dict[int, tuple[int, ...]]:
    """Slices that together are one ``split``: they cover a tensor, each beginning where the one before ends. For each
    such slice the slices of its split, in order."""
    parts: dict[tuple[int, Any], list[tuple[Any, Any, int]]] = {}
    for i, node in enumerate(graph.nodes):
        if node.op == "slice":
            at = dict[str, Any](node.attrs)
            parts.setdefault((node.inputs[0], at["axis"]), []).append((at["start"], at["stop"], i))
    found: dict[int, tuple[int, ...]] = {}
    for (source, axis), slices in parts.items():
        slices.sort()
        starts = [start for start, _, _ in slices]
        ends = [0, *(stop for _, stop, _ in slices)]
        if len(slices) > 1 and [*starts, graph.nodes[source].type.shape[axis]] == ends:
            nodes = tuple(i for _, _, i in slices)
            found.update(dict.fromkeys(nodes, nodes))
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

    def copy(self, node: Node, inputs: Iterable[int] = ()) -> int:
        """Adds a node of another graph, applied to these."""
        return self.add(node.op, inputs, node.attrs, node.types, node.name)

    def assemble(
        self, keys: Iterable[K], expand: Callable[[K], tuple[Node, Sequence[K]]]
    ) -> dict[K, int] | None:
        """Adds the nodes of keys and of their operands, in topological order. ``expand`` gives a key's node without
        operands, and the keys of its operands. Returns the index of each key's node, or None on a cycle."""
        done: dict[K, int] = {}
        begun: set[K] = set()
        stack = [*keys][::-1]
        while stack:
            key = stack[-1]
            if key in done:
                stack.pop()
                continue
            node, operands = expand(key)
            missing = [k for k in operands if k not in done]
            if not missing:
                done[key] = self.copy(node, [done[k] for k in operands])
            elif key in begun:
                return None
            else:
                begun.add(key)
                stack += reversed(missing)
        return done

    def finish(self, outputs: Iterable[tuple[str, int]]) -> Graph:
        """The graph of these outputs, with every input. Nodes that no output needs are dropped."""
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
