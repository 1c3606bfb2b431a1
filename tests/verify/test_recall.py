"""Values of the first graph that are not computed again for the second."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tensat_dl.core.graph import Graph
from tensat_dl.ops.semantics import SEMANTICS, semantics_of
from tensat_dl.verify import equivalence
from tensat_dl.verify.equivalence import compare, expected
from tensat_dl.verify.recall import Recall
from tests.explore.graphs import graph_of, library

from .making import Maker

OPS = library().ops


def counting(counts: Counter[str]) -> dict[str, Any]:
    """The semantics; the calls of each operator are counted."""

    def counted(op: str, function: Any) -> Any:
        def call(*operands: Any, **attrs: Any) -> Any:
            counts[op] += 1
            return function(*operands, **attrs)

        return call

    return {op: counted(op, function) for op, function in SEMANTICS.items()}


def layers(last: str) -> Graph:
    m = Maker()
    x, v, w = m.input("x", 4, 8), m.weight("v", 8, 8), m.weight("w", 8, 8)
    y = m.op("matmul", m.op("matmul", x, v, act="none"), w, act="none")
    return m.graph(y=m.op(last, y))


def test_operators_on_equal_arrays_are_computed_once() -> None:
    counts: Counter[str] = Counter()
    found = compare(layers("tanh"), layers("tanh"), counting(counts))
    assert found.status == "equivalent"
    assert counts == {"matmul": 2, "tanh": 1}


def test_what_comes_after_a_difference_is_computed() -> None:
    counts: Counter[str] = Counter()
    found = compare(layers("tanh"), layers("relu"), counting(counts))
    assert found.status == "different"
    assert counts == {"matmul": 2, "tanh": 1, "relu": 1}


def test_a_product_is_known_without_its_activation(monkeypatch: pytest.MonkeyPatch) -> None:
    products: list[Any] = []
    product = np.matmul

    def matmul(x: Any, y: Any, act: str) -> Any:
        products.append(act)
        out = product(x, y)
        return out if act == "none" else np.maximum(out, 0)

    semantics = {**SEMANTICS, "matmul": matmul}
    monkeypatch.setattr("tensat_dl.verify.recall.SEMANTICS", semantics)
    m, n = Maker(), Maker()
    x, w = m.input("x", 4, 8), m.weight("w", 8, 8)
    apart = m.graph(y=m.op("tanh", m.op("relu", m.op("matmul", x, w, act="none"))))
    x, w = n.input("x", 4, 8), n.weight("w", 8, 8)
    fused = n.graph(y=n.op("tanh", n.op("matmul", x, w, act="relu")))
    assert compare(apart, fused, semantics).status == "equivalent"
    assert products == ["none"]


def test_only_arrays_that_are_equal_bit_by_bit_count_as_the_same() -> None:
    recall = Recall()
    plus, minus = np.zeros(3), -np.zeros(3)
    learned = recall.learning({"give": lambda x: x, "inverse": lambda x: np.asarray(1.0, x.dtype) / x})
    with np.errstate(divide="ignore"):
        learned["inverse"](learned["give"](plus))
        recalled = recall.recalling({"give": lambda x: x, "inverse": lambda x: 1.0 / x})
        assert recalled["inverse"](recalled["give"](minus))[0] == -np.inf
        assert recalled["inverse"](recalled["give"](np.zeros(3)))[0] == np.inf


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("relu(x @ w)", "matmul(x, w; act = relu)"),
        ("tanh(x @ w) + x", "x + tanh(x @ w)"),
        ("x * 2.0", "x * 3.0"),
    ],
)
def test_verdicts_are_those_without_recall(before: str, after: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "input x : f32[8, 8]\nweight w : f32[8, 8]\noutput z = "
    b, a = graph_of(text + before), graph_of(text + after)
    recalled = compare(b, a, semantics_of(OPS))
    monkeypatch.setattr(equivalence, "RECALLED_SHARE", 0.0)
    monkeypatch.setattr(equivalence, "available_memory", lambda: 2**30)
    assert expected(b, semantics_of(OPS), 0).recall is None
    assert replace(compare(b, a, semantics_of(OPS)), seconds=0.0) == replace(recalled, seconds=0.0)
