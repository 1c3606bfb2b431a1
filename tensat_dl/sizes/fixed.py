"""E-nodes that are valid at the given sizes of open dimensions alone, and the shapes of e-classes at others.

Rules see known shapes, so a rule may write a size down that is open in the model: a reshape of a batch of one, say.
Shapes at other sizes tell: those of the model's own values are known, others follow. An e-node that can't be applied
there, or has another shape there than its e-class, is no part of an answer. Answers are run at other sizes, too: this
keeps them from failing then.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from tensat_dl.core.egraph import BoolArray, EGraph
from tensat_dl.core.graph import Graph
from tensat_dl.ops.table import OpTable
from tensat_dl.sizes.open_shapes import Elsewhere, Shape, asked, keeps_runs, stretched


def fixed_sizes(
    egraph: EGraph, graph: Graph, ops: OpTable, elsewhere: Sequence[Elsewhere], named: bool = False
) -> BoolArray:
    """[N] which e-nodes of what was explored from ``graph`` do not hold at one of other sizes. The graph, the model's
    or another that computes the same, holds at all of them. Of sizes that are ``named`` weights and constants may
    have other shapes, too, and any reshape can be written down."""
    enodes = ENodes.of(egraph)
    there = [EClassesElsewhere(enodes, graph, one, named) for one in elsewhere]
    nodes = derived(egraph, ops, named, frozenset[int]().union(*(one.not_constant for one in there)))
    found = np.zeros(egraph.num_nodes, np.bool_)
    for one in there:
        found[one.fixed(nodes)] = True
    if named:
        return found
    shapes = [one.shape for one in there]
    inputs = [int(egraph.node_class[n]) for k in graph.inputs if (n := egraph.source[k]) >= 0]
    for n in nodes:
        if egraph.op[n] == "reshape" and not found[n]:
            c, (d,) = int(egraph.node_class[n]), egraph.children_of(n)
            found[n] = asked(lambda k: egraph.types[k][0].shape, d, c, inputs, shapes) is None
        elif egraph.op[n] == "expand" and not found[n]:
            c, (d,) = int(egraph.node_class[n]), egraph.children_of(n)
            new, old = egraph.types[c][0].shape, egraph.types[d][0].shape
            found[n] = any(
                stretched(old, new) != stretched(there[d], there[c])
                for there in shapes
                if {c, d} <= there.keys()
            )
    return found


def derived(
    egraph: EGraph, ops: OpTable, named: bool = False, not_constant: Container[int] = ()
) -> list[int]:
    """The e-nodes that rules brought whose shapes follow from those of their operands: not those of e-classes that
    are computed from weights alone, but for those that are ``not_constant``, or if sizes are ``named``."""
    source = set(egraph.source.tolist())
    return [
        n
        for n, (op, c) in enumerate(zip(egraph.op, egraph.node_class.tolist(), strict=True))
        if n not in source
        and op in ops
        and not ops[op].opaque
        and (named or not egraph.weights_only[c] or c in not_constant)
        and len(egraph.types[c]) == 1
    ]


@dataclass(frozen=True, slots=True)
class ENodes:
    """The e-nodes of an e-graph: the e-class of each, its operands, and its kind, a number that is the same for equal
    operators, attributes and types."""

    egraph: EGraph
    home: Sequence[int]
    operands: Sequence[Sequence[int]]
    kind: Sequence[int]

    @classmethod
    def of(cls, egraph: EGraph) -> ENodes:
        """Those of an e-graph."""
        home = egraph.node_class.tolist()
        operands = [egraph.children_of(n) for n in range(egraph.num_nodes)]
        known: dict[Hashable, int] = {}
        type = [known.setdefault(types, len(known)) for types in egraph.types]
        kinds: dict[Hashable, int] = {}
        kind = [
            kinds.setdefault((op, attrs, type[c], *(type[d] for d in children)), len(kinds))
            for op, attrs, c, children in zip(egraph.op, egraph.attrs, home, operands, strict=True)
        ]
        return cls(egraph, home, operands, kind)


class EClassesElsewhere:
    """The shapes of e-classes at another size, as far as they are known; they begin with the shapes in the model."""

    def __init__(self, enodes: ENodes, graph: Graph, there: Elsewhere, named: bool = False) -> None:
        self.enodes = enodes
        self.egraph = egraph = enodes.egraph
        self.there = there
        self._found: dict[
            Hashable, Shape | None
        ] = {}  #: by the kind of e-node and the operands' shapes there
        #: Whether a reshape can be written down for the shape of its e-class, whatever that is.
        self.free = named
        self.shape: dict[int, Shape] = {}
        self.named: set[int] = set()  #: those of the model's values
        for i, shape in there.shapes(graph).items():
            if (n := egraph.source[i]) >= 0:
                c = int(egraph.node_class[n])
                self.shape.setdefault(c, shape)
                if graph.nodes[i].name in there.known:
                    self.named.add(c)
        weights = [] if named else np.flatnonzero(egraph.weights_only).tolist()
        #: E-classes that rules have found to be computed from weights alone, as the product of an input and 0 is, and
        #: that have another shape there: no constant has both.
        self.not_constant = {
            c for c in weights if self.shape.setdefault(c, here := egraph.types[c][0].shape) != here
        }

    def fixed(self, waiting: list[int]) -> list[int]:
        """The e-nodes among those ``waiting`` that have another shape than their e-class, or none."""
        found = []
        while waiting:
            left = []
            for n in waiting:
                holds = self._holds(n, guess=False)
                if holds is None:
                    left.append(n)
                elif not holds:
                    found.append(n)
            if len(left) == len(waiting):  # only guesses lead on
                guessed = next((n for n in left if self._holds(n, guess=True) is not None), None)
                if guessed is None:
                    break
                left.remove(guessed)
            waiting = left
        return found

    def _holds(self, n: int, guess: bool) -> bool | None:
        """Whether an e-node has the shape of its e-class, and sets that shape if it is not known; None if it can't be
        decided yet. The shape of a reshape is a guess, unless the model has its result; the exporter guesses
        alike."""
        e = self.egraph
        c, children = self.enodes.home[n], self.enodes.operands[n]
        there = [self.shape[d] for d in children if d in self.shape]
        if len(there) < len(children) or any(len(e.types[d]) != 1 for d in children):
            return None
        if e.op[n] == "reshape":
            if c in self.named:
                return keeps_runs(e.types[children[0]][0].shape, there[0], e.types[c][0].shape, self.shape[c])
            if c not in self.shape and not guess:
                return None
        found = self._applied(n, there)
        return found is not None and self.shape.setdefault(c, found) == found

    def _applied(self, n: int, there: Sequence[Shape]) -> Shape | None:
        """The shape of an e-node on operands of such shapes; None if it can't be applied to them."""
        e, c = self.egraph, self.enodes.home[n]
        here, type = [e.types[d][0] for d in self.enodes.operands[n]], e.types[c][0]
        if self.free:
            return self.there.shape(e.op[n], e.attrs[n], here, type, there, self.shape.get(c))
        # The exporter knows no e-classes, so equal applications have equal shapes.
        key = (self.enodes.kind[n], *there)
        if key not in self._found:
            self._found[key] = self.there.shape(e.op[n], e.attrs[n], here, type, there)
        return self._found[key]
