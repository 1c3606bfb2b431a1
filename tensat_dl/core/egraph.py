"""An e-graph as plain arrays: exploration makes it, pricing fills in its costs, extraction reads it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from tensat_dl.core.graph import Attrs, Graph, TensorType

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

#: What `by_layout` adds to an e-class that it splits: in each part an e-node without a price that stands for the
#: results that are no views, and for each view that is copied an e-class with its price, as one more operand.
CONTIGUOUS, COPY = "(contiguous)", "(copy)"

#: An operator, its attributes and the classes that it is applied to.
NodeKey = tuple[str, Attrs, tuple[int, ...]]


@dataclass(frozen=True, slots=True, eq=False)  # arrays have no one truth value
class EGraph:
    """E-classes ``0..C-1`` and e-nodes ``0..N-1``.

    E-nodes are sorted by e-class, and within an e-class by a stable key, so equal e-graphs have equal arrays.
    The children of e-node ``n`` are ``children[offsets[n]:offsets[n + 1]]``, which are e-classes, in argument
    order. The e-nodes of e-class ``c`` are ``class_start[c]..class_start[c + 1] - 1``.
    """

    op: tuple[str, ...]  #: operator of each e-node
    attrs: tuple[Attrs, ...]  #: attributes of each e-node
    node_class: IntArray  #: [N] e-class of each e-node
    class_start: IntArray  #: [C + 1]
    offsets: IntArray  #: [N + 1]
    children: IntArray  #: [sum of arities]
    types: tuple[tuple[TensorType, ...], ...]  #: [C] one type per output of the class's nodes
    weights_only: BoolArray  #: [C] computed from weights alone: a zero-cost leaf for extraction
    roots: tuple[int, ...]  #: the e-class of each graph output, in output order
    source: IntArray  #: e-nodes of the input program, one per source node, -1 if the node was not kept
    cost: FloatArray  #: [N] milliseconds; NaN until priced
    home: IntArray  #: [C] ascending; where e-classes are split by layout, the e-class that each is a part of
    origin: tuple[str, ...] = ()  #: [N] the rule that first built each e-node, "" for the input program's

    @staticmethod
    def of(
        nodes: Sequence[NodeKey],
        node_class: ArrayLike,
        *,
        types: tuple[tuple[TensorType, ...], ...],
        weights_only: ArrayLike,
        roots: tuple[int, ...],
        source: ArrayLike,
        cost: ArrayLike = np.nan,
        home: ArrayLike | None = None,
        origin: tuple[str, ...] = (),
    ) -> EGraph:
        """The e-graph of these e-nodes, which are sorted by their e-classes ``node_class``."""
        classes = np.array(node_class, dtype=np.int64)
        return EGraph(
            op=tuple(op for op, _, _ in nodes),
            attrs=tuple(attrs for _, attrs, _ in nodes),
            node_class=classes,
            class_start=np.searchsorted(classes, np.arange(len(types) + 1)).astype(np.int64),
            offsets=np.cumsum([0, *(len(children) for _, _, children in nodes)], dtype=np.int64),
            children=np.array([c for _, _, children in nodes for c in children], dtype=np.int64),
            types=types,
            weights_only=np.array(weights_only, dtype=np.bool_),
            roots=roots,
            source=np.array(source, dtype=np.int64),
            cost=np.full(len(nodes), cost, dtype=np.float64),
            home=np.arange(len(types)) if home is None else np.array(home, dtype=np.int64),
            origin=origin,
        )

    @property
    def num_nodes(self) -> int:
        return len(self.node_class)

    @property
    def num_classes(self) -> int:
        return len(self.class_start) - 1

    def nodes_of(self, c: int) -> range:
        return range(int(self.class_start[c]), int(self.class_start[c + 1]))

    def children_of(self, n: int) -> list[int]:
        kids: list[int] = self.children[self.offsets[n] : self.offsets[n + 1]].tolist()
        return kids

    def operands_of(self, n: int) -> list[int]:
        """The children of an e-node that are tensors, not the price of its copy."""
        return [d for d in self.children_of(n) if self.op[self.class_start[d]] != COPY]

    def keys(self) -> list[NodeKey]:
        """The e-nodes in order."""
        children: list[int] = self.children.tolist()
        kids = (tuple(children[first:last]) for first, last in pairwise(self.offsets.tolist()))
        return list(zip(self.op, self.attrs, kids, strict=True))

    def index(self, commutative: Container[str] = ()) -> dict[NodeKey, int]:
        """The e-class of each e-node, that of a ``commutative`` operator under both orders of its operands."""
        found = dict(zip(self.keys(), self.node_class.tolist(), strict=True))
        for (op, attrs, operands), c in list(found.items()):
            if op in commutative:
                found.setdefault((op, attrs, operands[::-1]), c)
        return found

    def without(self, dropped: BoolArray, opaque: Collection[str] = ()) -> EGraph:
        """The e-graph without the e-nodes ``dropped`` [N], and without e-nodes with a child that is then empty.
        E-classes keep their numbers; those that no e-node computes from weights alone any more are no weights.
        E-nodes of the input program can't be dropped."""
        assert not dropped[self.source[self.source >= 0]].any()
        arities = np.diff(self.offsets)
        user = np.repeat(np.arange(self.num_nodes), arities)
        while True:
            empty = np.bincount(self.node_class[~dropped], minlength=self.num_classes) == 0
            lost = user[empty[self.children] & ~dropped[user]]
            if not lost.size:
                break
            dropped = dropped.copy()
            dropped[lost] = True
        kept = np.flatnonzero(~dropped)
        number = np.cumsum(~dropped) - 1
        before = np.concatenate([[0], np.cumsum(~dropped)])
        ahead = self.weights_only
        if ahead[self.node_class[dropped]].any():
            able = ~dropped & ahead[self.node_class] & [op not in ("input", *opaque) for op in self.op]
            ahead = self._computable(able)
        return replace(
            self,
            weights_only=ahead,
            op=tuple(self.op[n] for n in kept.tolist()),
            attrs=tuple(self.attrs[n] for n in kept.tolist()),
            node_class=self.node_class[kept],
            class_start=before[self.class_start],
            offsets=np.concatenate([[0], np.cumsum(arities[kept])]),
            children=self.children[np.repeat(~dropped, arities)],
            source=np.where((self.source < 0) | dropped[self.source], -1, number[self.source]),
            cost=self.cost[kept],
            origin=tuple(self.origin[n] for n in kept.tolist()) if self.origin else (),
        )

    def _computable(self, able: BoolArray) -> BoolArray:
        """[C] the e-classes that the e-nodes ``able`` [N] compute from nothing but each other."""
        user = np.repeat(np.arange(self.num_nodes), np.diff(self.offsets))
        found = np.zeros(self.num_classes, np.bool_)
        while True:
            waiting = np.bincount(user[~found[self.children]], minlength=self.num_nodes) > 0
            new = np.bincount(self.node_class[able & ~waiting], minlength=self.num_classes) > 0
            if (new == found).all():
                return found
            found = new


def without_choices(graph: Graph) -> EGraph:
    """The e-graph whose e-class i holds node i and nothing else."""
    return EGraph.of(
        [(n.op, n.attrs, n.inputs) for n in graph.nodes],
        range(len(graph.nodes)),
        types=tuple(n.types for n in graph.nodes),
        weights_only=graph.weights_only(),
        roots=tuple(i for _, i in graph.outputs),
        source=range(len(graph.nodes)),
    )


def located(graph: Graph, at: Callable[[NodeKey], int | None]) -> list[int | None]:
    """The class of each node of a graph, by the classes of its operands, where ``at`` knows it; else None."""
    found: list[int | None] = []
    for node in graph.nodes:
        operands = tuple(c for j in node.inputs if (c := found[j]) is not None)
        complete = len(operands) == len(node.inputs)
        found.append(at((node.op, node.attrs, operands)) if complete else None)
    return found


def find(graph: Graph, egraph: EGraph, commutative: Container[str] = ()) -> list[int | None]:
    """For each node of a graph the e-class that represents it, or None. Inputs and weights match by name, operands of
    ``commutative`` operators in either order."""
    return located(graph, egraph.index(commutative).get)
