from __future__ import annotations

import pytest

from tensat_dl.ops.semantics import SEMANTICS
from tensat_dl.verify import equivalence
from tensat_dl.verify.equivalence import compare
from tensat_dl.verify.execute import available_memory, memory_needed

from .making import Maker


def test_values_are_counted_while_they_live() -> None:
    m = Maker()
    x = m.input("x", 10, 10)
    a = m.op("relu", x)
    b = m.op("tanh", a)
    chain = m.graph(y=m.op("relu", b))
    assert memory_needed(chain) == 3 * 800  # the input, a value and the next one
    kept = m.graph(a=a, b=b)
    assert memory_needed(kept) == 3 * 800


def test_a_graph_that_does_not_fit_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    m = Maker()
    graph = m.graph(y=m.op("relu", m.input("x", 1024, 1024)))
    monkeypatch.setattr(equivalence, "available_memory", lambda: 2**23)
    found = compare(graph, graph, SEMANTICS)
    assert found.status == "inconclusive"
    assert "0.0 are free" in found.message
    monkeypatch.setattr(equivalence, "available_memory", lambda: 2**25)
    assert compare(graph, graph, SEMANTICS).status == "equivalent"


def test_there_is_some_memory() -> None:
    free = available_memory()
    assert free is None or free > 2**20
