"""Exploration with cycle filtering: no cycle after any iteration, every e-class still computable, and one value."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensat_dl.core.egraph import EGraph
from tensat_dl.core.graph import Graph
from tensat_dl.core.rule import RewriteRule
from tensat_dl.engine.compiled import match_relation, ok_relation, ruleset
from tensat_dl.engine.exploration import Cycles, ExploredIteration, Limits
from tensat_dl.engine.explore import exploring
from tensat_dl.engine.syntax import saturate
from tensat_dl.extract.extraction import CyclicEGraphError
from tensat_dl.lang.program import Program
from tensat_dl.paper.filtered import FilteredExplorer
from tensat_dl.paper.postfilter import subsume
from tensat_dl.run.options import Options
from tensat_dl.run.pipeline import optimize
from tests.explore.graphs import graph_in, graph_of, library, pack, program_of, steps_of
from tests.explore.values import check_values

pytestmark = pytest.mark.sampled(4)

FILTERS: tuple[Cycles, ...] = ("vanilla", "efficient", "incremental")
each_filter = pytest.mark.parametrize("cycles", FILTERS)

#: True equations, most of which close cycles sooner or later.
RULES = """
rule relu-again { relu(x) => relu(relu(x)) }
rule relu-once { relu(relu(x)) => relu(x) }
rule turn-twice { transpose(transpose(x; perm = [1, 0]); perm = [1, 0]) => x }
rule turn { relu(transpose(x; perm = [1, 0])) <=> transpose(relu(x); perm = [1, 0]) }
rule turn-product {
  transpose(matmul(x, y); perm = [1, 0]) <=> matmul(transpose(y; perm = [1, 0]), transpose(x; perm = [1, 0]))
}
rule swap { ewadd(x, y) => ewadd(y, x) }
rule regroup { ewadd(ewadd(x, y), z) <=> ewadd(x, ewadd(y, z)) }
rule distribute { matmul(x, ewadd(y, z)) <=> ewadd(matmul(x, y), matmul(x, z)) }
rule associate { matmul(matmul(x, y), z) <=> matmul(x, matmul(y, z)) }
rule plus-nothing { relu(x) => ewadd(relu(x), ewsub(x, x)) }
rule undo { ewsub(ewadd(x, y), y) => x }
rule cut { slice(concat(x, y; axis = 0); axis = 0, start = 0, stop = n) where n == dim(x, 0) => x }
rule halves {
  relu(x) where dim(x, 0) == 4
  => relu(concat(slice(x; axis = 0, start = 0, stop = 2), slice(x; axis = 0, start = 2, stop = 4); axis = 0))
}
rule pair-left {
  a = matmul(x, u)
  b = matmul(x, v)
  =>
  m = matmul(x, concat(u, v; axis = 1))
  (a, b) = split(m; axis = 1, sizes = [dim(u, 1), dim(v, 1)])
}
rule pair-relu {
  a = relu(x)
  b = relu(y)
  =>
  m = relu(concat(x, y; axis = 0))
  (a, b) = split(m; axis = 0, sizes = [dim(x, 0), dim(y, 0)])
}
rule lean-left {
  a = relu(x)
  b = tanh(y)
  =>
  b = tanh(y)
  a = relu(ewadd(x, ewsub(b, b)))
}
rule lean-right {
  a = relu(x)
  b = tanh(y)
  =>
  a = relu(x)
  b = tanh(ewadd(y, ewsub(a, a)))
}
"""


@cache
def true_rules() -> dict[str, RewriteRule]:
    own = {r.name: r for r in program_of(RULES).rules if f"rule {r.name.removesuffix('-back')} " in RULES}
    return own | {r.name: r for r in pack("groups") if r.name == "group-matmul-left"}


def cycle_in(e: EGraph) -> bool:
    """By taking away e-classes whose children are all gone, until that ends."""
    kids = {c: {k for n in e.nodes_of(c) for k in e.children_of(n)} for c in range(e.num_classes)}
    while kids:
        ready = [c for c, ks in kids.items() if kids.keys().isdisjoint(ks)]
        if not ready:
            return True
        for c in ready:
            del kids[c]
    return False


def check_steps(graph: Graph, steps: Iterable[ExploredIteration]) -> None:
    for step in steps:
        e = step.egraph
        assert not cycle_in(e)
        assert all(len(e.nodes_of(c)) for c in range(e.num_classes))
        assert len(e.roots) == len(graph.outputs)
        check_values(graph, e)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Square tensors, operators that the rules are about, and a few results."""
    names = ["x0", "x1"]
    lines = ["input x0 : f32[4, 4]", "weight x1 : f32[4, 4]"]

    def old() -> str:
        return draw(st.sampled_from(names[-4:]))

    for i in range(draw(st.integers(2, 7))):
        kind = draw(st.sampled_from(("relu", "tanh", "turn", "ewadd", "matmul", "ewsub", "cut")))
        match kind:
            case "relu" | "tanh":
                value = f"{kind}({old()})"
            case "turn":
                value = f"transpose({old()}; perm = [1, 0])"
            case "cut":
                value = f"slice(concat({old()}, {old()}; axis = 0); axis = 0, start = 0, stop = 4)"
            case _:
                value = f"{kind}({old()}, {old()})"
        names.append(f"t{i}")
        lines.append(f"t{i} = {value}")
    outputs = draw(st.lists(st.sampled_from(names[2:]), min_size=1, max_size=3, unique=True))
    return graph_of("\n".join(lines) + f"\noutput {', '.join(dict.fromkeys([names[-1], *outputs]))}")


@settings(max_examples=40, deadline=None)
@given(data=st.data(), graph=graphs(), cycles=st.sampled_from(FILTERS), k_multi=st.integers(0, 3))
def test_no_cycle_after_any_iteration(
    data: st.DataObject, graph: Graph, cycles: Cycles, k_multi: int
) -> None:
    known = true_rules()
    names = data.draw(st.lists(st.sampled_from(sorted(known)), min_size=1, max_size=7, unique=True))
    limits = Limits(nodes=150, iterations=4, k_multi=k_multi, cycles=cycles)
    steps = steps_of(graph, [known[n] for n in names], limits)
    assert all(s.egraph.num_nodes <= 150 for s in steps)
    check_steps(graph, steps)


@each_filter
@pytest.mark.parametrize("rules", ["standard", "taso"])
def test_packs_leave_no_cycle(cycles: Cycles, rules: str) -> None:
    graph = graph_of("""
  input x : f32[4, 6]
  weight q : f32[6, 6]
  weight k : f32[6, 6]
  weight v : f32[6, 6]
  output softmax((x @ q) @ transpose(x @ k; perm = [1, 0]); axis = 1) @ (x @ v), relu(x @ q) @ k""")
    steps = steps_of(graph, pack(rules), Limits(nodes=1500, iterations=5, k_multi=2, cycles=cycles))
    check_steps(graph, steps)
    assert sum(s.iteration.skipped + s.iteration.filtered for s in steps) > 0


# ---- one thing at a time ---------------------------------------------------------------------------------------


def run(rules: str, graph: str, cycles: Cycles, **limits: int) -> tuple[Program, list[ExploredIteration]]:
    program = program_of(f"{rules}\ngraph g {{\n{graph}\n}}")
    g = graph_in(program)
    own = [r for r in program.rules if f"rule {r.name.removesuffix('-back')} " in rules]
    steps = steps_of(g, own, Limits(**{"iterations": 4, **limits}, cycles=cycles), program.ops)  # type: ignore[arg-type]
    check_steps(g, steps)
    return program, steps


def rule(name: str) -> str:
    start = RULES.index(f"rule {name} ")
    end = RULES.find("\nrule ", start)
    return RULES[start:] if end < 0 else RULES[start:end]


@each_filter
def test_congruence_closes_a_cycle_after_the_check(cycles: Cycles) -> None:
    """The check sees relu(relu(x)) depend on x; that the inner one is the e-class itself shows after rebuilding."""
    _, steps = run(rule("relu-again"), "input x : f32[2]\n output relu(x)", cycles)
    assert steps[1].iteration.skipped == 0
    assert steps[1].iteration.filtered == 1
    assert steps[-1].stop == "saturated"
    assert steps[-1].egraph.op == ("input", "relu")


@each_filter
def test_a_simplification_is_applied_and_the_longer_form_dropped(cycles: Cycles) -> None:
    program, steps = run(
        rule("turn-twice"),
        "input x : f32[2, 3]\n t = transpose(x; perm = [1, 0])\n output transpose(t; perm = [1, 0]), relu(t)",
        cycles,
    )
    e = steps[-1].egraph
    assert steps[1].iteration.skipped == 0
    assert steps[-1].iteration.filtered == 1
    assert e.op[e.nodes_of(e.roots[0])[0]] == "input"
    assert len(e.nodes_of(e.roots[0])) == 1
    assert e.op.count("transpose") == 1
    assert [int(n) < 0 for n in e.source] == [False, False, True, False]
    g = graph_in(program)
    result, _ = optimize(g, program.ops, program.rules, Options(cycles=cycles, extract="ilp-none"))
    assert result.after.total <= result.before.total
    assert [n.op for n in result.after.graph.nodes].count("transpose") == 1


def test_two_matches_that_close_a_cycle_together() -> None:
    """Each may be applied, but not both: the efficient check does not know of the first."""
    rules = rule("lean-left") + "\n" + rule("lean-right")
    graph = "input x : f32[2]\n input y : f32[2]\n output relu(x), tanh(y)"
    found = {c: run(rules, graph, c, iterations=1)[1][1].iteration for c in FILTERS}
    assert (found["efficient"].skipped, found["vanilla"].skipped, found["incremental"].skipped) == (0, 1, 1)
    assert found["efficient"].filtered > 0
    assert found["vanilla"].filtered == found["incremental"].filtered == 0


@each_filter
def test_a_skipped_match_is_reported_and_tried_again(cycles: Cycles) -> None:
    graph = "input x : f32[2, 2]\n h = relu(matmul(x, x))\n output matmul(x, h)"
    _, steps = run(rule("pair-left"), graph, cycles, k_multi=2)
    assert [s.iteration.skipped for s in steps[1:]] == [steps[1].iteration.skipped] * (len(steps) - 1)
    (stats,) = steps[1].iteration.rules
    assert stats.matches == steps[1].iteration.skipped > 0
    assert stats.applied == 0
    assert stats.note == f"{stats.matches:,} of {stats.matches:,} matches skipped: they would close a cycle"


@each_filter
def test_an_applied_match_leaves_nothing_behind(cycles: Cycles) -> None:
    program = program_of(
        rule("associate")
        + "\ngraph g { input x : f32[2, 2]\n weight u : f32[2, 3]\n output (x @ u) @ transpose(u; perm = [1, 0]) }"
    )
    own = tuple(r for r in program.rules if r.name == "associate")
    explorer = FilteredExplorer(graph_in(program), program.ops, own, Limits(cycles=cycles))
    applied = sum(r.applied for step in explorer.run() for r in step.iteration.rules)
    frozen = explorer.store.engine.freeze()
    assert applied > 0
    assert not frozen.rows(match_relation("associate"))
    assert not frozen.rows(ok_relation("associate"))


@each_filter
def test_a_symmetric_rule_takes_every_pair_once_in_all_iterations(cycles: Cycles) -> None:
    """The rule is false, but its target is no source of it."""
    program = program_of("""
rule r {
  a = relu(x)
  b = relu(y)
  =>
  m = tanh(concat(x, y; axis = 0))
  (a, b) = split(m; axis = 0, sizes = [dim(x, 0), dim(y, 0)])
}
graph g {
  input x : f32[2, 2]
  input y : f32[3, 2]
  input z : f32[4, 2]
  output relu(x), relu(y), relu(z)
}""")
    own = [r for r in program.rules if r.name == "r"]
    steps = steps_of(graph_in(program), own, Limits(k_multi=4, cycles=cycles), program.ops)
    assert [sum(r.applied for r in s.iteration.rules) for s in steps] == [0, 3, 0]


@each_filter
def test_what_is_filtered_is_not_matched(cycles: Cycles) -> None:
    """The longer form goes in the first iteration; the rule that would see it comes into play afterwards."""
    program = program_of(
        rule("turn-twice")
        + "\nrule sees { transpose(t; perm = [1, 0]) where dim(t, 0) == 3 => sqrt(transpose(t; perm = [1, 0])) }\n"
        "graph g { input x : f32[2, 3]\n output relu(transpose(transpose(x; perm = [1, 0]); perm = [1, 0])) }"
    )
    back, sees = (next(r for r in program.rules if r.name == n) for n in ("turn-twice", "sees"))
    explorer = FilteredExplorer(graph_in(program), program.ops, (back, sees), Limits(cycles=cycles))
    steps = explorer.run()
    next(steps)
    held = explorer.ready.by_kind["single"].pop(1)
    assert held.name == "sees"
    assert next(steps).iteration.filtered == 1
    hidden = [r for r in explorer.store.rows(explorer.store.engine.freeze()) if r.subsumed]
    assert [r.constructor.op for r in hidden] == ["transpose"]
    explorer.ready.by_kind["single"].append(held)
    last = list(steps)[-1]
    assert "sqrt" not in last.egraph.op


def filtered_explorer(cycles: Cycles) -> tuple[FilteredExplorer, ExploredIteration]:
    """The class of relu(y) is newer than that of relu(x); x is going to become y."""
    program = program_of(
        "rule seen { relu(x) => tanh(x) }\n"
        "graph g { input x : f32[2]\n input y : f32[2]\n output relu(x), relu(y) }"
    )
    rules = tuple(r for r in program.rules if r.name == "seen")
    explorer = FilteredExplorer(graph_in(program), program.ops, rules, Limits(cycles=cycles, iterations=3))
    return explorer, next(explorer.run())


@each_filter
def test_a_filtered_node_that_becomes_the_only_one_comes_back(cycles: Cycles) -> None:
    explorer, _ = filtered_explorer(cycles)
    (seen,) = explorer.ready.of_kind("single")
    (newer,) = (n for n in explorer.enodes if n.own == 3)
    subsume(explorer.store, [newer])
    explorer.store.engine.load("in_equal", [(0, 1)])
    explorer.store.engine.run(saturate("load"))
    frozen = explorer.store.engine.freeze()
    assert [r.subsumed for r in explorer.store.rows(frozen) if r.constructor.op == "relu"] == [True]
    explorer._settle()
    assert [(n.row.constructor.op, n.own, n.row.subsumed) for n in explorer.enodes if n.own == 2] == [
        ("relu", 2, False)
    ]
    assert explorer.filtered == 0
    # Rules see it again.
    assert explorer.store.engine.matches(ruleset("find", seen.name))[0] == {"seen": 1}


def test_nodes_that_become_one_have_the_age_of_the_older() -> None:
    explorer, _ = filtered_explorer("vanilla")
    older, newer = (n.age for n in explorer.enodes if n.row.constructor.op == "relu")
    assert older < newer
    explorer.store.engine.load("in_equal", [(0, 1)])
    explorer.store.engine.run(saturate("load"))
    explorer._settle()
    assert [n.age for n in explorer.enodes if n.row.constructor.op == "relu"] == [older]
    # relu(y) is now known as relu(x): nothing has the key that it had.
    assert all(1 not in children for _, _, children in explorer.ages.known)


def test_without_filtering_these_have_cycles() -> None:
    for name, body in (
        ("relu-again", "relu(x)"),
        ("turn-twice", "transpose(transpose(x; perm = [1, 0]); perm = [1, 0])"),
    ):
        program = program_of(f"{rule(name)}\ngraph g {{ input x : f32[2, 2]\n output {body} }}")
        own = [r for r in program.rules if r.name == name]
        last = steps_of(graph_in(program), own, Limits(iterations=2), program.ops)[-1]
        assert cycle_in(last.egraph)


@each_filter
def test_acyclic_egraphs_are_those_of_no_filtering(cycles: Cycles) -> None:
    """Rules that close no cycle give the same e-graph in every mode, to saturation."""
    graph = graph_of(
        "input x : f32[2, 2]\n weight u : f32[2, 2]\n weight v : f32[2, 2]\n output ((x @ u) @ v) @ u"
    )
    rules = [true_rules()["associate"], true_rules()["associate-back"]]
    free = steps_of(graph, rules, Limits(iterations=20))[-1]
    kept = steps_of(graph, rules, Limits(iterations=20, cycles=cycles))[-1]
    assert free.stop == kept.stop == "saturated"
    assert not cycle_in(free.egraph)
    assert (kept.egraph.num_nodes, kept.egraph.num_classes) == (
        free.egraph.num_nodes,
        free.egraph.num_classes,
    )
    assert kept.iteration.filtered == 0


@each_filter
@pytest.mark.parametrize("limit", [20, 40, 80])
def test_an_iteration_does_not_overshoot_the_limit(cycles: Cycles, limit: int) -> None:
    graph = graph_of(
        "input x : f32[2, 2]\n" + "\n".join(f"weight w{i} : f32[2, 2]" for i in range(7))
        + "\noutput " + "(" * 7 + "x" + "".join(f" @ w{i})" for i in range(7))
    )  # fmt: skip
    explorer = FilteredExplorer(
        graph,
        library().ops,
        (true_rules()["associate"], true_rules()["associate-back"]),
        Limits(limit, cycles=cycles),
    )
    steps = []
    for step in explorer.run():
        assert explorer.selection.nodes() <= limit
        steps.append(step)
    assert steps[-1].stop == "nodes"
    assert any("no room" in note for note in steps[-1].notes)


@each_filter
def test_the_result_is_extracted_without_cycle_constraints(cycles: Cycles) -> None:
    graph = graph_of("""
  input x : f32[4, 6]
  weight q : f32[6, 6]
  weight k : f32[6, 6]
  weight v : f32[6, 6]
  output relu(x @ q), (x @ k) @ v, transpose(transpose(x @ v; perm = [1, 0]); perm = [1, 0])""")
    rules, ops = pack("standard"), library().ops
    options = Options(max_nodes=3000, max_iters=8)
    filtered, _ = optimize(graph, ops, rules, replace(options, cycles=cycles, extract="ilp-none"))
    assert filtered.equivalence is not None
    assert filtered.equivalence.status == "equivalent"
    assert filtered.options.cycles == cycles
    exact, (e, *_) = optimize(graph, ops, rules, options)
    assert exact.after.total <= filtered.after.total * (1 + 1e-9)
    assert cycle_in(e)
    with pytest.raises(CyclicEGraphError):
        optimize(graph, ops, rules, replace(options, extract="ilp-none"))


@each_filter
def test_equal_runs_are_equal_and_the_notes_count_the_filter_list(cycles: Cycles) -> None:
    rules = [true_rules()[n] for n in ("relu-again", "turn-twice", "turn", "pair-relu")]
    graph = graph_of(
        "input x : f32[4, 4]\n output relu(transpose(transpose(relu(x); perm = [1, 0]); perm = [1, 0]))"
    )
    limits = Limits(nodes=200, iterations=4, cycles=cycles)
    here = steps_of(graph, rules, limits)[-1]
    with exploring(graph, library().ops, rules, limits) as exploration:
        there = exploration.run()
    for name in ("op", "attrs", "roots", "origin"):
        assert getattr(here.egraph, name) == getattr(there.egraph, name)
    assert here.egraph.children.tolist() == there.egraph.children.tolist()
    assert here.iteration.filtered > 0
    note = f"{here.iteration.filtered:,} e-nodes on the filter list, {cycles} cycle filtering"
    assert note in there.notes
