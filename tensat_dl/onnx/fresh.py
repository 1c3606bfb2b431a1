"""A graph of the language as an ONNX model of its own, with random weights."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from tensat_dl.core.diagnostics import Diagnostic, TsrError
from tensat_dl.core.graph import Graph, Node
from tensat_dl.onnx.clean_up import sweep
from tensat_dl.onnx.encode import Encoder, Unwritable
from tensat_dl.onnx.fold import fold
from tensat_dl.onnx.operator import NodeWriter, OnnxTensor, numpy_dtype
from tensat_dl.onnx.types import ONNX_DTYPES
from tensat_dl.ops.semantics.types import Array
from tensat_dl.ops.table import OpTable
from tensat_dl.verify.weights import draw_values

#: What is written: the oldest with all operators that the language has a name for.
OPSET, IR_VERSION = 20, 9


def random_weights(graph: Graph, seed: int) -> Callable[[str], Array]:
    """Values for weights by name, as verification draws them."""
    return draw_values([graph], seed, {}).__getitem__


def build(graph: Graph, ops: OpTable, weight: Callable[[str], Array]) -> ir.Model:
    """The model that computes a graph. Raises `TsrError` for an operator that ONNX does not have."""
    inputs = [_input(graph.nodes[i]) for i in graph.inputs]
    made = ir.Graph(inputs, [], nodes=[], opset_imports={"": OPSET}, name=graph.name)
    writer = NodeWriter(made, OPSET)
    encoder = Encoder(graph, ops, writer)
    known = graph.weights_only()
    taken = {j for i, n in enumerate(graph.nodes) if not known[i] for j in n.inputs}
    taken.update(i for _, i in graph.outputs)
    given = dict(zip(graph.inputs, inputs, strict=True))
    for i, node in enumerate(graph.nodes):
        if i in given:
            encoder.tensors[i] = OnnxTensor(given[i], node.type)
        elif known[i]:
            if i in taken:
                encoder.tensors[i] = OnnxTensor(
                    writer.weight(_weight(graph, ops, i, weight), _name(node)), node.type
                )
        elif i not in encoder.tensors:
            try:
                encoder.encode(i)
            except Unwritable as e:
                hint = (
                    "ONNX has no such operator" if not graph.opaque else "an opaque operator has types only"
                )
                raise TsrError(
                    [Diagnostic(f"`{e}` can't be written to ONNX", None, hint, path=graph.name)]
                ) from None
    for name, i in graph.outputs:
        value, type = encoder.tensors[i].value, graph.nodes[i].type
        if not (value.is_graph_input() and value.name == name):
            if value.producer() is None or value in made.outputs:
                value = writer.op("Identity", value)
            value.name = name if name not in {v.name for v in inputs} else writer.name(name)
        value.type, value.shape = ir.TensorType(ONNX_DTYPES[type.dtype]), ir.Shape(type.shape)
        made.outputs.append(value)
    model = ir.Model(made, ir_version=IR_VERSION, producer_name="tensat-dl")
    sweep(model)
    return model


def _input(node: Node) -> ir.Value:
    type = ir.TensorType(ONNX_DTYPES[node.type.dtype])
    return ir.Value(name=str(node.attr("name")), type=type, shape=ir.Shape(node.type.shape))


def _weight(graph: Graph, ops: OpTable, i: int, weight: Callable[[str], Array]) -> ir.TensorProtocol:
    node = graph.nodes[i]
    if node.op != "weight":
        return fold(graph, ops, i, weight)
    array = np.asarray(weight(str(node.attr("name")))).astype(numpy_dtype(node.type.dtype))
    return ir.tensor(array, dtype=ONNX_DTYPES[node.type.dtype])


def _name(node: Node) -> str:
    return str(node.attr("name")) if node.op == "weight" else node.name or node.op
