"""Problems that are too large for sets of e-classes as bits: valid answers, true bounds, memory in proportion."""

from __future__ import annotations

import random
import tracemalloc

import pytest

from tensat_dl.extract import greedy, incumbent, reduce
from tensat_dl.extract.api import extract
from tensat_dl.extract.greedy import dag_greedy
from tensat_dl.extract.problem import from_egraph
from tensat_dl.extract.reduce import forced_bound, thinned
from tests.extract.builders import brute_force, egraph, price, random_egraph, wild_egraph

LIMITS = ((reduce, "LARGEST"), (incumbent, "LARGEST"), (greedy, "MOST_BITS"))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything with more than two e-classes is too large."""
    for module, name in LIMITS:
        monkeypatch.setattr(module, name, 2)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("seed", range(60))
def test_answers_are_valid_and_bounds_true(seed: int) -> None:
    rng = random.Random(seed)
    graph = random_egraph(rng, 8, 3) if seed % 2 else wild_egraph(rng)
    best = brute_force(graph)
    if best is None:
        return
    found = extract(graph)
    assert found.cost == pytest.approx(price(graph, dict(found.choices)))
    assert found.bound <= best * (1 + 1e-9)
    assert found.cost >= best * (1 - 1e-9)
    if found.status == "optimal":
        assert found.cost == pytest.approx(best)
    problem = from_egraph(graph)
    assert forced_bound(problem) <= best * (1 + 1e-9)
    assert problem.total(thinned(problem).expanded(dag_greedy(thinned(problem)))) >= best * (1 - 1e-9)


@pytest.mark.usefixtures("small")
def test_forced_classes_cut_a_problem_into_pieces() -> None:
    """A chain of diamonds: each has a dear and a cheap side, and no choice matters to another one."""
    classes: list[list[tuple[float, list[int]]]] = [[(1.0, [])]]
    for k in range(20):
        bottom = len(classes) - 1
        classes.append([(2.0, [bottom]), (3.0, [bottom])])
        classes.append([(1.0, [bottom])])
        classes.append([(0.5, [bottom + 1]), (0.25 if k % 2 else 4.0, [bottom + 2])])
    graph = egraph(classes, [len(classes) - 1])
    found = extract(graph)
    assert found.status == "optimal"
    assert found.cost == pytest.approx(1.0 + 10 * 2.5 + 10 * 1.25)


@pytest.mark.thorough
def test_memory_is_in_proportion_to_the_problem() -> None:
    """Sets of e-classes as bits would take 600 MB for this one."""
    count = 100_000
    classes = [[(1.0 + (7 * i + k) % 5, [i - 1] if i else []) for k in (0, 3)] for i in range(count)]
    graph = egraph(classes, [count - 1])
    tracemalloc.start()
    found = extract(graph)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.status == "optimal"
    assert found.cost == sum(min(cost for cost, _ in nodes) for nodes in classes)
    assert peak < 4_000 * count
