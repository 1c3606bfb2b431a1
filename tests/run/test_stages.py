"""The stages of a search: which there are, and that an engine explores the same whatever it explored before."""

from __future__ import annotations

import pytest

from tensat_dl.cost import CostModel, load_device
from tensat_dl.engine.exploration import Limits, Start
from tensat_dl.engine.explore import exploring
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
