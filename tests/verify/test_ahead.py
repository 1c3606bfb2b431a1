"""Graphs that are run ahead of their comparison: the first, and answers that a search goes on from."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tensat_dl.verify.ahead
from tensat_dl.core.graph import Graph, value_numbers
from tensat_dl.ops.semantics import SEMANTICS, semantics_of
from tensat_dl.verify.ahead import ahead
from tensat_dl.verify.equivalence import compare
from tensat_dl.verify.exact.run import compare_if_small, half_if_small
from tensat_dl.verify.execute import ExecutionError, execute
from tests.explore.graphs import graph_of, library

from .making import Maker
from .test_recall import counting, layers

OPS = library().ops
TEXT = "input x : f32[2, 4]\ninput y : f32[2, 4]\noutput z = "


def test_halves_computed_ahead_give_the_same_verdicts() -> None:
    b, a = graph_of(TEXT + "tanh((x + y) * x)"), graph_of(TEXT + "tanh(x * x + y * x)")
    with ahead(b, OPS, 0) as begun:
        assert begun is not None
        known, half, found = begun.expected(), begun.half(), begun.outputs(a, OPS)
    assert known is not None
    assert half is not None
    assert found is not None
    same = replace(compare(b, a, semantics_of(OPS)), seconds=0.0)
    assert replace(compare(b, a, semantics_of(OPS), known=known), seconds=0.0) == same
    assert replace(compare(b, a, semantics_of(OPS), known=known, found=found), seconds=0.0) == same
    assert compare_if_small(b, a, OPS, 0, half) == compare_if_small(b, a, OPS, 0)


def test_an_answer_that_is_wrong_is_found_out() -> None:
    b, a = graph_of(TEXT + "x + y"), graph_of(TEXT + "x - y")
    with ahead(b, OPS, 0) as begun:
        assert begun is not None
        begun.answered(b, OPS)
        known, found = begun.expected(), begun.outputs(a, OPS)
    assert found is not None
    assert compare(b, a, semantics_of(OPS), known=known, found=found).status == "different"


def test_a_graph_is_not_run_ahead_where_memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    with ahead(layers("tanh"), OPS, 0) as begun:
        assert begun is not None
        assert begun.expected() is not None
        monkeypatch.setattr("tensat_dl.verify.ahead.available_memory", lambda: 2**9)
        assert begun.outputs(layers("relu"), OPS) is None
    with ahead(layers("tanh"), OPS, 0) as begun:
        assert begun is None


def test_a_half_that_may_be_in_vain_is_not_computed() -> None:
    small = graph_of("input x : f32[8, 8]\noutput z = x @ x")
    large = graph_of("input x : f32[2048, 2048]\noutput z = x @ x")
    assert half_if_small(small, OPS, 0) is not None
    assert half_if_small(large, OPS, 0) is None


def test_an_answer_goes_on_from_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: Counter[str] = Counter()
    monkeypatch.setattr("tensat_dl.verify.ahead.semantics_of", lambda ops: counting(counts))
    first, second = graph_of(TEXT + "relu(x * y)"), graph_of(TEXT + "relu(x * y) - sigmoid(x)")
    with ahead(graph_of(TEXT + "x + y"), OPS, 0) as begun:
        assert begun is not None
        known = begun.expected()
        assert begun.outputs(first, OPS) is not None
        found = begun.outputs(second, OPS)
        assert known is not None
        assert found is not None
        assert counts == {"ewadd": 1, "ewmul": 1, "relu": 1, "ewsub": 1, "sigmoid": 1}
        expected = execute(second, known.values, SEMANTICS)
        np.testing.assert_array_equal(found, expected)
        assert begun.outputs(second, OPS) is not None
    assert counts["ewsub"] == 1


def test_an_answer_that_is_asked_for_again_is_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    begun_with: list[Graph] = []

    def noted(graph: Graph, *rest: Any) -> Any:
        begun_with.append(graph)
        return execute(graph, *rest)

    monkeypatch.setattr("tensat_dl.verify.ahead.execute", noted)
    first, second = graph_of(TEXT + "relu(x * y)"), graph_of(TEXT + "x * y")
    with ahead(graph_of(TEXT + "x + y"), OPS, 0) as begun:
        assert begun is not None
        for graph in (first, second):
            begun.answered(graph, OPS)
            assert begun.outputs(graph, OPS) is not None
    assert begun_with == [first, second]


@pytest.mark.parametrize("started", [False, True])
def test_an_interrupted_beginning_is_of_no_graph(started: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C comes before or after the thread of a run has started. What is asked for next is what it is of."""
    graph = graph_of(TEXT + "tanh((x + y) * x)")
    right, wrong = graph_of(TEXT + "tanh(x * x + y * x)"), graph_of(TEXT + "tanh(x - y)")
    begin = tensat_dl.verify.ahead.beside

    def interrupted(make: Any) -> Any:
        if started:
            begin(make)
        raise KeyboardInterrupt

    with ahead(graph, OPS, 0) as begun:
        assert begun is not None
        known = begun.expected()
        assert begun.outputs(right, OPS) is not None
        with monkeypatch.context() as here:
            here.setattr("tensat_dl.verify.ahead.beside", interrupted)
            with pytest.raises(KeyboardInterrupt):
                begun.answered(wrong, OPS)
        for after, status in ((wrong, "different"), (right, "equivalent")):
            found = begun.outputs(after, OPS)
            assert found is not None
            assert compare(graph, after, semantics_of(OPS), known=known, found=found).status == status


def test_an_answer_that_fails_does_not_hold_up_the_next() -> None:
    text = "input x : i32[4]\ninput y : i32[4]\noutput z = "
    fails, right = graph_of(text + "x / (y - y)"), graph_of(text + "x + y")
    with ahead(right, OPS, 0) as begun:
        assert begun is not None
        known = begun.expected()
        begun.answered(fails, OPS)
        assert begun.outputs(right, OPS) is not None
        found = begun.outputs(fails, OPS)
        assert found is None
    compared = compare(right, fails, semantics_of(OPS), known=known, found=found)
    assert "division by zero" in compared.message


# ---- known results -----------------------------------------------------------------------------------------


def chain() -> Graph:
    m = Maker()
    x = m.input("x", 4)
    return m.graph(y=m.op("exp", m.op("tanh", m.op("relu", x))), x=m.op("sigmoid", x))


def test_what_known_results_are_computed_from_is_not_computed() -> None:
    graph, counts = chain(), Counter[str]()
    at = {node.op: i for i, node in enumerate(graph.nodes)}
    computed: dict[int, tuple[Any, ...]] = {at["tanh"]: (np.zeros(4),), at["relu"]: (np.ones(4),)}
    y, x = execute(graph, {"x": np.zeros(4)}, counting(counts), computed=computed)
    assert counts == {"exp": 1, "sigmoid": 1}
    assert (y[0], x[0]) == (1.0, 0.5)
    assert computed.keys() == {at["exp"], at["sigmoid"]}


def test_what_is_alive_is_left_after_an_error() -> None:
    graph = chain()
    at = {node.op: i for i, node in enumerate(graph.nodes)}

    def fails(*_: Any) -> Any:
        raise ValueError("no")

    computed: dict[int, tuple[Any, ...]] = {}
    with pytest.raises(ExecutionError):
        execute(graph, {"x": np.zeros(4)}, {**SEMANTICS, "exp": fails}, computed=computed)
    assert computed.keys() == {at["input"], at["tanh"]}
    execute(graph, {"x": np.zeros(4)}, {**SEMANTICS, "relu": fails, "tanh": fails}, computed=computed)


def test_equal_terms_of_two_graphs_have_one_number() -> None:
    numbers: dict[Any, int] = {}
    one, other = (graph_of(TEXT + z) for z in ("relu(x * y)", "x + relu(x * y)"))
    assert set(value_numbers(one, numbers)) < set(value_numbers(other, numbers))
