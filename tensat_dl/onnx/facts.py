"""What is known of a model's values when the open dimensions are bound: types, and the values of small constants.

Types come from ONNX's own inference, node by node, which sees what was computed before it: the shape that a reshape
takes may come from a chain of Shape, Gather and Concat.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper
from onnx.reference import ReferenceEvaluator

from tensat_dl.onnx.dims import dim_name, is_open
from tensat_dl.onnx.subgraphs import captured, subgraphs
from tensat_dl.onnx.types import of_tensor, static_shape
from tensat_dl.ops.semantics.types import Array

#: Tensors of at most so many elements are computed ahead of time, and shown to type inference.
SMALL = 4096

#: Operators whose result is not, or not always, a function of their inputs.
IMPURE = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}
    | {"Dropout"}
)


class ModelFacts:
    """Types and constants of the values of a model's main graph, by name."""

    def __init__(self, model: ir.Model, dims: Mapping[str, int]) -> None:
        self.types: dict[str, onnx.TypeProto] = {}
        self.constants: dict[str, ir.TensorProtocol] = {}
        self._model = model
        self._dims = dims
        self._opsets = [helper.make_opsetid(domain, n) for domain, n in model.opset_imports.items()]
        inputs = set(model.graph.inputs)
        for value in model.graph.inputs:
            self._declare(value)
        for value in model.graph.initializers.values():
            # Where the caller may give another value, it is not a constant. Before IR version 4 nobody may.
            if value.const_value is not None and (value not in inputs or (model.ir_version or 0) < 4):
                self._constant(str(value.name), value.const_value)
        for node in model.graph:
            self._visit(node)

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The shape of a value if all its dimensions are known."""
        proto = self.types.get(name)
        return None if proto is None else static_shape(proto)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """All shapes that are known."""
        return {name: shape for name in self.types if (shape := self.shape(name)) is not None}

    def small(self, name: str) -> Array | None:
        """The value of a constant that is small enough to look at."""
        tensor = self.constants.get(name)
        return None if tensor is None or tensor.size > SMALL else tensor.numpy()

    def _constant(self, name: str, tensor: ir.TensorProtocol) -> None:
        self.constants[name] = tensor
        self.types[name] = of_tensor(tensor)

    def _declare(self, value: ir.Value) -> None:
        """The type that the file states, with open dimensions bound. (Those of inputs are, others may not be.)"""
        if value.type is None:
            return
        proto = ir.to_proto(value).type
        if value.shape is not None and proto.WhichOneof("value") == "tensor_type":
            for i, (d, out) in enumerate(zip(value.shape, proto.tensor_type.shape.dim, strict=True)):
                if is_open(d):
                    out.Clear()
                    if (size := self._dims.get(dim_name(value, i, d))) is not None:
                        out.dim_value = size
        self.types[str(value.name)] = proto

    def _visit(self, node: ir.Node) -> None:
        if node.op_type == "Constant" and node.domain in ("", "ai.onnx"):
            tensor = ir.convenience.get_const_tensor(node.outputs[0])
            if tensor is not None:
                self._constant(str(node.outputs[0].name), tensor)
                return
        inferred = self._infer(node)
        for out in node.outputs:
            if not out.name:
                continue
            if out.name in inferred:
                self.types[out.name] = inferred[out.name]
            if self.shape(out.name) is None:  # the file may know more
                stated = self.types.pop(out.name, None)
                self._declare(out)
                if self.shape(out.name) is None and stated is not None:
                    self.types[out.name] = stated
        for name, array in self._computed(node).items():
            self._constant(name, ir.tensor(array, name=name))

    def _infer(self, node: ir.Node) -> dict[str, onnx.TypeProto]:
        """The types of a node's outputs by ONNX's rules; nothing where there is no such rule."""
        try:
            schema = onnx.defs.get_schema(node.op_type, self._model.opset_imports[node.domain], node.domain)
        except (KeyError, onnx.defs.SchemaError):
            return {}
        if any(subgraphs(node)):
            return self._infer_with_subgraphs(node)
        names = [str(v.name) for v in node.inputs if v is not None]
        types = {name: self.types[name] for name in names if name in self.types}
        data = {
            name: onnx.numpy_helper.from_array(np.asarray(array), name)
            for name in names
            if (array := self.small(name)) is not None and array.dtype.kind in "iufb"
        }
        try:
            return dict(
                onnx.shape_inference.infer_node_outputs(
                    schema, ir.to_proto(node), types, data, opset_imports=self._opsets, ir_version=10
                )
            )
        except Exception:  # what ONNX can't infer here, ONNX Runtime may still compute
            return {}

    def _infer_with_subgraphs(self, node: ir.Node) -> dict[str, onnx.TypeProto]:
        """As a model of its own, whose inputs are all that the node and its subgraphs take."""
        values = dict.fromkeys((*(v for v in node.inputs if v is not None), *captured(node)))
        inputs = [
            helper.make_value_info(str(v.name), self.types[str(v.name)])
            for v in values
            if v.name in self.types
        ]
        outputs = [helper.make_empty_tensor_value_info(str(v.name)) for v in node.outputs if v.name]
        graph = helper.make_graph([ir.to_proto(node)], "one", inputs, outputs)
        try:
            inferred = onnx.shape_inference.infer_shapes(
                helper.make_model(graph, opset_imports=self._opsets, ir_version=10), data_prop=True
            )
        except Exception:
            return {}
        return {v.name: v.type for v in inferred.graph.output if v.type.WhichOneof("value") is not None}

    def _computed(self, node: ir.Node) -> dict[str, Array]:
        """The results of a node whose inputs are small constants, or that asks for a known shape."""
        if node.domain not in ("", "ai.onnx") or node.op_type in IMPURE:
            return {}
        if node.op_type in ("Shape", "Size") and node.inputs[0] is not None:
            shape = self.shape(str(node.inputs[0].name))
            if shape is None:
                return {}
            asked = np.array(shape, np.int64) if node.op_type == "Shape" else np.array(prod(shape), np.int64)
            if node.op_type == "Shape":
                asked = asked[_int(node, "start", 0) : _int(node, "end", len(shape))]
            return {str(node.outputs[0].name): asked}
        if any(subgraphs(node)):
            return {}
        feeds = {}
        for value in node.inputs:
            if value is not None:
                array = self.small(str(value.name))
                if array is None:
                    return {}
                feeds[str(value.name)] = array
        shapes = [self.shape(str(v.name)) for v in node.outputs if v.name]
        bounded = node.op_type == "NonZero" or all(s is not None and prod(s) <= SMALL for s in shapes)
        return self._evaluate(node, feeds) if feeds and bounded else {}

    def _evaluate(self, node: ir.Node, feeds: Mapping[str, Array]) -> dict[str, Array]:
        names = [str(v.name) for v in node.outputs if v.name]
        inputs = [helper.make_value_info(name, self.types[name]) for name in feeds]
        outputs = [helper.make_empty_tensor_value_info(name) for name in names]
        graph = helper.make_graph([ir.to_proto(node)], "one", inputs, outputs)
        model = helper.make_model(graph, opset_imports=self._opsets, ir_version=10)
        try:
            results = list(ReferenceEvaluator(model).run(None, dict(feeds)))
        except Exception:  # then it is computed when the model runs
            return {}
        found = {name: np.asarray(x) for name, x in zip(names, results, strict=True)}
        for name, array in found.items():
            proto = self.types.get(name)
            if proto is not None and proto.HasField("tensor_type"):
                expected = helper.tensor_dtype_to_np_dtype(proto.tensor_type.elem_type)
                if array.dtype != expected or array.size > SMALL:
                    return {}
        return found


def _int(node: ir.Node, name: str, default: int) -> int:
    attr = node.attributes.get(name)
    return default if attr is None else attr.as_int()
