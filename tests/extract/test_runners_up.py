"""The answers after the best one, against all derivations of small e-graphs."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from tensat_dl.core.egraph import EGraph
from tensat_dl.extract import api, runners_up
from tensat_dl.extract.api import extract, next_best
from tensat_dl.extract.budget import ExtractLimits
from tensat_dl.extract.extraction import METHODS, Extraction, ExtractionError
from tensat_dl.extract.runners_up import kernels

from .builders import derivations, egraph, layered_egraph, price, random_egraph

pytestmark = pytest.mark.sampled(3)

COSTS = (0, 0, 1, 1, 2, 3.5)
#: No two sums of these are equal unless they are sums of the same.
DISTINCT = tuple(2.0**-i for i in range(40))


def paid(graph: EGraph, choice: dict[int, int]) -> frozenset[int]:
    kernel = kernels(graph)
    return frozenset(kernel[n] for n in choice.values() if graph.cost[n] > 0)


def answers(graph: EGraph) -> list[float]:
    """The costs of all answers: of what derivations pay for that has nothing of the kind inside."""
    costs = {paid(graph, choice): price(graph, choice) for choice in derivations(graph)}
    return sorted(cost for one, cost in costs.items() if not any(other < one for other in costs))


def costs(found: Extraction) -> list[float]:
    return [found.cost, *(other.cost for other in found.runners_up)]


def assert_different(graph: EGraph, found: Extraction) -> None:
    sets = [paid(graph, one.choices) for one in (found, *found.runners_up)]
    assert not any(a <= b for i, a in enumerate(sets) for j, b in enumerate(sets) if i != j)


@pytest.mark.parametrize("back", [0.0, 0.3, 0.6])
@pytest.mark.parametrize("seed", range(100))
def test_the_cheapest_answers(seed: int, back: float) -> None:
    rng = random.Random(f"{seed} {back}")
    graph = random_egraph(rng, rng.randint(1, 7), 3, back, rng.choice((COSTS, DISTINCT)))
    if seed % 3 == 0:  # some are one kernel
        graph = replace(graph, op=tuple(rng.choice("ab") for _ in graph.op))
    expected = answers(graph)
    count = rng.randint(2, 6)
    found = extract(graph, n_best=count)
    assert costs(found) == pytest.approx(expected[:count])
    assert_different(graph, found)
    assert found.choices == extract(graph).choices
    later = next_best(graph, extract(graph), count - 1)
    assert [other.choices for other in later] == [other.choices for other in found.runners_up]


@pytest.mark.parametrize("seed", range(30))
def test_all_answers(seed: int) -> None:
    rng = random.Random(seed)
    graph = random_egraph(rng, rng.randint(2, 6), 3, 0.3)
    assert costs(extract(graph, n_best=10_000)) == pytest.approx(answers(graph))


def test_how_answers_differ() -> None:
    # Another e-node, another price: an answer. Free e-nodes, or more than another answer pays: none.
    graph = egraph(
        [[(0.0, []), (0.0, [])], [(1.0, [0]), (1.0, [0]), (2.0, [0])], [(0.0, [1]), (4.0, [1])]], [2]
    )
    found = extract(graph, n_best=10)
    assert costs(found) == [1.0, 1.0, 2.0]
    assert [one.status for one in found.runners_up] == ["optimal", "feasible"]
    assert [one.bound for one in found.runners_up] == [1.0, 1.0]
    assert found.runners_up[1].gap == 0.5
    # The same operator twice in one e-class, on other inputs that cost nothing, is one kernel.
    same = replace(graph, op=("w", "v", "f", "f", "f", "r", "r"))
    assert kernels(same) == [0, 1, 2, 2, 4, 5, 6]
    assert costs(extract(same, n_best=10)) == [1.0, 2.0]


def test_input_types_tell_kernels_apart() -> None:
    graph = egraph([[(0.0, [])], [(0.0, [])], [(1.0, [0]), (1.0, [1])]], [2])
    graph = replace(graph, op=("a", "b", "f", "f"))
    assert kernels(graph) == [0, 1, 2, 2]
    typed = replace(graph, types=((), ("t",), ()))  # type: ignore[arg-type]
    assert kernels(typed) == [0, 1, 2, 3]
    assert kernels(replace(graph, attrs=((), (), (("act", "relu"),), ()))) == [0, 1, 2, 3]


def test_a_class_that_others_do_without() -> None:
    """The second answer does not use the e-class whose e-node it may not have: it goes another way above it."""
    graph = egraph([[(1.0, [])], [(0.0, [0])], [(0.0, [1]), (0.0, [3])], [(3.0, [])]], [2])
    assert costs(extract(graph, n_best=3)) == [1.0, 3.0]


def test_weights_only_classes() -> None:
    graph = egraph([[(9.0, []), (8.0, [])], [(1.0, [0]), (2.0, [0]), (3.0, [])]], [1], weights_only=[0])
    found = extract(graph, n_best=5)
    assert costs(found) == [1.0, 2.0, 3.0]
    assert all(0 not in one.choices for one in found.runners_up)
    assert extract(egraph([[(9.0, [])]], [0], weights_only=[0]), n_best=3).runners_up == ()
    unpriced = replace(graph, cost=np.array([np.nan, np.nan, 1.0, 2.0, 3.0]))
    assert costs(extract(unpriced, n_best=5)) == [1.0, 2.0, 3.0]


def test_nothing_else() -> None:
    assert extract(egraph([[(1.0, [])]], [0]), n_best=3).runners_up == ()
    assert extract(egraph([[(0.0, []), (1.0, [])]], [0]), n_best=3).runners_up == ()  # free is enough
    assert extract(egraph([[(1.0, []), (1.0, [0])]], [0]), n_best=3).runners_up == ()
    assert extract(layered_egraph(0, 20)).runners_up == ()


def test_bad_requests() -> None:
    graph = layered_egraph(0, 20)
    with pytest.raises(ExtractionError, match="n_best is 0: it must be at least 1"):
        extract(graph, n_best=0)
    for method in METHODS[1:]:
        with pytest.raises(
            ExtractionError, match=f"only the exact method finds several answers, not {method}"
        ):
            extract(graph, method, n_best=2)


@pytest.mark.parametrize("work", [0.0, 50_000.0, 2_000_000.0])
def test_a_larger_e_graph(work: float) -> None:
    graph = layered_egraph(3, 200)
    found = extract(graph, limits=ExtractLimits(work=work), n_best=6)
    again = extract(graph, limits=ExtractLimits(work=work), n_best=6)
    assert [one.choices for one in found.runners_up] == [one.choices for one in again.runners_up]
    assert costs(found) == sorted(costs(found))
    assert_different(graph, found)
    assert len(found.runners_up) == (5 if work else 0)
    if found.status == "optimal":
        assert all(one.bound == found.cost for one in found.runners_up)


@pytest.mark.parametrize("seed", range(5))
def test_work_that_does_not_suffice_gives_costlier_ones(seed: int) -> None:
    graph = layered_egraph(seed, 60)
    best = costs(extract(graph, n_best=5))
    for work in (5_000.0, 20_000.0):
        some = extract(graph, limits=ExtractLimits(work=work), n_best=5)
        assert all(b <= a * (1 + 1e-9) for a, b in zip(costs(some), best, strict=False))
        assert_different(graph, some)


def test_a_cheaper_one_becomes_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the best answer was not found, runners-up may find it."""
    monkeypatch.setattr(api, "improve", lambda *_, **__: None)
    improved = 0
    for seed in range(20):
        graph = layered_egraph(seed, 40)
        start = extract(graph)
        found = extract(graph, n_best=4)
        assert costs(found) == sorted(costs(found))
        assert_different(graph, found)
        improved += found.cost < start.cost
        others = next_best(graph, start, 3)
        expected = costs(found)[:3] if found.cost < start.cost else costs(found)[1:]
        assert [other.cost for other in others] == expected
    assert improved


def test_no_time() -> None:
    assert extract(layered_egraph(1, 100), limits=ExtractLimits(seconds=0.0), n_best=3).runners_up == ()


@pytest.mark.parametrize("calls", [0, 3])
@pytest.mark.parametrize("name", ["improve", "prune"])
def test_an_interrupt_keeps_those_found_so_far(
    name: str, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = layered_egraph(3, 120)
    seen = 0

    def interrupt(*args: object, **options: object) -> object:
        nonlocal seen
        seen += 1
        if seen > calls:
            raise KeyboardInterrupt
        return original(*args, **options)

    original = getattr(runners_up, name)
    monkeypatch.setattr(runners_up, name, interrupt)
    found = extract(graph, n_best=4)
    assert seen == calls + 1
    assert found.interrupted
    assert found.status == "optimal"
    assert len(found.runners_up) == 3
    assert_different(graph, found)
    seen = 0
    with pytest.raises(KeyboardInterrupt):
        next_best(graph, extract(graph), 3)


def test_an_interrupt_before_there_are_any(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(api, "improve", interrupt)
    found = extract(layered_egraph(3, 120), n_best=4)
    assert (found.interrupted, found.runners_up) == (True, ())
