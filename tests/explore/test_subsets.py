"""Merging all members of a group can lose to merging some: a case for each reason, and what finds it."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensat_dl.core.graph import Graph, TensorType
from tensat_dl.core.progress import Progress
from tensat_dl.core.rule import RewriteRule
from tensat_dl.cost import CostModel, Measurement, Profile, Signature, load_device
from tensat_dl.engine import targets
from tensat_dl.engine.compiled import CompiledRule
from tensat_dl.engine.exploration import Feedback, Limits, Start
from tensat_dl.engine.explore import exploring
from tensat_dl.engine.groups import View
from tensat_dl.engine.loop import Explorer
from tensat_dl.engine.merging import REFINED
from tensat_dl.engine.subsets import Merge, Merges, Price, Prices, Refinement, savings
from tensat_dl.engine.targets import Target
from tensat_dl.rewrite.groups import Group, Member
from tensat_dl.run.beginning import Setup
from tensat_dl.run.rounds import one_round
from tensat_dl.run.search import Found
from tests.explore.graphs import graph_of, library, pack, program_of, rules_named

pytestmark = pytest.mark.sampled(3)


def found(graph: Graph, model: CostModel, rules: str = "standard") -> Found:
    return one_round(graph, pack(rules), Setup(model), Progress())


def widths(answer: Found) -> list[int]:
    """Columns of the products that an answer computes, in order."""
    e = answer.egraph
    chosen = answer.extraction.choices
    return sorted(e.types[c][0].shape[-1] for c, n in chosen.items() if e.op[n] == "matmul")


def h100() -> CostModel:
    return CostModel(library().ops, load_device("h100"))


#: (x c) d becomes x (c d), so of the four products of x that the e-graph has one is not needed.
THREE_OF_FOUR = """
  input x : f32[1, 128]
  weight a : f32[128, 128]
  weight b : f32[128, 128]
  weight c : f32[128, 128]
  weight d : f32[128, 128]
  output x @ a, x @ b, x @ c @ d"""


def test_members_that_the_answer_does_not_use_are_left_out() -> None:
    answer = found(graph_of(THREE_OF_FOUR), h100())
    assert widths(answer) == [3 * 128]
    notes = [
        r.note for it in answer.exploration.iterations for r in it.rules if r.rule == "group-matmul-left"
    ]
    assert notes == ["", REFINED]


def test_a_full_egraph_has_room_for_what_the_answer_uses() -> None:
    weights = "\n".join(f"  weight w{i} : f32[8, 8]" for i in range(6))
    products = ", ".join(f"x @ w{i}" for i in range(6))
    graph = graph_of(f"  input x : f32[4, 8]\n{weights}\n  output {products}")
    limits = Limits(nodes=1000, k_multi=None)
    explorer = Explorer(graph, library().ops, (*pack("groups"), *pack("pairs")), limits)
    *_, last = explorer.run()
    assert last.stop == "nodes"
    explorer.groups()
    used = frozenset(last.handles[root] for root in last.egraph.roots[:3])
    refined = explorer.refine(Feedback(used))
    assert refined is not None
    assert [r.note for r in refined.iteration.rules if r.rule == "group-matmul-left"] == [REFINED]
    assert last.egraph.num_nodes < refined.egraph.num_nodes <= limits.nodes


def test_groups_come_after_the_egraph_that_they_are_of() -> None:
    """The worker looks for them while an answer is extracted."""
    weights = "\n".join(f"  weight w{i} : f32[8, 8]" for i in range(3))
    graph = graph_of(f"  input x : f32[4, 8]\n{weights}\n  output x @ w0, x @ w1, tanh(x @ w2)")
    with exploring(graph, library().ops, pack("groups"), Limits()) as exploration:
        found = exploration.run()
        assert found.groups.count == 0
        first = exploration.grouped(found)
        assert (first.groups.count, first.groups.merged) == (1, 1)
        refined = exploration.refine(
            Feedback(frozenset(found.handles[root] for root in found.egraph.roots[:2]))
        )
        assert refined is not None
        assert (refined.groups.count, exploration.grouped(refined).groups.merged) == (0, 2)
        again = exploration.run()  # goes on from there
        assert exploration.grouped(again).groups.merged == 2


def test_an_egraph_to_which_more_rules_add_nothing_is_refined() -> None:
    """As with fusion, where a round of the same e-graph follows one without."""
    weights = "\n".join(f"  weight w{i} : f32[8, 8]" for i in range(3))
    graph = graph_of(f"  input x : f32[4, 8]\n{weights}\n  output x @ w0, x @ w1, tanh(x @ w2)")
    rules = (*pack("groups"), *rules_named("relu-exp"))
    few = Start(graph, frozenset(r.name for r in pack("groups")), Limits(k_multi=0))
    with exploring(graph, library().ops, rules, Limits()) as exploration:
        found = exploration.grouped(exploration.run(few))
        again = exploration.grouped(exploration.run())
        assert again.egraph is found.egraph
        assert again.groups == found.groups
        refined = exploration.refine(
            Feedback(frozenset(found.handles[root] for root in found.egraph.roots[:2]))
        )
        assert refined is not None
        assert exploration.grouped(refined).groups.merged == 2


def test_a_worker_that_is_gone_leaves_its_egraph() -> None:
    graph = graph_of(
        "input x : f32[4, 8]\n weight v : f32[8, 8]\n weight w : f32[8, 8]\n output x @ v, x @ w"
    )
    with exploring(graph, library().ops, pack("groups"), Limits()) as exploration:
        found = exploration.run()
        exploration._worker.process.kill()
        assert exploration.grouped(found).egraph is found.egraph
        assert exploration.refine(Feedback(frozenset(found.handles))) is None
        assert exploration.lost.startswith("the engine died")


def test_the_room_that_is_kept_is_for_every_rule() -> None:
    """What the first group rule takes of it leaves some for the next, in an e-graph that another rule has filled."""
    program = program_of("rule fill { exp(x) => sqrt(exp(exp(x))) }")
    inputs = "\n".join(f"input y{i} : f32[{i + 1}]" for i in range(20))
    filled = ", ".join(f"exp(y{i})" for i in range(20))
    graph = graph_of(
        f"input x : f32[4, 8]\n weight u : f32[8, 8]\n weight v : f32[8, 8]\n{inputs}\n"
        f"output x @ u, x @ v, tanh(y0), tanh(y1), {filled}"
    )
    rules = (*program.rules, *rules_named("group-matmul-left", "group-tanh"))
    explorer = Explorer(graph, program.ops, rules, Limits(nodes=90))
    *_, last = explorer.run()
    assert last.stop == "nodes"
    explorer.groups()
    refined = explorer.refine(Feedback(frozenset(last.handles)))
    assert refined is not None
    merged = {r.rule for r in refined.iteration.rules if r.note == REFINED}
    assert merged == {"group-matmul-left", "group-tanh"}
    assert last.egraph.num_nodes < refined.egraph.num_nodes <= 90


def steps(widest: int) -> CostModel:
    """A device on which a product of more than 16 columns takes ten times as long, as where a kernel needs a second
    wave, and a relu next to nothing."""
    table = library().ops
    attrs = (("act", "none"),)
    entries = {}
    for columns in range(8, widest + 1, 8):
        inputs = (TensorType("f32", (4, 8)), TensorType("f32", (8, columns)))
        output = TensorType("f32", (4, columns))
        product = Signature("matmul", attrs, inputs, (output,), "h100")
        relu = Signature("relu", (), (output,), (output,), "h100")
        entries[product.text] = Measurement((1.0 if columns <= 16 else 10.0) + columns * 1e-6, 0.0, 1)
        entries[relu.text] = Measurement(1e-3, 0.0, 1)
    return CostModel(table, load_device("h100"), Profile("h100", {}, {}, entries))


@pytest.mark.parametrize("count", [3, 4, 5])
def test_parts_where_kernels_get_slower_by_steps(count: int) -> None:
    weights = "\n".join(f"  weight w{i} : f32[8, 8]" for i in range(count))
    outputs = ", ".join(f"relu(x @ w{i}) + x" for i in range(count))
    graph = graph_of(f"  input x : f32[4, 8]\n{weights}\n  output {outputs}")
    answer = found(graph, steps(8 * count), "groups")
    assert widths(answer) == sorted([16] * (count // 2) + [8] * (count % 2))


def test_members_whose_part_would_be_copied_are_left_out() -> None:
    # A part that is an output of the graph is copied, which takes longer than the narrow product does.
    graph = graph_of("""
  input x : f32[4096, 8]
  weight a : f32[8, 512]
  weight b : f32[8, 512]
  weight c : f32[8, 512]
  weight d : f32[8, 512]
  output x @ a, x @ b, tanh(x @ c) * sigmoid(x @ d)""")
    answer = found(graph, h100(), "groups")
    assert widths(answer) == [512, 512, 1024]


def test_pairs_beside_groups_are_merged_after_them_and_lose_nothing() -> None:
    weights = "\n".join(f"  weight w{i} : f32[64, 64]" for i in range(6))
    products = " + ".join(f"tanh(x @ w{i})" for i in range(6))
    graph = graph_of(f"  input x : f32[8, 64]\n{weights}\n  output {products}")
    rules = (*pack("standard"), *pack("pairs"))
    limits = Limits(nodes=1500, k_multi=None)
    both = one_round(graph, rules, Setup(h100(), limits), Progress())
    assert both.exploration.stop == "nodes"
    assert 0 < both.exploration.early < both.egraph.num_classes
    first = {"group": 0, "pair": 0}
    for number, iteration in enumerate(both.exploration.iterations, start=1):
        for r in iteration.rules:
            kind = r.rule.split("-")[0]
            if r.applied and not first.get(kind, 1):
                first[kind] = number
    assert 0 < first["group"] < first["pair"]
    assert both.extraction.cost <= found(graph, h100()).extraction.cost * (1 + 1e-9)


def read_in_layers(layers: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """How often a tensor of a member is looked up while a graph of so many layers is explored and refined."""
    lines = [f"  weight {w}{i} : f32[64, 64]" for i in range(layers) for w in "abc"]
    lines += [f"  x{i + 1} = (x{i} @ a{i}) * (x{i} @ b{i}) * (x{i} @ c{i})" for i in range(layers)]
    graph = graph_of("\n".join(["  input x0 : f32[16, 64]", *lines, f"  output x{layers}"]))
    explorer = Explorer(graph, library().ops, pack("groups"), Limits(nodes=10_000))
    count = 0
    look_up = Member.__getitem__

    def counted(self: Member, name: str) -> int:
        nonlocal count
        count += 1
        return look_up(self, name)

    with monkeypatch.context() as patch:
        patch.setattr(Member, "__getitem__", counted)
        *_, last = explorer.run()
        explorer.groups()
        assert explorer.refine(Feedback(frozenset(last.handles))) is not None
    return count


def test_groups_of_other_layers_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work for a layer's groups does not grow with the number of layers."""
    few, many = (read_in_layers(n, monkeypatch) for n in (4, 32))
    assert few > 0
    assert many <= 8 * few * 1.1


def one_group(widths: Sequence[int]) -> tuple[CompiledRule, Group, View]:
    """A group of products of one input, with so many columns."""
    weights = [f"  weight w{i} : f32[64, {n}]" for i, n in enumerate(widths)]
    products = ", ".join(f"x @ w{i}" for i in range(len(widths)))
    graph = graph_of("\n".join(["  input x : f32[16, 64]", *weights, f"  output {products}"]))
    explorer = Explorer(graph, library().ops, rules_named("group-matmul-left"), Limits(nodes=1000))
    list(explorer.run())
    explorer.groups()
    view = explorer.seen
    assert view is not None
    (rule,) = explorer.ready.of_kind("group")
    (group,) = view.groups(rule)
    return rule, group, view


def test_members_of_one_kind_cost_the_same() -> None:
    """The price of all members but one, for each of them, of two kinds."""
    rule, group, view = one_group([64 * (1 + i % 2) for i in range(5)])
    price = Prices(h100().estimate).of(rule, group, view)
    members = group.members
    each = [price([*members[:i], *members[i + 1 :]]) for i in range(5)]
    assert price.without_each(members) == each
    assert len({*each}) == 2


def test_equal_layers_are_planned_and_weighed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same targets and savings as if each were by itself."""
    lines = [f"  weight {w}{i} : f32[64, 64]" for i in range(4) for w in "abc"]
    lines += [f"  x{i + 1} = (x{i} @ a{i}) * (x{i} @ b{i}) * (x{i} @ c{i})" for i in range(4)]
    lines += ["  weight a : f32[64, 64]", "  weight b : f32[64, 32]"]
    graph = graph_of("\n".join(["  input x0 : f32[16, 64]", *lines, "  output x4, x4 @ a, x4 @ b"]))
    planned: list[str] = []
    plan = targets.target_of

    def counted(rule: RewriteRule, *args: Any, **kwargs: Any) -> Target:
        planned.append(rule.name)
        return plan(rule, *args, **kwargs)

    monkeypatch.setattr(targets, "target_of", counted)
    explorer = Explorer(graph, library().ops, rules_named("group-matmul-left"), Limits(), h100().estimate)
    list(explorer.run())
    explorer.groups()
    view = explorer.seen
    assert view is not None
    (rule,) = explorer.ready.of_kind("group")
    groups = view.groups(rule)
    assert sorted(len(g.members) for g in groups) == [2, 3, 3, 3, 3]
    prices = explorer.merging.prices
    assert len(planned) == len(prices.plans.known) == 3, "of two, of three, and of two of these"
    for group in groups:
        fresh = Prices(prices.estimate)
        assert prices.plans.target(rule, group, view) == fresh.plans.target(rule, group, view)
        assert savings(rule, group, prices.of(rule, group, view)) == savings(
            rule, group, fresh.of(rule, group, view)
        )


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.lists(st.sampled_from([1.0, 2.0, 3.0]), min_size=2, max_size=4), min_size=2, max_size=4))
def test_savings_of_groups_that_were_seen_before(groups: list[list[float]]) -> None:
    """Members of one kind may cost different amounts alone: their savings differ, too."""
    compiled = cast(CompiledRule, SimpleNamespace(name="r", rule=SimpleNamespace(member_outputs=["y"])))
    costs = [c for group in groups for c in group]

    class Fixed(Price):
        """A merge costs 2, however many members it has."""

        def __call__(self, members: Sequence[Member]) -> float:
            return costs[members[0]["y"]] if len(members) == 1 else 2.0

    types = dict.fromkeys(range(len(costs)), TensorType("f32", (8,)))
    view = cast(View, SimpleNamespace(types=types, weights=frozenset()))
    prices, first = Prices(None), 0
    for group in groups:
        members = [Member((("y", first + i),)) for i in range(len(group))]
        first += len(group)
        whole = Group({}, {}, members)
        known, alone = (
            savings(compiled, whole, Fixed(p, compiled, whole, view)) for p in (prices, Prices(None))
        )
        assert known == alone
        total = sum(group)
        assert max(known.values(), default=0.0) == max(0.0, total - 2.0)


HANDLES = st.integers(0, 5)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    st.lists(st.tuples(HANDLES, HANDLES), unique=True, max_size=6),
    st.lists(st.tuples(st.sampled_from("rs"), HANDLES, st.frozensets(HANDLES)), max_size=6),
)
def test_merges_of_a_group(
    members: list[tuple[int, int]], merges: list[tuple[str, int, frozenset[int]]]
) -> None:
    """The members of which a merge has all results, of those merges that have any."""
    compiled = cast(CompiledRule, SimpleNamespace(name="r", rule=SimpleNamespace(member_outputs=["y", "z"])))
    group = Group({}, {}, [Member((("y", y), ("z", z))) for y, z in members])
    made = [Merge(*merge) for merge in merges]
    wanted = [
        (m, own)
        for m in made
        if m.rule == "r" and (own := [x for x in group.members if {x["y"], x["z"]} <= m.results])
    ]
    assert Merges(made).of(compiled, group) == wanted


def test_subsets_come_in_the_order_of_the_members() -> None:
    """Members have names, which sets have in another order in each run: a limit would end at another subset."""
    rule, group, view = one_group([64] * 8)
    results = [m[rule.rule.member_outputs[0]] for m in group.members]
    feedback = Feedback(used=frozenset(results[:4]), wanted=frozenset(results[4:]))
    price = Prices(None).of(rule, group, view)
    found = Refinement(feedback, Merges(())).subsets(rule, group, view, price)
    pairs = [[group.members.index(m) for m in subset] for subset in found if len(subset) == 2]
    assert pairs == [sorted((i, j)) for i in range(4) for j in range(8) if j != i]
