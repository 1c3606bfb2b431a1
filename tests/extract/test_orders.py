"""Along an order in which a choice derives its own e-classes there is no cycle, and the choice itself."""

from __future__ import annotations

import random

import pytest

from tensat_dl.extract.api import extract
from tensat_dl.extract.budget import Budget, ExtractLimits
from tensat_dl.extract.exact import improve
from tensat_dl.extract.greedy import dag_greedy
from tensat_dl.extract.incumbent import Incumbent
from tensat_dl.extract.problem import Problem, from_egraph, needed
from tensat_dl.extract.small_parts import follow, order

from .builders import Spec, brute_force, egraph, random_egraph


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("seed", range(25))
def test_an_order_has_all_classes_and_keeps_the_choice(seed: int, shuffled: bool) -> None:
    problem = from_egraph(random_egraph(random.Random(seed), 30, 4, back=0.4))
    choice = needed(problem, dag_greedy(problem))
    place = order(problem, choice, random.Random(seed), shuffled)
    assert sorted(place) == sorted(problem.nodes)
    assert sorted(place.values()) == list(range(len(place)))
    assert all(place[d] < place[c] for c, n in choice.items() for d in problem.kids[n])


def merged(pairs: int) -> list[list[Spec]]:
    """An input; pairs of results by an operator each, or by a merged one and two cuts; what takes them all.

    A result can be had from the other of its pair, too: there are cycles.
    """
    classes: list[list[Spec]] = [[(0.0, [])]]
    for _ in range(pairs):
        both = len(classes)
        classes += [[(3.0, [0])], [(2.0, [0]), (0.0, [both]), (1.5, [both + 2])], [(2.0, [0]), (0.0, [both])]]
        classes[-1].append((1.5, [both + 1]))
    return [*classes, [(0.0, list(range(2, len(classes), 3)) + list(range(3, len(classes), 3)))]]


def exactly(part: Problem, answer: Incumbent, budget: Budget) -> bool:
    improve(part, answer, frozenset(), budget, searching=False)
    return answer.proven


def test_what_is_merged_is_found_along_an_order() -> None:
    graph = egraph(merged(6), [19])
    problem = from_egraph(graph)
    best = Incumbent(problem)
    best.offer(dag_greedy(problem))
    assert best.cost == 6 * 4.0
    follow(problem, best, Budget.of(ExtractLimits()), exactly, random.Random(0))
    assert best.cost == extract(graph).cost == 6 * 3.0


@pytest.mark.parametrize("seed", range(25))
def test_orders_never_make_it_worse_and_never_better_than_the_best(seed: int) -> None:
    graph = random_egraph(random.Random(seed), 9, 3, back=0.4)
    problem = from_egraph(graph)
    best = Incumbent(problem)
    best.offer(dag_greedy(problem))
    known = best.cost
    follow(problem, best, Budget.of(ExtractLimits()), exactly, random.Random(seed))
    assert brute_force(graph) - 1e-9 <= best.cost <= known
