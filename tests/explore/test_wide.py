"""Nodes of very many inputs: the engine gets no rules about them, and they behave like others all the same."""

from __future__ import annotations

import pytest
from egglog.bindings import EGraph

from tensat_dl.core.graph import Graph
from tensat_dl.engine.declarations import WIDE
from tensat_dl.engine.listing import listing
from tensat_dl.engine.program import EgglogProgram
from tensat_dl.engine.syntax import written
from tests.explore.graphs import explored, graph_in, library, pack, program_of, rules_named
from tests.explore.reference import Reference, counterparts

WIDTH = WIDE + 6


def wide(leaf: str) -> Graph:
    """Two concats of very many inputs, one inside the other."""
    names = [f"x{i}" for i in range(WIDTH)]
    lines = [f"{leaf if i else 'weight'} {x} : f32[{1 + i % 2}, 2]" for i, x in enumerate(names)]
    program = program_of(
        "graph g {\n" + "\n".join(lines) + f"\nc = concat({', '.join(names)}; axis = 0)"
        f"\nd = concat(relu(relu(c)), {', '.join(names)}; axis = 0)\ninput y : f32[1, 2]\noutput relu(d) + y\n}}"
    )
    return graph_in(program)


@pytest.mark.parametrize("leaf", ["input", "weight"])
def test_wide_nodes_have_types_and_are_known_ahead(leaf: str) -> None:
    graph = wide(leaf)
    e = explored(graph, rules_named("relu-relu"))
    for i, n in enumerate(graph.nodes):
        c = int(e.node_class[e.source[i]])
        assert e.types[c] == n.types
        assert bool(e.weights_only[c]) is graph.weights_only()[i]
    assert e.op.count("concat") == 2
    reference = Reference(graph, library().ops)
    for rule in rules_named("relu-relu") * 2:
        reference.step(rule)
    missing, _ = counterparts(e, reference)
    assert not missing


def test_no_rule_is_about_a_wide_node() -> None:
    graph = wide("input")
    text = written(listing(EgglogProgram(library().ops, pack("standard"), graph), graph))
    assert f"type Concat{WIDTH}" not in text
    assert f"weights Concat{WIDTH}" not in text
    assert f"load Concat{WIDTH}" not in text


def test_a_listing_with_a_wide_node_runs() -> None:
    graph = wide("weight")
    egraph = EGraph()
    text = written(listing(EgglogProgram(library().ops, rules_named("relu-relu"), graph), graph))
    (*_, sizes) = egraph.run_program(*egraph.parse_program(text))
    found = dict(sizes.sizes)
    assert found["type_of"] == found["id_of"]
    assert found[f"Concat{WIDTH}"] == found[f"Concat{WIDTH + 1}"] == 1


def test_a_wide_node_that_a_rule_builds_has_rules() -> None:
    operands = ", ".join(["x"] * WIDTH)
    program = program_of(
        f"rule r {{ concat(x, x; axis = 0) => slice(concat({operands}; axis = 0); axis = 0, start = 0, stop = 4) }}\n"
        "graph g { input x : f32[2, 2]\n output concat(x, x; axis = 0) }"
    )
    e = explored(graph_in(program), program.rules, ops=program.ops)
    (built,) = (n for n in range(e.num_nodes) if e.op[n] == "concat" and len(e.children_of(n)) == WIDTH)
    assert e.types[int(e.node_class[built])][0].shape == (2 * WIDTH, 2)
