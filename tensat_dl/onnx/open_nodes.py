"""E-nodes that are valid only at the given sizes of open dimensions.

Rules see known shapes, so a rule may write a size down that is open in the model: a reshape of a batch of one, say.
Shapes at other sizes tell: those of the model's own values are known, others follow. An e-node that can't be applied
there, or has another shape there than its e-class, is no answer. Answers are run at other sizes, too: this is what
keeps them from failing then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tensat_dl.core.egraph import BoolArray, EGraph
from tensat_dl.core.graph import Attrs, Graph
from tensat_dl.core.types import TensorType
from tensat_dl.onnx.open_shapes import (
    Shape,
    asked_shape,
    keeps_runs,
    reshaped,
    reshapes_of,
    shape_of_application,
    shapes_elsewhere,
)
from tensat_dl.ops.table import OpTable


def fixed_sizes(
    egraph: EGraph, graph: Graph, ops: OpTable, elsewhere: Sequence[Mapping[str, Shape]]
) -> BoolArray:
    """[N] which e-nodes of what was explored from ``graph`` do not hold at one of other sizes; ``elsewhere`` has the
    shapes of the graph's values there."""
    found = np.zeros(egraph.num_nodes, np.bool_)
    there = [_Elsewhere(egraph, graph, ops, known) for known in elsewhere]
    for one in there:
        found |= one.fixed()
    shapes = [one.shape for one in there]
    inputs = [int(egraph.node_class[n]) for k in graph.inputs if (n := egraph.source[k]) >= 0]
    source = set(egraph.source.tolist())
    for n in range(egraph.num_nodes):
        if egraph.op[n] == "reshape" and not found[n] and n not in source:
            found[n] = not _can_be_asked(egraph, n, shapes, inputs)
    return found


def _can_be_asked(
    egraph: EGraph, n: int, elsewhere: Sequence[Mapping[int, Shape]], inputs: Sequence[int]
) -> bool:
    """Whether what a reshape gives at all of other sizes can be said at once."""
    c, (d,) = int(egraph.node_class[n]), egraph.children_of(n)
    here = {k: egraph.types[k][0].shape for k in (c, d, *inputs)}
    known = [shapes for shapes in elsewhere if all(k in shapes for k in here)]
    pairs = [(shapes[d], shapes[c]) for shapes in known]
    given = [[here[k], *(shapes[k] for shapes in known)] for k in inputs]
    return asked_shape(here[d], here[c], pairs, given) is not None


class _Elsewhere:
    def __init__(self, egraph: EGraph, graph: Graph, ops: OpTable, known: Mapping[str, Shape]) -> None:
        self.egraph = egraph
        self.ops = ops
        self.opaque = graph.opaque
        self.source = set(egraph.source.tolist())
        self._known: dict[tuple[str, Attrs, tuple[TensorType, ...], tuple[Shape, ...]], Shape | None] = {}
        #: The shape of each e-class there, as far as it is known: first what the model says.
        self.shape: dict[int, Shape] = {
            c: egraph.types[c][0].shape for c in np.flatnonzero(egraph.weights_only).tolist()
        }
        shapes = shapes_elsewhere(graph, ops, known, {})
        self.reshapes = reshapes_of(graph, shapes)
        self.named: set[int] = set()  #: e-classes of the model's values
        for n, node, shape in zip(egraph.source.tolist(), graph.nodes, shapes, strict=True):
            if n >= 0 and shape is not None:
                self.shape.setdefault(int(egraph.node_class[n]), shape)
                if node.name in known:
                    self.named.add(int(egraph.node_class[n]))

    def fixed(self) -> BoolArray:
        found = np.zeros(self.egraph.num_nodes, np.bool_)
        waiting = [n for n in range(self.egraph.num_nodes) if self._follows(n)]
        while waiting:
            left: list[int] = []
            for n in waiting:
                holds = self._holds(n, guess=False)
                if holds is None:
                    left.append(n)
                else:
                    found[n] = not holds
            if len(left) == len(waiting):  # only guesses lead on
                guessed = next((n for n in left if self._holds(n, guess=True) is not None), None)
                if guessed is None:
                    break
                left.remove(guessed)
            waiting = left
        return found

    def _follows(self, n: int) -> bool:
        """Whether the shape of an e-node follows from those of its operands, and is not the model's own."""
        op, c = self.egraph.op[n], int(self.egraph.node_class[n])
        return (
            n not in self.source
            and not self.egraph.weights_only[c]
            and op in self.ops
            and not self.ops[op].opaque
            and op not in self.opaque
            and len(self.egraph.types[c]) == 1
        )

    def _holds(self, n: int, guess: bool) -> bool | None:
        """Whether an e-node has the shape of its e-class, which it tells if that is not known; None if it can't be
        said yet. What a reshape gives is a guess, unless the model has its result; the exporter makes the same."""
        e = self.egraph
        c, children = int(e.node_class[n]), e.children_of(n)
        there = tuple(self.shape[d] for d in children if d in self.shape)
        if len(there) < len(children) or any(len(e.types[d]) != 1 for d in children):
            return None
        here, type = tuple(e.types[d][0] for d in children), e.types[c][0]
        if e.op[n] == "reshape":
            if c in self.named:
                return keeps_runs(here[0].shape, there[0], type.shape, self.shape[c])
            if c not in self.shape and not guess:
                return None
            found = reshaped(here[0].shape, there[0], type.shape, self.reshapes)
        else:
            key = (e.op[n], e.attrs[n], (*here, type), there)
            if key not in self._known:
                self._known[key] = shape_of_application(self.ops, e.op[n], e.attrs[n], here, type, there)
            found = self._known[key]
        return found is not None and self.shape.setdefault(c, found) == found
