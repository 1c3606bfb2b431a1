"""Steps that make a choice cheaper: what each saves, and where they end."""

from __future__ import annotations

import random
from math import inf

import pytest

from tensat_dl.extract.budget import Budget, ExtractLimits
from tensat_dl.extract.descent import Descent, descend
from tensat_dl.extract.greedy import dag_greedy, tree_greedy
from tensat_dl.extract.incumbent import Incumbent
from tensat_dl.extract.problem import Problem, from_egraph, needed, topological

from .builders import Spec, brute_force, egraph, random_egraph, tangled_egraph


def started(problem: Problem) -> Incumbent:
    best = Incumbent(problem)
    best.offer(tree_greedy(problem))
    return best


def descended(problem: Problem, work: float = inf) -> Incumbent:
    best = started(problem)
    descend(problem, best, Budget.of(ExtractLimits(work=work)))
    return best


def merged(count: int, circular: bool) -> list[list[Spec]]:
    """Pairs of products; each pair can be cut out of one product of both, which costs less than the two. If
    ``circular``, the latter is also what the two make together, for nothing."""
    classes: list[list[Spec]] = [[(0.0, [])]]
    for _ in range(count):
        both = len(classes)
        classes.append([(3.0, [0]), *([(0.0, [both + 1, both + 2])] if circular else [])])
        classes += [[(2.0, [0]), (0.0, [both])]] * 2
    return [*classes, [(0.0, [c for c in range(1, len(classes)) if c % 3 != 1])]]


@pytest.mark.parametrize("circular", [False, True])
def test_what_pays_only_together_is_changed_together(circular: bool) -> None:
    graph = egraph(merged(6, circular), [19])
    problem = from_egraph(graph)
    assert started(problem).cost == 6 * 4.0
    assert descended(problem).cost == 6 * 3.0


def test_one_of_several_is_left_as_it_is() -> None:
    """Two of three results are cut out of a merged one; the third is cheaper by itself."""
    cut: list[Spec] = [(2.0, [0]), (0.0, [1])]
    graph = egraph([[(0.0, [])], [(3.0, [0])], cut, cut, [(0.5, [0]), (0.6, [1])], [(0.0, [2, 3, 4])]], [5])
    assert descended(from_egraph(graph)).cost == 3.5


def drawn(seed: int) -> Problem:
    rng = random.Random(seed)
    return from_egraph(tangled_egraph(rng, 8) if seed % 2 else random_egraph(rng, 12, 4, back=0.4))


@pytest.mark.parametrize("seed", range(60))
def test_each_step_saves_what_it_says(seed: int) -> None:
    problem = drawn(seed)
    descent = Descent(problem, needed(problem, dag_greedy(problem)), Budget.of(ExtractLimits(work=inf)))
    before = problem.total(descent.choice)
    for step in descent.steps():
        after = {**descent.full, **step}
        circular = topological(problem, needed(problem, after)) is None
        if circular:
            assert descent.circular(step)
        elif not descent.circular(step):
            assert before - problem.total(needed(problem, after)) == pytest.approx(descent.gain(step))


@pytest.mark.parametrize("seed", range(60))
def test_an_answer_is_valid_and_never_worse(seed: int) -> None:
    problem = drawn(seed)
    known = started(problem).cost
    best = descended(problem)
    assert best.cost <= known
    assert best.cost == problem.total(best.choice)
    assert needed(problem, best.choice) == best.choice
    assert topological(problem, best.choice) is not None
    assert descended(problem).choice == best.choice


@pytest.mark.parametrize("seed", range(60))
def test_an_answer_is_no_better_than_the_best(seed: int) -> None:
    graph = random_egraph(random.Random(seed), 9, 3, back=0.4)
    best = brute_force(graph)
    assert best is not None
    assert descended(from_egraph(graph)).cost >= best - 1e-9


@pytest.mark.parametrize("work", [0.0, 1.0, 100.0, 300.0, 1000.0])
def test_it_ends_where_the_work_does(work: float) -> None:
    problem = from_egraph(egraph(merged(40, True), [121]))
    budget = Budget.of(ExtractLimits(work=work))
    best = started(problem)
    descend(problem, best, budget)
    assert topological(problem, best.choice) is not None
    assert 0 < best.cost <= started(problem).cost
    assert budget.work > -8 * problem.num_nodes, "beyond it at most one look at the whole problem"
