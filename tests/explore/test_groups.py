"""Every group rule of the library on 2, 3 and 4 siblings: one target with all of them, equal in value."""

from __future__ import annotations

import pytest

from tensat_dl import resources
from tensat_dl.core.graph import Graph
from tensat_dl.engine.exploration import Limits
from tensat_dl.engine.loop import Explorer
from tensat_dl.lang.program import load_program
from tensat_dl.run.options import Options
from tensat_dl.run.pipeline import optimize
from tests.explore.graphs import graph_in, graph_of, library, program_of, rules_named, steps_of
from tests.explore.values import check_values

pytestmark = pytest.mark.sampled(4)

RULES = {r.name: r for r in library().rules if r.kind == "group"}

#: What the siblings share; what member {i} has of its own, {s} being {i} + 1; and the member.
SIBLINGS = {
    "group-matmul-left": ("input x : f32[3, 4]", "weight w{i} : f32[4, {s}]", "matmul(x, w{i}; act = relu)"),
    "group-matmul-left-bias": (
        "input x : f32[3, 4]",
        "weight w{i} : f32[4, {s}]; weight b{i} : f32[{s}]",
        "matmul(x, w{i}, b{i})",
    ),
    "group-matmul-right": ("weight w : f32[2, 4, 5]", "input x{i} : f32[2, {s}, 4]", "matmul(x{i}, w)"),
    "group-matmul-right-bias": (
        "weight w : f32[4, 5]; weight b : f32[5]",
        "input x{i} : f32[{s}, 4]",
        "matmul(x{i}, w, b; act = tanh)",
    ),
    "group-conv-input": (
        "input x : f32[1, 2, 5, 6]",
        "weight w{i} : f32[{s}, 2, 3, 3]",
        "conv2d(x, w{i}; stride = 2, pads = [1, 0, 2, 1])",
    ),
    "group-conv-input-bias": (
        "input x : f32[1, 2, 5, 6]",
        "weight w{i} : f32[{s}, 2, 3, 3]; weight b{i} : f32[{s}]",
        "conv2d(x, w{i}, b{i}; dilation = 2, act = relu)",
    ),
    "group-conv-input-grouped": (
        "input x : f32[1, 4, 5, 6]",
        "weight w{i} : f32[2 * {s}, 2, 3, 3]",
        "conv2d(x, w{i}; pads = 1)",
    ),
    "group-conv-kernel": ("weight w : f32[3, 2, 3, 3]", "input x{i} : f32[{s}, 2, 5, 6]", "conv2d(x{i}, w)"),
    "group-conv-kernel-bias": (
        "weight w : f32[3, 2, 3, 3]; weight b : f32[3]",
        "input x{i} : f32[{s}, 2, 5, 6]",
        "conv2d(x{i}, w, b)",
    ),
    "group-conv-enlarge": (
        "input x : f32[1, 2, 5, 6]",
        "weight w{i} : f32[{s}, 2, {odd}, 3]",
        "conv2d(x, w{i}; pads = same)",
    ),
    "group-add-shared": ("input x : f32[3, 4]", "weight w{i} : f32[4]", "ewadd(x, w{i})"),
    "group-mul-shared": ("input x : f32[2, 3, 4]", "weight w{i} : f32[3, 4]", "ewmul(x, w{i})"),
    "group-poolmax": (
        "input u : f32[1]",
        "input x{i} : f32[2, {s}, 5, 6]",
        "poolmax(x{i}; kernel = [3, 2], stride = 2, pads = [1, 0, 1, 0], act = relu)",
    ),
    "group-poolavg": (
        "input u : f32[1]",
        "input x{i} : f32[1, {s}, 5, 6]",
        "poolavg(x{i}; kernel = 3, pads = same)",
    ),
    "group-relu": ("input u : f32[1]", "input x{i} : f32[{s}, 4]", "relu(x{i})"),
    "group-sigmoid": ("input u : f32[1]", "input x{i} : f32[{s}]", "sigmoid(x{i})"),
    "group-tanh": ("input u : f32[1]", "input x{i} : f32[{s}, 1, 4]", "tanh(x{i})"),
    "group-gelu": ("input u : f32[1]", "input x{i} : f32[{s}, 4]", "gelu(x{i})"),
    "group-add": ("input u : f32[1]", "input x{i} : f32[{s}, 4]; input y{i} : f32[{s}, 4]", "x{i} + y{i}"),
    "group-mul": ("input u : f32[1]", "input x{i} : f32[{s}, 4]; input y{i} : f32[{s}, 4]", "x{i} * y{i}"),
}


def siblings(rule: str, n: int) -> Graph:
    shared, own, member = SIBLINGS[rule]
    parts = [own.format(i=i, s=i + 1, odd=2 * i + 1) for i in range(n)]
    lines = "; ".join([shared, *parts]).split("; ")
    return graph_of("\n".join([*lines, f"output {', '.join(member.format(i=i) for i in range(n))}"]))


def test_every_group_rule_is_here() -> None:
    assert set(SIBLINGS) == set(RULES)


@pytest.mark.parametrize("name", sorted(SIBLINGS))
def test_one_target_has_all_members(name: str) -> None:
    added = []
    for n in (2, 3, 4):
        graph = siblings(name, n)
        steps = steps_of(graph, rules_named(name), Limits(iterations=4))
        before, e = steps[0].egraph, steps[-1].egraph
        assert steps[-1].stop == "saturated"
        (stats,) = (s for step in steps for s in step.iteration.rules if s.applied)
        assert (stats.rule, stats.applied) == (name, 1)
        added.append(e.num_nodes - before.num_nodes)

        op = RULES[name].source.nodes[0].op
        built = [k for k in range(e.num_nodes) if e.origin[k] == name]
        assert sum(e.op[k] == op for k in built) == 1
        concats = [k for k in built if e.op[k] == "concat"]
        assert concats
        assert all(len(e.children_of(k)) == n for k in concats)

        # Each member's e-class has got exactly one other way to compute it; the result has its type.
        outputs = {int(e.node_class[k]) for k in built} & set(e.roots)
        assert outputs == set(e.roots)
        assert all(len(list(e.nodes_of(r))) == 2 for r in e.roots)
        assert [e.types[r] for r in e.roots] == [graph.nodes[i].types for _, i in graph.outputs]
        check_values(graph, e)
    assert added[2] - added[1] == added[1] - added[0]  # O(n)


@pytest.mark.parametrize("name", sorted(SIBLINGS))
def test_a_member_alone_is_no_group(name: str) -> None:
    steps = steps_of(siblings(name, 1), rules_named(name), Limits(iterations=4))
    assert steps[-1].egraph.num_nodes == steps[0].egraph.num_nodes
    assert steps[-1].stop == "saturated"


def test_members_that_differ_in_what_they_share_form_groups_of_their_own() -> None:
    graph = graph_of("""
  input x : f32[3, 4]
  weight a : f32[4, 1]
  weight b : f32[4, 2]
  weight c : f32[4, 3]
  weight d : f32[4, 4]
  weight e : f32[4, 5]
  output x @ a, x @ b, matmul(x, c; act = relu), matmul(x, d; act = relu), matmul(x, e; act = tanh)""")
    e = steps_of(graph, rules_named("group-matmul-left"), Limits(iterations=4))[-1].egraph
    groups = sorted(str(e.types[int(e.node_class[n])][0]) for n in range(e.num_nodes) if e.op[n] == "concat")
    assert groups == ["f32[4, 3]", "f32[4, 7]"]
    check_values(graph, e)


def test_an_attribute_that_is_a_shared_tensors_type() -> None:
    program = program_of("""rule group-cast {
  each i: y[i] = matmul(cast(x; to = dtype(x)), w[i])
  =>
  m = matmul(x, concat(w[..]; axis = 1))
  y[..] = split(m; axis = 1, sizes = [dim(w[i], 1) for i in 0..len(w)])
}
graph g {
  input x : f32[4, 5]
  weight u : f32[5, 6]
  weight v : f32[5, 7]
  t = cast(x; to = f32)
  output t @ u, t @ v
}""")
    graph = graph_in(program)
    e = steps_of(graph, program.rules, Limits(iterations=2), program.ops)[-1].egraph
    assert "concat" in e.op
    check_values(graph, e)


def test_what_members_share_may_be_computed_from_weights_and_from_inputs() -> None:
    """x c is c where c is 0. `not weight` asks for one way that needs an input, of groups as of single patterns."""
    program = program_of("""
rule zero { x * c where value(c) == 0.0, dim(x, 0) == dim(c, 0), dim(x, 1) == dim(c, 1) => c }
rule all {
  each i: y[i] = matmul(x, w[i])
  where not weight(x)
  =>
  m = matmul(x, concat(w[..]; axis = 1))
  y[..] = split(m; axis = 1, sizes = [dim(w[i], 1) for i in 0..len(w)])
}
graph g {
  input x : f32[4, 5]
  weight c : f32[4, 5] = 0.0
  input u : f32[5, 6]
  input v : f32[5, 7]
  t = x * c
  output t @ u, t @ v, c @ u
}""")
    graph = graph_in(program)
    e = steps_of(graph, program.rules, Limits(iterations=4), program.ops)[-1].egraph
    assert "concat" in e.op
    check_values(graph, e)


@pytest.mark.parametrize(("count", "shared"), [(2, "two"), (3, "three")])
def test_groups_that_differ_in_numbers_of_factors_alone(count: int, shared: str) -> None:
    """What a condition says of one of them is not taken to hold of the other, though their types are the same."""
    program = program_of(f"""
rule all {{
  each i: y[i] = matmul(x, w[i])
  where factors(x) == {count}
  =>
  m = matmul(x, concat(w[..]; axis = 1))
  y[..] = split(m; axis = 1, sizes = [dim(w[i], 1) for i in 0..len(w)])
}}
graph g {{
  input a : f32[4, 4]
  input b : f32[4, 4]
  weight p : f32[4, 4]
  weight u : f32[4, 4]
  weight v : f32[4, 4]
  two = a @ p
  three = b @ p @ p
  output two @ u, two @ v, three @ u, three @ v
}}""")
    graph = graph_in(program)
    e = steps_of(graph, program.rules, Limits(iterations=1), program.ops)[-1].egraph
    (merged,) = (n for n in range(e.num_nodes) if e.op[n] == "matmul" and e.origin[n] == "all")
    (expected,) = (e.source[i] for i, n in enumerate(graph.nodes) if n.name == shared)
    assert e.children_of(merged)[0] == e.node_class[expected]


@pytest.mark.parametrize(("model", "ways"), [("bert", 4), ("nasrnn", 8)])
def test_all_siblings_of_a_model_are_merged_in_one_iteration(model: str, ways: int) -> None:
    program = load_program(str(resources.examples() / f"{model}.tsr"))
    steps = steps_of(graph_in(program), rules_named("group-matmul-left"), Limits(iterations=1), program.ops)
    before, after = steps[0].egraph, steps[1].egraph
    widths = [len(after.children_of(n)) for n in range(after.num_nodes) if after.op[n] == "concat"]
    # BERT: q, k, v and the next block's x in each of 8 blocks. NasRNN: all products with the step's input, and all
    # with the state, in each of 5 steps; the first state is a weight, whose products are known ahead of time.
    assert widths == [ways] * (8 if model == "bert" else 9)
    members = sum(before.op[n] == "matmul" for n in range(before.num_nodes))
    assert after.num_nodes - before.num_nodes <= 3 * members


@pytest.mark.parametrize("fits", [True, False])
def test_what_has_no_target_was_not_applied(fits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither to the statistics nor to whoever asks how a graph came about."""
    if not fits:
        monkeypatch.setattr("tensat_dl.engine.targets.Plans.target", lambda *_: None)
    explorer = Explorer(
        siblings("group-matmul-left", 2), library().ops, rules_named("group-matmul-left"), Limits()
    )
    counted = sum(s.applied for step in explorer.run() for s in step.iteration.rules)
    assert len(explorer.history().applied) == counted == int(fits)


def test_no_iterations_are_none() -> None:
    """Neither are those in which groups are merged that an answer uses."""
    text = "input x : f32[8, 8]; weight a : f32[8, 8]; weight b : f32[8, 8]; output tanh(x @ a), tanh(x @ b)"
    graph = graph_of(text.replace("; ", "\n"))
    rules = rules_named("group-matmul-left")
    for iterations, merged in ((0, False), (4, True)):
        result, _ = optimize(graph, library().ops, rules, Options(max_iters=iterations))
        assert ("concat" in {n.op for n in result.after.graph.nodes}) == merged
