"""Whoever computes ahead is told of answers while a search goes on."""

from __future__ import annotations

import pytest

import tensat_dl
from tensat_dl.core.graph import Graph
from tensat_dl.core.progress import Progress
from tensat_dl.ops.table import OpTable
from tensat_dl.run.beginning import Setup, beginning
from tensat_dl.run.options import Options
from tensat_dl.run.rounds import search
from tests.run.graphs import gru


@pytest.mark.parametrize("fuse", [False, True])
def test_each_answer_that_is_told_of_costs_less(fuse: bool) -> None:
    model = tensat_dl.load(text=f"graph g {{\n{gru(1, 64)}\n}}\n", rules=["standard"])
    setup = Setup.of(Options(fuse=fuse), model.graph, model.rules, model.ops)
    told: list[tuple[Graph, OpTable]] = []
    with beginning(model.graph, model.rules, setup, Progress()) as begun:
        found = search(begun, setup, Progress(), answered=lambda graph, ops: told.append((graph, ops)))
    last, ops = told[-1]
    assert (last.nodes, last.outputs) == (found.answer.graph.nodes, found.answer.graph.outputs)
    assert all(node.op in ops or node.op in ("input", "weight", "proj") for node in last.nodes)
    costs = [found.search.model.price_graph(graph).total for graph, _ in told]
    assert costs == sorted(set(costs), reverse=True)
    assert costs[-1] < setup.model.price_graph(model.graph).total
