"""The operators of all graphs of a search, each kept once.

A node is an operator applied to earlier nodes, and a graph is the nodes of its outputs. What is known of a node does
not depend on the graph that it is in: its type, whether it is computed from weights alone, and what patterns match
below it. So all graphs of a search share that, and a graph costs the search only what it has and no graph before it
had.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tensat_dl.core.graph import Attrs, Graph, Node, TensorType
from tensat_dl.ops.table import OpTable
from tensat_dl.rewrite.classes import factors_of, kind

_Key = tuple[str, Attrs, tuple[int, ...]]


class NodeStore:
    """Nodes by number, operands before users; the terms that patterns match (`Terms`), and knowledge of them
    (`Known`). The operands of a commutative operator may stand in either order: the first that was seen is kept."""

    def __init__(self, graph: Graph, ops: OpTable) -> None:
        self.name, self.ops, self.opaque = graph.name, ops, graph.opaque
        self._commutative = frozenset(o for o in ops if ops[o].commutative)
        self._index: dict[_Key, int] = {}
        self._heads: dict[tuple[str, Attrs, tuple[TensorType, ...]], int] = {}
        self._kinds: dict[tuple[object, ...], int] = {}
        self.op: list[str] = []
        self.attrs: list[Attrs] = []
        self.operands: list[tuple[int, ...]] = []
        self.outs: list[tuple[TensorType, ...]] = []  #: the types of each node's outputs
        self.names: list[str] = []
        self.origin: list[str] = []  #: the rule that first built each, "" for the first graph's
        self.part: list[int] = []  #: of the graph, where that was taken apart; else 0
        self.depth: list[int] = []  #: the longest way down
        self.hash: list[int] = []  #: of all that a node is computed from
        self.kind: list[int] = []  #: equal for tensors of which rules know the same
        self.arities: set[tuple[str, int]] = set()
        self.types: dict[int, TensorType] = {}
        self.weights: set[int] = set()
        self.varying: set[int] = set()
        self.values: dict[int, float] = {}
        self.factors: dict[int, int] = {}
        self.starts: set[int] = set()
        added: list[int] = []
        for n in graph.nodes:
            added.append(self.add(n.op, n.attrs, tuple(added[j] for j in n.inputs), n.types, n.name))
        self.inputs = tuple(added[i] for i in graph.inputs)
        self.labels = tuple(name for name, _ in graph.outputs)
        self.outputs = tuple(added[i] for _, i in graph.outputs)

    def __len__(self) -> int:
        return len(self.op)

    # ---- terms ---------------------------------------------------------------------------------------------

    def with_op(self, op: str) -> Iterable[int]:
        return (n for n, other in enumerate(self.op) if other == op)

    def nodes_of(self, c: int) -> Iterable[int]:
        return (c,)

    def class_of(self, n: int) -> int:
        return n

    def children_of(self, n: int) -> Sequence[int]:
        return self.operands[n]

    def type_of(self, c: int) -> TensorType | None:
        return self.types.get(c)

    def users_of(self, c: int) -> Iterable[int]:
        return (n for n, operands in enumerate(self.operands) if c in operands)

    # ---- growing -------------------------------------------------------------------------------------------

    def _key(self, op: str, attrs: Attrs, operands: tuple[int, ...]) -> _Key:
        return op, attrs, tuple(sorted(operands)) if op in self._commutative else operands

    def add(
        self,
        op: str,
        attrs: Attrs,
        operands: tuple[int, ...],
        types: tuple[TensorType, ...],
        name: str = "",
        origin: str = "",
        part: int = 0,
    ) -> int:
        """The number of a node, which is added if it is new; ``origin`` is the rule that brings it."""
        key = self._key(op, attrs, operands)
        n = self._index.setdefault(key, len(self.op))
        if n < len(self.op):
            return n
        self.op.append(op)
        self.attrs.append(attrs)
        self.operands.append(operands)
        self.outs.append(types)
        self.names.append(name)
        self.origin.append(origin)
        self.part.append(part)
        self.depth.append(1 + max((self.depth[k] for k in operands), default=0))
        self.hash.append(self.hashed(n, [self.hash[k] for k in operands]))
        self.arities.add((op, len(operands)))
        known = op != "input" and op not in self.opaque and self.weights.issuperset(operands)
        (self.weights if known else self.varying).add(n)
        if not known and op != "matmul":
            self.starts.add(n)
        if op == "fill":
            self.values[n] = float(dict(attrs)["value"])  # type: ignore[arg-type]
        self.factors[n] = 1
        if n not in self.starts:
            self.factors[n] = factors_of(op, attrs, [self.factors[k] for k in operands], self.ops)
        if len(types) == 1:
            self.types[n] = types[0]
        self.kind.append(-1 if len(types) != 1 else self._kinds.setdefault(kind(self, n), len(self._kinds)))
        return n

    def hashed(self, n: int, operands: Sequence[int]) -> int:
        """The hash of a node with other operands, which are given by their hashes. Graphs that compute a value in the
        same way have the same, whatever the order of commutative operands."""
        head = self._heads.setdefault((self.op[n], self.attrs[n], self.outs[n]), len(self._heads))
        return hash((head, *(sorted(operands) if self.op[n] in self._commutative else operands)))

    # ---- graphs --------------------------------------------------------------------------------------------

    def find(self, graph: Graph) -> tuple[int, ...] | None:
        """The outputs of a graph; None if the store lacks a part of it."""
        found: list[int] = []
        for n in graph.nodes:
            at = self._index.get(self._key(n.op, n.attrs, tuple(found[j] for j in n.inputs)))
            if at is None:
                return None
            found.append(at)
        return tuple(found[i] for _, i in graph.outputs)

    def below(self, outputs: Iterable[int]) -> list[int]:
        """The nodes of a graph, in order."""
        stack, seen = list(outputs), set[int]()
        while stack:
            n = stack.pop()
            if n not in seen:
                seen.add(n)
                stack += self.operands[n]
        return sorted(seen)

    def order(self, outputs: Iterable[int]) -> list[int]:
        """The nodes of a graph as `graph` has them: with every input of the first graph."""
        return sorted({*self.below(outputs), *self.inputs})

    def graph(self, outputs: Sequence[int]) -> Graph:
        """The graph of these outputs."""
        order = self.order(outputs)
        number = {n: i for i, n in enumerate(order)}
        nodes = tuple(
            Node(
                self.op[n],
                tuple(number[k] for k in self.operands[n]),
                self.attrs[n],
                self.outs[n],
                self.names[n],
            )
            for n in order
        )
        named = tuple(zip(self.labels, (number[o] for o in outputs), strict=True))
        return Graph(self.name, nodes, named, self.opaque & {n.op for n in nodes})
