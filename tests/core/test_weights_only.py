"""What is known ahead of time, in the graph and in its e-graph: opaque operators compute nothing ahead."""

from __future__ import annotations

import numpy as np
import pytest

from tensat_dl.core.egraph import EGraph
from tensat_dl.core.graph import Graph
from tensat_dl.engine.exploration import Limits
from tensat_dl.extract.extraction import Extraction
from tensat_dl.extract.rebuild import rebuild
from tests.explore.graphs import explored, graph_in, program_of

TEXT = """
opaque op hash(x: tensor) { shape shape(x) }
opaque op both(x: tensor) -> (a, b) { shape a = shape(x); shape b = [dim(x, 0)] }
rule r { hash(x) => tanh(tanh(x)) }
graph g {
  input x : f32[4, 4]
  weight w : f32[4, 4]
  weight v : f32[4, 4]
  k = eye(; n = 4, dtype = f32)
  plain = relu(w) + v
  hashed = hash(v)
  (p, q) = both(plain)
  output x @ plain, x @ relu(hashed), x @ p, q, x @ k
}"""


def test_graph_and_egraph_agree() -> None:
    program = program_of(TEXT)
    graph = graph_in(program)
    assert graph.opaque == {"hash", "both"}
    e = explored(graph, (), Limits(), program.ops)
    found = [bool(e.weights_only[e.node_class[n]]) for n in e.source]
    assert graph.weights_only() == found
    ahead = {n.op for n, known in zip(graph.nodes, found, strict=True) if known}
    assert ahead == {"weight", "relu", "ewadd", "eye"}


@pytest.mark.parametrize("rules", [False, True])
def test_a_rebuilt_graph_agrees_too(rules: bool) -> None:
    """With the rule, the opaque operator's e-class is known ahead, but not by way of the opaque operator."""
    program = program_of(TEXT)
    graph = graph_in(program)
    e = explored(graph, [r for r in program.rules if r.name == "r" and rules], Limits(), program.ops)
    built, _ = rebuild(e, first_choices(e), graph)
    assert ("hash" in built.opaque) is not rules
    assert [i for i, known in enumerate(built.weights_only()) if known] == known_nodes(built)


def first_choices(e: EGraph) -> Extraction:
    """The source's own node for every e-class."""
    choices = {int(e.node_class[n]): int(n) for n in e.source if n >= 0}
    return Extraction(choices, 0.0, 0.0, "feasible", "source", 0.0)


def known_nodes(built: Graph) -> list[int]:
    """The nodes of a graph none of whose operands, however far up, is an input or opaque."""
    known: list[int] = []
    for i, n in enumerate(built.nodes):
        if n.op not in ("input", "hash", "both") and all(j in known for j in n.inputs):
            known.append(i)
    return known


ZERO = """
opaque op hash(x: tensor) { shape shape(x) }
rule zero { y = ewmul(x, c) where value(c) == 0.0 => y = fill(; value = 0.0, dtype = f32, shape = shape(y)) }
rule known { hash(v) => tanh(v) }
graph g {
  input x : f32[4, 4]
  weight v : f32[4, 4]
  output relu(x * 0.0) + hash(v)
}"""


@pytest.mark.parametrize(
    ("dropped", "not_ahead"),
    [
        (set(), {"input"}),
        ({"tanh"}, {"input", "hash", "ewadd"}),  # hash is opaque
        ({"fill"}, {"input", "ewmul", "relu", "ewadd"}),
    ],
)
def test_what_nothing_computes_ahead_any_more_is_no_weight(dropped: set[str], not_ahead: set[str]) -> None:
    program = program_of(ZERO)
    e = explored(graph_in(program), program.rules, Limits(), program.ops)
    source = set(e.source.tolist())
    left = e.without(np.array([op in dropped and n not in source for n, op in enumerate(e.op)]), {"hash"})
    own = {left.op[n]: bool(left.weights_only[left.node_class[n]]) for n in left.source if n >= 0}
    ahead = {op: known for op, known in own.items() if op != "fill"}
    assert {op for op, known in ahead.items() if not known} == not_ahead
