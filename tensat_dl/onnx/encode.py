"""Writes the nodes of a graph as nodes of an ONNX model, by the tables of operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx_ir as ir

from tensat_dl.core.graph import Graph
from tensat_dl.core.splits import splits
from tensat_dl.core.types import TensorType
from tensat_dl.onnx.operator import NodeWriter, OnnxTensor, numpy_dtype
from tensat_dl.onnx.operators import WRITE
from tensat_dl.ops.compose import compose
from tensat_dl.ops.semantics import SEMANTICS
from tensat_dl.ops.table import OpTable


class Unwritable(Exception):
    """ONNX has no counterpart of an operator."""


class Encoder:
    """Writes the nodes of one graph. ``tensors`` has what is written already, by node."""

    def __init__(self, graph: Graph, ops: OpTable, writer: NodeWriter) -> None:
        self.graph = graph
        self.ops = ops
        self.writer = writer
        self.tensors: dict[int, OnnxTensor] = {}
        self._splits = splits(graph)

    def encode(self, i: int) -> None:
        """Writes node ``i``, whose operands are written. Raises `Unwritable`."""
        node = self.graph.nodes[i]
        parts = self._splits.get(i)
        if parts is not None and not any(j in self.tensors for j in parts):
            self._split(parts)
        else:
            xs = [self.tensors[j] for j in node.inputs]
            self.tensors[i] = self._apply(node.op, xs, dict(node.attrs), node.type)

    def _apply(
        self, op: str, xs: Sequence[OnnxTensor], attrs: Mapping[str, Any], type: TensorType
    ) -> OnnxTensor:
        write = WRITE.get(op)
        if write is not None:
            found = write(self.writer, xs, attrs, type)
            return found if isinstance(found, OnnxTensor) else OnnxTensor(found, type)
        if not xs and op in SEMANTICS:  # of a composition's
            array = SEMANTICS[op]((), attrs).astype(numpy_dtype(type.dtype))
            return OnnxTensor(self.writer.constant(array, op), type)
        if self.ops[op].composition is None:
            raise Unwritable(op)
        return self._composition(op, xs, attrs)

    def _composition(self, op: str, xs: Sequence[OnnxTensor], attrs: Mapping[str, Any]) -> OnnxTensor:
        """A composition is written as what it is made of."""
        from tensat_dl.ops.typing import infer

        def scalar(number: float, like: OnnxTensor) -> OnnxTensor:
            dtype = like.type.dtype
            return OnnxTensor(self.writer.number(number, dtype), TensorType(dtype, ()))

        def apply(inner: str, operands: Sequence[OnnxTensor], values: Mapping[str, Any]) -> OnnxTensor:
            (result,) = infer(self.ops, inner, [x.type for x in operands], values).concrete()
            return self._apply(inner, operands, values, result)

        of = (lambda x: x.type.shape), scalar, apply, (lambda x: x.type.dtype)
        return compose(self.ops[op], self.ops, xs, attrs, *of)

    def _split(self, parts: Sequence[int]) -> None:
        """Slices that cover a tensor, as one node."""
        first = self.graph.nodes[parts[0]]
        axis = first.attr("axis")
        assert isinstance(axis, int)
        x = self.tensors[first.inputs[0]]
        types = [self.graph.nodes[i].type for i in parts]
        sizes = [t.shape[axis] for t in types]
        narrow = split(self.writer, x.value, axis, sizes)
        wide: Sequence[OnnxTensor | None] = [None] * len(parts)
        if x.wide is not None and axis == x.type.rank - 1:
            lead = x.wide.type.shape[:-1]
            values = split(self.writer, x.wide.value, len(lead), sizes)
            wide = [
                OnnxTensor(v, TensorType(t.dtype, (*lead, t.shape[-1])))
                for v, t in zip(values, types, strict=True)
            ]
        for i, value, t, other in zip(parts, narrow, types, wide, strict=True):
            self.tensors[i] = OnnxTensor(value, t, other)


def split(w: NodeWriter, x: ir.Value, axis: int, sizes: Sequence[int]) -> Sequence[ir.Value]:
    """The sizes became an input with opset 13."""
    if w.opset >= 13:
        return w.several("Split", len(sizes), x, w.ints(sizes), axis=axis)
    return w.several("Split", len(sizes), x, axis=axis, split=list(sizes))
