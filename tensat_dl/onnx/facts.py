"""Facts about a model's values when the open dimensions are bound: types, and the values of small constants.

Types come from ONNX's own inference, node by node, which sees what was computed before it: the shape that a reshape
takes may come from a chain of Shape, Gather and Concat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper
from onnx.reference import ReferenceEvaluator

from tensat_dl.onnx.inputs import dims_of
from tensat_dl.onnx.subgraphs import UniqueNames, captured, subgraphs
from tensat_dl.onnx.tensors import shape_of, static_shape
from tensat_dl.ops.semantics.arrays import Array

#: Tensors of at most so many elements are computed ahead of time, and shown to type inference.
SMALL = 4096
#: Sizes that nobody gave are not taken where a value has more elements: a gigabyte of floats.
MOST_OF_VALUE = 2**28

#: Operators whose result is not, or not always, a function of their inputs.
IMPURE = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}
    | {"Dropout"}
)


def _is_whole(x: Array) -> bool:
    """Whether sums of a few such numbers are what they are, in the type of this one."""
    return x.dtype.kind in "iu" or bool(np.all((x == np.floor(x)) & (np.abs(x) < 1024)))


class ModelFacts:
    """Types and constants of the values of a model's main graph, by name."""

    def __init__(self, model: ir.Model, dims: Mapping[str, int]) -> None:
        self.types: dict[str, onnx.TypeProto] = {}
        self.constants: dict[str, ir.TensorProtocol] = {}
        self._computed_names: set[str] = set()  #: of constants that are not written in the file
        self._model = model
        self._dims = dims
        self._opsets = [helper.make_opsetid(domain, n) for domain, n in model.opset_imports.items()]
        inputs = set(model.graph.inputs)
        for value in model.graph.inputs:
            if (stated := self._stated(value)) is not None:
                self.types[str(value.name)] = stated
        for value in model.graph.initializers.values():
            # Where the caller may give another value, it is not a constant. Before IR version 4 nobody may.
            if value.const_value is not None and (value not in inputs or (model.ir_version or 0) < 4):
                self._constant(str(value.name), value.const_value)
        for node in model.graph:
            self._visit(node)

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The shape of a value if all its dimensions are known."""
        return static_shape(self.types.get(name))

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """All shapes that are known."""
        return {name: shape for name in self.types if (shape := self.shape(name)) is not None}

    def largest(self) -> tuple[str, tuple[int, ...]]:
        """The value with the most elements, constants aside, of those whose shapes are known, and its shape."""
        shapes = ((name, shape) for name, shape in self.shapes().items() if name not in self.constants)
        return max(shapes, key=lambda found: prod(found[1]), default=("", ()))

    def small(self, name: str) -> Array | None:
        """The value of a constant that is small enough to look at."""
        tensor = self.constants.get(name)
        return None if tensor is None or tensor.size > SMALL else tensor.numpy()

    def differs(self, name: str, others: Iterable[ModelFacts]) -> bool:
        """Whether a constant has no one value, since at other sizes it has another, or is not known."""
        if name not in self._computed_names:
            return False
        value = self.constants[name].numpy()
        there = (f.constants.get(name) for f in others if f.types.get(name) is not None)
        return any(t is None or not _equal(value, t.numpy()) for t in there)

    def constant_part(self, name: str, others: Iterable[ModelFacts]) -> Array | None:
        """The elements of a small constant that are the same at all sizes."""
        value = self.small(name)
        if value is None or value.dtype.kind not in "iuf":
            return None
        there = [t for f in others if (t := f.small(name)) is not None and t.shape == value.shape]
        return np.asarray(value[np.all([value == t for t in there], axis=0)] if there else value)

    def shape_differs(self, name: str, others: Iterable[ModelFacts]) -> bool:
        """Whether a value has another shape at other sizes."""
        return any(f.shape(name) != self.shape(name) for f in others)

    def _constant(self, name: str, tensor: ir.TensorProtocol) -> None:
        self.constants[name] = tensor
        self.types[name] = helper.make_tensor_type_proto(int(tensor.dtype), shape_of(tensor))

    def _stated(self, value: ir.Value) -> onnx.TypeProto | None:
        """The type that the file states, with open dimensions bound. (Those of inputs are, others may not be.)"""
        if value.type is None:
            return None
        proto = ir.serde.serialize_value(value).type
        if value.shape is not None and proto.WhichOneof("value") == "tensor_type":
            for d, out in zip(dims_of(value), proto.tensor_type.shape.dim, strict=True):
                if isinstance(d, str):
                    out.Clear()
                    if d in self._dims:
                        out.dim_value = self._dims[d]
        return proto

    def _visit(self, node: ir.Node) -> None:
        if node.op_type == "Constant" and node.domain in ("", "ai.onnx"):
            try:
                tensor = ir.convenience.get_const_tensor(node.outputs[0])
            except (TypeError, ValueError):  # ONNX Runtime loads some with more attributes than the value
                tensor = None
            if tensor is not None:
                self._constant(str(node.outputs[0].name), tensor)
                return
        inferred = self._infer(node)
        for out in node.outputs:
            found = inferred.get(str(out.name))
            if static_shape(found) is None:  # the file may know more
                stated = self._stated(out)
                found = stated if found is None or static_shape(stated) is not None else found
            if out.name and found is not None:
                self.types[out.name] = found
        for name, array in self._computed(node).items():
            self._constant(name, ir.tensor(array, name=name))
            self._computed_names.add(name)

    def _infer(self, node: ir.Node) -> dict[str, onnx.TypeProto]:
        """The types of a node's outputs by ONNX's rules; nothing where there is no such rule."""
        values = dict.fromkeys((*(v for v in node.inputs if v is not None), *captured(node)))
        names = [str(v.name) for v in values]
        model = self._alone(node, names)
        for name in names:
            array = self.small(name)
            if array is not None and array.dtype.kind in "iufb":
                model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(array), name))
        try:
            inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
        except Exception:  # what ONNX can't infer here, ONNX Runtime may still compute
            return {}
        return {v.name: v.type for v in inferred.graph.output if v.type.WhichOneof("value") is not None}

    def _alone(self, node: ir.Node, inputs: Iterable[str]) -> onnx.ModelProto:
        """A node as a model of its own."""
        known = [helper.make_value_info(name, self.types[name]) for name in inputs if name in self.types]
        outputs = [helper.make_empty_tensor_value_info(str(v.name)) for v in node.outputs if v.name]
        graph = helper.make_graph([ir.serde.serialize_node(node)], "one", known, outputs)
        return helper.make_model(graph, opset_imports=self._opsets, ir_version=10)

    def _computed(self, node: ir.Node) -> dict[str, Array]:
        """The results of a node whose inputs are small constants, or that asks for a known shape."""
        if node.domain not in ("", "ai.onnx") or node.op_type in IMPURE or any(subgraphs(node)):
            return {}
        if node.op_type in ("Shape", "Size"):
            return self._size(node)
        feeds = {}
        for name in (str(value.name) for value in node.inputs if value is not None):
            array = self.small(name)
            if array is None:
                return {}
            feeds[name] = array
        shapes = [self.shape(str(v.name)) for v in node.outputs if v.name]
        bounded = node.op_type == "NonZero" or all(s is not None and prod(s) <= SMALL for s in shapes)
        if node.op_type == "Range" and not all(_is_whole(x) for x in feeds.values()):
            return {}  # fractions add up to others in other orders, and so do large numbers
        return self._evaluate(node, feeds) if feeds and bounded else {}

    def _size(self, node: ir.Node) -> dict[str, Array]:
        """What a node says of its operand's shape, if that is known: the operand may have any size."""
        shape = None if node.inputs[0] is None else self.shape(str(node.inputs[0].name))
        if shape is None:
            return {}
        if node.op_type == "Shape":
            start, end = (
                None if (a := node.attributes.get(k)) is None else a.as_int() for k in ("start", "end")
            )
            found = np.array(shape[start:end], np.int64)
        else:
            found = np.array(prod(shape), np.int64)
        return {str(node.outputs[0].name): found}

    def _evaluate(self, node: ir.Node, feeds: Mapping[str, Array]) -> dict[str, Array]:
        try:
            with np.errstate(all="ignore"):
                results = list(ReferenceEvaluator(self._alone(node, feeds)).run(None, dict(feeds)))
        except Exception:  # then it is computed when the model runs
            return {}
        names = [str(v.name) for v in node.outputs if v.name]
        found = {name: np.asarray(x) for name, x in zip(names, results, strict=True)}
        for name, array in found.items():
            proto = self.types.get(name)
            if proto is not None and proto.HasField("tensor_type"):
                expected = helper.tensor_dtype_to_np_dtype(proto.tensor_type.elem_type)
                if array.dtype != expected or array.size > SMALL:
                    return {}
        return found


def _equal(x: Array, y: Array) -> bool:
    return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()


# ---- conditions that are known ---------------------------------------------------------------------------


def resolved(
    model: ir.Model,
    sizes: Sequence[Mapping[str, int]],
    further: Callable[[ModelFacts, Sequence[ModelFacts]], Iterable[Mapping[str, int]]],
) -> list[ModelFacts]:
    """The facts of a model at each of several sizes of its open dimensions, and at ``further`` ones, which those
    tell. Before, each If of its main graph whose condition is the same constant at all sizes gives way to the branch
    that is taken: this changes the model."""
    while True:
        facts = [ModelFacts(model, dims) for dims in sizes]
        facts += [ModelFacts(model, dims) for dims in further(facts[0], facts[1:])]
        found = [(node, taken) for node in model.graph if (taken := _taken(node, facts)) is not None]
        if not found:
            return facts
        for node, taken in found:
            _inline(model.graph, node, taken)


def _taken(node: ir.Node, facts: Sequence[ModelFacts]) -> ir.Graph | None:
    """The branch that an If takes wherever it is looked at."""
    if node.op_type != "If" or node.domain not in ("", "ai.onnx") or node.inputs[0] is None:
        return None
    conditions = [f.small(str(node.inputs[0].name)) for f in facts]
    values = {None if c is None or c.size != 1 else bool(c.reshape(())) for c in conditions}
    if len(values) != 1 or None in values:
        return None
    attr = node.attributes["then_branch" if values.pop() else "else_branch"]
    return None if attr.is_ref() else attr.as_graph()


def _inline(graph: ir.Graph, node: ir.Node, branch: ir.Graph) -> None:
    """The branch's nodes and weights, under names of their own, then the results under those of the If."""
    node.replace_input_with(0, None)
    results, weights, inside = list(branch.outputs), list(branch.initializers.values()), list(branch)
    branch.outputs.clear()
    branch.initializers.clear()
    branch.remove(inside)
    new_name = UniqueNames(graph).new
    for value in weights:
        value.name = new_name(value.name or "If")
        graph.register_initializer(value)
    for inner in inside:
        inner.name = new_name(inner.name or "If")
        for value in inner.outputs:
            if value.name:
                value.name = new_name(value.name)
        graph.insert_before(node, inner)
    for old, result in zip(node.outputs, results, strict=True):
        if old.name:
            new = ir.Value(name=old.name, type=old.type, shape=old.shape)
            old.name = new_name(f"{old.name}_of_if")
            graph.insert_before(node, ir.node("Identity", [result], outputs=[new], name=new_name("If")))
            old.replace_all_uses_with(new, replace_graph_outputs=True)
    graph.remove(node, safe=True)
