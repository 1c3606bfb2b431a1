"""Writes the nodes of a graph as nodes of an ONNX model, by the tables of operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir as ir

from tensat_dl.core.graph import Graph, GraphBuilder, TensorType, splits
from tensat_dl.onnx.operator import NodeWriter, OnnxTensor, Writing
from tensat_dl.onnx.operators import WRITE
from tensat_dl.onnx.tensors import ONNX_DTYPES, numpy_dtype
from tensat_dl.ops.compositions import compose
from tensat_dl.ops.semantics import SEMANTICS, semantics_of
from tensat_dl.ops.semantics.arrays import Array, computed_in
from tensat_dl.ops.table import OpTable
from tensat_dl.ops.typing import infer
from tensat_dl.verify.execute import execute


class Unwritable(Exception):
    """ONNX has no counterpart of an operator."""


class Encoder:
    """Writes the nodes of one graph, operands first. ``tensors`` has the tensors of written nodes; ``weight`` gives
    the value of a weight by name, ``elsewhere`` the shapes of nodes at other sizes of open dimensions."""

    def __init__(
        self,
        graph: Graph,
        ops: OpTable,
        writer: NodeWriter,
        weight: Callable[[str], Array],
        elsewhere: Sequence[Mapping[int, tuple[int, ...]]] = (),
    ) -> None:
        self.graph = graph
        self.ops = ops
        self.writer = writer
        self.weight = weight
        self.tensors: dict[int, OnnxTensor] = {}
        self._splits = splits(graph)
        #: What can be computed ahead of time: nothing of what has another size elsewhere, nor what is made of that.
        self.known: list[bool] = []
        for i, (n, alone) in enumerate(zip(graph.nodes, graph.weights_only(), strict=True)):
            same = all(there.get(i, n.types[0].shape) == n.types[0].shape for there in elsewhere)
            self.known.append(alone and same and all(self.known[j] for j in n.inputs))
        #: What is computed at run time, or an output, takes these.
        self.taken = {j for i, n in enumerate(graph.nodes) if not self.known[i] for j in n.inputs}
        self.taken.update(i for _, i in graph.outputs)

    def fold(self, i: int, name: str) -> None:
        """Computes node ``i`` from the weights that it needs alone: in float64, stored in its own element type.

        Raises ``ValueError`` where it can't be computed.
        """
        builder = GraphBuilder(self.graph.name)
        builder.nodes = list(self.graph.nodes[: i + 1])
        needed = builder.finish([("y", i)])
        weights = {}
        for node in (needed.nodes[j] for j in needed.weights):
            array = np.asarray(self.weight(str(node.attr("name"))))
            weights[str(node.attr("name"))] = array.astype(computed_in(node.type.dtype), copy=False)
        with np.errstate(all="ignore"):
            (result,) = execute(needed, weights, semantics_of(self.ops))
        type = self.graph.nodes[i].type
        array = np.asarray(result).astype(numpy_dtype(type.dtype))
        tensor = ir.tensor(array, dtype=ONNX_DTYPES[type.dtype])
        self.tensors[i] = OnnxTensor(self.writer.weight(tensor, name), type)

    def encode(self, i: int) -> None:
        """Writes node ``i``; all slices of a split at once. Raises `Unwritable`."""
        node = self.graph.nodes[i]
        parts = self._splits.get(i)
        if parts is not None and not any(j in self.tensors for j in parts):
            self._split(parts)
        else:
            if len(node.types) > 1:  # of no operator that ONNX has: parts of a split are slices here
                raise Unwritable(node.op)
            xs = [self.tensors[j] for j in node.inputs]
            self.tensors[i] = self._apply(node.op, xs, dict(node.attrs), node.type)

    def _apply(
        self, op: str, xs: Sequence[OnnxTensor], attrs: Mapping[str, Any], type: TensorType
    ) -> OnnxTensor:
        write = WRITE.get(op)
        if write is not None:
            found = write(Writing(self.writer, xs, attrs, type))
            return found if isinstance(found, OnnxTensor) else OnnxTensor(found, type)
        if not xs and op in SEMANTICS:  # of a composition's
            array = SEMANTICS[op](**attrs).astype(numpy_dtype(type.dtype))
            return OnnxTensor(self.writer.constant(array, op), type)
        if self.ops[op].composition is None:
            raise Unwritable(op)
        return self._composition(op, xs, attrs)

    def _composition(self, op: str, xs: Sequence[OnnxTensor], attrs: Mapping[str, Any]) -> OnnxTensor:
        """A composition is written as the operators of its definition."""

        def scalar(number: float, like: OnnxTensor) -> OnnxTensor:
            dtype = like.type.dtype
            return OnnxTensor(self.writer.number(number, dtype), TensorType(dtype, ()))

        def apply(inner: str, operands: Sequence[OnnxTensor], values: Mapping[str, Any]) -> OnnxTensor:
            (result,) = infer(self.ops, inner, [x.type for x in operands], values).concrete()
            return self._apply(inner, operands, values, result)

        return compose(self.ops[op], self.ops, xs, attrs, lambda x: x.type, scalar, apply)

    def _split(self, parts: Sequence[int]) -> None:
        """Slices that cover a tensor, as one node."""
        first = self.graph.nodes[parts[0]]
        axis = first.attr("axis")
        assert isinstance(axis, int)
        x = self.tensors[first.inputs[0]]
        types = [self.graph.nodes[i].type for i in parts]
        sizes = [t.shape[axis] for t in types]
        found = [OnnxTensor(v, t) for v, t in zip(self._parts(x.value, axis, sizes), types, strict=True)]
        if x.wide is not None and axis == x.type.rank - 1:
            lead = x.wide.type.shape[:-1]
            wide = self._parts(x.wide.value, len(lead), sizes)
            for k, (value, t) in enumerate(zip(wide, types, strict=True)):
                whole = OnnxTensor(value, TensorType(t.dtype, (*lead, t.shape[-1])))
                found[k] = replace(found[k], wide=whole)
        self.tensors.update(zip(parts, found, strict=True))

    def _parts(self, x: ir.Value, axis: int, sizes: Sequence[int]) -> Sequence[ir.Value]:
        """The sizes became an input with opset 13."""
        if self.writer.opset >= 13:
            return self.writer.several("Split", len(sizes), x, self.writer.ints(sizes), axis=axis)
        return self.writer.several("Split", len(sizes), x, axis=axis, split=sizes)
