"""Matches are counted before they are looked at, and chosen where not all can be applied."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensat_dl.core.graph import Graph
from tensat_dl.cost import CostModel, load_device
from tensat_dl.engine import applying, selection
from tensat_dl.engine.exploration import Limits
from tensat_dl.engine.loop import Explorer
from tensat_dl.engine.naming import EngineState
from tensat_dl.engine.precount import Outline, Table, by_operator, join_size, oldest_within
from tensat_dl.engine.reader import EngineReader
from tensat_dl.engine.selection import Savings
from tests.explore.graphs import graph_in, graph_of, library, pack, program_of, rules_named, steps_of

COLUMNS = ("x", "y", "z", "w")


@st.composite
def tables(draw: st.DrawFn) -> list[Table]:
    """Up to three tables of small values, with columns in common."""
    out: list[Table] = []
    for _ in range(draw(st.integers(1, 3))):
        columns = draw(st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=3, unique=True))
        alike = [t for t in out if len(t.columns) == len(columns)]
        if alike and draw(st.booleans()):  # a relation that is joined with itself
            out.append(replace(alike[0], columns=tuple(columns)))
            continue
        row = st.tuples(*[st.integers(0, 2)] * len(columns))
        out.append(Table(tuple(columns), draw(st.lists(row, max_size=6, unique=True))))
    return out


def joined(found: list[Table]) -> list[dict[str, Hashable]]:
    """The natural join, by trying every combination of rows."""
    out = []
    for rows in product(*(t.rows for t in found)):
        merged: dict[str, Hashable] = {}
        cells = [(c, v) for t, r in zip(found, rows, strict=True) for c, v in zip(t.columns, r, strict=True)]
        if all(merged.setdefault(c, v) == v for c, v in cells):
            out.append(merged)
    return out


@given(tables())
def test_the_size_of_a_join(found: list[Table]) -> None:
    assert join_size(found) == len(joined(found))


@given(st.lists(tables(), min_size=1, max_size=2), st.integers(0, 20))
def test_joins_are_restricted_to_the_oldest_that_fit(joins: list[list[Table]], limit: int) -> None:
    joins = [[Table(("o", *t.columns[1:]), t.rows) for t in found] for found in joins]
    joins = [found for found in joins if len(found) == len(joins[0])]
    owners = ["o"] * len(joins[0])
    ages: dict[Hashable, int] = {0: 5, 1: 3, 2: 9}
    old = oldest_within(joins, owners, ages, limit)

    def size(known: set[int]) -> int:
        return sum(ages[m["o"]] in known for found in joins for m in joined(found))

    assert size(set(old)) <= limit
    there = sorted({ages[r[0]] for found in joins for t in found for r in t.rows})
    assert old == there[: len(old)]
    if len(old) < len(there):
        assert size(set(there[: len(old) + 1])) > limit


def counted_readings(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """A list that gets an item each time that an e-graph is read."""
    readings: list[None] = []
    fresh = EngineReader.fresh

    def counted(self: EngineReader) -> EngineState:
        readings.append(None)
        return fresh(self)

    monkeypatch.setattr(EngineReader, "fresh", counted)
    return readings


def test_nothing_is_read_to_select_from_no_matches(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pattern is there, so there might be too many matches, but its condition never holds."""
    program = program_of(
        """rule before { tanh(x) => sigmoid(x) }
rule r { relu(relu(x)) where dim(x, 0) == 7 => exp(exp(x)) }
rule after { exp(x) => sqrt(x) }
graph g {
  input x : f32[8]
  output relu(relu(x)), tanh(x), exp(x)
}"""
    )
    readings = counted_readings(monkeypatch)
    monkeypatch.setattr(EngineReader, "may_add", lambda _, rule, size, done: 100 if rule.name == "r" else 0)
    explorer = Explorer(graph_in(program), program.ops, program.rules, Limits(nodes=50))
    *_, last = explorer.run()
    assert last.stop == "saturated"
    assert len(readings) == 2, "the input and what was applied"


def test_nothing_is_read_where_all_matches_have_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """There might be too many matches; those that are found are few. What they bring is matched in its turn."""
    program = program_of(
        """rule r { exp(tanh(x)) => relu(tanh(x)) }
rule after { sigmoid(x) => tanh(x) }
graph g {
  input x : f32[8]
  input y : f32[7]
  output exp(tanh(x)), exp(sigmoid(y))
}"""
    )
    graph = graph_in(program)
    plain = list(Explorer(graph, program.ops, program.rules, Limits(nodes=50)).run())
    readings = counted_readings(monkeypatch)
    monkeypatch.setattr(EngineReader, "may_add", lambda _, rule, size, done: 100 if rule.name == "r" else 0)
    steps = list(Explorer(graph, program.ops, program.rules, Limits(nodes=50)).run())
    assert steps[-1].stop == "saturated"
    one, other = steps[-1].egraph, plain[-1].egraph
    assert (one.op, one.attrs, one.origin, one.types) == (other.op, other.attrs, other.origin, other.types)
    assert [one.operands_of(n) for n in range(one.num_nodes)] == [
        other.operands_of(n) for n in range(other.num_nodes)
    ]
    assert [[s.applied for s in step.iteration.rules] for step in steps] == [[], [1, 1], [1], []]
    assert len(readings) == 3, "once for the input and for each iteration that changed something"


def test_the_matches_of_a_pattern_are_counted_through_e_classes() -> None:
    (rule,) = [r for r in program_of("rule r { ewadd(relu(x), relu(y)) => relu(x) }").rules if r.name == "r"]
    nodes = by_operator(
        [("relu", 1, (0,)), ("relu", 1, (7,)), ("relu", 2, (0,)), ("ewadd", 3, (1, 2)), ("ewadd", 3, (1, 1))]
    )
    assert Outline.of(rule).most_matches(nodes) == 2 * 1 + 2 * 2
    assert Outline.of(rule).most_matches(by_operator([("relu", 1, (0,))])) == 0


def test_a_rule_may_match_where_each_of_its_patterns_has_matches() -> None:
    single, multi = [
        r
        for r in program_of(
            """rule r { ewadd(relu(x), y) => relu(x) }
rule m {
  a = ewadd(relu(x), y)
  b = exp(x)
  =>
  a = ewadd(y, relu(x))
  b = exp(x)
}"""
        ).rules
        if r.name in ("r", "m")
    ]
    apart = [("relu", 1, (0,)), ("ewadd", 2, (0, 1))]
    assert not Outline.of(single).may_match(by_operator(apart)), "the first operand of no sum is a relu"
    assert Outline.of(single, {single.source.outputs[0]}).may_match(by_operator(apart)), (
        "but the second one is"
    )
    joined = by_operator([*apart, ("ewadd", 3, (1, 0))])
    assert Outline.of(single).may_match(joined)
    assert not Outline.of(multi).may_match(joined), "its other pattern has no e-node"
    assert Outline.of(multi).may_match(by_operator([*apart, ("ewadd", 3, (1, 0)), ("exp", 4, (2,))]))


@pytest.mark.parametrize(
    "rule",
    [
        "relu(exp(x)) => exp(x)",
        "relu(x) where weight(x) => exp(x)",
        "ewadd(x, y) where weight(x), weight(y) => x",
        "exp(w) * relu(x) where not weight(w) => exp(w)",
        "matmul(x, w; act = tanh) => x",
    ],
)
def test_only_rules_that_may_match_are_compiled(rule: str) -> None:
    """All operators have e-nodes, but not with such operands, or with such words."""
    program = program_of(
        f"""rule never {{ {rule} }}
rule applies {{ ewadd(x, w) where weight(w), not weight(x) => tanh(x) }}
graph g {{
  input x : f32[8, 8]
  weight w : f32[8, 8]
  output relu(x), w + exp(x), exp(w) * relu(x), matmul(x, w; act = relu)
}}"""
    )
    explorer = Explorer(graph_in(program), program.ops, program.rules, Limits(nodes=50))
    first, *_ = explorer.run()
    assert first.iteration.nodes == 8
    assert [r.name for r in explorer.program.current()] == ["applies"]


def test_rules_that_others_let_match_run_in_the_same_iteration() -> None:
    """Each rule makes what the one before it matches."""
    program = program_of(
        """rule third { tanh(sqrt(x)) => relu(x) }
rule second { exp(sqrt(x)) => tanh(sqrt(x)) }
rule first { sigmoid(sqrt(x)) => exp(sqrt(x)) }
graph g {
  input x : f32[8]
  output sigmoid(sqrt(x)), tanh(x), exp(x)
}"""
    )
    steps = list(Explorer(graph_in(program), program.ops, program.rules, Limits(nodes=50)).run())
    assert steps[-1].stop == "saturated"
    applied = [[s.rule for s in step.iteration.rules] for step in steps]
    assert applied == [[], ["first", "second", "third"], []]


def test_matches_that_were_applied_need_no_room() -> None:
    """Where a rule was applied to all of its matches, it does not matter that there is room for half as many."""
    rules = [r for r in program_of("rule r { exp(x) => sqrt(tanh(x)) }").rules if r.name == "r"]
    inputs = "\n".join(f"input x{i} : f32[{i + 1}]" for i in range(20))
    graph = graph_of(f"{inputs}\noutput {', '.join(f'exp(x{i})' for i in range(20))}")
    steps = steps_of(graph, rules, Limits(nodes=100))
    assert [sum(s.applied for s in step.iteration.rules) for step in steps] == [0, 20, 0]
    assert steps[-1].stop == "saturated"
    assert steps[-1].egraph.num_nodes == 40 + 2 * 20


# ---- what is applied first ------------------------------------------------------------------------------------


def pairs_of_products() -> Graph:
    """Products that share their left operand: a small one, and a large one, which is read twice."""
    return graph_of("""
  input x : f32[1, 8]
  input y : f32[2048, 512]
  weight a : f32[8, 8]
  weight b : f32[8, 8]
  weight c : f32[512, 8]
  weight d : f32[512, 8]
  output x @ a, x @ b, y @ c, y @ d""")


@pytest.mark.parametrize("estimated", [True, False])
def test_matches_that_save_most_come_first(estimated: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    model = CostModel(library().ops, load_device("h100"))
    graph = pairs_of_products()
    limits = Limits(nodes=20, iterations=4, k_multi=1)
    monkeypatch.setattr(selection, "MULTI_FLOOR", 4)  # one match
    monkeypatch.setattr(selection, "MULTI_SHARE", 0.2)
    rules = rules_named("pair-matmul-left")
    explorer = Explorer(graph, library().ops, rules, limits, model.estimate if estimated else None)
    last = list(explorer.run())[-1]
    merged = {t.shape for (t,) in last.egraph.types} & {(1, 16), (2048, 16)}
    assert merged == {(2048, 16) if estimated else (1, 16)}
    assert "rule pair-matmul-left: 1 matches were not tried" in last.notes


@pytest.mark.parametrize("condition", ["factors(u) == 1", "start(x)", "not weight(x)"])
def test_what_a_target_costs_is_known_whatever_a_rule_asks_for(
    condition: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    costs: list[float] = []
    estimated = Savings._target

    def recorded(self: Savings, names: dict[str, int], attributes: dict[str, Any]) -> float:
        costs.append(estimated(self, names, attributes))
        return costs[-1]

    monkeypatch.setattr(Savings, "_target", recorded)
    monkeypatch.setattr(selection, "MULTI_FLOOR", 4)  # one match, so that they are compared
    monkeypatch.setattr(selection, "MULTI_SHARE", 0.2)
    model = CostModel(library().ops, load_device("h100"))
    program = program_of(f"""
      rule pair {{
        a = matmul(x, u)
        b = matmul(x, v)
        =>
        m = matmul(x, concat(u, v; axis = 1))
        (a, b) = split(m; axis = 1, sizes = [dim(u, 1), dim(v, 1)])
        where {condition}
      }}""")
    rules = [r for r in program.rules if r.name == "pair"]
    limits = Limits(nodes=20, iterations=4, k_multi=1)
    explorer = Explorer(pairs_of_products(), program.ops, rules, limits, model.estimate)
    merged = {t.shape for step in explorer.run() for (t,) in step.egraph.types} & {(1, 16), (2048, 16)}
    assert merged == {(2048, 16)}
    assert min(costs) > 0


def test_what_was_put_off_is_tried_in_the_next_iteration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "MULTI_FLOOR", 4)
    monkeypatch.setattr(selection, "MULTI_SHARE", 0.2)
    rules = rules_named("pair-matmul-left")
    steps = steps_of(pairs_of_products(), rules, Limits(nodes=20, iterations=3, k_multi=None))
    merged = [{t.shape for (t,) in s.egraph.types} & {(1, 16), (2048, 16)} for s in steps]
    assert [len(m) for m in merged[:3]] == [0, 1, 2]
    notes = [[r.note for r in s.iteration.rules] for s in steps]
    assert notes[1] == ["1 of 2 matches put off: the rule has used its share of this iteration"]


def test_a_join_with_too_many_matches_is_run_on_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "JOIN_SHARE", 0.05)
    weights = "\n".join(f"  weight w{i} : f32[4, 4]" for i in range(6))
    graph = graph_of(
        f"  input x : f32[2, 4]\n{weights}\n  output " + ", ".join(f"x @ w{i}" for i in range(6))
    )
    rules = rules_named("pair-matmul-left")
    last = steps_of(graph, rules, Limits(nodes=100, iterations=9, k_multi=1))[-1]
    merged = {t.shape for (t,) in last.egraph.types if t.shape[0] == 2 and t.shape[1] > 4}
    assert merged == {(2, 8)}
    assert (
        "rule pair-matmul-left: up to 36 matches exceed the limit of 5; only the 2 oldest e-classes were searched"
        in last.notes
    )
    everything = steps_of(graph, rules, Limits(nodes=1000, iterations=9, k_multi=1))[-1]
    assert everything.egraph.num_nodes > last.egraph.num_nodes


# ---- the node limit ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("limit", "k_multi"), [(40, 1), (150, 1), (40, None), (150, None), (700, None)])
def test_no_iteration_overshoots_the_node_limit(limit: int, k_multi: int | None) -> None:
    weights = "\n".join(f"  weight w{i} : f32[4, 4]" for i in range(5))
    total = " + ".join(f"relu(x @ w{i})" for i in range(5))
    graph = graph_of(f"  input x : f32[2, 4]\n{weights}\n  output {total}")
    limits = Limits(nodes=limit, iterations=9, k_multi=k_multi)
    explorer = Explorer(graph, library().ops, pack("taso"), limits)
    stops = []
    for step in explorer.run():
        assert explorer.selection.nodes() <= 1.1 * limit
        assert step.egraph.num_nodes <= limit
        stops.append(step.stop)
    assert stops[-1] == "nodes"
    assert step.egraph.num_nodes > 0.8 * limit


def test_words_in_patterns_are_no_variables() -> None:
    """`same` is what the declaration says it is, in the target too; as a variable it made the target ill-typed, and
    free of charge."""
    program = program_of("""
      rule r {
        a = conv2d(x, u; pads = same, act = relu, stride = s)
        b = conv2d(x, v; pads = [p, 0, 0, 0], act = t)
        =>
        a = relu(conv2d(x, u; pads = same, act = relu, stride = s))
        b = conv2d(x, v; pads = [p, 0, 0, 0], act = t)
      }""")
    (rule,) = (r for r in program.rules if r.name == "r")
    values = {"pads": (1, 0, 0, 0), "act": "relu", "stride": (1, 2)}
    bound = [{k: v for a in n.attrs for k, v in a.bound(values[a.name]).items()} for n in rule.source.nodes]
    first, second = bound
    assert first == {"s": (1, 2)}
    assert second == {"p": 1, "t": "relu"}


def test_what_was_left_is_forgotten_once_it_was_tried() -> None:
    """A rule without room leaves matches; with room it applies them, and nothing says that they were not tried."""
    program = program_of("rule twice { relu(x) => relu(relu(x)) }\nrule up { tanh(x) => tanh(relu(x)) }")
    rules = [r for r in program.rules if r.name in ("twice", "up")]
    graph = graph_of("input x : f32[4]\n input y : f32[5]\n output relu(x), relu(y), tanh(x), tanh(y)")
    explorer = Explorer(graph, program.ops, rules, Limits(nodes=7, iterations=1))
    last = list(explorer.run())[-1]
    assert any("were not tried" in note for note in last.notes)
    explorer.selection.limit = 100
    explorer._singles(2, [])
    assert not any("were not tried" in note for note in explorer._step(0.0, [], None, False).notes)


#: Each of the operands can be computed in two ways after an iteration, so the list rule has 2^n matches.
TWO_WAYS = """
    rule list-relu { concat(relu(x[i]) for i in 0..len(x); axis = k) => relu(concat(x[..]; axis = k)) }
    rule both-ways { relu(x) => relu(relu(x)) }
"""


@pytest.mark.parametrize("members", [3, 30])
def test_matches_that_are_too_many_to_hold_are_not_looked_for(members: int) -> None:
    program = program_of(TWO_WAYS)
    inputs = "\n".join(f"input x{i} : f32[1, {i + 1}]" for i in range(members))
    operands = ", ".join(f"relu(x{i})" for i in range(members))
    graph = graph_of(f"{inputs}\n output concat({operands}; axis = 1)")
    *_, last = Explorer(graph, program.ops, program.rules, Limits(nodes=1_000, iterations=8)).run()
    left = [note for note in last.notes if "too many to look for" in note]
    if members == 3:
        assert (left, last.stop) == ([], "saturated")
    else:
        assert left == ["rule list-relu: up to 1,073,741,824 matches are too many to look for"]
        assert last.stop == "nodes"
    assert last.egraph.op.count("concat") > 1  # the oldest match was applied in the first iteration


#: Each operand is a product of three different pairs, and the list rule has three matches; once the left factors are
#: equal, it has 3^n.
THREE_FACTORS = """
    rule list-mul { concat(ewmul(x, r[i]) for i in 0..len(r); axis = k) => ewmul(x, concat(r[..]; axis = k)) }
    rule second { ewmul(exp(x), y) => ewmul(sqrt(x), tanh(y)) }
    rule third { ewmul(sqrt(x), tanh(y)) => ewmul(erf(x), sigmoid(y)) }
    rule equal-factors { a = exp(x); b = sqrt(x); c = erf(x) => a = exp(x); b = exp(x); c = exp(x) }
"""


def test_matches_that_merges_make_too_many_are_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are counted anew where e-classes were merged, even if there is hardly an e-node more."""
    most = 2_000_000
    monkeypatch.setattr(applying, "MOST_HELD", most)
    members = 12
    program = program_of(THREE_FACTORS)
    names = ("list-mul", "second", "third", "equal-factors")
    rules = tuple(r for r in program.rules if r.name in names)
    inputs = "\n".join(f"input y{i} : f32[4, {i + 1}]" for i in range(members))
    operands = ", ".join(f"exp(z) * y{i}" for i in range(members))
    others = ", ".join(f"q * {i}.0" for i in range(2, 200))
    graph = graph_of(
        f"input z : f32[4, 1]\ninput q : f32[7]\n{inputs}\noutput concat({operands}; axis = 1), {others}"
    )
    explorer = Explorer(graph, program.ops, rules, Limits(nodes=20_000, iterations=5))
    found = list(explorer.run())
    assert ["equal-factors" in {r.rule for r in step.iteration.rules} for step in found].count(True) == 1
    assert max(r.matches for step in found for r in step.iteration.rules if r.rule == "list-mul") <= 3
    assert any("rule list-mul: up to 531,441 matches are too many to look for" in s.notes for s in found)
