"""A rule that may apply to what it makes goes along a chain within one iteration."""

from __future__ import annotations

import pytest

from tensat_dl.engine.applying import CHAIN_SHARE, LONGEST
from tensat_dl.engine.exploration import ExploredIteration, Limits
from tests.explore.graphs import graph_of, program_of, rules_named, steps_of

GROUPED = """
    input x : f32[1, 64, 3, 3]
    weight w : f32[64, 2, 3, 3]
    output conv2d(x, w; pads = same)
"""


def matches(step: ExploredIteration) -> list[int]:
    return [r.matches for r in step.iteration.rules]


def steps_with(rule: str, limits: Limits) -> list[ExploredIteration]:
    """The iterations of a rule on ``tanh(x)``."""
    program = program_of(f"rule again {{ {rule} }}")
    graph = graph_of("input x : f32[4]\n output tanh(x)")
    return steps_of(graph, program.rules, limits, program.ops)[1:]


def test_groups_merge_until_there_is_one_in_one_iteration() -> None:
    rules = rules_named("conv-merge-groups")
    _, first, second = steps_of(graph_of(GROUPED), rules)
    assert second.stop == "saturated"
    egraph = first.egraph
    kernels = {
        egraph.types[egraph.children_of(n)[1]][0].shape[1]
        for n in range(egraph.num_nodes)
        if egraph.op[n] == "conv2d"
    }
    assert kernels == {2, 4, 8, 16, 32, 64}


def test_a_chain_without_end_makes_many_steps_once() -> None:
    found = steps_with("tanh(x) => tanh(relu(x))", Limits(iterations=3))
    assert [matches(step) for step in found] == [[LONGEST], [1], [1]]
    assert found[-1].stop == "iterations"


def test_a_chain_leaves_room_for_other_rules() -> None:
    """Each step adds two e-nodes, and the first iteration has a room of 98."""
    found = steps_with("tanh(x) => tanh(relu(x))", Limits(nodes=100, iterations=2))
    assert [matches(step) for step in found] == [[int(CHAIN_SHARE * 98) // 2], [int(CHAIN_SHARE * 84) // 2]]


@pytest.mark.parametrize("target", ["tanh(tanh(sigmoid(x)))", "tanh(ewadd(tanh(relu(x)), x))"])
def test_what_branches_makes_one_step_in_each_iteration(target: str) -> None:
    found = steps_with(f"tanh(x) => {target}", Limits(iterations=3))
    assert [matches(step) for step in found] == [[1], [2], [4]]


def test_a_rule_that_writes_another_operator_is_applied_once() -> None:
    found = steps_with("tanh(x) => sigmoid(tanh(relu(x)))", Limits(iterations=2))
    assert [matches(step) for step in found] == [[1], [1]]
