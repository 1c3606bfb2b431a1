from __future__ import annotations

import random

import pytest

from tensat_dl.extract.api import extract

from .builders import brute_force, egraph, random_egraph


@pytest.mark.parametrize("method", ["greedy", "greedy-dag"])
@pytest.mark.parametrize("seed", range(60))
def test_valid_and_not_below_the_optimum(method: str, seed: int) -> None:
    rng = random.Random(seed)
    graph = random_egraph(rng, rng.randint(1, 10), 4, 0.4)
    found = extract(graph, method)  # which checks completeness and acyclicity
    optimum = brute_force(graph)
    assert optimum is not None
    assert found.cost >= optimum - 1e-9
    assert found.bound <= optimum + 1e-9


@pytest.mark.parametrize("method", ["greedy", "greedy-dag"])
def test_zero_cost_cycles(method: str) -> None:
    graph = egraph([[(0.0, [1]), (3.0, [])], [(0.0, [0]), (4.0, [])], [(0.0, [0, 1])]], [2])
    found = extract(graph, method)
    assert found.cost == 3.0
    assert found.choices == {0: 1, 1: 2, 2: 4}


def test_trees_too_costly_for_a_float() -> None:
    """2,000 classes, each using the one before twice: the tree costs 2 ** 2000."""
    chain = [[(1.0, [])], *([(1.0, [c]), (1.0, [c, c])] for c in range(2000))]
    doubling = [[(1.0, [])], [(1.0, [0])]]
    for c in range(2, 2000):
        doubling.append([(1.0, [c - 1, c - 2])])
    assert extract(egraph(chain, [2000]), "greedy").cost == 2001.0
    assert extract(egraph(doubling, [1999]), "greedy").cost == 2000.0
