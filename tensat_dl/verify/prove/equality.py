"""Whether axioms make pairs of graphs equal, in an e-graph of both or of the left ones alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from tensat_dl.core.egraph import EGraph, find
from tensat_dl.core.graph import Graph, GraphBuilder
from tensat_dl.core.rule import RewriteRule
from tensat_dl.engine.exploration import Limits, Stop
from tensat_dl.engine.loop import Explorer
from tensat_dl.ops.table import OpTable
from tensat_dl.verify.prove.goals import Pair

#: Told the iteration, the e-nodes and how many pairs are equal.
Progress = Callable[[int, int, int], None]


@dataclass(frozen=True, slots=True)
class Equality:
    """The pairs that were found equal, by position. ``applied`` are the axioms that did something until then;
    ``stop`` is why the search ended before all were, else None."""

    equal: frozenset[int]
    applied: tuple[str, ...]
    stop: Stop | None
    iterations: int
    nodes: int


def find_equal(
    pairs: Sequence[Pair],
    axioms: Sequence[RewriteRule],
    ops: OpTable,
    limits: Limits,
    progress: Progress | None = None,
    both: bool = True,
) -> Equality:
    """Explores until both graphs of all pairs are equal, or there is nothing more to find, or a limit binds.

    ``both``: the e-graph begins with both graphs of all pairs. Otherwise the axioms have to build the right graphs
    from the left ones: group rules would merge parts of the right graphs, too. Ctrl-C ends it with what is known by
    then. Raises `RuleAlarm` if the axioms make tensors of different types equal.
    """
    graph = join(pairs, (0, 1) if both else (0,))
    right = join(pairs, (1,))
    found = Equality(frozenset(), (), None, 0, 0)
    try:
        for number, step in enumerate(Explorer(graph, ops, tuple(axioms), limits).run()):
            equal = _equal(pairs, right, step.egraph, ops)
            applied = dict.fromkeys((*found.applied, *(s.rule for s in step.iteration.rules if s.applied)))
            done = len(equal) == len(pairs)
            nodes = step.egraph.num_nodes
            found = Equality(equal, tuple(applied), None if done else step.stop, number, nodes)
            if progress is not None:
                progress(number, nodes, len(equal))
            if done:
                break
    except KeyboardInterrupt:
        return replace(found, stop="interrupted")
    return found


def _equal(pairs: Sequence[Pair], right: Graph, egraph: EGraph, ops: OpTable) -> frozenset[int]:
    """The pairs whose outputs have the same e-classes; those of the left graphs are the first roots."""
    classes = find(right, egraph, ops.commutative)
    same = (root == classes[node] for root, (_, node) in zip(egraph.roots, right.outputs, strict=False))
    found = [list(islice(same, len(left.outputs))) for left, _ in pairs]
    return frozenset(i for i, outputs in enumerate(found) if all(outputs))


def join(pairs: Sequence[Pair], sides: Sequence[int]) -> Graph:
    """One graph of one side or both of all pairs, one side after the other. Pairs share nothing; the graphs of a pair
    share inputs."""
    opaque = {op for pair in pairs for graph in pair for op in graph.opaque}
    builder = GraphBuilder("pairs", opaque)
    outputs: list[tuple[str, int]] = []
    for side in sides:
        for i, pair in enumerate(pairs):
            added = _add(builder, pair[side], f"p{i}_")
            outputs += [(f"p{i}_{side}_{j}", node) for j, node in enumerate(added)]
    return builder.finish(outputs)


def _add(builder: GraphBuilder, graph: Graph, prefix: str) -> list[int]:
    """Adds a graph whose inputs and weights get a prefix; its outputs."""
    at: list[int] = []
    for node in graph.nodes:
        attrs, name = node.attrs, node.name
        if node.op in ("input", "weight"):
            attrs = tuple((k, f"{prefix}{v}" if k == "name" else v) for k, v in attrs)
            name = f"{prefix}{name}"
        at.append(builder.add(node.op, (at[j] for j in node.inputs), attrs, node.types, name))
    return [at[i] for _, i in graph.outputs]


def near(pair: Pair, axioms: Sequence[RewriteRule]) -> list[RewriteRule]:
    """The axioms that are about operators of a pair alone: few, and most often enough."""
    known = {node.op for graph in pair for node in graph.nodes}
    return [a for a in axioms if all(n.op in known for n in a.nodes)]


def tight(limits: Limits, found: Equality) -> Limits:
    """Limits for finding a proof again: a little more than it took, as fewer axioms may take detours."""
    nodes = min(limits.nodes, 4 * found.nodes + 200)
    return replace(limits, nodes=nodes, iterations=min(limits.iterations, found.iterations + 3))
