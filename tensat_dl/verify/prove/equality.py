"""Whether axioms make pairs of graphs equal: both graphs of every pair go into one e-graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tensat_dl.explore.loop import Explorer
from tensat_dl.explore.types import Limits
from tensat_dl.ir.graph import Graph, GraphBuilder
from tensat_dl.ir.rule import RewriteRule
from tensat_dl.ops.table import OpTable
from tensat_dl.result import Stop
from tensat_dl.verify.prove.types import Pair

#: Told the iteration, the e-nodes and how many pairs are equal.
Progress = Callable[[int, int, int], None]


@dataclass(frozen=True, slots=True)
class Found:
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
) -> Found:
    """Explores until both sides of all pairs are equal, or there is nothing more to find, or a limit binds.

    Ctrl-C ends it with what is known by then. Raises `RuleAlarm` if the axioms make tensors of different types equal.
    """
    graph = join(pairs)
    places = _places(pairs)
    found = Found(frozenset(), (), None, 0, 0)
    try:
        for number, step in enumerate(Explorer(graph, ops, tuple(axioms), limits).run()):
            roots = step.egraph.roots
            equal = frozenset(i for i, at in enumerate(places) if all(roots[a] == roots[b] for a, b in at))
            applied = dict.fromkeys((*found.applied, *(s.rule for s in step.iteration.rules if s.applied)))
            done = len(equal) == len(pairs)
            nodes = step.egraph.num_nodes
            found = Found(equal, tuple(applied), None if done else step.stop, number, nodes)
            if progress is not None:
                progress(number, nodes, len(equal))
            if done:
                break
    except KeyboardInterrupt:
        return replace(found, stop="interrupted")
    return found


def join(pairs: Sequence[Pair]) -> Graph:
    """One graph of all pairs, which share nothing. Outputs: those of the left graphs, each before its right one."""
    builder = GraphBuilder("pairs", {op for pair in pairs for graph in pair for op in graph.opaque})
    outputs: list[tuple[str, int]] = []
    for i, pair in enumerate(pairs):
        left, right = (_add(builder, graph, f"p{i}_") for graph in pair)
        for j, (a, b) in enumerate(zip(left, right, strict=True)):
            outputs += [(f"p{i}_left{j}", a), (f"p{i}_right{j}", b)]
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


def _places(pairs: Sequence[Pair]) -> list[list[tuple[int, int]]]:
    """For each pair the positions of its outputs among those of the joined graph."""
    places: list[list[tuple[int, int]]] = []
    first = 0
    for left, _ in pairs:
        places.append([(first + 2 * j, first + 2 * j + 1) for j in range(len(left.outputs))])
        first += 2 * len(left.outputs)
    return places


def near(pair: Pair, axioms: Sequence[RewriteRule]) -> list[RewriteRule]:
    """The axioms that are about operators of a pair alone: few, and most often enough."""
    known = {node.op for graph in pair for node in graph.nodes}
    return [a for a in axioms if all(n.op in known for n in (*a.source.nodes, *a.target.nodes))]


def tight(limits: Limits, found: Found) -> Limits:
    """Limits for finding again what was found: some more than it took, as fewer axioms may take detours."""
    nodes = min(limits.nodes, 4 * found.nodes + 200)
    return replace(limits, nodes=nodes, iterations=min(limits.iterations, found.iterations + 3))
