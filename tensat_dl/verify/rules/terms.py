"""The outputs of a small graph as terms, as in ``relu(conv2d(x, w; stride = [2, 1]))``."""

from __future__ import annotations

from tensat_dl.core.graph import AttrValue, Graph, Node
from tensat_dl.ops.table import OpTable


def terms(graph: Graph, ops: OpTable) -> tuple[str, ...]:
    """One term for each output. Attributes that have their default are left out."""
    made: list[str] = []
    for node in graph.nodes:
        made.append(
            node.name if node.op in ("input", "weight") else _term(node, [made[j] for j in node.inputs], ops)
        )
    return tuple(made[i] for _, i in graph.outputs)


def _term(node: Node, args: list[str], ops: OpTable) -> str:
    if node.op == "fill" and node.type.size == 1 and node.type.rank == 0:
        return attribute(node.attr("value"))
    defaults = {a.name: a.default for a in ops[node.op].attrs}
    attrs = [f"{name} = {attribute(v)}" for name, v in node.attrs if v != defaults[name]]
    inside = ", ".join(args) + (f"; {', '.join(attrs)}" if attrs else "")
    return f"{node.op}({inside})"


def attribute(value: AttrValue) -> str:
    """An attribute's value as it is written in a file."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"[{', '.join(map(str, value))}]" if isinstance(value, tuple) else str(value)
