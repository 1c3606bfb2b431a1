"""What holds of every e-graph: types, values, symmetry, limits, and that it does not depend on chance."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tensat_dl.core.egraph import EGraph
from tensat_dl.core.graph import Graph
from tensat_dl.engine import targets
from tensat_dl.engine.exploration import Limits, RuleAlarm
from tensat_dl.engine.loop import Explorer
from tensat_dl.engine.syntax import saturate
from tensat_dl.ops.typing import infer
from tests.explore.graphs import (
    explored,
    graph_in,
    graph_of,
    library,
    pack,
    program_of,
    rules_named,
    steps_of,
)
from tests.explore.values import check_values

pytestmark = pytest.mark.sampled(4)

GRAPHS = {
    "chain": "input x : f32[4, 3]\n weight u : f32[3, 5]\n weight v : f32[5, 2]\n output relu((x @ u) @ v) * 2",
    "attention": """
  input x : f32[4, 6]
  weight q : f32[6, 6]
  weight k : f32[6, 6]
  weight v : f32[6, 6]
  output softmax((x @ q) @ transpose(x @ k; perm = [1, 0]); axis = 1) @ (x @ v)""",
    "recurrent": """
  input x : f32[1, 4]
  input h : f32[1, 4]
  weight a : f32[4, 4]
  weight b : f32[4, 4]
  weight c : f32[4, 4]
  weight d : f32[4, 4]
  output tanh(x @ a + h @ b) * sigmoid(x @ c + h @ d)""",
    "convolutions": """
  input x : f32[1, 4, 5, 5]
  weight u : f32[4, 4, 1, 1]
  weight v : f32[2, 4, 3, 3]
  weight g : f32[4, 2, 1, 1]
  weight h : f32[6, 2, 1, 1]
  output relu(conv2d(x, u)), conv2d(x, v; pads = same), conv2d(x, g), conv2d(x, h)""",
    "integers": """
  input x : i32[1, 2, 4, 4]
  input y : i32[1, 2, 4, 4]
  weight w : i32[3, 2, 1, 1]
  weight s : i32[] = 3
  p = poolavg(x; kernel = 2, include_pad = true) + poolavg(y; kernel = 2, include_pad = true)
  output conv2d(p, w), smul(p, s), (x * 7 + y * 7) * s, relu(reduce_mean(x; axis = 2)) + 1""",
}


@cache
def case(graph: str, rules: str) -> tuple[Graph, EGraph]:
    g = graph_of(GRAPHS[graph])
    return g, explored(g, pack(rules), Limits(nodes=1500, iterations=6))


CASES = [(g, p) for g in GRAPHS for p in ("standard", "taso")]


@pytest.mark.parametrize(("graph", "rules"), CASES)
def test_every_node_has_the_type_of_its_class(graph: str, rules: str) -> None:
    _, e = case(graph, rules)
    for n in range(e.num_nodes):
        inputs = [e.types[c][0] for c in e.children_of(n)]
        types = infer(library().ops, e.op[n], inputs, dict(e.attrs[n])).concrete()
        assert types == e.types[int(e.node_class[n])], (e.op[n], e.attrs[n], e.origin[n])


@pytest.mark.parametrize(("graph", "rules"), CASES)
def test_all_nodes_of_a_class_have_one_value(graph: str, rules: str) -> None:
    g, e = case(graph, rules)
    check_values(g, e)


def siblings(n: int) -> Graph:
    weights = "\n".join(f"weight w{i} : f32[4, {i + 1}]" for i in range(n))
    return graph_of(f"input x : f32[3, 4]\n{weights}\noutput {', '.join(f'x @ w{i}' for i in range(n))}")


@pytest.mark.parametrize("n", [2, 3, 5])
def test_a_symmetric_rule_takes_every_pair_once(n: int) -> None:
    steps = steps_of(siblings(n), rules_named("pair-matmul-left"), Limits(iterations=3))
    (stats,) = (s for step in steps for s in step.iteration.rules if s.rule == "pair-matmul-left")
    assert stats.applied == n * (n - 1) // 2


def test_a_condition_does_not_stop_pairs_from_being_taken_once() -> None:
    graph = graph_of(
        "input x : f32[1, 2, 4, 4]\n weight u : f32[2, 2, 1, 1]\n weight v : f32[3, 2, 1, 1]\n"
        "weight w : f32[4, 2, 1, 1]\n output conv2d(x, u), conv2d(x, v), conv2d(x, w)"
    )
    steps = steps_of(graph, rules_named("pair-conv-input"), Limits(iterations=3))
    (stats,) = (s for step in steps for s in step.iteration.rules)
    assert stats.applied == 3


def test_equal_operands_on_one_side_are_no_reason_to_lose_a_match() -> None:
    program = program_of("""
rule r {
  a = ewsub(x, u)
  b = ewsub(y, v)
  =>
  m = ewsub(concat(x, y; axis = 0), concat(u, v; axis = 0))
  (a, b) = split(m; axis = 0, sizes = [dim(x, 0), dim(y, 0)])
}
graph g {
  input x : f32[8, 8]
  weight u : f32[8, 8]
  weight v : f32[8, 8]
  output x - u, x - v
}""")
    e = explored(graph_in(program), program.rules, Limits(iterations=1), program.ops)
    assert e.op.count("concat") == 2


def test_outputs_that_the_target_treats_differently_are_not_exchanged() -> None:
    program = program_of("""
rule r {
  a = ewsub(x, y)
  b = ewsub(x, z)
  =>
  a = ewsub(x, y)
  b = ewadd(a, ewsub(y, z))
}
graph g {
  input x : f32[8]
  input y : f32[8]
  input z : f32[8]
  output x - y, x - z
}""")
    e = explored(graph_in(program), program.rules, Limits(iterations=1), program.ops)
    assert e.op.count("ewsub") == 2 + 4  # y - y and z - z as well


@pytest.mark.parametrize("n", [2, 3, 4, 14])
def test_a_group_is_merged_at_once(n: int) -> None:
    steps = steps_of(siblings(n), rules_named("group-matmul-left"), Limits(iterations=4))
    before, after = steps[0].egraph, steps[-1].egraph
    assert steps[-1].stop == "saturated"
    assert after.num_nodes - before.num_nodes == n + 2 + 2 * (n > 12)  # the slices, the product, the concats
    assert steps[1].egraph.num_nodes == after.num_nodes


def test_concats_stay_narrow_however_large_a_group_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """By twos, 7 parts become 4, these 2, and these 1."""
    monkeypatch.setattr(targets, "MAX_ARITY", 2)
    graph = siblings(7)
    e = explored(graph, rules_named("group-matmul-left"), Limits(iterations=1))
    widths = [len(e.children_of(n)) for n in range(e.num_nodes) if e.op[n] == "concat"]
    assert sorted(widths) == [1, *[2] * 6]
    check_values(graph, e)


def test_members_of_a_group_do_not_depend_on_each_other() -> None:
    graph = graph_of(
        "input x : f32[4, 4]\n weight u : f32[4, 4]\n weight v : f32[4, 4]\n y = x @ u\n output x @ v, x @ y"
    )
    e = explored(graph, rules_named("group-matmul-left"), Limits(iterations=4))
    y = int(e.node_class[e.source[3]])
    concats = [e.children_of(n) for n in range(e.num_nodes) if e.op[n] == "concat"]
    assert concats
    products = [int(e.node_class[n]) for n in range(e.num_nodes) if e.op[n] == "matmul"]
    assert y in products
    u = int(e.node_class[e.source[1]])
    assert not any(u in c and y in c for c in concats)


CHAIN = (
    "input x : f32[2, 2]\n"
    + "\n".join(f"weight w{i} : f32[2, 2]" for i in range(14))
    + ("\noutput " + "(" * 14 + "x" + "".join(f" @ w{i})" for i in range(14)))
)


@pytest.mark.parametrize("limit", [60, 100, 150])
def test_there_are_no_more_nodes_than_allowed(limit: int) -> None:
    last = steps_of(graph_of(CHAIN), rules_named("matmul-assoc", "matmul-assoc-back"), Limits(nodes=limit))[
        -1
    ]
    assert last.stop == "nodes"
    assert last.egraph.num_nodes <= limit
    assert all(n >= 0 for n in last.egraph.source)
    assert np.all(np.diff(last.egraph.class_start) > 0)


def test_skipped_matches_are_not_called_saturation() -> None:
    graph = siblings(4)
    last = steps_of(graph, rules_named("pair-matmul-left"), Limits(nodes=len(graph.nodes) + 5))[-1]
    assert last.stop == "nodes"


@pytest.mark.parametrize("k", [0, 1, 2])
def test_multi_pattern_rules_run_k_times(k: int) -> None:
    steps = steps_of(siblings(3), rules_named("pair-matmul-left"), Limits(k_multi=k, iterations=6))
    rounds = [s for s in steps if any(r.applied for r in s.iteration.rules)]
    assert len(rounds) == k


def test_a_rule_that_changes_a_type_is_guarded() -> None:
    program = program_of(
        "rule r { relu(x) => transpose(x; perm = [1, 0]) }\n"
        "graph g { input x : f32[2, 3]\n input y : f32[2, 2]\n output relu(x), relu(y) }"
    )
    e = explored(graph_in(program), program.rules, Limits(iterations=2), program.ops)
    assert e.op.count("transpose") == 1


def test_two_types_of_one_class_are_an_alarm() -> None:
    program = program_of(
        "rule applied { relu(x) => relu(relu(x)) }\n"
        "graph g { input x : f32[2, 3]\n input y : f32[2]\n output relu(x), relu(y) }"
    )
    explorer = Explorer(graph_in(program), program.ops, program.rules, Limits(iterations=3))
    steps = explorer.run()
    next(steps)
    next(steps)
    explorer.store.engine.load("in_equal", [(0, 1)])
    explorer.store.engine.run(saturate("load"))
    explorer.reader.changed()  # as wherever facts are loaded
    with pytest.raises(RuleAlarm) as alarm:
        next(steps)
    assert alarm.value.rules == ("applied",)


def test_opaque_outputs_pass_through() -> None:
    program = program_of(
        "opaque op both(x: tensor) -> (a, b) { shape a = shape(x); shape b = [dim(x, 0)] }\n"
        "rule r { relu(relu(x)) => relu(x) }\n"
        "graph g { input x : f32[2, 3]\n (a, b) = both(x)\n output relu(relu(a)), relu(relu(b)) }"
    )
    e = explored(graph_in(program), program.rules, Limits(iterations=3), program.ops)
    shapes = {
        tuple(t.shape for t in e.types[int(e.node_class[n])]) for n in range(e.num_nodes) if e.op[n] == "proj"
    }
    assert shapes == {((2, 3),), ((2,),)}
    (both,) = (n for n in range(e.num_nodes) if e.op[n] == "both")
    assert [t.shape for t in e.types[int(e.node_class[both])]] == [(2, 3), (2,)]


def test_what_the_input_program_has_no_rule_has_built() -> None:
    """Here a rule builds relu(x), and then another one makes it the relu(x + 0) that the program has."""
    program = program_of("""
rule build { tanh(y) => relu(y) }
rule zero { x + z where value(z) == 0.0, dim(x, 0) == dim(z, 0) => x }
graph g {
  input x : f32[2]
  weight z : f32[2] = 0.0
  output tanh(x), relu(x + z)
}""")
    e = explored(graph_in(program), program.rules, Limits(iterations=4), program.ops)
    assert e.roots[0] == e.roots[1]
    assert e.op.count("relu") == 1
    assert {e.origin[n] for n in e.source} == {""}


PROGRAM = """
from tests.explore.test_invariants import fingerprint
print(fingerprint())
"""


def fingerprint() -> str:
    _, e = case("recurrent", "standard")
    text = repr((e.op, e.attrs, e.node_class.tolist(), e.children.tolist(), e.origin, e.roots, e.types))
    return hashlib.sha256(text.encode()).hexdigest()


def test_equal_runs_give_equal_egraphs() -> None:
    folder = Path(__file__).resolve().parents[2]
    seen = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(folder)},
            capture_output=True,
            text=True,
            check=True,
            cwd=folder,
        ).stdout.strip()
        for seed in ("0", "1")
    }
    assert seen == {fingerprint()}
