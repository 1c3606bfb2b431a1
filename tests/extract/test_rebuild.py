"""From choices to a graph: what the source program looks like is kept where nothing is gained by changing it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tensat_dl.core.graph import Graph
from tensat_dl.extract.api import extract
from tensat_dl.extract.rebuild import rebuild
from tests.explore.graphs import explored, graph_in, program_of


def rebuilt(text: str) -> Graph:
    """The only graph of a program, optimized by its rules where every operator costs the same."""
    program = program_of(text)
    graph = graph_in(program)
    egraph = explored(graph, program.rules, ops=program.ops)
    priced = replace(egraph, cost=np.ones(egraph.num_nodes))
    after, rules = rebuild(priced, extract(priced), graph)
    assert len(rules) == len(after.nodes)
    return after


def names(graph: Graph, nodes: tuple[int, ...]) -> list[object]:
    return [graph.nodes[i].attr("name") for i in nodes]


def test_every_input_keeps_its_place() -> None:
    """Callers hand in values by position: also of what is not used, and used last to first."""
    graph = rebuilt("""graph g {
  input first : f32[2]
  input unused : f32[3]
  input last : f32[2]
  output last - first
}""")
    assert names(graph, graph.inputs) == ["first", "unused", "last"]


@pytest.mark.parametrize("sum", ["a + b", "b + a"])
@pytest.mark.parametrize("kind", ["input", "weight"])
def test_a_sum_stays_as_it_is_written(sum: str, kind: str) -> None:
    """Either order costs the same, at run time and ahead of time."""
    graph = rebuilt(f"""
rule swap {{ ewadd(x, y) => ewadd(y, x) }}
graph g {{
  input x : f32[2]
  {kind} a : f32[2]
  {kind} b : f32[2]
  output x * ({sum})
}}""")
    (added,) = (n for n in graph.nodes if n.op == "ewadd")
    assert names(graph, added.inputs) == sum.split(" + ")


def test_a_weight_is_dropped_that_nothing_needs() -> None:
    graph = rebuilt("""
rule first { slice(concat(x, y; axis = 0); axis = 0, start = 0, stop = n) => x where n == dim(x, 0) }
graph g {
  input x : f32[2]
  weight a : f32[2]
  weight b : f32[2]
  output slice(concat(x * a, x * b; axis = 0); axis = 0, start = 0, stop = 2)
}""")
    assert names(graph, graph.weights) == ["a"]
