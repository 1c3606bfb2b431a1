"""Evaluates graphs in exact arithmetic, keeping no value longer than it is needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensat_dl.core.graph import AttrValue, Graph, Node
from tensat_dl.core.types import FLOATS
from tensat_dl.ops.compose import compose
from tensat_dl.ops.table import OpTable
from tensat_dl.verify.exact.arithmetic import Arithmetic, OutOfReach, V
from tensat_dl.verify.exact.constants import meant
from tensat_dl.verify.exact.operators import EXACT_SEMANTICS, ExactSemantics
from tensat_dl.verify.execute import ExecutionError, last_uses, widening


def evaluate(graph: Graph, values: Mapping[str, V], a: Arithmetic[V], ops: OpTable) -> list[V]:
    """The outputs of a graph, in order. ``values`` holds the inputs and weights by name.

    Raises `OutOfReach` where the arithmetic lacks what an operator does, `ZeroDivisionError` where a divisor is zero
    for these values, and `ExecutionError` where a value has another shape than the graph declares.
    """
    last_use = last_uses(graph)
    dying: list[list[int]] = [[] for _ in range(len(graph.nodes) + 1)]
    for i, user in last_use.items():
        dying[user].append(i)
    computed: dict[int, tuple[V, ...]] = {}
    for i, node in enumerate(graph.nodes):
        if i not in last_use:
            continue
        computed[i] = _apply(graph, node, computed, values, a, ops)
        found, declared = [a.shape(x) for x in computed[i]], [t.shape for t in node.types]
        if found != declared:
            raise ExecutionError(f"{node.op} is declared {declared}, but its value has shape {found}")
        for j in dying[i]:
            del computed[j]
    return [computed[i][0] for _, i in graph.outputs]


def _apply(
    graph: Graph,
    node: Node,
    computed: Mapping[int, tuple[V, ...]],
    values: Mapping[str, V],
    a: Arithmetic[V],
    ops: OpTable,
) -> tuple[V, ...]:
    if node.op in ("input", "weight"):
        return (values[str(node.attr("name"))],)
    if node.op == "proj":
        index = node.attr("index")
        assert isinstance(index, int)
        return (computed[node.inputs[0]][index],)
    operands = [computed[j][0] for j in node.inputs]
    if node.op not in ops or ops[node.op].opaque:
        return a.opaque(node, operands)
    if widening(graph, node):
        return (operands[0],)
    return (_operator(node.op, operands, dict(node.attrs), a, ops),)


def _operator(
    op: str,
    operands: Sequence[V],
    attrs: Mapping[str, AttrValue],
    a: Arithmetic[V],
    ops: OpTable,
) -> V:
    if ops[op].composition is not None:
        return compose(
            ops[op],
            ops,
            operands,
            attrs,
            a.shape,
            lambda value, like: a.constant(meant(value), (), a.dtype(like) not in FLOATS),
            lambda inner, xs, values: _operator(inner, xs, values, a, ops),
            a.dtype,
        )
    function: ExactSemantics[V] | None = EXACT_SEMANTICS.get(op)
    if function is None:
        raise OutOfReach(f"{op} has no exact semantics")
    try:
        return function(a, operands, attrs)
    except ValueError as error:
        raise OutOfReach(f"{op}: {error}") from error
