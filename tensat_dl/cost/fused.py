"""Operators that ONNX Runtime computes together with the convolution before them, so that they cost nothing.

It folds a batch normalisation, a known factor, and known factors and terms for each channel into the weights of a
convolution; and a relu is applied before the result is written. (Other activations are, too, but take nearly as long
there as by themselves. A single number as a term is not folded.) All of that only where nothing else reads the values
in between.

In an e-graph the readers are not known. There rules bring the fused operators, which have prices of their own; here
graphs get the price of the kernels that run.
"""

from __future__ import annotations

from collections import Counter

from tensat_dl.core.graph import Graph, Node

#: Operators that scale or shift a convolution's result.
FOLDED = frozenset({"batchnorm", "ewadd", "ewmul", "smul"})


def fused(graph: Graph) -> list[int]:
    """The nodes that are computed together with a convolution before them."""
    known = graph.weights_only()
    readers = Counter(j for node in graph.nodes for j in node.inputs)
    readers.update(i for _, i in graph.outputs)
    convolutions: set[int] = set()  #: and operators that were folded into their weights
    found = []
    for i, node in enumerate(graph.nodes):
        before = [j for j in node.inputs if j in convolutions and readers[j] == 1]
        if node.op == "conv2d" and dict(node.attrs).get("act", "none") == "none" and known[node.inputs[1]]:
            convolutions.add(i)
        elif before and _folds(graph, node, before[0], known):
            convolutions.add(i)
            found.append(i)
        elif before and node.op == "relu":
            found.append(i)
    return found


def _folds(graph: Graph, node: Node, conv: int, known: list[bool]) -> bool:
    """Whether a node does nothing but scale and shift the channels of a convolution by known numbers."""
    others = [graph.nodes[j].type for j in node.inputs if j != conv]
    if node.op not in FOLDED or not all(known[j] for j in node.inputs if j != conv):
        return False
    channels = node.type.shape[1]
    return node.op == "batchnorm" or all(
        (t.size == 1 and node.op != "ewadd")
        or (t.size == channels and t.rank >= 3 and t.shape[-3] == channels)
        for t in others
    )
