"""What to look for in optimized graphs: which products and convolutions compute which tensors."""

from __future__ import annotations

from collections import defaultdict

from tensat_dl.core.graph import Graph, Node

#: Operators that only move data.
MOVES = ("slice", "reshape", "transpose")


def behind(graph: Graph, node: int) -> int:
    """The node that computes what ``node`` shows a part or an arrangement of."""
    while graph.nodes[node].op in MOVES:
        node = graph.nodes[node].inputs[0]
    return node


def computing(graph: Graph, op: str) -> list[int]:
    """The nodes of an operator that run: those not computed from weights alone."""
    weights = graph.weights_only()
    return [i for i, n in enumerate(graph.nodes) if n.op == op and not weights[i]]


def by_weights(graph: Graph, op: str) -> list[int]:
    """The running nodes of an operator whose second operand is computed from weights alone."""
    weights = graph.weights_only()
    return [i for i in computing(graph, op) if weights[graph.nodes[i].inputs[1]]]


def attentions(graph: Graph) -> list[tuple[int, int, int]]:
    """q, k and v of every product ``(q @ k^T) @ v``."""
    found = []
    products = set(computing(graph, "matmul")) - set(by_weights(graph, "matmul"))
    for i in sorted(products):
        scores, v = graph.nodes[i].inputs
        if scores in products:
            q, k = graph.nodes[scores].inputs
            found.append((q, k, v))
    return found


def sibling_pointwise(graph: Graph) -> list[list[int]]:
    """Running 1x1 convolutions that could be one: they agree in everything but the kernel's values."""
    groups: dict[object, list[int]] = defaultdict(list)
    for i in by_weights(graph, "conv2d"):
        node = graph.nodes[i]
        x, kernel = (graph.nodes[j].type.shape for j in node.inputs[:2])
        if kernel[1:] == (x[1], 1, 1):
            groups[(node.inputs[0], node.attrs, len(node.inputs))].append(i)
    return [group for group in groups.values() if len(group) > 1]


def separable_pairs(graph: Graph) -> list[Node]:
    """1x1 convolutions that sum up twice their own number of channels, which a depth-wise convolution of one
    tensor computed: ``sep(x) + sep(x)`` with two convolutions instead of four."""
    found = []
    for i in by_weights(graph, "conv2d"):
        point = graph.nodes[i]
        depth = graph.nodes[point.inputs[0]]
        out, channels, *size = graph.nodes[point.inputs[1]].type.shape
        if depth.op == "conv2d" and size == [1, 1] and channels == 2 * out and depth_wise(graph, depth):
            found.append(point)
    return found


def depth_wise(graph: Graph, conv: Node) -> bool:
    """Whether each output channel of a convolution comes from one input channel."""
    return graph.nodes[conv.inputs[1]].type.shape[1] == 1
