"""Whether a node of a model is the same operator at all sizes of open dimensions.

It is read at each size by itself, as a recipe: the operators on its operands. Shapes are no part of it.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from tensat_dl.core.graph import Attrs, GraphBuilder, Node, leaf_attrs
from tensat_dl.lang.library import library_operators
from tensat_dl.onnx.facts import ModelFacts
from tensat_dl.onnx.operator import Misfit, Read, Reading, Unmapped
from tensat_dl.onnx.tensors import constant, tensor_type
from tensat_dl.onnx.turning import ENDLESS

#: The reason why a node that is not stays as it is.
DIFFERENT = "it is another operator at other sizes"


@dataclass(frozen=True)
class Recipes:
    """Recipes of a model's nodes at the sizes of its ``facts``, and at ``others``, where ``varying`` values are other
    ones."""

    facts: ModelFacts
    others: Sequence[ModelFacts]
    varying: Container[str]
    opset: int

    def alike(self, node: ir.Node, read: Read) -> bool:
        """Whether a node is read in one way at all sizes at which it computes something. Raises `Unmapped` if it is
        not read at all."""
        if not self.others:
            return True
        here = self._at(node, read, self.facts)
        return all(self._at(node, read, there) in (here, None) for there in self.others)

    def same_shapes(self, a: str, b: str) -> bool:
        """Whether two values have one shape at all sizes, as far as is known."""
        pairs = ((there.shape(a), there.shape(b)) for there in self.others)
        return all(None in pair or pair[0] == pair[1] for pair in pairs)

    def _at(self, node: ir.Node, read: Read, facts: ModelFacts) -> Hashable:
        """The recipe at some sizes; None if nothing is computed there, as far as is known."""
        names = [str(v.name) for v in (*node.inputs, *node.outputs) if v is not None and v.name]
        shapes = (facts.shape(n) for n in names if n in self.varying or n not in self.facts.constants)
        if facts is not self.facts and any(s is None or min(s, default=1) <= 0 for s in shapes):
            return None
        builder = GraphBuilder("")
        steps: dict[int, Hashable] = {}

        def tensor(name: str) -> int | None:
            known = None if name in self.varying else self.facts.constants.get(name)
            type = tensor_type((facts if known is None else self.facts).types.get(name))
            if type is None:
                return None
            leaf = ("input", leaf_attrs(name, type)) if known is None else constant(name, known, type)
            found = builder.add(leaf[0], (), leaf[1], (type,), name)
            steps[found] = name
            return found

        try:
            ops = library_operators()
            found = read(Reading(node, facts, ops, builder, self.opset, tensor, self.varying))
        except Unmapped as e:
            if facts is self.facts:
                raise
            return None if isinstance(e, Misfit) else ()
        whole = node.op_type.startswith("Global")
        for i, n in enumerate(builder.nodes):
            operands = [steps[j] for j in n.inputs]
            # without those that only give the same elements another shape
            resized = n.op in ("reshape", "expand")
            attrs = _unsized(n, builder.nodes, whole)
            steps.setdefault(i, operands[0] if resized else (n.op, *operands, *attrs))
        results = [found] if isinstance(found, int) else found
        return tuple((steps[i], builder.nodes[i].type.rank) for i in results)


def _unsized(node: Node, nodes: Sequence[Node], whole: bool) -> Attrs:
    """The attributes of a node but for those that other sizes change in any case: the shape of a constant, the end of
    an operand, and a window on a ``whole`` image."""
    attrs = dict(node.attrs)
    if node.op in ("fill", "iota"):
        attrs.pop("shape")
    if whole:
        attrs.pop("kernel", None)
    axis = attrs.get("axis")
    if (
        node.op == "slice"
        and isinstance(axis, int)
        and attrs["stop"] == nodes[node.inputs[0]].type.shape[axis]
    ):
        attrs["stop"] = ENDLESS
    return tuple(attrs.items())
