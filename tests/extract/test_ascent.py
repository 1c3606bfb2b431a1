"""Dual ascent: its bounds and reduced costs hold for every answer, and its cuts are what holds a bound up."""

from __future__ import annotations

import math
import random

import pytest

from tensat_dl.core.egraph import EGraph
from tensat_dl.extract.ascent import Ascended, Ascent
from tensat_dl.extract.budget import Budget, ExtractLimits
from tensat_dl.extract.greedy import dag_greedy
from tensat_dl.extract.problem import Problem, from_egraph
from tensat_dl.extract.reduce import reduce

from .builders import Spec, derivations, egraph, layered_egraph, price, random_egraph, tangled_egraph


def ascend(problem: Problem, cost: float, work: float = math.inf) -> Ascended:
    ascent = Ascent(problem, problem.roots)
    return ascent.run(problem.cost.__getitem__, cost, Budget.of(ExtractLimits(work=work)))


def bound(classes: list[list[Spec]], roots: list[int], cost: float = 100.0) -> float:
    return ascend(from_egraph(egraph(classes, roots)), cost).bound


def some_egraph(seed: int) -> EGraph:
    rng = random.Random(seed)
    return random_egraph(rng, 8, 3, 0.4) if seed % 2 else tangled_egraph(rng, 8)


def test_bounds_and_reduced_costs_hold_for_every_answer() -> None:
    tight = rising = 0
    for seed in range(300):
        graph = some_egraph(seed)
        problem = from_egraph(graph)
        answers = [set(a.values()) for a in derivations(graph)]
        costs = [price(graph, a) for a in derivations(graph)]
        found = ascend(problem, max(costs) or 1.0)
        slack = 1e-9 * max(costs)
        for answer, cost in zip(answers, costs, strict=True):
            left = [found.left.get(n, 0.0) for n in answer]
            rising += any(left)
            assert found.bound + math.fsum(left) <= cost + slack
        tight += min(costs) > 0 and found.bound > min(costs) - slack
    assert tight > 100
    assert rising > 1000


def test_every_answer_enters_every_set() -> None:
    """By an e-node of the set that has no child in it."""
    sets = 0
    for seed in range(100):
        graph = some_egraph(seed)
        problem = from_egraph(graph)
        for goal, loop in ascend(problem, 100.0).loops:
            sets += 1
            members = set(loop)
            assert goal in members
            entering = {n for c in loop for n in problem.nodes[c] if members.isdisjoint(problem.kids[n])}
            assert all(entering & set(answer.values()) for answer in derivations(graph))
    assert sets > 100


def test_two_classes_cannot_derive_each_other() -> None:
    assert bound([[(0, [1]), (5, [])], [(0, [0]), (7, [])]], [0, 1]) == pytest.approx(5.0)


def test_what_two_need_is_paid_once() -> None:
    assert bound([[(1, [2])], [(1, [2])], [(4, [])]], [0, 1]) == pytest.approx(6.0)


def test_the_cheapest_of_many_ways_in() -> None:
    """Three ways to the root, two of them over a class of which the price is shared."""
    assert bound([[(2, [1]), (3, [1]), (9, [])], [(4, []), (5, [])]], [0]) == pytest.approx(6.0)


def test_forced_classes_below_are_derived_by_cuts_of_their_own() -> None:
    """A chain of classes that are all forced: each of them costs something."""
    chain: list[list[Spec]] = [[(1.0, [i + 1])] for i in range(50)]
    problem = from_egraph(egraph([*chain, [(1.0, [])]], [0]))
    reduced = reduce(problem, 1e9, frozenset())
    found = Ascent(problem, problem.nodes).run(problem.cost.__getitem__, 100.0, Budget.of(ExtractLimits()))
    assert found.bound == pytest.approx(51.0)
    assert max(len(loop) for _, loop in found.loops) == 1
    assert reduced is None or reduced.bound == pytest.approx(51.0)


def test_work_ends_it_with_a_bound() -> None:
    problem = from_egraph(layered_egraph(1, 300, back=0.2))
    cost = problem.total(dag_greedy(problem))
    bounds = [ascend(problem, cost, work).bound for work in (1, 1_000, 2_000, math.inf)]
    assert 0 == bounds[0] < bounds[1] < bounds[2] < bounds[3] <= cost


def test_prices_far_apart() -> None:
    """What costs more than the answer so far counts as much as the answer."""
    found = ascend(from_egraph(egraph([[(1e180, []), (1e-180, [1])], [(1e-180, [])]], [0])), 2e-180)
    assert found.bound == pytest.approx(2e-180)
