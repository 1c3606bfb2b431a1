"""The stages of a search: which there are, and that an engine explores the same whatever it explored before."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

import pytest

from tensat_dl.cost import CostModel, load_device
from tensat_dl.engine.exploration import Limits, Start
from tensat_dl.engine.explore import exploring
from tensat_dl.engine.syntax import EgglogRule
from tensat_dl.engine.worker import explore
from tensat_dl.rewrite.reachable import reachable
from tensat_dl.run.stages import Stage, Stages
from tests.explore.graphs import graph_of, library, pack
from tests.run.graphs import drawn, gru


def shapes(stages: Stages, stage: Stage, names: dict[frozenset[str], str]) -> dict[object, object]:
    """The stages below, and below these, by rules, iterations of pairs and fusion."""
    return {
        (names.get(s.rules, "more"), s.k_multi, s.fusing): shapes(stages, s, names)
        for s in stages.below(stage)
    }


def test_each_stage_has_one_thing_more_than_those_below() -> None:
    standard, more = pack("standard"), {r.name: r for p in ("inference", "pairs") for r in pack(p)}
    stages = Stages(tuple(more.values()), Limits(k_multi=2), fusing=True)
    names = {
        frozenset(r.name for r in standard): "standard",
        frozenset(n for n, r in more.items() if r.kind != "multi"): "no pairs",
    }
    base = {("standard", 0, False): {}}
    plain = {("no pairs", 0, False): base, **base}
    assert shapes(stages, stages.whole, names)["more", 2, False] == {("more", 1, False): plain, **base}
    assert set(shapes(stages, stages.whole, names)) == {
        ("more", 2, False),
        ("more", 1, True),
        ("standard", 0, True),
    }


@pytest.mark.parametrize(("packs", "k_multi"), [((), 1), (("taso",), 0), (("standard",), None)])
def test_nothing_is_below_rules_of_one_kind(packs: tuple[str, ...], k_multi: int | None) -> None:
    rules = tuple(r for name in packs for r in pack(name) if r.kind != "multi")
    stages = Stages(rules, Limits(k_multi=k_multi), fusing=False)
    below = stages.below(stages.whole)
    assert all(s.rules < stages.whole.rules for s in below)
    if packs != ("taso",):
        assert not below


def test_unlimited_pairs_stand_above_one_iteration() -> None:
    stages = Stages(pack("pairs"), Limits(k_multi=None), fusing=False)
    assert 1 in {s.k_multi for s in stages.below(stages.whole)}


@pytest.mark.parametrize("body", [gru(1, 64, 2), drawn(3), drawn(11)])
def test_an_engine_forgets_what_it_explored(body: str) -> None:
    graph, rules = graph_of(body), (*pack("standard"), *(r for r in pack("pairs") if r.kind == "multi"))
    limits, names = Limits(nodes=1500), frozenset(r.name for r in rules)
    some = frozenset(r.name for r in pack("standard"))
    estimate = CostModel(library().ops, load_device("h100")).estimate
    with exploring(graph, library().ops, rules, limits, estimate=estimate) as worker:
        first = worker.run()
        fewer = worker.run(Start(graph, some, limits))
        again = worker.run(Start(graph, names, limits))
    with exploring(graph, library().ops, pack("standard"), limits, estimate=estimate) as worker:
        alone = worker.run()
    for a, b in ((first, again), (fewer, alone)):
        assert a.egraph.keys() == b.egraph.keys()
        assert (a.egraph.origin, a.handles, a.stop) == (b.egraph.origin, b.handles, b.stop)
        assert [i.nodes for i in a.iterations] == [i.nodes for i in b.iterations]


@pytest.mark.parametrize("seed", [2, 5, 7, 12])
def test_more_rules_grow_the_e_graph_that_is_there(seed: int) -> None:
    """What they find is what they would find by themselves; if that is nothing, the e-graph is the same."""
    graph, rules = graph_of(drawn(seed)), tuple(r for r in pack("standard") if r.kind == "single")
    names = [r.name for r in rules]
    limits = Limits(nodes=20_000, iterations=100, k_multi=0)
    starts = [Start(graph, frozenset(some), limits) for some in (names[::2], names[: len(names) // 2], names)]
    half, other, whole = starts
    with exploring(graph, library().ops, rules, limits) as worker:
        first = worker.run(half)
        assert first.stop == "saturated"
        assert not worker.goes_on(other), "it has not all rules of the first"
        grown = worker.run(whole) if worker.goes_on(whole) else None
        again = worker.run(whole)
        alone = worker.run(other)
    with exploring(graph, library().ops, rules, limits) as worker:
        wanted, fresh = worker.run(whole), worker.run(other)
    assert grown is not None
    assert (grown.stop, wanted.stop) == ("saturated", "saturated")
    assert (grown.egraph.num_nodes, grown.egraph.num_classes) == (
        wanted.egraph.num_nodes,
        wanted.egraph.num_classes,
    )
    assert grown.iterations[: len(first.iterations)] == first.iterations
    assert again.egraph is grown.egraph
    assert alone.egraph.keys() == fresh.egraph.keys()


@pytest.mark.parametrize("more", [Limits(k_multi=1), Limits(k_multi=0, nodes=9), Limits(k_multi=0)])
def test_what_goes_beyond_a_start(more: Limits) -> None:
    graph = graph_of(drawn(3))
    few = Start(graph, frozenset("a"), Limits(k_multi=0))
    many = Start(graph, frozenset("ab"), more)
    assert many.goes_beyond(few) == (more.nodes == few.limits.nodes)
    assert not few.goes_beyond(many)
    assert not Start(graph_of(drawn(3)), many.rules, more).goes_beyond(few), "another graph"
    pairs = Start(graph, frozenset("ab"), Limits(k_multi=1))
    assert not Start(graph, frozenset("abc"), Limits(k_multi=1)).goes_beyond(pairs)
    assert Start(graph, frozenset("ab"), Limits(k_multi=1)).goes_beyond(pairs)


@pytest.mark.parametrize("body", [gru(1, 64, 2), drawn(5), drawn(7)])
def test_rules_that_are_left_out_never_match(body: str) -> None:
    graph, rules = graph_of(body), tuple(r for r in library().rules if r.kind != "group")
    some = reachable(rules, {n.op for n in graph.nodes})
    assert 0 < len(some) < len(rules)
    assert some == tuple(r for r in rules if r in some)
    limits = Limits(nodes=800)
    found = []
    for allowed in (rules, some):
        with exploring(graph, library().ops, allowed, limits) as worker:
            found.append(worker.run())
    whole, fewer = found
    assert {s.rule for i in whole.iterations for s in i.rules} <= {r.name for r in some}
    assert whole.egraph.keys() == fewer.egraph.keys()
    assert (whole.egraph.origin, whole.handles, whole.stop) == (
        fewer.egraph.origin,
        fewer.handles,
        fewer.stop,
    )


def test_what_clears_an_engine_is_declared_before_another_graph_is_asked_for() -> None:
    """The parent extracts meanwhile."""
    first, second = graph_of(drawn(3)), graph_of(drawn(11))
    rules, limits = pack("standard"), Limits(nodes=1500)
    names = frozenset(r.name for r in rules)
    declared: list[tuple[str, str]] = []  #: the rules that clear, and when
    when = "first"
    written = EgglogRule.__str__

    def noted(rule: EgglogRule) -> str:
        if rule.ruleset == "clear":
            declared.append((rule.name, when))
        return written(rule)

    def requests() -> Iterator[Start]:
        nonlocal when
        yield Start(first, names, limits)
        when = "asked"
        yield Start(second, names, limits)

    with patch.object(EgglogRule, "__str__", noted):
        for _ in explore(requests(), first, tuple(library().ops.values()), rules, limits, None):
            when = "second" if when == "asked" else when
    assert when == "second"
    assert len({name for name, _ in declared}) == len(declared) > 20
    assert {when for _, when in declared} == {"first", "second"}
