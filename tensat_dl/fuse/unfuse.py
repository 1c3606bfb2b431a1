"""Takes fused operators apart again, for whoever asks how a graph came about: rules know nothing of them."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from tensat_dl.core.graph import AttrValue, Graph, GraphBuilder
from tensat_dl.core.types import TensorType
from tensat_dl.lang.declare import Declared
from tensat_dl.ops.compose import compose
from tensat_dl.ops.table import OpTable
from tensat_dl.ops.typing import infer


def extended(ops: OpTable, declared: Mapping[str, Declared]) -> OpTable:
    """The operators, with those that fusion declared."""
    return OpTable([*ops.values(), *(d.decl for d in declared.values())]) if declared else ops


def unfused(graph: Graph, ops: OpTable, fused: Container[str]) -> Graph:
    """The graph with the operators that each of the ``fused`` ones, which are compositions, is made of; itself if it
    has none."""
    if not any(node.op in fused for node in graph.nodes):
        return graph
    builder = GraphBuilder(graph.name, graph.opaque)

    def type_of(i: int) -> TensorType:
        return builder.nodes[i].type

    def apply(op: str, operands: Sequence[int], attrs: Mapping[str, AttrValue]) -> int:
        if op in fused:
            return taken_apart(op, operands, attrs)
        types = infer(ops, op, [type_of(i) for i in operands], attrs).concrete()
        return builder.add(op, operands, tuple((a.name, attrs[a.name]) for a in ops[op].attrs), types)

    def taken_apart(op: str, operands: Sequence[int], attrs: Mapping[str, AttrValue]) -> int:
        def scalar(value: float, like: int) -> int:
            dtype = type_of(like).dtype
            number = (("value", value), ("dtype", dtype), ("shape", ()))
            return builder.add("fill", (), number, (TensorType(dtype, ()),))

        return compose(
            ops[op],
            ops,
            operands,
            attrs,
            lambda i: type_of(i).shape,
            scalar,
            apply,
            lambda i: type_of(i).dtype,
        )

    new: list[int] = []
    for node in graph.nodes:
        operands = [new[j] for j in node.inputs]
        if node.op in fused:
            new.append(taken_apart(node.op, operands, dict(node.attrs)))
        else:
            new.append(builder.add(node.op, operands, node.attrs, node.types, node.name))
    return builder.finish([(name, new[i]) for name, i in graph.outputs])
