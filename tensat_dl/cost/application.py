"""Single applications as graphs: one operator, or the definition of a composition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensat_dl.core.graph import AttrValue, Graph, GraphBuilder
from tensat_dl.core.types import TensorType
from tensat_dl.cost.signature import Signature
from tensat_dl.ops.table import OpTable


def applied(signature: Signature) -> Graph:
    """The graph of one operator on inputs x0, x1, .."""
    builder = GraphBuilder("application")
    operands = [_input(builder, i, type) for i, type in enumerate(signature.inputs)]
    return builder.finish([("y", builder.add(signature.op, operands, signature.attrs, signature.outputs))])


def definition(ops: OpTable, signature: Signature) -> Graph | None:
    """The definition of a composition on inputs x0, x1, .., as a graph without compositions; None for another
    operator. Numbers in its text are `fill` nodes."""
    from tensat_dl.ops.compose import compose
    from tensat_dl.ops.typing import infer

    decl = ops[signature.op]
    if decl.composition is None:
        return None
    builder = GraphBuilder("composition")
    inputs = [_input(builder, i, type) for i, type in enumerate(signature.inputs)]

    def type_of(i: int) -> TensorType:
        return builder.nodes[i].type

    def scalar(value: float, like: int) -> int:
        dtype = type_of(like).dtype
        attrs = (("dtype", dtype), ("shape", ()), ("value", value))
        return builder.add("fill", (), attrs, (TensorType(dtype, ()),))

    def apply(op: str, operands: Sequence[int], attrs: Mapping[str, AttrValue]) -> int:
        if ops[op].composition is not None:
            of = (lambda i: type_of(i).shape), scalar, apply, (lambda i: type_of(i).dtype)
            return compose(ops[op], ops, operands, attrs, *of)
        types = infer(ops, op, [type_of(i) for i in operands], attrs).concrete()
        return builder.add(op, operands, tuple(sorted(attrs.items())), types)

    return builder.finish([("y", apply(signature.op, inputs, dict(signature.attrs)))])


def _input(builder: GraphBuilder, i: int, type: TensorType) -> int:
    attrs = (("name", f"x{i}"), ("dtype", type.dtype), ("shape", type.shape))
    return builder.add("input", (), attrs, (type,))
