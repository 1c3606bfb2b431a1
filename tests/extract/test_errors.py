from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tensat_dl.extract import extraction
from tensat_dl.extract.api import extract
from tensat_dl.extract.extraction import (
    CyclicEGraphError,
    Extraction,
    ExtractionCheckError,
    ExtractionError,
    check,
)

from .builders import egraph


@pytest.mark.parametrize("cost", [-1.0, float("nan"), float("inf")])
def test_bad_costs(cost: float) -> None:
    with pytest.raises(ExtractionError, match=r"e-node 1 \(op1\) has cost .*finite and not negative"):
        extract(egraph([[(0.0, []), (cost, [])]], [0]))
    free = egraph([[(cost, [])], [(1.0, [0])]], [1], weights_only=[0])
    assert extract(free).cost == 1.0


@pytest.mark.parametrize("cost", [1e-310, 1e308])
def test_costs_out_of_range(cost: float) -> None:
    message = (
        r"e-node 1 \(op1\) has cost .*: costs other than 0 must be from 1e-200 to 1e\+200 \(2 such e-nodes\)"
    )
    with pytest.raises(ExtractionError, match=message):
        extract(egraph([[(0.0, []), (cost, [])], [(cost, [0])]], [1]))


def test_unpriced() -> None:
    graph = dataclasses.replace(egraph([[(0.0, [])]], [0]), cost=np.full(1, np.nan))
    with pytest.raises(ValueError, match="has cost nan"):
        extract(graph)


@pytest.mark.parametrize("method", ["exact", "ilp-int", "greedy"])
def test_no_derivation(method: str) -> None:
    with pytest.raises(ExtractionError, match="root e-class 0 has no finite derivation"):
        extract(egraph([[(1.0, [1])], [(1.0, [0])]], [0]), method)
    with pytest.raises(ExtractionError, match="root e-class 1 has no finite derivation"):
        extract(egraph([[(1.0, [])], []], [0, 1]), method)


def test_messages_can_name_e_classes() -> None:
    with pytest.raises(ExtractionError, match="root e-class 0 has") as raised:
        extract(egraph([[(1.0, [0])]], [0]))
    assert raised.value.naming(["{x}"]).startswith("root e-class {x} has no finite derivation: ")
    assert ExtractionError("as {it} is").naming([]) == "as {it} is"


def test_messages_can_name_e_nodes() -> None:
    graph = egraph([[(1.0, []), (1e-300, [])]], [0])
    graph = dataclasses.replace(graph, op=("f", "{g}"))
    with pytest.raises(ExtractionError, match=r"e-node 1 \({g}\) has cost") as raised:
        extract(graph)
    assert raised.value.naming([], ["a", "{b}"]).startswith("e-node {b} ({g}) has cost 1e-300: ")
    assert str(raised.value).endswith("(1 such e-node)")


def test_unknown_method() -> None:
    with pytest.raises(ExtractionError, match="unknown extraction method 'best': use one of exact, ilp-real"):
        extract(egraph([[(1.0, [])]], [0]), "best")


def test_a_method_that_is_named_but_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extraction, "METHODS", (*extraction.METHODS, "best"))
    with pytest.raises(ExtractionError, match=r"tensat_dl/extract/api\.py does not call the method best"):
        extract(egraph([[(1.0, [])]], [0]), "best")


def test_ilp_none_refuses_cycles() -> None:
    cyclic = egraph([[(1.0, [1]), (3.0, [])], [(1.0, [0]), (3.0, [])], [(0.0, [0, 1])]], [2])
    with pytest.raises(CyclicEGraphError, match="e-class 0 and 1 other can depend on one another"):
        extract(cyclic, "ilp-none")
    # A cycle that the roots do not reach, or that nothing derives, is no obstacle.
    assert extract(egraph([[(1.0, [])], [(1.0, [2])], [(1.0, [1])]], [0]), "ilp-none").cost == 1.0


GRAPH = egraph([[(1.0, [])], [(2.0, [0]), (5.0, [1])], [(0.0, [])]], [1])


def made(choices: dict[int, int], cost: float, bound: float, optimal: bool = False) -> Extraction:
    return Extraction(choices, cost, bound, "optimal" if optimal else "feasible", "test", 0.0)


def test_check_accepts() -> None:
    check(GRAPH, made({0: 0, 1: 1}, 3.0, 0.0))
    check(GRAPH, made({0: 0, 1: 1}, 3.0, 3.0, optimal=True))


@pytest.mark.parametrize(
    ("extraction", "message"),
    [
        (made({1: 1}, 3.0, 0.0), "e-class 0 is needed and has no e-node"),
        (made({0: 1, 1: 1}, 3.0, 0.0), "e-node 1 is not in e-class 0"),
        (made({1: 2}, 5.0, 0.0), "depends on itself"),
        (made({0: 0, 1: 1, 2: 3}, 3.0, 0.0), "e-class 2 is chosen and not needed"),
        (made({0: 0, 1: 1}, 2.0, 0.0), "the cost is 3.0, not 2.0"),
        (made({0: 0, 1: 1}, 3.0, 3.1), "above the cost"),
        (made({0: 0, 1: 1}, 3.0, 2.9, optimal=True), "called optimal"),
        (made({0: 0, 1: 1}, float("nan"), 0.0), "the cost is"),
    ],
)
def test_check_rejects(extraction: Extraction, message: str) -> None:
    with pytest.raises(ExtractionCheckError, match=message):
        check(GRAPH, extraction)
