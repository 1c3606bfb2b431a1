"""The substitutions that led to a graph, as the steps of an explanation."""

from __future__ import annotations

from collections.abc import Iterator

from tensat_dl.baselines.graphs import Current
from tensat_dl.baselines.rewriting import Substitution
from tensat_dl.baselines.walk import Walk
from tensat_dl.core.graph import Graph, Node
from tensat_dl.core.rule import RewriteRule
from tensat_dl.lang.node_names import node_names
from tensat_dl.ops.table import OpTable
from tensat_dl.why.sides import leaf_node, sides
from tensat_dl.why.steps import Step


def steps_of(walk: Walk, rules: dict[str, RewriteRule], ops: OpTable) -> Iterator[Step]:
    """The steps from the first graph of a search to its best one. Each begins with the graph of the one before."""
    store, outputs = walk.store, walk.store.outputs
    before = store.graph(outputs)
    for sub in walk.best.chain():
        after = Current(store, walk.costs, outputs).outputs_after(sub)
        assert after is not None, "it was priced"
        graph = store.graph(after)
        names = _names(walk, before, outputs, ops)
        at = tuple((names[s], store.types[s]) for s, _ in sub.outputs)
        yield Step(rules[sub.rule.name], sub.members, at, _sides(walk, sub), before, graph, ())
        before, outputs = graph, after


def _names(walk: Walk, graph: Graph, outputs: tuple[int, ...], ops: OpTable) -> dict[int, str]:
    """The names of the nodes of a graph, by node of the store."""
    return dict(zip(walk.store.order(outputs), node_names(graph, ops), strict=True))


def _sides(walk: Walk, sub: Substitution) -> tuple[Graph, Graph]:
    store = walk.store

    def leaf(n: int, name: str) -> Node:
        return leaf_node(name, store.outs[n], n in store.weights, store.values.get(n))

    def node(n: int) -> tuple[Node, tuple[int, ...]]:
        return Node(store.op[n], (), store.attrs[n], store.outs[n]), store.operands[n]

    matched = set(sub.match.nodes.values())
    return sides(sub.target, sub.match.tensors, matched, node, leaf, store.opaque)
