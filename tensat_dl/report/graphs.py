"""Names and colours of nodes in drawings, the nodes that differ between two graphs, and Graphviz text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable

from tensat_dl.core.graph import AttrValue, Graph, Node, TensorType, value_numbers
from tensat_dl.ops.traits import Family, traits

#: Operator families and their colours, which are readable on light and dark grounds.
FAMILIES: dict[Family, str] = {
    "product": "#3b82f6",
    "elementwise": "#10b981",
    "normalisation": "#a855f7",
    "pooling": "#f59e0b",
    "movement": "#64748b",
    "leaf": "#94a3b8",
    "other": "#ec4899",
}


def shape(type: TensorType) -> str:
    """A shape as short as it gets: 64×1024."""
    return "×".join(map(str, type.shape)) or "scalar"


def shown_attrs(node: Node, place: bool = True) -> list[str]:
    """The attributes that distinguish a node from others of its operator, in few characters.

    Without ``place``, slices of one size are alike wherever they start.
    """
    given = dict(node.attrs)
    out = []
    if given.get("act", "none") != "none":
        out.append(f"+ {given['act']}")
    if "axis" in given:
        out.append(f"axis {given['axis']}")
    if node.op == "slice" and place:
        out.append(f"{given['start']}..{given['stop']}")
    if "kernel" in given:
        out.append(sizes(given["kernel"]))
    if "perm" in given:
        out.append(f"({sizes(given['perm'], ' ')})")
    if given.get("stride", (1, 1)) not in ((1, 1), 1):
        out.append(f"/{sizes(given['stride'])}")
    return out


def sizes(value: AttrValue, between: str = "×") -> str:
    return between.join(map(str, value)) if isinstance(value, tuple) else str(value)


def changed_nodes(before: Graph, after: Graph) -> tuple[frozenset[int], frozenset[int]]:
    """The nodes of ``before`` that are gone, and the nodes of ``after`` that are new.

    Behind a rewritten node every node computes with something else, yet most of them are unchanged.
    So nodes are paired in passes, from strict to loose: the same expression; the same operator with the same
    weights on the same types; the same operator on the same types, in order.
    """
    left = [set(range(len(g.nodes))) for g in (before, after)]
    numbers: dict[Hashable, int] = {}
    keys = [_keys(g, numbers) for g in (before, after)]
    for level in range(len(keys[0])):
        waiting: dict[Hashable, list[int]] = defaultdict(list)
        for i in sorted(left[0], reverse=True):
            waiting[keys[0][level](i)].append(i)
        for j in sorted(left[1]):
            same = waiting.get(keys[1][level](j))
            if same:
                left[0].discard(same.pop())
                left[1].discard(j)
    return frozenset(left[0]), frozenset(left[1])


def _keys(graph: Graph, numbers: dict[Hashable, int]) -> list[Callable[[int], Hashable]]:
    """For each pass, from strict to loose, the keys of nodes: nodes with equal keys are alike. Both graphs share
    ``numbers``."""
    nodes = graph.nodes
    constant = graph.weights_only()
    expression = value_numbers(graph, numbers)

    def operand(j: int) -> Hashable:
        return expression[j] if constant[j] else nodes[j].types

    def signature(i: int) -> Hashable:
        return nodes[i].op, nodes[i].attrs, nodes[i].types, tuple(nodes[j].types for j in nodes[i].inputs)

    def with_weights(i: int) -> Hashable:
        return signature(i), tuple(operand(j) for j in nodes[i].inputs)

    return [lambda i: expression[i], with_weights, signature]


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
