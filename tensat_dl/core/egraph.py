"""An e-graph as plain arrays: what exploration produces, pricing fills in and extraction consumes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tensat_dl.core.graph import Attrs
from tensat_dl.core.types import TensorType

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
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
    origin: tuple[str, ...] = ()  #: [N] the rule that first built each e-node, "" for the input program's

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

    def without(self, dropped: BoolArray) -> EGraph:
        """The same e-classes, some of them perhaps empty, without these e-nodes [N] and those that then have an empty
        e-class as a child. None that is given may be the input program's."""
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
        return replace(
            self,
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
