"""E-graphs with the types that they have at other sizes of open dimensions, for prices there."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tensat_dl.core.egraph import EGraph
from tensat_dl.core.graph import Attrs, Graph, TensorType
from tensat_dl.sizes.fixed import EClassesElsewhere, ENodes, derived
from tensat_dl.sizes.open_shapes import Elsewhere

#: Types of each e-class, one for each output of its e-nodes.
_Types = list[tuple[TensorType, ...]]


@dataclass(frozen=True, slots=True)
class Resized:
    """A model at other sizes of its open dimensions."""

    there: Elsewhere

    def egraph(self, egraph: EGraph, graph: Graph) -> EGraph:
        """An e-graph that was explored from a graph, or that is this graph, as it is there. A shape that is not known
        stays as it is."""
        types = self._types(egraph, graph)
        attrs = []
        for n, c in enumerate(egraph.node_class.tolist()):
            operands = [(egraph.types[d][0], types[d][0]) for d in egraph.children_of(n)]
            attrs.append(_attributes(egraph.attrs[n], operands, (egraph.types[c][0], types[c][0])))
        return replace(egraph, types=tuple(types), attrs=tuple(attrs))

    def _types(self, egraph: EGraph, graph: Graph) -> _Types:
        known = EClassesElsewhere(ENodes.of(egraph), graph, self.there)
        known.fixed(derived(egraph, self.there.ops))
        types = list(egraph.types)
        for c, shape in known.shape.items():
            if len(types[c]) == 1:
                types[c] = (TensorType(types[c][0].dtype, shape),)
        for n, op in enumerate(egraph.op):
            if op == "proj":  # the whole has the types of its parts
                (whole,), index = egraph.children_of(n), dict(egraph.attrs[n])["index"]
                part = types[int(egraph.node_class[n])][0]
                types[whole] = tuple(part if k == index else t for k, t in enumerate(types[whole]))
        return types


def _attributes(
    attrs: Attrs, operands: list[tuple[TensorType, TensorType]], result: tuple[TensorType, TensorType]
) -> Attrs:
    """The attributes of an application there, given its types here and there: a shape that is the result's, and a
    slice up to the end, stay so."""
    if result[0] == result[1] and all(here == there for here, there in operands):
        return attrs
    found = dict(attrs)
    if found.get("shape") == result[0].shape:
        found["shape"] = result[1].shape
    axis = found.get("axis")
    if operands and isinstance(axis, int) and "stop" in found:
        here, there = (t.shape for t in operands[0])
        if found["stop"] == here[axis]:
            found["stop"] = there[axis]
    return tuple(found.items())
