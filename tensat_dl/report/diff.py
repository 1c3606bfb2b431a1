"""Which nodes of two graphs have no counterpart in the other one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable

from tensat_dl.core.graph import Graph, value_numbers

Key = Callable[[int], Hashable]


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


def _keys(graph: Graph, numbers: dict[Hashable, int]) -> list[Key]:
    """For each pass, from strict to loose, what makes two nodes alike. Both graphs share ``numbers``."""
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
