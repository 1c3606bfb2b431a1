"""The two guarantees of a search: its own answer can't be improved by another, and more is never worse."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensat_dl
from tensat_dl import Model
from tensat_dl.core.egraph import EGraph
from tensat_dl.core.graph import Graph
from tensat_dl.cost import CostModel, PricedGraph
from tensat_dl.engine.exploration import Feedback
from tensat_dl.engine.explore import Exploring
from tensat_dl.extract.api import extract
from tensat_dl.extract.budget import WORK, ExtractLimits
from tensat_dl.extract.extraction import Extraction
from tensat_dl.lang.rules import compositions
from tensat_dl.run.result import Result
from tensat_dl.run.search import EXTRACTIONS, OTHER_WORK
from tests.cli.running import EXAMPLES
from tests.run.graphs import drawn, gru

#: Relative difference of costs below which nothing was gained.
SAME = 1e-9
#: Random graphs; each takes seconds.
RANDOM = range(25)
#: The share of its time that an extraction takes that proves nothing.
USED = 0.9

pytestmark = pytest.mark.sampled(3)


def optimized(model: Model, **options: object) -> Result:
    return tensat_dl.optimize(model, verify=False, **options)  # type: ignore[arg-type]


def written(model: Model, result: Result) -> Model:
    """The answer as a model, with the fused operators that it declares, as if it had been written and read."""
    used = {node.op for node in result.after.graph.nodes}
    own = {name: d for name, d in result.declared.items() if name in used}
    made = model.with_operators(own)
    rules = (*model.rules, *compositions((d.decl for d in own.values()), made.ops))
    return replace(made, graph=result.after.graph, program=replace(made.program, rules=rules))


@cache
def standard(body: str, *packs: str) -> Model:
    """A graph with the rules of ``standard`` and of other packs."""
    return tensat_dl.load(text=f"graph g {{\n{body}\n}}\n", rules=["standard", *packs])


def check_fixpoint(model: Model, fuse: bool) -> Result:
    first = optimized(model, fuse=fuse)
    assert not first.rounds.ended
    second = optimized(written(model, first), fuse=fuse)
    assert second.before.total == pytest.approx(first.after.total, rel=SAME)
    assert second.after.total >= first.after.total * (1 - SAME)
    assert second.rounds.gained == 0
    return first


@pytest.mark.sampled(8)
@pytest.mark.parametrize("fuse", [False, True])
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.tsr")), ids=lambda p: p.stem)
def test_an_answer_of_an_example_is_not_improved_again(path: Path, fuse: bool) -> None:
    check_fixpoint(tensat_dl.load(str(path)), fuse)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("fuse", [False, True])
@pytest.mark.parametrize("seed", RANDOM)
def test_an_answer_of_a_random_graph_is_not_improved_again(seed: int, fuse: bool) -> None:
    check_fixpoint(standard(drawn(seed)), fuse)


#: What is added, and to what: packs, fusion, iterations of pairs, e-nodes.
MORE: dict[
    str, tuple[tuple[tuple[str, ...], dict[str, object]], tuple[tuple[str, ...], dict[str, object]]]
] = {
    "fusion": (((), {}), ((), {"fuse": True})),
    "a pack": (((), {}), (("inference",), {})),
    "a pack, with fusion": (((), {"fuse": True}), (("inference",), {"fuse": True})),
    "fusion, with a pack": ((("inference",), {}), (("inference",), {"fuse": True})),
    "pairs": (((), {"max_nodes": 2000}), (("pairs",), {"max_nodes": 2000})),
    "iterations of pairs": (
        (("pairs",), {"max_nodes": 2000, "k_multi": 1}),
        (("pairs",), {"max_nodes": 2000, "k_multi": 2}),
    ),
}


def check_more(body: str, what: str) -> None:
    costs = []
    for packs, options in MORE[what]:
        costs.append(optimized(standard(body, *packs), **options).after.total)
    less, more = costs
    assert more <= less * (1 + SAME)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("what", MORE)
@pytest.mark.parametrize("seed", RANDOM[:8])
def test_more_is_never_worse_on_a_random_graph(seed: int, what: str) -> None:
    check_more(drawn(seed), what)


@pytest.mark.thorough
@pytest.mark.parametrize("what", [w for w in MORE if "pairs" not in w])
def test_more_is_never_worse_on_a_recurrent_network(what: str) -> None:
    check_more(gru(1, 256), what)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("batch", "width"), [(1, 256), (8, 256), (32, 512)])
def test_products_of_one_merge_are_merged(batch: int, width: int) -> None:
    """The inputs of all steps are multiplied by the weights of each gate at once, and the gates' products are merged
    in the round after: all of that is one product."""
    result = check_fixpoint(standard(gru(batch, width)), fuse=True)
    assert result.rounds.gained == 2
    graph = result.after.graph
    inputs = {i for i in graph.inputs if graph.nodes[i].attr("name") != "h"}
    (joined,) = (i for i, n in enumerate(graph.nodes) if n.op == "concat" and inputs == set(n.inputs))
    (product,) = (n for n in graph.nodes if n.op == "matmul" and n.inputs[0] == joined)
    assert product.type.shape == (4 * batch, 3 * width)


def test_a_limit_in_refinement_is_the_end_of_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    def overrun(self: Exploring, feedback: Feedback) -> None:
        self._messages.ended = "time"
        self._worker.end()

    monkeypatch.setattr(Exploring, "refine", overrun)
    result = optimized(standard(gru(1, 256)))
    assert result.rounds.gained == 1
    assert result.rounds.ended == "the time limit ended the search"


CONVOLUTION = """
  input x : f32[1, 8, 16, 16]
  weight w : f32[8, 8, 3, 3]
  weight b : f32[8, 1, 1]
  output relu(conv2d(x, w) + b)
"""


def test_rules_that_find_nothing_need_no_other_extraction(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pack ``mirror`` has nothing for a convolution: its rounds have the e-graphs of those without it."""
    extracted: list[EGraph] = []

    def counting(egraph: EGraph, *given: Any, **more: Any) -> Extraction:
        extracted.append(egraph)
        return extract(egraph, *given, **more)

    monkeypatch.setattr("tensat_dl.run.search.extract", counting)
    fewer = optimized(standard(CONVOLUTION))
    alone = len(extracted)
    result = optimized(standard(CONVOLUTION, "mirror"))
    assert len(extracted) == 2 * alone, "one for each e-graph"
    assert len(result.rounds.stops) == 2 * len(fewer.rounds.stops)
    assert result.after.total == pytest.approx(fewer.after.total, rel=SAME)


def _unproven(monkeypatch: pytest.MonkeyPatch, worse: int = 0) -> list[float]:
    """Extractions take most of their time and prove nothing; as many as are to be ``worse`` find the input alone.
    Returns their seconds."""
    seconds: list[float] = []

    def long(egraph: EGraph, *given: Any, limits: ExtractLimits, **more: Any) -> Extraction:
        assert limits.seconds is not None
        if limits.work == OTHER_WORK:  # for feedback
            return replace(extract(egraph, *given, limits=limits, **more), seconds=0.0)
        seconds.append(limits.seconds)
        cost = egraph.cost.copy()
        if len(seconds) <= worse:
            cost[~np.isin(np.arange(len(cost)), egraph.source)] += 1.0
        found = extract(replace(egraph, cost=cost), *given, **more)
        return replace(found, status="feasible", seconds=USED * limits.seconds)

    monkeypatch.setattr("tensat_dl.run.search.extract", long)
    return seconds


@pytest.mark.thorough
def test_a_long_extraction_leaves_time_for_further_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = optimized(standard(gru(1, 256)), fuse=True)
    seconds = _unproven(monkeypatch)
    result = optimized(standard(gru(1, 256)), fuse=True, extract_time_limit=1000.0)
    assert result.rounds.gained == wanted.rounds.gained == 2
    assert result.after.total == pytest.approx(wanted.after.total, rel=SAME)
    assert seconds[0] == 500.0
    assert seconds[-1] == pytest.approx(1000.0 - USED * sum(seconds[:-1])), "all that the rounds left"


@pytest.mark.thorough
def test_all_extractions_together_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten of them that prove nothing would take ten times as long as one."""
    allowed: list[float] = []

    def hard(egraph: EGraph, *given: Any, limits: ExtractLimits, **more: Any) -> Extraction:
        allowed.append(limits.most_work)
        found = extract(egraph, *given, limits=limits, **more)
        return replace(found, status="feasible", work=limits.most_work)

    monkeypatch.setattr("tensat_dl.run.search.extract", hard)
    result = optimized(standard(gru(1, 256)), fuse=True)
    assert result.after.total < result.before.total
    assert len(allowed) > EXTRACTIONS
    assert max(allowed) == WORK
    assert sum(allowed) < EXTRACTIONS * WORK
    assert allowed[-1] > 0


def test_rounds_go_on_from_what_the_last_extraction_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = optimized(standard(gru(1, 256)))
    seconds = _unproven(monkeypatch, worse=2)
    result = optimized(standard(gru(1, 256)), extract_time_limit=1000.0)
    assert result.after.total == pytest.approx(wanted.after.total, rel=SAME)
    found_nothing, last = seconds[:2], seconds[2]
    assert last == pytest.approx(1000.0 - USED * sum(found_nothing)), "all that the first round left"
    assert len(seconds) > 3


@pytest.mark.parametrize("fuse", [False, True])
def test_a_form_that_the_answer_does_without_makes_no_view_dearer(fuse: bool) -> None:
    """Where the activation comes after the reshape, a slice of a merged product would have to be copied. It comes
    before in the answer, but the e-graph has both."""
    result = check_fixpoint(
        standard("""
  input x : f32[16, 64]
  weight a : f32[64, 64]
  weight b : f32[64, 64]
  r = silu(reshape(x @ a; shape = [1024]))
  s = silu(reshape(x @ b; shape = [1024]))
  output r, s
"""),
        fuse,
    )
    assert result.after.graph.count()["matmul"] == 1
    assert result.extraction.cost == pytest.approx(result.after.total)


def test_a_search_prices_a_graph_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds compare the same few graphs again and again."""
    priced: list[Graph] = []
    price = CostModel.price_graph

    def counted(model: CostModel, graph: Graph) -> PricedGraph:
        priced.append(graph)
        return price(model, graph)

    monkeypatch.setattr(CostModel, "price_graph", counted)
    model = tensat_dl.load(text=f"graph g {{\n{gru(1, 64)}\n}}\n", rules=["standard"])
    result = optimized(model)
    assert result.after.total < result.before.total
    assert len({id(graph) for graph in priced}) == len(priced)
    assert len({(graph.nodes, graph.outputs) for graph in priced}) > 1
