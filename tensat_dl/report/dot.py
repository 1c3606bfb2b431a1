"""A graph as Graphviz text."""

from __future__ import annotations

from collections.abc import Collection

from tensat_dl.core.graph import Graph
from tensat_dl.ops.traits import traits
from tensat_dl.report.labels import FAMILIES, shown_attrs


def graph_to_dot(graph: Graph, changed: Collection[int] = frozenset()) -> str:
    """The graph with operators, names and types as labels. ``changed`` nodes are drawn with a bold frame."""
    lines = [
        f"digraph {_quoted(graph.name)} {{",
        "  rankdir=TB;",
        '  node [shape=box, style="rounded,filled", fontname="Helvetica", fontsize=11];',
        '  edge [color="#667085", arrowsize=0.6];',
    ]
    constant = graph.weights_only()
    for i, node in enumerate(graph.nodes):
        colour = FAMILIES[traits(node.op).family]
        title = node.op if node.op in ("input", "weight") else " ".join([node.op, *shown_attrs(node)])
        name = str(node.attr("name")) if node.op in ("input", "weight") else node.name
        label = "\n".join(x for x in (title, name, ", ".join(map(str, node.types))) if x)
        style = [f"label={_quoted(label)}", f'fillcolor="{colour}22"', f'color="{colour}"']
        if constant[i]:
            style.append("fontsize=8, margin=0.04, height=0.2")
        if i in changed:
            style.append("penwidth=3")
        lines.append(f"  n{i} [{', '.join(style)}];")
    for i, node in enumerate(graph.nodes):
        lines += [f"  n{j} -> n{i};" for j in node.inputs]
    for k, (name, i) in enumerate(graph.outputs):
        lines.append(f'  out{k} [label={_quoted(name)}, shape=plaintext, style=""];')
        lines.append(f"  n{i} -> out{k};")
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(text: str) -> str:
    """A DOT string. A backslash starts an escape in labels, so it is doubled."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\0", "")
    return f'"{escaped}"'
