"""From an extraction's choices to a graph."""

from __future__ import annotations

import heapq
from collections.abc import Collection
from math import inf

from tensat_dl.core.egraph import EGraph
from tensat_dl.core.graph import Graph, GraphBuilder
from tensat_dl.extract.types import Extraction


def rebuild(egraph: EGraph, extraction: Extraction, source: Graph) -> tuple[Graph, dict[str, int]]:
    """The chosen graph, with the source's inputs, output names and, where an e-class has one, node names; and
    how many of its run-time nodes each rule first built.

    E-classes that are computed from weights alone are derived with the fewest bytes.
    """
    derivation = fewest_bytes(egraph, source.opaque)
    builder = GraphBuilder(source.name, source.opaque)
    names: dict[int, str] = {}
    for i, n in enumerate(egraph.source.tolist()):
        if n >= 0 and source.nodes[i].name:
            names.setdefault(int(egraph.node_class[n]), source.nodes[i].name)
    # Inputs are part of a graph's interface: all stay, in order.
    for node in (source.nodes[i] for i in source.inputs):
        builder.add(node.op, (), node.attrs, node.types, node.name)
    built: dict[int, int] = {}
    rules: dict[str, int] = {}

    def chosen(c: int) -> int:
        return derivation[c] if egraph.weights_only[c] else extraction.choices[c]

    for root in egraph.roots:
        stack = [root]
        while stack:
            c = stack[-1]
            if c in built:
                stack.pop()
                continue
            n = chosen(c)
            missing = [d for d in egraph.children_of(n) if d not in built]
            if missing:
                stack += reversed(missing)
                continue
            stack.pop()
            children = [built[d] for d in egraph.children_of(n)]
            built[c] = builder.add(egraph.op[n], children, egraph.attrs[n], egraph.types[c], names.get(c, ""))
            rule = egraph.origin[n] if egraph.origin else ""
            if rule and not egraph.weights_only[c]:
                rules[rule] = rules.get(rule, 0) + 1
    outputs = [(name, built[root]) for (name, _), root in zip(source.outputs, egraph.roots, strict=True)]
    return builder.finish(outputs), dict(sorted(rules.items(), key=lambda r: (-r[1], r[0])))


def fewest_bytes(egraph: EGraph, opaque: Collection[str] = ()) -> dict[int, int]:
    """For each weights-only e-class the e-node of a derivation with the fewest bytes of intermediate results.

    The values are computed once, ahead of time, so this decides about memory while folding, not about run time.
    An opaque operator may share an e-class with what can be computed, but can't be itself.
    Knuth's generalisation of Dijkstra's algorithm: a node's bytes are its result's plus its children's.
    """
    waiting: dict[int, int] = {}
    users: dict[int, list[int]] = {}
    best: dict[int, float] = {}
    choice: dict[int, int] = {}
    heap: list[tuple[float, int, int]] = []
    source = set(egraph.source.tolist())

    def push(n: int) -> None:
        c = int(egraph.node_class[n])
        own = sum(t.nbytes for t in egraph.types[c])
        total = own + sum(best[d] for d in dict.fromkeys(egraph.children_of(n)))
        heapq.heappush(heap, (total, n not in source, n))

    for c in range(egraph.num_classes):
        if not egraph.weights_only[c]:
            continue
        for n in egraph.nodes_of(c):
            children = set(egraph.children_of(n))
            if egraph.op[n] not in opaque and all(egraph.weights_only[d] for d in children):
                waiting[n] = len(children)
                for d in children:
                    users.setdefault(d, []).append(n)
                if not children and egraph.op[n] != "input":
                    push(n)
    while heap:
        total, _, n = heapq.heappop(heap)
        c = int(egraph.node_class[n])
        if best.get(c, inf) <= total:
            continue
        best[c], choice[c] = total, n
        for user in users.get(c, ()):
            waiting[user] -= 1
            if waiting[user] == 0:
                push(user)
    return choice
