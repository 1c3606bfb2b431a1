"""Detours: what an e-node adds to a bound, as seen in every answer that has it."""

from __future__ import annotations

import math
import random

import pytest

from tensat_dl.core.egraph import EGraph
from tensat_dl.extract.ascent import Ascent
from tensat_dl.extract.budget import Budget, ExtractLimits
from tensat_dl.extract.problem import from_egraph
from tensat_dl.extract.reduce import detours

from .builders import Spec, derivations, egraph, price, random_egraph, tangled_egraph


def added(classes: list[list[Spec]], roots: list[int]) -> dict[int, float]:
    """At the e-nodes' own prices."""
    problem = from_egraph(egraph(classes, roots))
    return detours(problem, problem.roots, problem.cost.__getitem__)


def some_egraph(seed: int) -> EGraph:
    rng = random.Random(seed)
    return random_egraph(rng, 8, 3, 0.4) if seed % 2 else tangled_egraph(rng, 8)


def test_no_answer_with_an_e_node_costs_less() -> None:
    further = 0
    for seed in range(300):
        graph = some_egraph(seed)
        problem = from_egraph(graph)
        answers = [(set(a.values()), price(graph, a)) for a in derivations(graph)]
        most = max(cost for _, cost in answers)
        found = Ascent(problem, problem.roots).run(
            problem.cost.__getitem__, most or 1.0, Budget.of(ExtractLimits(work=math.inf))
        )
        least = detours(problem, problem.roots, found.reduced_cost)
        for answer, cost in answers:
            assert found.bound + max((least[n] for n in answer), default=0.0) <= cost + 1e-9 * most
            further += sum(least[n] > found.reduced_cost(n) for n in answer)
    assert further > 1000


def test_a_way_through_an_e_node_goes_up_and_down() -> None:
    """The root takes class 1 for nothing, or class 2 for 3, which takes class 3 for 4."""
    least = added([[(0.0, [1]), (3.0, [2])], [(1.0, [])], [(4.0, [3])], [(5.0, []), (7.0, [])]], [0])
    assert least == {0: 1.0, 1: 12.0, 2: 1.0, 3: 12.0, 4: 12.0, 5: 14.0}


def test_the_dearest_child_counts_and_the_cheapest_user() -> None:
    classes: list[list[Spec]] = [
        [(1.0, [1]), (2.0, [1])],
        [(0.0, [2, 3])],
        [(6.0, [])],
        [(8.0, []), (9.0, [])],
    ]
    assert added(classes, [0]) == {0: 9.0, 1: 10.0, 2: 9.0, 3: 7.0, 4: 9.0, 5: 10.0}


def test_what_every_answer_has_needs_no_way_to_it() -> None:
    problem = from_egraph(egraph([[(5.0, [1])], [(1.0, []), (2.0, [])]], [0]))
    assert detours(problem, [0, 1], problem.cost.__getitem__) == {0: 6.0, 1: 1.0, 2: 2.0}


@pytest.mark.parametrize("roots", [[0], [0, 1]])
def test_an_e_node_that_has_to_wait_for_its_own_class_is_in_no_answer(roots: list[int]) -> None:
    """Class 1 can be had from class 2 alone, or from class 2 by way of class 1."""
    problem = from_egraph(egraph([[(0.0, [1])], [(1.0, [2]), (1.0, [3])], [(1.0, [])], [(1.0, [1])]], roots))
    least = detours(problem, problem.roots, problem.cost.__getitem__)
    assert least[1] == 2.0
    assert least[2] == 4.0
