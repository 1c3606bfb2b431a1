from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensat_dl.core.egraph import EGraph
from tensat_dl.extract.api import extract
from tensat_dl.extract.budget import WORK, ExtractLimits
from tensat_dl.extract.extraction import METHODS, ExtractionError

from .builders import brute_force, egraph, layered_egraph, random_egraph

pytestmark = pytest.mark.sampled(4)


@pytest.mark.parametrize("back", [0.0, 0.2, 0.5])
@pytest.mark.parametrize("seed", range(100))
def test_exact_equals_brute_force(seed: int, back: float) -> None:
    rng = random.Random(f"{seed} {back}")
    graph = random_egraph(rng, rng.randint(1, 11), 4, back)
    found = extract(graph)
    assert found.cost == pytest.approx(brute_force(graph), abs=1e-9)
    assert found.status == "optimal"
    assert found.bound == found.cost
    assert found.gap == 0


@st.composite
def egraphs(draw: st.DrawFn) -> EGraph:
    """Any small e-graph, those without a derivation included."""
    count = draw(st.integers(1, 6))
    kids = st.lists(st.integers(0, count - 1), max_size=3)
    node = st.tuples(st.sampled_from([0.0, 0.0, 0.1, 0.2, 0.3, 1.0, 1e-6, 1e6]), kids)
    classes = draw(st.lists(st.lists(node, max_size=4), min_size=count, max_size=count))
    return egraph(classes, draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=3)))


@settings(max_examples=200, deadline=None, derandomize=True)
@given(egraphs())
def test_exact_on_any_egraph(graph: EGraph) -> None:
    expected = brute_force(graph)
    if expected is None:
        with pytest.raises(ExtractionError, match="has no finite derivation"):
            extract(graph)
    else:
        assert extract(graph).cost == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("back", [0.0, 0.1, 0.4])
@pytest.mark.parametrize("seed", range(8))
def test_exact_equals_the_papers_program(seed: int, back: float) -> None:
    graph = layered_egraph(seed, 45, back=back)
    exact = extract(graph)
    paper = extract(graph, "ilp-int", ExtractLimits(work=1e9))
    assert paper.status == exact.status == "optimal"
    assert exact.cost == pytest.approx(paper.cost, rel=1e-8)


@pytest.mark.parametrize("seed", range(4))
def test_larger_egraphs_with_ties_are_repeatable(seed: int) -> None:
    graph = random_egraph(random.Random(seed), 300, 6, 0.15)
    first, again = extract(graph), extract(graph)
    assert first.choices == again.choices
    assert (first.cost, first.bound, first.status) == (again.cost, again.bound, again.status)


@pytest.mark.parametrize("work", [0.0, 1_000.0, 100_000.0, 1_000_000.0])
def test_a_work_limit_is_repeatable_and_keeps_bounds_true(work: float) -> None:
    graph = layered_egraph(1, 250)
    limited, again = (
        extract(graph, limits=ExtractLimits(work=work)),
        extract(graph, limits=ExtractLimits(work=work)),
    )
    assert limited.choices == again.choices
    assert limited.bound == again.bound
    greedy = extract(graph, "greedy-dag")
    assert limited.bound <= limited.cost <= greedy.cost * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_bounds_of_limited_runs_are_true(seed: int) -> None:
    graph = layered_egraph(seed, 90)
    full = extract(graph)
    assert full.status == "optimal"
    for work in (1_000.0, 10_000.0, 50_000.0):
        limited = extract(graph, limits=ExtractLimits(work=work))
        assert limited.bound <= full.cost * (1 + 1e-9)
        assert full.cost <= limited.cost * (1 + 1e-9)


def test_time_limit_of_nothing_still_answers() -> None:
    graph = random_egraph(random.Random(5), 200, 6)
    assert extract(graph, limits=ExtractLimits(seconds=0.0)).choices


@pytest.mark.parametrize("method", [m for m in METHODS if m != "ilp-none" and not m.startswith("greedy")])
@pytest.mark.parametrize("seed", range(5))
def test_never_costlier_than_the_source(method: str, seed: int) -> None:
    graph = random_egraph(random.Random(seed), 80, 3)
    source = sum(float(graph.cost[n]) for n in graph.source if not graph.weights_only[graph.node_class[n]])
    assert extract(graph, method, ExtractLimits(work=0.0)).cost <= source + 1e-9


def test_the_source_wins_ties() -> None:
    graph = egraph([[(0.0, [])], [(1.0, [0]), (1.0, [0]), (1.0, [0])]], [1], source=[0, 2])
    assert extract(graph).choices == {0: 0, 1: 2}


def test_a_source_that_computes_one_value_twice() -> None:
    """relu(relu(a)): both belong to one class, and choosing the outer one would be a cycle."""
    graph = egraph([[(0.0, [])], [(1.0, [1]), (1.0, [0])]], [1], source=[0, 2, 1])
    assert extract(graph, "exact", ExtractLimits(work=0.0)).choices == {0: 0, 1: 2}


def test_shared_classes_are_paid_once() -> None:
    graph = egraph([[(5.0, [])], [(1.0, [0])], [(1.0, [0])], [(1.0, [1, 2]), (7.5, [])]], [3])
    assert extract(graph).cost == 7.5
    assert extract(graph, "greedy-dag").cost == 7.5
    graph = egraph([[(5.0, [])], [(1.0, [0])], [(1.0, [0])], [(1.0, [1, 2]), (8.5, [])]], [3])
    assert extract(graph).cost == 8.0
    assert extract(graph, "greedy-dag").cost == 8.0
    assert extract(graph, "greedy").cost == 8.5  # counts the shared class twice, as the paper notes


def test_weights_only_classes_are_free_leaves() -> None:
    graph = egraph([[(9.0, [])], [(9.0, [0])], [(1.0, [1, 1])]], [2, 1, 2], weights_only=[0, 1])
    found = extract(graph)
    assert found.choices == {2: 2}
    assert found.cost == 1.0
    all_weights = extract(egraph([[(9.0, [])]], [0], weights_only=[0]))
    assert all_weights.choices == {}
    assert (all_weights.cost, all_weights.status) == (0.0, "optimal")


def test_the_log_leads_to_the_answer() -> None:
    found = extract(layered_egraph(3, 60, back=0.2), n_best=2)
    for earlier, later in pairwise(found.log):
        assert earlier.seconds <= later.seconds
        assert earlier.cost >= later.cost
        assert earlier.bound <= later.bound
        assert (earlier.cost, earlier.bound) != (later.cost, later.bound)
    assert (found.log[0].stage, found.log[0].bound) == ("start", 0.0)
    assert found.log[-1].cost == found.cost
    assert found.log[-1].bound >= found.cost * (1 - 1e-9)
    assert found.log[-1].seconds <= found.seconds
    assert all(other.log == () for other in found.runners_up)


def test_progress_is_monotone() -> None:
    graph = layered_egraph(2, 80)
    seen: list[tuple[float, float]] = []
    found = extract(graph, progress=lambda cost, bound: seen.append((cost, bound)))
    costs, bounds = [c for c, _ in seen], [b for _, b in seen]
    assert costs == sorted(costs, reverse=True)
    assert bounds == sorted(bounds)
    assert seen[-1] == (found.cost, found.bound)


def test_an_interrupt_keeps_the_best_so_far() -> None:
    graph = layered_egraph(1, 150)

    def interrupt(cost: float, bound: float) -> None:
        if bound > 0:
            raise KeyboardInterrupt

    found = extract(graph, progress=interrupt)
    assert found.status == "feasible"
    assert found.bound > 0


def test_seconds_are_the_only_limit_where_they_are_given() -> None:
    """Ten seconds of work are what is done without a limit; a minute was cut short by them."""
    graph = layered_egraph(1, 250)
    assert ExtractLimits(seconds=60.0).most_work == float("inf")
    assert ExtractLimits().most_work == ExtractLimits(work=WORK).most_work == WORK
    assert ExtractLimits(seconds=60.0, work=5.0).most_work == 5.0
    unlimited = extract(graph, limits=ExtractLimits(work=1e9))
    found = extract(graph, limits=ExtractLimits(seconds=300.0))
    assert (found.status, found.bound) == (unlimited.status, unlimited.bound)
