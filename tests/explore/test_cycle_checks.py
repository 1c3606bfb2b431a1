"""The checks of matches, against the union itself: applied to a small graph, and searched for a cycle."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensat_dl.engine.naming import NodeRow
from tensat_dl.engine.schema import Schema
from tensat_dl.engine.targets import Additions
from tensat_dl.paper import postfilter
from tensat_dl.paper.checkers import Efficient, Incremental, Vanilla
from tensat_dl.paper.cycles import (
    Checker,
    OutputEffect,
    children_first,
    closes_cycle,
    effect,
    effect_of_facts,
)
from tensat_dl.paper.postfilter import ENode
from tensat_dl.rewrite.groups import listed
from tests.explore.graphs import library, program_of

Edges = dict[int, set[int]]
EXACT = (Vanilla, Incremental)


def reachable(graph: Edges, start: int) -> set[int]:
    seen = {start}
    stack = [start]
    while stack:
        for d in graph[stack.pop()] - seen:
            seen.add(d)
            stack.append(d)
    return seen


def cyclic(graph: Edges) -> bool:
    return any(c in reachable(graph, d) for c in graph for d in graph[c])


def united(graph: Edges, outputs: tuple[OutputEffect, ...]) -> tuple[Edges, dict[int, int]]:
    """The graph after a match, and what each e-class has become. Of two e-classes that become one, the forms that
    lead from one to the other are dropped."""
    graph = {c: set(ds) for c, ds in graph.items()}
    name = {c: c for c in graph}
    for o in outputs:
        if o.same is None or name[o.source] == name[o.same]:
            continue
        a, b = name[o.source], name[o.same]
        graph[a] = {d for d in graph[a] if b not in reachable(graph, d)}
        graph[b] = {d for d in graph[b] if a not in reachable(graph, d)}
        graph[b] |= graph.pop(a)
        graph = {c: {b if d == a else d for d in ds} for c, ds in graph.items()}
        name = {c: b if n == a else n for c, n in name.items()}
    for o in outputs:
        graph[name[o.source]] |= {name[leaf] for leaf in o.leaves}
    return graph, name


@st.composite
def dags(draw: st.DrawFn, size: int = 9) -> Edges:
    """E-classes in a random order, each with children before it."""
    n = draw(st.integers(2, size))
    order = draw(st.permutations(range(n)))
    return {
        order[k]: set(draw(st.lists(st.sampled_from(order[:k]), max_size=3))) if k else set()
        for k in range(n)
    }


@st.composite
def matches(draw: st.DrawFn, n: int, same: bool) -> tuple[OutputEffect, ...]:
    sources = draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=3, unique=True))
    out = []
    for s in sources:
        if same and draw(st.booleans()):
            out.append(OutputEffect(s, same=draw(st.integers(0, n - 1))))
        else:
            out.append(OutputEffect(s, frozenset(draw(st.lists(st.integers(0, n - 1), max_size=3)))))
    return tuple(out)


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_a_match_closes_a_cycle_if_the_union_has_one(data: st.DataObject) -> None:
    graph = data.draw(dags())
    outputs = data.draw(matches(len(graph), same=False))
    expected = cyclic(united(graph, outputs)[0])
    for checker in (Vanilla(graph), Incremental(graph), Efficient(graph)):
        assert closes_cycle(outputs, checker) == expected


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_an_equality_of_two_e_classes_is_refused_in_one_direction(data: st.DataObject) -> None:
    graph = data.draw(dags())
    s, t = (data.draw(st.integers(0, len(graph) - 1)) for _ in range(2))
    expected = s != t and s in reachable(graph, t)
    for checker in (Vanilla(graph), Incremental(graph), Efficient(graph)):
        assert closes_cycle((OutputEffect(s, same=t),), checker) == expected


def follow(checker: Checker, sequence: list[tuple[OutputEffect, ...]]) -> list[bool]:
    """What is refused when matches come one after another."""
    out = []
    for outputs in sequence:
        refused = closes_cycle(outputs, checker)
        out.append(refused)
        if not refused:
            checker.accept(outputs)
    return out


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_vanilla_and_incremental_know_what_was_accepted_before(data: st.DataObject) -> None:
    graph = data.draw(dags())
    sequence = data.draw(st.lists(matches(len(graph), same=False), max_size=8))
    now = graph
    expected = []
    for outputs in sequence:
        after, _ = united(now, outputs)
        expected.append(cyclic(after))
        now = now if expected[-1] else after
    for make in EXACT:
        checker = make(graph)
        assert follow(checker, sequence) == expected
        assert {c: set(ds) for c, ds in checker.children.items()} == now


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_what_is_accepted_closes_no_cycle_with_equalities_either(data: st.DataObject) -> None:
    graph = data.draw(dags())
    sequence = data.draw(st.lists(matches(len(graph), same=True), max_size=8))
    vanilla, incremental = Vanilla(graph), Incremental(graph)
    for outputs in sequence:
        refused = closes_cycle(outputs, vanilla)
        assert closes_cycle(outputs, incremental) == refused
        if refused:
            continue
        for checker in (vanilla, incremental):
            checker.accept(outputs)
            assert not cyclic(checker.children)
        assert vanilla.children == incremental.children
        rank = incremental.rank
        for c, ds in incremental.children.items():
            assert all(rank[d] < rank[c] for d in ds)
            assert all(c in incremental.parents[d] for d in ds)


@settings(max_examples=100, deadline=None)
@given(dags(14))
def test_the_descendants_map_is_reachability(graph: Edges) -> None:
    descendants = Efficient(graph)
    for a in graph:
        reached = reachable(graph, a)
        assert all(bool(descendants.reach((b,))(a)) == (b in reached) for b in graph)


def test_a_cycle_is_not_ordered() -> None:
    with pytest.raises(ValueError, match="cycle"):
        children_first({0: [1], 1: [2], 2: [0]})


def outputs_of(text: str) -> dict[str, tuple[set[str], str | None]]:
    """The effect of a rule, by names."""
    (rule,) = (r for r in program_of(text).rules if r.name == "r")
    names = list(dict.fromkeys([*rule.tensor_variables(), *(n.result for n in rule.source.nodes)]))
    return {
        names[own]: ({names[i] for i in leaves}, None if same is None else names[same])
        for own, leaves, same in effect(rule, names).outputs
    }


def test_leaves_are_found_through_what_the_target_builds() -> None:
    found = outputs_of("""
rule r {
  a = matmul(x, u)
  b = matmul(x, v)
  =>
  m = matmul(x, concat(u, v; axis = 1))
  (a, b) = split(m; axis = 1, sizes = [dim(u, 1), dim(v, 1)])
}""")
    assert found == {"a": ({"x", "u", "v"}, None), "b": ({"x", "u", "v"}, None)}


def test_a_target_that_uses_another_output_depends_on_its_e_class() -> None:
    found = outputs_of("""
rule r {
  a = ewadd(x, y)
  b = ewadd(x, z)
  =>
  a = ewadd(y, x)
  b = ewadd(a, ewsub(z, y))
}""")
    assert found == {"a": ({"x", "y"}, None), "b": ({"a", "y", "z"}, None)}


def test_an_output_may_become_a_tensor_of_the_source() -> None:
    found = outputs_of(
        "rule r { slice(concat(x, y; axis = 0); axis = 0, start = 0, stop = n) where n == dim(x, 0) => x }"
    )
    ((leaves, same),) = found.values()
    assert (leaves, same) == (set(), "x")


def test_the_effect_of_a_group_is_that_of_its_facts() -> None:
    facts = Additions(
        nodes=[(10, "concat", (), (1, 2), "r"), (11, "matmul", (), (0, 10), "r"),
               (12, "slice", (), (11,), "r"), (13, "slice", (), (11,), "r")],
        equal=[(5, 12), (6, 13), (7, 4)],
    )  # fmt: skip
    leaves = frozenset((0, 1, 2))
    assert effect_of_facts(facts) == (
        OutputEffect(5, leaves),
        OutputEffect(6, leaves),
        OutputEffect(7, same=4),
    )


def test_every_rule_of_the_library_has_an_effect() -> None:
    for declared in library().rules:
        if declared.kind == "group":
            continue
        rule = listed(declared, 2) if declared.takes_lists else declared
        names = list(dict.fromkeys([*rule.tensor_variables(), *(n.result for n in rule.source.nodes)]))
        assert len(effect(rule, names).outputs) == len(rule.source.outputs)


# ---- the filter list -------------------------------------------------------------------------------------------


@st.composite
def cyclic_enodes(draw: st.DrawFn) -> list[ENode]:
    """E-classes 0, 1, ..: each has an e-node with older children, and further ones with any."""
    n = draw(st.integers(2, 8))
    kids: list[tuple[int, tuple[int, ...]]] = []
    for c in range(n):
        kids.append((c, tuple(draw(st.lists(st.integers(0, c - 1), max_size=2))) if c else ()))
    for _ in range(draw(st.integers(1, 12))):
        kids.append((draw(st.integers(0, n - 1)), tuple(draw(st.lists(st.integers(0, n - 1), max_size=3)))))
    ages = draw(st.permutations(range(len(kids))))
    row = NodeRow(Schema(library().ops).constructor("relu", 1), (), (), None, ())
    made = [(age, own, ks, all(k < own for k in ks), row) for age, (own, ks) in zip(ages, kids, strict=True)]
    return sorted((ENode(*m) for m in made), key=lambda n: n.age)


def edges(enodes: list[ENode]) -> Edges:
    return {c: {k for n in enodes if n.own == c for k in n.children} for c in {n.own for n in enodes}}


@settings(max_examples=500, deadline=None)
@given(cyclic_enodes())
def test_the_last_added_node_of_each_cycle_goes(enodes: list[ENode]) -> None:
    gone = postfilter.cyclic(enodes)
    kept = [n for n in enodes if n not in gone]
    assert not cyclic(edges(kept))
    protected = {n.own: n for n in reversed(enodes) if n.grounded}  # the oldest
    assert not set(protected.values()) & set(gone)
    for k, last in enumerate(gone):
        # It was on a cycle of e-nodes that were there before it or that may not go.
        others = [n for n in enodes if n not in gone[: k + 1]]
        others = [n for n in others if n.age < last.age or n == protected[n.own]]
        graph = edges(others) | {c: set() for c in range(8) if c not in edges(others)}
        assert any(last.own in reachable(graph, c) for c in last.children)


@settings(max_examples=200, deadline=None)
@given(cyclic_enodes(), st.sets(st.integers(0, 19)))
def test_every_e_class_gets_a_derivation_back(enodes: list[ENode], hidden: set[int]) -> None:
    listed = [n._replace(row=n.row._replace(subsumed=n.age in hidden)) for n in enodes]
    back = postfilter.restorable(listed)
    assert all(n.row.subsumed and n.grounded for n in back)
    seen = [n for n in listed if n in back or not n.row.subsumed]
    assert {n.own for n in seen if n.grounded} == {n.own for n in listed}
    assert len({n.own for n in back}) == len(back)
