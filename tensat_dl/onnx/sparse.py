"""Sparse weights of ONNX models, written out: onnx-ir reads none, and ONNX Runtime computes with dense ones, too."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np
import onnx
from onnx import numpy_helper

#: A sparse weight that takes more bytes when it is written out is refused.
MOST_BYTES = 2**31


def write_out(model: onnx.ModelProto) -> None:
    """Gives ``model`` dense weights for its sparse ones. Raises ValueError for one that is malformed or too large."""
    for graph in _graphs(model.graph):
        for sparse in graph.sparse_initializer:
            graph.initializer.append(_dense(sparse))
        del graph.sparse_initializer[:]
    for node in _nodes(model):
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.SPARSE_TENSOR and node.op_type == "Constant":
                dense = onnx.helper.make_attribute("value", _dense(attribute.sparse_tensor))
                attribute.CopyFrom(dense)


def _nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    for graph in _graphs(model.graph):
        yield from graph.node
    for function in model.functions:
        yield from function.node


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """``graph`` and the graphs of its Ifs, Loops and Scans."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _graphs(attribute.g)
            for below in attribute.graphs:
                yield from _graphs(below)


def _dense(sparse: onnx.SparseTensorProto) -> onnx.TensorProto:
    """Indices are one number for each value, in the order of rows, or a row of numbers for each."""
    name, shape = sparse.values.name, tuple(sparse.dims)
    values = numpy_helper.to_array(sparse.values)
    if prod(shape) * values.itemsize > MOST_BYTES:
        raise ValueError(f"the sparse weight {name} of shape {list(shape)} is too large to be written out")
    indices = numpy_helper.to_array(sparse.indices)
    limits = np.asarray(shape if indices.ndim == 2 else prod(shape))
    if indices.shape not in ((values.size,), (values.size, len(shape))) or np.any(
        (indices < 0) | (indices >= limits)
    ):
        raise ValueError(f"the sparse weight {name} has indices that are not of its shape {list(shape)}")
    if indices.ndim == 2:
        indices = np.ravel_multi_index(tuple(indices.T), shape)
    dense = np.zeros(prod(shape), values.dtype)
    dense[indices] = values.reshape(-1)
    return numpy_helper.from_array(dense.reshape(shape), name)
