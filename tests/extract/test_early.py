"""Extraction that starts from an older part of the e-graph."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from tensat_dl.core.egraph import EGraph
from tensat_dl.extract import api
from tensat_dl.extract.api import extract
from tensat_dl.extract.budget import Budget, ExtractLimits
from tensat_dl.extract.exact import Solved
from tensat_dl.extract.incumbent import Incumbent, source_nodes
from tensat_dl.extract.problem import from_egraph

from .builders import brute_force, random_egraph


def part(graph: EGraph, early: int) -> EGraph:
    """The e-graph in which what needs later e-classes costs too much to be taken."""
    late = np.array(
        [c >= early or any(d >= early for d in graph.children_of(n)) for n, c in enumerate(graph.node_class)]
    )
    return replace(graph, cost=np.where(late, 1e6, graph.cost))


@pytest.mark.parametrize("seed", range(60))
def test_the_start_is_the_optimum_of_the_older_part(seed: int) -> None:
    rng = random.Random(seed)
    graph = random_egraph(rng, rng.randint(3, 10), 4, 0.3)
    early = rng.randint(1, graph.num_classes)
    graph = replace(graph, roots=tuple({min(r, early - 1) for r in graph.roots}))
    problem = from_egraph(graph)
    best = Incumbent(problem)
    api._start_early(early, problem, best, source_nodes(graph), Budget.of(ExtractLimits()), Solved())
    if best.choice:
        assert all(c < early for c in best.choice)
        assert best.cost == pytest.approx(brute_force(part(graph, early)))
    else:  # there was nothing to leave out
        assert extract(graph).cost == pytest.approx(brute_force(part(graph, early)))
    assert extract(graph, early=early).cost == pytest.approx(brute_force(graph))


def test_no_part_is_solved_without_the_roots() -> None:
    graph = replace(random_egraph(random.Random(1), 8, 3, 0.2), roots=(7,))
    assert extract(graph, early=3).cost == pytest.approx(brute_force(graph))
