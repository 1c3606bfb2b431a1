"""Equality saturation of candidates with the rules found so far: what is derivable is not looked at again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from tensat_dl.core.egraph import find
from tensat_dl.core.rule import RewriteRule
from tensat_dl.discover.candidates import Equation, graph_of
from tensat_dl.engine.exploration import Limits
from tensat_dl.engine.loop import Explorer
from tensat_dl.ops.table import OpTable

#: So many candidates share an e-graph, which begins with all their terms; and its limits.
TOGETHER = 48
ITERATIONS = 3
GROWTH = 5
LEAST_NODES = 300


@dataclass(frozen=True, slots=True)
class Chunk:
    """Candidates of the same operators, and the rules that can say something of them: those about these operators."""

    candidates: tuple[Equation, ...]
    rules: tuple[RewriteRule, ...]


def chunks(candidates: Sequence[Equation], rules: Sequence[RewriteRule], ops: OpTable) -> list[Chunk]:
    """All candidates that some rule can say something of."""
    groups: dict[frozenset[str], list[Equation]] = defaultdict(list)
    for c in candidates:
        groups[operators(c)].append(c)
    found = []
    for names, members in groups.items():
        within = {*ops.closure(names), "fill"}
        near = tuple(r for r in rules if all(n.op in within for n in r.nodes))
        for start in range(0, len(members) if near else 0, TOGETHER):
            found.append(Chunk(tuple(members[start : start + TOGETHER]), near))
    return found


def operators(c: Equation) -> frozenset[str]:
    """The operators of both sides."""
    return frozenset(n.op for side in (c.left, c.right) for n in side.nodes())


def derivable(chunk: Chunk, ops: OpTable) -> list[Equation]:
    """The candidates of a chunk that its rules make equal."""
    graph = graph_of([side for c in chunk.candidates for side in (c.left, c.right)])
    limits = Limits(LEAST_NODES + GROWTH * len(graph.nodes), ITERATIONS, k_multi=None)
    egraph = None
    for step in Explorer(graph, ops, chunk.rules, limits).run():
        egraph = step.egraph
    assert egraph is not None
    at = find(graph, egraph, ops.commutative)
    outputs = [at[node] for _, node in graph.outputs]
    pairs = zip(chunk.candidates, outputs[::2], outputs[1::2], strict=True)
    return [c for c, left, right in pairs if left is not None and left == right]
