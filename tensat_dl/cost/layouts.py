"""E-classes by layout: an e-graph in which an answer costs what its graph costs.

Whether a view is free depends on its consumers, and an e-graph has consumers that an answer does without. So an
e-class that is asked for in several layouts is split into a part for each demand (see `views`). The views of a part
ask of their operands what its demand comes to, and pay if they cannot meet it. The other e-nodes of the e-class have
contiguous results, which serve all parts. Models have few such e-classes: most consumers take strides.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import compress, count
from operator import itemgetter

import numpy as np

from tensat_dl.core.egraph import CONTIGUOUS, COPY, EGraph, NodeKey
from tensat_dl.cost.views import StridedView, asking, contiguous, views_of
from tensat_dl.ops.table import OpTable

#: A part of an e-class: the results for a demand, those that are no views, or the price of a view's copy.
_Part = int | str | tuple[str, int]
#: What a demand comes to for each view of an e-class: whether it pays, and the demand on its operand.
_Meaning = tuple[tuple[bool, int], ...]


def by_layout(egraph: EGraph, table: OpTable) -> EGraph:
    """A priced e-graph with its e-classes split by layout, for a device with strided views; ``home`` has the e-class
    that each is a part of. An answer costs as much as its graph does by `CostModel.price_graph`.

    In each part, an e-node `CONTIGUOUS` stands for the results that are no views. A view that pays has the e-class
    `COPY` as its last operand, which costs as much as the copy: several parts pay for it once.
    """
    split = _Layouts(egraph, table)
    return split.egraph_of_parts() if split.parts else egraph


class _Layouts:
    """The demands on the e-classes of an e-graph that have views, and the parts of those with several."""

    def __init__(self, egraph: EGraph, table: OpTable) -> None:
        self.egraph = egraph
        self.views = views_of(egraph, table)
        self.asking = asking(egraph, table)
        self.members: dict[int, list[StridedView]] = defaultdict(list)
        for n, view in self.views.items():
            self.members[int(egraph.node_class[n])].append(view)
        #: Of each e-class with views, a demand for each meaning.
        self.demands: dict[int, dict[_Meaning, int]] = {c: {} for c in self.members}
        self._collect()
        self.parts = {c: [*found.values()] for c, found in self.demands.items() if len(found) > 1}

    def _collect(self) -> None:
        egraph = self.egraph
        readers = ~egraph.weights_only[egraph.node_class]
        readers[[*self.views, *self.asking]] = False
        read = egraph.children[np.repeat(readers, np.diff(egraph.offsets))]
        waiting = [(c, 0) for c in sorted({*read.tolist()})]  # numpy.unique imports numpy.ma
        waiting += [(d, self._all(d)) for n in self.asking for d in egraph.children_of(n)]
        waiting += [(r, self._all(r)) for r in egraph.roots]
        unread = list(self.demands)
        while waiting or unread:
            if not waiting:
                c = unread.pop()
                waiting += [] if self.demands[c] else [(c, 0)]
                continue
            c, demand = waiting.pop()
            if c not in self.demands:
                continue
            meaning = self._meaning(c, demand)
            if meaning not in self.demands[c]:
                self.demands[c][meaning] = demand
                waiting += [(v.child, v.effect.asks(demand)) for v in self.members[c]]

    def _all(self, c: int) -> int:
        return contiguous(self.egraph.types[c][0])

    def _meaning(self, c: int, demand: int) -> _Meaning:
        return tuple(
            (v.pays(demand), v.effect.asks(demand) if v.child in self.demands else 0) for v in self.members[c]
        )

    # ---- the e-graph of the parts ------------------------------------------------------------------------

    def egraph_of_parts(self) -> EGraph:
        egraph, own = self.egraph, self.egraph.node_class
        parts = {c: self._parts(c) for c in sorted(self.parts)}
        sizes = np.ones(egraph.num_classes, np.int64)
        sizes[list(parts)] = [len(found) for found in parts.values()]
        split, first = sizes > 1, np.cumsum(sizes) - sizes
        number = {(c, part): int(first[c]) + i for c, found in parts.items() for i, part in enumerate(found)}

        def at(c: int, demand: int) -> int:
            return number[c, self.demands[c][self._meaning(c, demand)]] if split[c] else int(first[c])

        def operands(n: int, demand: int) -> tuple[int, ...]:
            view = self.views.get(n)
            if view is None:
                asks = n in self.asking
                return tuple([at(d, self._all(d) if asks else 0) for d in egraph.children_of(n)])
            copy = [number[view.home, (COPY, n)]] if view.pays(demand) and split[view.home] else []
            return at(view.child, view.effect.asks(demand)), *copy

        # Most e-nodes stay as they are, but for the numbers of e-classes.
        children = first[egraph.children]
        users = np.repeat(np.arange(egraph.num_nodes), np.diff(egraph.offsets))[split[egraph.children]]
        for n in dict.fromkeys(users[~split[own[users]]].tolist()):
            demand = next(iter(self.demands.get(int(own[n]), {}).values()), 0)
            children[egraph.offsets[n] : egraph.offsets[n + 1]] = operands(n, demand)
        cost: list[float] = egraph.cost.tolist()
        whole = zip(
            first[own].tolist(), replace(egraph, children=children).keys(), cost, count(), strict=False
        )
        # e-class, key, cost, the e-node that it is made of
        nodes: list[tuple[int, NodeKey, float, int]] = [*compress(whole, (~split[own]).tolist())]
        for (c, part), i in number.items():
            if isinstance(part, tuple):
                nodes.append((i, (COPY, (), ()), cost[part[1]], -1))
                continue
            for n in egraph.nodes_of(c):
                if (n in self.views) == isinstance(part, int):
                    demand, price = (part, 0.0) if isinstance(part, int) else (0, cost[n])
                    nodes.append((i, (egraph.op[n], egraph.attrs[n], operands(n, demand)), price, n))
            if isinstance(part, int) and (c, CONTIGUOUS) in number:
                nodes.append((i, (CONTIGUOUS, (), (number[c, CONTIGUOUS],)), 0.0, -1))
        nodes.sort(key=itemgetter(0))
        new = {-1: -1} | {n: k for k, (*_, n) in reversed([*enumerate(nodes)]) if n >= 0}
        homes = np.repeat(np.arange(egraph.num_classes), sizes)
        return EGraph.of(
            [key for _, key, _, _ in nodes],
            [i for i, _, _, _ in nodes],
            types=tuple(egraph.types[c] for c in homes.tolist()),
            weights_only=egraph.weights_only[homes],
            roots=tuple(at(r, self._all(r)) for r in egraph.roots),
            source=[new[n] for n in egraph.source.tolist()],
            cost=[price for _, _, price, _ in nodes],
            home=homes,
            origin=tuple("" if n < 0 else egraph.origin[n] for *_, n in nodes) if egraph.origin else (),
        )

    def _parts(self, c: int) -> list[_Part]:
        """The parts of an e-class that is split, in the order of their numbers."""
        rest = any(n not in self.views for n in self.egraph.nodes_of(c))
        copied = [v.node for v in self.members[c] if any(map(v.pays, self.parts[c]))]
        return [*([CONTIGUOUS] if rest else []), *self.parts[c], *((COPY, n) for n in copied)]
