"""Where patterns are matched: graphs and e-graphs, as classes of equal nodes, and what is known of each class."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from tensat_dl.core.egraph import EGraph
from tensat_dl.core.graph import Attrs, Graph
from tensat_dl.core.types import TensorType
from tensat_dl.ops.table import OpTable

#: A concatenation counts as this many factors, see the functions of conditions in docs/language.md.
MANY = 1000


class Terms(Protocol):
    """Nodes in classes. A graph is the case of one node for each class."""

    @property
    def op(self) -> Sequence[str]: ...
    @property
    def attrs(self) -> Sequence[Attrs]: ...

    def with_op(self, op: str) -> Iterable[int]:
        """The nodes of an operator."""
        ...

    def nodes_of(self, c: int) -> Iterable[int]:
        """The nodes of a class."""
        ...

    def class_of(self, n: int) -> int: ...

    def children_of(self, n: int) -> Sequence[int]:
        """The classes that a node is applied to."""
        ...

    def type_of(self, c: int) -> TensorType | None:
        """The type of a class; None of one with several outputs."""
        ...

    def users_of(self, c: int) -> Iterable[int]:
        """The nodes that are applied to a class."""
        ...


@dataclass(frozen=True)
class Properties:
    """What is known of classes, by number. A class without one tensor type is in none of them."""

    types: Mapping[int, TensorType]
    weights: Set[int]
    varying: Set[int]  #: one way to compute them needs an input; in an e-graph some may be both
    values: Mapping[int, float]
    factors: Mapping[int, int]
    starts: Set[int]


class GraphTerms:
    """The nodes of a graph, each a class of its own."""

    def __init__(self, graph: Graph, ops: OpTable) -> None:
        self.graph = graph
        self.ops = ops
        self.op = [n.op for n in graph.nodes]
        self.attrs = [n.attrs for n in graph.nodes]
        self._by_op = _by_op(self.op)

    def with_op(self, op: str) -> Iterable[int]:
        return self._by_op.get(op, ())

    def nodes_of(self, c: int) -> Iterable[int]:
        return (c,)

    def class_of(self, n: int) -> int:
        return n

    def children_of(self, n: int) -> Sequence[int]:
        return self.graph.nodes[n].inputs

    def type_of(self, c: int) -> TensorType | None:
        return self.known.types.get(c)

    def users_of(self, c: int) -> Iterable[int]:
        return self._users[c]

    @cached_property
    def _users(self) -> list[list[int]]:
        return self.graph.consumers()

    @cached_property
    def known(self) -> Properties:
        nodes = self.graph.nodes
        weights = {i for i, constant in enumerate(self.graph.weights_only()) if constant}
        factors: dict[int, int] = {}
        for i, n in enumerate(nodes):
            factors[i] = _factors(n.op, n.attrs, [factors[j] for j in n.inputs], self.ops)
        first = set(starts(self.graph))
        factors |= dict.fromkeys(first, 1)
        return Properties(
            {i: n.type for i, n in enumerate(nodes) if len(n.types) == 1},
            weights,
            {i for i in range(len(nodes)) if i not in weights},
            {i: _value(n.attrs) for i, n in enumerate(nodes) if n.op == "fill"},
            factors,
            first,
        )


class EGraphTerms:
    """The e-nodes of an e-graph that was explored from a graph."""

    def __init__(self, egraph: EGraph, graph: Graph, ops: OpTable) -> None:
        self.egraph = egraph
        self.graph = graph
        self.ops = ops
        self.op: Sequence[str] = egraph.op
        self.attrs: Sequence[Attrs] = egraph.attrs
        self._by_op = _by_op(egraph.op)
        self._children = [tuple(egraph.children_of(n)) for n in range(egraph.num_nodes)]
        self._class: list[int] = egraph.node_class.tolist()

    def with_op(self, op: str) -> Iterable[int]:
        return self._by_op.get(op, ())

    def nodes_of(self, c: int) -> Iterable[int]:
        return self.egraph.nodes_of(c)

    def class_of(self, n: int) -> int:
        return self._class[n]

    def children_of(self, n: int) -> Sequence[int]:
        return self._children[n]

    def type_of(self, c: int) -> TensorType | None:
        return self.known.types.get(c)

    def users_of(self, c: int) -> Iterable[int]:
        return self._users.get(c, ())

    @cached_property
    def _users(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for n, children in enumerate(self._children):
            for c in set(children):
                found.setdefault(c, []).append(n)
        return found

    @cached_property
    def known(self) -> Properties:
        e = self.egraph
        source = e.source.tolist()
        first = {self._class[source[i]] for i in starts(self.graph) if source[i] >= 0}
        factors = dict.fromkeys(first, 1)
        changed = True
        while changed:  # the least number over all e-nodes, as the engine counts
            changed = False
            for n, op in enumerate(e.op):
                c, kids = self._class[n], self._children[n]
                if all(d in factors for d in kids):
                    count = _factors(op, e.attrs[n], [factors[d] for d in kids], self.ops)
                    if count < factors.get(c, count + 1):
                        factors[c] = count
                        changed = True
        return Properties(
            {c: types[0] for c, types in enumerate(e.types) if len(types) == 1},
            {c for c, known in enumerate(e.weights_only.tolist()) if known},
            self._varying(),
            {self._class[n]: _value(e.attrs[n]) for n in self.with_op("fill")},
            factors,
            first,
        )

    def _varying(self) -> set[int]:
        """The classes one way to compute which needs an input, or an operator that can't be computed."""
        new = [self._class[n] for n, op in enumerate(self.op) if op == "input" or op in self.graph.opaque]
        found = set(new)
        while new:
            above = {self._class[n] for c in new for n in self.users_of(c)}
            new = list(above - found)
            found |= above
        return found


def _by_op(ops: Sequence[str]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for n, op in enumerate(ops):
        found.setdefault(op, []).append(n)
    return found


def _value(attrs: Attrs) -> float:
    return float(dict(attrs)["value"])  # type: ignore[arg-type]


def _factors(op: str, attrs: Attrs, operands: Sequence[int], ops: OpTable) -> int:
    """Of how many factors a node is a product."""
    if op == "matmul" and len(operands) == 2:
        return sum(operands) if dict(attrs)["act"] == "none" else 1
    if op == "smul" or (op in ops and ops[op].view):
        return operands[0]
    return MANY if op == "concat" else 1


def starts(graph: Graph) -> list[int]:
    """Where chains of products start: at what is computed from inputs and is no product itself."""
    known = graph.weights_only()
    return [i for i, n in enumerate(graph.nodes) if not known[i] and n.op != "matmul"]
