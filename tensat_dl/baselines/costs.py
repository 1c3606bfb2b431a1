"""Costs of graphs that differ in few places, by the same model as all others (`CostModel.price_graph`).

Most nodes cost the same in every graph. Two kinds do not: a view is free unless some reader needs another layout, and
where ONNX Runtime runs graphs, what it computes together with a convolution is free, too. These are priced for each
graph, the others once and for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tensat_dl.baselines.store import NodeStore
from tensat_dl.core.egraph import EGraph, without_choices
from tensat_dl.core.graph import Graph, Node, leaf_attrs
from tensat_dl.cost.model import FOLDED, CostModel, fused
from tensat_dl.cost.views import StridedView, contiguous, effect, spread

#: Completes a cost model by measuring what an e-graph needs.
Complete = Callable[[CostModel, EGraph], CostModel]


@dataclass(frozen=True, slots=True)
class Patched:
    """A graph, as nodes of a store in which some nodes ``instead`` stand in the places of others. Nodes that were
    ``added`` are not read through these."""

    nodes: frozenset[int]
    outputs: tuple[int, ...]
    instead: Mapping[int, int]
    added: frozenset[int]

    def operands(self, store: NodeStore, n: int) -> Sequence[int]:
        given = store.operands[n]
        if n in self.added or not self.instead:
            return given
        return [self.instead.get(k, k) for k in given]


class Costs:
    """Milliseconds of nodes of a store, in any graph. ``complete`` measures, where something is measured."""

    def __init__(self, store: NodeStore, model: CostModel, complete: Complete | None = None) -> None:
        self.store = store
        self.model = model
        self._complete = complete
        self._known: dict[tuple[object, ...], float] = {}
        self._cost: dict[int, float] = {}
        self._depends: dict[int, bool] = {}  #: whether the cost depends on the graph
        self._view: dict[int, StridedView] = {}

    @property
    def measures(self) -> bool:
        return self._complete is not None

    def prepare(self, nodes: Iterable[int]) -> None:
        """Measures what these nodes need, if anything is measured, and prices them."""
        new = [n for n in nodes if n not in self._cost]
        if self._complete is not None and new:
            missing = {
                key: g for n in new if (key := self._key(n)) not in self._known and (g := self._alone(n))
            }
            if missing:
                self.model = self._complete(self.model, without_choices(_together(list(missing.values()))))
        for n in new:
            self._price(n)

    def local(self, n: int) -> float:
        """The cost of a node, 0 if that depends on the graph."""
        if n not in self._cost:
            self._price(n)
        return 0.0 if self._depends[n] else self._cost[n]

    def of(self, shape: Patched) -> float:
        """The cost of the nodes that depend on the graph."""
        depending = [n for n in shape.nodes if self._is_depending(n)]
        if not depending:
            return 0.0
        if self.model.device.strided_views:
            return self._views(shape, depending)
        return self._with_convolutions(shape, depending)

    def _is_depending(self, n: int) -> bool:
        if n not in self._depends:
            self._price(n)
        return self._depends[n]

    # ---- one node ------------------------------------------------------------------------------------------

    def _key(self, n: int) -> tuple[object, ...]:
        store = self.store
        operands = store.operands[n]
        known = tuple(k in store.weights for k in operands) if self.model.device.packs_weights else ()
        return store.op[n], store.attrs[n], tuple(store.outs[k] for k in operands), known, store.outs[n]

    def _alone(self, n: int) -> Graph | None:
        """The node as a graph; None if it is computed ahead of time."""
        store = self.store
        if n in store.weights:
            return None
        nodes: list[Node] = []
        for i, k in enumerate(store.operands[n]):
            op = "weight" if k in store.weights else "input"
            t = store.outs[k][0]
            nodes.append(Node(op, (), leaf_attrs(f"{n}.{i}", t), (t,)))
        inputs = tuple(range(len(nodes)))
        if store.op[n] == "proj":  # has no cost, and no operand with one type
            return None
        nodes.append(Node(store.op[n], inputs, store.attrs[n], store.outs[n]))
        return Graph("node", tuple(nodes), (("y", len(inputs)),), store.opaque & {store.op[n]})

    def _price(self, n: int) -> None:
        store, device = self.store, self.model.device
        ms = 0.0
        if (graph := self._alone(n)) is not None:
            key = self._key(n)
            if key not in self._known:
                self._known[key] = self.model.price_graph(graph).cost[-1]
            ms = self._known[key]
        self._cost[n] = ms
        op = store.op[n]
        if device.strided_views:
            view = op in store.ops and store.ops[op].view and n not in store.weights
            if view:
                (child,) = store.operands[n][:1]
                self._view[n] = StridedView(
                    n, n, child, effect(op, store.attrs[n], store.types[child], store.types[n])
                )
            self._depends[n] = view
        else:
            self._depends[n] = device.packs_weights and (op in FOLDED or op == "relu") and ms > 0

    # ---- what depends on the graph ---------------------------------------------------------------------------

    def _views(self, shape: Patched, nodes: Sequence[int]) -> float:
        store = self.store
        demand: dict[int, int] = dict.fromkeys(shape.nodes, 0)
        for o in shape.outputs:
            demand[o] = contiguous(store.types[o])
        for n in shape.nodes:
            if store.op[n] in store.opaque and n not in store.weights:
                for k in shape.operands(store, n):
                    demand[k] = contiguous(store.outs[k][0])
        views = []
        for n in nodes:
            (child,) = shape.operands(store, n)[:1]
            view = self._view[n]
            views.append(view if child == view.child else StridedView(n, n, child, view.effect))
        spread(demand, views)
        return sum(self._cost[v.node] for v in views if v.pays(demand[v.home]))

    def _with_convolutions(self, shape: Patched, nodes: Sequence[int]) -> float:
        graph, number = self._graph(shape)
        free = set(fused(graph))
        return sum(self._cost[n] for n in nodes if number[n] not in free)

    def _graph(self, shape: Patched) -> tuple[Graph, dict[int, int]]:
        """The graph, and its nodes by number."""
        store = self.store
        number: dict[int, int] = {}
        nodes: list[Node] = []
        stack = list(shape.outputs)
        while stack:
            n = stack[-1]
            if n in number:
                stack.pop()
                continue
            operands = shape.operands(store, n)
            waiting = [k for k in operands if k not in number]
            if waiting:
                stack += waiting
                continue
            number[n] = len(nodes)
            inputs = tuple(number[k] for k in operands)
            nodes.append(Node(store.op[n], inputs, store.attrs[n], store.outs[n]))
            stack.pop()
        outputs = tuple(zip(store.labels, (number[o] for o in shape.outputs), strict=True))
        return Graph(store.name, tuple(nodes), outputs, store.opaque), number


def _together(graphs: Sequence[Graph]) -> Graph:
    """Graphs side by side."""
    nodes: list[Node] = []
    outputs: list[tuple[str, int]] = []
    for g in graphs:
        first = len(nodes)
        nodes += [Node(n.op, tuple(first + j for j in n.inputs), n.attrs, n.types) for n in g.nodes]
        outputs += [(f"y{len(outputs)}", first + i) for _, i in g.outputs]
    return Graph("nodes", tuple(nodes), tuple(outputs), frozenset().union(*(g.opaque for g in graphs)))
