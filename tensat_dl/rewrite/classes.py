"""The data that patterns match: graphs and e-graphs, as classes of equal nodes, with facts about each class."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from tensat_dl.core.egraph import EGraph, without_choices
from tensat_dl.core.graph import Attrs, Graph, TensorType
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


class Known(Protocol):
    """Knowledge of tensors, by number: all that conditions of rules and types of targets can ask for. A tensor
    without one type is in none of these."""

    @property
    def types(self) -> Mapping[int, TensorType]: ...
    @property
    def weights(self) -> Set[int]: ...
    @property
    def varying(self) -> Set[int]:
        """One way to compute them needs an input, or an operator that can't be computed. In an e-graph some may be
        among the weights as well."""
        ...

    @property
    def values(self) -> Mapping[int, float]: ...
    @property
    def factors(self) -> Mapping[int, int]:
        """The number of factors of each as a product."""
        ...

    @property
    def starts(self) -> Set[int]: ...


def fact(known: Known, function: str, tensor: int) -> Any:
    """The answer of ``weight(x)``, ``value(x)``, ``factors(x)`` or ``start(x)`` for a tensor; for ``not weight(x)``
    it is asked for ``varying``."""
    match function:
        case "weight":
            return tensor in known.weights
        case "varying":
            return tensor in known.varying
        case "factors":
            return known.factors.get(tensor, 1)
        case "start":
            return tensor in known.starts
    return known.values.get(tensor)


def kind(known: Known, tensor: int) -> tuple[object, ...]:
    """All facts about a tensor that conditions of rules can ask for."""
    facts = tensor in known.weights, tensor in known.varying, tensor in known.starts
    return known.types[tensor], *facts, known.values.get(tensor), known.factors.get(tensor, 1)


class EGraphTerms:
    """The e-nodes of an e-graph that was explored from a graph, and knowledge of its e-classes (`Known`)."""

    def __init__(self, egraph: EGraph, graph: Graph, ops: OpTable) -> None:
        self.egraph = egraph
        self.graph = graph
        self.ops = ops
        self.op: Sequence[str] = egraph.op
        self.attrs: Sequence[Attrs] = egraph.attrs
        self._by_op: dict[str, list[int]] = {}
        for n, op in enumerate(egraph.op):
            self._by_op.setdefault(op, []).append(n)
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
        return self.types.get(c)

    def users_of(self, c: int) -> Iterable[int]:
        return self._users.get(c, ())

    @cached_property
    def _users(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for n, children in enumerate(self._children):
            for c in set(children):
                found.setdefault(c, []).append(n)
        return found

    # ---- what is known of its classes ----------------------------------------------------------------------

    @cached_property
    def types(self) -> Mapping[int, TensorType]:
        return {c: types[0] for c, types in enumerate(self.egraph.types) if len(types) == 1}

    @cached_property
    def weights(self) -> Set[int]:
        return set(np.flatnonzero(self.egraph.weights_only).tolist())

    @cached_property
    def varying(self) -> Set[int]:
        new = [self._class[n] for n, op in enumerate(self.op) if op == "input" or op in self.graph.opaque]
        found = set(new)
        while new:
            above = {self._class[n] for c in new for n in self.users_of(c)}
            new = list(above - found)
            found |= above
        return found

    @cached_property
    def values(self) -> Mapping[int, float]:
        return {self._class[n]: float(dict(self.attrs[n])["value"]) for n in self.with_op("fill")}  # type: ignore[arg-type]

    @cached_property
    def factors(self) -> Mapping[int, int]:
        """The least number over all e-nodes, as the engine counts."""
        factors = dict.fromkeys(self.starts, 1)
        changed = True
        while changed:
            changed = False
            for n, op in enumerate(self.op):
                c, kids = self._class[n], self._children[n]
                if all(d in factors for d in kids):
                    count = factors_of(op, self.attrs[n], [factors[d] for d in kids], self.ops)
                    if count < factors.get(c, count + 1):
                        factors[c] = count
                        changed = True
        return factors

    @cached_property
    def starts(self) -> Set[int]:
        source = self.egraph.source.tolist()
        return {self._class[source[i]] for i in starts(self.graph) if source[i] >= 0}


def graph_terms(graph: Graph, ops: OpTable) -> EGraphTerms:
    """The nodes of a graph, each a class of its own."""
    return EGraphTerms(without_choices(graph), graph, ops)


def factors_of(op: str, attrs: Attrs, operands: Sequence[int], ops: OpTable) -> int:
    """The number of factors of a node as a product."""
    if op == "matmul" and len(operands) == 2:
        return sum(operands) if dict(attrs)["act"] == "none" else 1
    if op == "smul" or (op in ops and ops[op].view):
        return operands[0]
    return MANY if op == "concat" else 1


def starts(graph: Graph) -> list[int]:
    """The starts of chains of products: tensors that are computed from inputs and are no products."""
    known = graph.weights_only()
    return [i for i, n in enumerate(graph.nodes) if not known[i] and n.op != "matmul"]
