"""E-classes by layout: what an answer costs is what its graph costs, whatever else the e-graph has."""

from __future__ import annotations

import pytest

from tensat_dl.core.egraph import COPY
from tensat_dl.cost import CostModel, load_device
from tensat_dl.extract.api import extract
from tensat_dl.extract.rebuild import rebuild
from tensat_dl.run.search import enodes
from tests.explore.graphs import explored, graph_of, library, pack
from tests.run.graphs import drawn

from .builders import Builder, table, toy

MODEL = CostModel(table(), toy())


def cheapest(b: Builder, *roots: int) -> float:
    priced = MODEL.price(b.egraph(*roots))[0]
    return extract(MODEL.by_layout(priced)).cost


def sliced_product() -> tuple[Builder, int]:
    """Columns of a wide product, which costs 2049."""
    b = Builder()
    wide = b.op("dropout", b.op("matmul", b.input(4, 8), b.weight(8, 32)))
    return b, b.op("slice", wide, axis=1, start=0, stop=16)


def test_a_consumer_that_the_answer_does_without_makes_no_copy() -> None:
    b, columns = sliced_product()
    out = b.op("relu", columns)
    alone = cheapest(b, out)
    flat = b.op("reshape", columns, shape=(64,))
    b.also(out, "reshape", b.op("relu", flat), shape=(4, 16))
    assert extract(MODEL.price(b.egraph(out))[0]).cost > alone
    assert cheapest(b, out) == pytest.approx(alone)


def test_consumers_in_several_layouts_share_a_copy() -> None:
    b, columns = sliced_product()
    halves = b.op("relu", b.op("reshape", columns, shape=(8, 8)))
    flat = b.op("relu", b.op("reshape", columns, shape=(64,)))
    strided = b.op("relu", columns)
    b.also(columns, "matmul", b.input(4, 800), b.weight(800, 16))  # dearer
    roots = halves, flat, strided, columns
    layouts = MODEL.by_layout(MODEL.price(b.egraph(*roots))[0])
    answer = extract(layouts)
    assert (
        sorted(layouts.home.tolist()).count(columns) == 5
    )  # three layouts, the product, the price of a copy
    assert [layouts.op[n] for n in answer.choices.values()].count(COPY) == 1
    assert answer.cost == pytest.approx(2049 + 4 * 513)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(12))
def test_an_answer_costs_what_its_graph_costs(seed: int) -> None:
    graph, model = graph_of(drawn(seed)), CostModel(library().ops, load_device("h100"))
    egraph = explored(graph, pack("standard"))
    layouts = model.by_layout(model.price(egraph)[0])
    answer = extract(layouts, known=[enodes(graph, layouts)])
    after, _ = rebuild(layouts, answer, graph)
    assert answer.cost == pytest.approx(model.price_graph(after).total)
    assert answer.cost <= model.price_graph(graph).total * (1 + 1e-9)
