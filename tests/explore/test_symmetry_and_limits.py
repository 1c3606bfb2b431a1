"""Symmetric rules with three outputs, the growth brake, the time limit, and what saturation means."""

from __future__ import annotations

from itertools import combinations

import pytest

from tensat_dl.core.egraph import EGraph
from tensat_dl.core.rule import RewriteRule
from tensat_dl.engine import brake
from tensat_dl.engine.exploration import ExploredIteration, Limits
from tensat_dl.engine.explore import exploring
from tests.explore.graphs import explored, graph_in, graph_of, library, program_of, rules_named, steps_of
from tests.explore.reference import Reference, counterparts

TRIPLE = """
rule triple {
  a = matmul(x, u)
  b = matmul(x, v)
  c = matmul(x, w)
  =>
  m = matmul(x, concat(u, v, w; axis = 1))
  (a, b, c) = split(m; axis = 1, sizes = [dim(u, 1), dim(v, 1), dim(w, 1)])
}
"""


def test_no_three_siblings_are_lost() -> None:
    weights = "\n".join(f"weight w{i} : f32[4, {i + 1}]" for i in range(4))
    program = program_of(
        f"{TRIPLE}\ngraph g {{ input x : f32[3, 4]\n{weights}\noutput {', '.join(f'x @ w{i}' for i in range(4))} }}"
    )
    graph = graph_in(program)
    (rule,) = (r for r in program.rules if r.name == "triple")
    reference = Reference(graph, program.ops)
    reference.step(rule)
    e = explored(graph, [rule], Limits(iterations=2), program.ops)
    missing, _ = counterparts(e, reference)
    assert not missing
    # Up to their order, all threes of different siblings are there.
    merged = {frozenset(e.children_of(n)) for n in range(e.num_nodes) if e.op[n] == "concat"}
    classes = [int(e.node_class[e.source[i]]) for i in graph.weights]
    assert {frozenset(three) for three in combinations(classes, 3)} <= merged


@pytest.mark.parametrize("inputs", [1, 2, 3])
def test_an_output_of_another_kind_is_not_lost(inputs: int) -> None:
    """Two like outputs may be one tensor: that is a reason to leave a match out only if there are no others."""
    names = [f"x{i}" for i in range(inputs)]
    program = program_of(
        """
rule two-and-one {
  a = relu(x)
  b = relu(y)
  c = tanh(z)
  =>
  m = relu(concat(x, y; axis = 0))
  (a, b) = split(m; axis = 0, sizes = [dim(x, 0), dim(y, 0)])
  k = concat(z, x, y; axis = 0)
  c = tanh(slice(k; axis = 0, start = 0, stop = dim(z, 0)))
}
graph g {"""
        + "\n".join(f"input {x} : f32[{i + 1}, 2]" for i, x in enumerate(names))
        + f"\ninput z : f32[2, 2]\noutput tanh(z), {', '.join(f'relu({x})' for x in names)} }}"
    )
    graph = graph_in(program)
    (rule,) = (r for r in program.rules if r.name == "two-and-one")
    reference = Reference(graph, program.ops)
    reference.step(rule)
    e = explored(graph, [rule], Limits(iterations=2), program.ops)
    missing, _ = counterparts(e, reference)
    assert not missing

    def thirds(found: list[tuple[int, ...]]) -> set[tuple[int, ...]]:
        return {(z, *sorted((x, y))) for z, x, y in found if z != x}

    there = [e.children_of(n) for n in range(e.num_nodes) if e.op[n] == "concat"]
    number = {int(e.node_class[e.source[i]]): i for i in graph.inputs}
    ours = thirds([tuple(number[c] for c in cs) for cs in there if len(cs) == 3])
    origin = {reference.of_source[i]: i for i in graph.inputs}
    theirs = [
        tuple(origin[c] for c in cs) for (op, _, cs) in reference.nodes if op == "concat" and len(cs) == 3
    ]
    assert ours == thirds(theirs)
    assert len(ours) == inputs * (inputs + 1) // 2


CHAIN = "input x : f32[2, 2]\n" + "\n".join(f"weight w{i} : f32[2, 2]" for i in range(5))
CHAIN += "\noutput " + "(" * 5 + "x" + "".join(f" @ w{i})" for i in range(5))
ASSOC = ("matmul-assoc", "matmul-assoc-back")


def shape_of(e: EGraph) -> tuple[int, int]:
    return e.num_nodes, e.num_classes


def braked(monkeypatch: pytest.MonkeyPatch) -> list[ExploredIteration]:
    monkeypatch.setattr(brake, "RULE_BUDGET", 2)
    monkeypatch.setattr(brake, "RULE_SHARE", 0.0)
    return steps_of(graph_of(CHAIN), rules_named(*ASSOC), Limits(iterations=100))


def test_a_rule_that_grows_fast_is_held_back_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = braked(monkeypatch)
    notes = [s.note for step in steps for s in step.iteration.rules if s.note]
    assert any(n.startswith("added") for n in notes)
    assert any(n.startswith("sits out until iteration") for n in notes)
    assert any("grew fast and was held back" in n for n in steps[-1].notes)


def test_nothing_is_called_saturated_while_a_rule_sits_out(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = braked(monkeypatch)
    for number, step in enumerate(steps):
        for s in step.iteration.rules:
            until = int(s.note.rpartition(" ")[2]) if "sits out until" in s.note else 0
            assert step.stop is None or until <= number
            assert all(
                later.rule != s.rule or later.applied == 0
                for k in range(number + 1, until)
                for later in steps[k].iteration.rules
            )
    monkeypatch.undo()
    free = steps_of(graph_of(CHAIN), rules_named(*ASSOC), Limits(iterations=100))
    assert steps[-1].stop == free[-1].stop == "saturated"
    assert len(steps) > len(free)
    assert shape_of(steps[-1].egraph) == shape_of(free[-1].egraph)


def test_a_ban_at_the_last_iteration_is_no_saturation(monkeypatch: pytest.MonkeyPatch) -> None:
    complete = braked(monkeypatch)
    for n in range(1, len(complete) - 1):
        last = steps_of(graph_of(CHAIN), rules_named(*ASSOC), Limits(iterations=n))[-1]
        assert last.stop == "iterations"


ENDLESS = "rule r { exp(x) => sqrt(exp(exp(x))) }\ngraph g { input x : f32[2]\n output exp(x) }"


def test_the_time_limit_ends_after_a_complete_iteration() -> None:
    program = program_of(ENDLESS)
    steps = steps_of(graph_in(program), program.rules, Limits(seconds=0.0), program.ops)
    assert [s.stop for s in steps] == [None, "time"]
    assert steps[-1].egraph.op.count("sqrt") == 1


def test_the_time_limit_ends_the_worker() -> None:
    program = program_of(ENDLESS)
    limits = Limits(nodes=10**7, iterations=10**6, seconds=0.5)
    with exploring(graph_in(program), program.ops, program.rules, limits) as exploration:
        found = exploration.run()
    assert found.stop == "time"
    assert len(found.iterations) >= 1
    assert found.iterations[-1].nodes == found.egraph.num_nodes


# ---- saturation ------------------------------------------------------------------------------------------


def reference_of(e: EGraph) -> Reference:
    """The e-graph as it is, in plain Python."""
    reference = Reference(graph_of("input x : f32[1]\noutput x"), library().ops)
    reference.parent = list(range(e.num_classes))
    reference.types = [t[0] for t in e.types]
    reference.nodes = {
        (e.op[n], e.attrs[n], tuple(e.children_of(n))): int(e.node_class[n]) for n in range(e.num_nodes)
    }
    reference.marked = [int(e.node_class[n]) for n in e.source if e.op[n] != "matmul"]
    reference.marked = [c for c in reference.marked if not e.weights_only[c]]
    return reference


SATURATING = {
    "a chain of products": (CHAIN, ASSOC),
    "transposes": (
        "input x : f32[2, 3]\n weight w : f32[3, 2]\n"
        " output transpose(transpose(x; perm = [1, 0]) ; perm = [1, 0]) @ w, relu(transpose(relu(x); perm = [1, 0]))",
        ("transpose-transpose", "relu-relu", "matmul-transpose", "transpose-matmul"),
    ),
    "slices of concats": (
        "input x : f32[2, 3]\n input y : f32[2, 3]\n c = concat(relu(x), relu(y); axis = 0)\n"
        " output slice(c; axis = 0, start = 1, stop = 3), slice(c; axis = 0, start = 0, stop = 2)",
        tuple(r.name for r in library().rules if r.name.startswith(("slice-", "concat-relu"))),
    ),
}


@pytest.mark.parametrize("case", SATURATING)
def test_in_a_saturated_egraph_no_rule_has_anything_to_add(case: str) -> None:
    text, names = SATURATING[case]
    rules: tuple[RewriteRule, ...] = tuple(r for r in rules_named(*names) if r.kind == "single")
    assert rules
    last = steps_of(graph_of(text), rules, Limits(iterations=30))[-1]
    assert last.stop == "saturated"
    e = last.egraph
    reference = reference_of(e)
    applied = sum(reference.step(rule) for rule in rules)
    assert applied > 0
    assert len(reference.nodes) == e.num_nodes
    assert len({reference.find(c) for c in range(e.num_classes)}) == e.num_classes
