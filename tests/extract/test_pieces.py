"""What falls apart is solved piece by piece, and pieces of one shape once."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from tensat_dl.core.egraph import EGraph
from tensat_dl.extract import exact
from tensat_dl.extract.api import extract
from tensat_dl.extract.budget import ExtractLimits
from tensat_dl.extract.exact import Solved
from tensat_dl.extract.extraction import ExtractionError
from tensat_dl.extract.problem import Problem, from_egraph
from tensat_dl.extract.reduce import Reduced, pieces, placed, places, reduce, shape
from tests.extract.builders import Spec, brute_force, egraph, stacked_egraph


def blocks(count: int, *costs: float) -> EGraph:
    """A chain of blocks in which greedy extraction errs: two products of x or one that yields both, at such costs."""
    classes: list[list[Spec]] = [[(0.0, [])]]
    source = [0]
    nodes = 1
    for i in range(count):
        x = len(classes) - 1
        both, first, second = x + 1, x + 2, x + 3
        classes.append([(costs[i % len(costs)] if costs else 5.0, [x])])
        classes.append([(3.0, [x]), (0.0, [both])])
        classes.append([(3.0, [x]), (0.0, [both])])
        classes.append([(1.0, [first, second])])
        source += [nodes + 1, nodes + 3, nodes + 5]
        nodes += 6
    return egraph(classes, [len(classes) - 1], source)


def test_classes_that_could_be_derived_from_each_other_are_one_piece() -> None:
    """Each is needed, and would be had for 1 if the other were there: apart they would be, from one another."""
    a, b = 1, 2
    graph = egraph([[(0.0, [])], [(5.0, [0]), (1.0, [b])], [(4.0, [0]), (1.0, [a])], [(0.0, [a, b])]], [3])
    reduced = reduce(from_egraph(graph), float("inf"))
    assert reduced is not None
    assert reduced.forced >= {a, b}
    (part,), _ = pieces(reduced)
    assert set(part.roots) == {a, b}
    assert extract(graph).cost == 5.0


def test_tangles_on_one_another_fall_apart() -> None:
    fell = 0
    for seed in range(40):
        graph = stacked_egraph([random.Random(seed)] * 2, 5)
        reduced = reduce(from_egraph(graph), float("inf"))
        fell += reduced is not None and len(pieces(reduced)[0]) > 1
        assert extract(graph).cost == brute_force(graph)
    assert fell >= 10


@pytest.mark.parametrize("count", [1, 2, 3])
def test_blocks_are_solved(count: int) -> None:
    found = extract(blocks(count))
    assert (found.status, found.cost) == ("optimal", brute_force(blocks(count)))


@pytest.fixture
def _no_descent(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the descent would solve at once is left for the pieces."""
    monkeypatch.setattr(exact, "descend", lambda problem, best, budget: None)


@pytest.fixture
def formulated(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The problems that are solved by the relaxation, as they come."""
    found: list[object] = []
    original = exact.formulate

    def counted(*args: object) -> object:
        found.append(args)
        return original(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(exact, "formulate", counted)
    return found


@pytest.mark.usefixtures("_no_descent")
def test_equal_blocks_are_solved_once(formulated: list[object]) -> None:
    counts = []
    for count in (3, 30):
        formulated.clear()
        found = extract(blocks(count))
        assert (found.status, found.cost) == ("optimal", 6.0 * count)
        counts.append(len(formulated))
    assert counts[0] == counts[1] > 0


def test_equal_tangles_are_reduced_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def tangles(count: int) -> EGraph:
        return stacked_egraph([random.Random(1) for _ in range(count)], 5)

    sizes = []
    original = exact.reduce_contracted

    def counted(problem: Problem, *args: Any) -> Reduced | None:
        sizes.append(problem.num_nodes)
        return original(problem, *args)

    monkeypatch.setattr(exact, "reduce_contracted", counted)
    found = extract(tangles(50))
    assert (found.status, found.cost) == ("optimal", 50 * extract(tangles(1)).cost)
    assert 0 < max(sizes) <= tangles(1).num_nodes


def test_equal_tangles_are_solved_as_if_they_were_not_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    cut = []
    for seed in range(40):
        graph = stacked_egraph([random.Random(seed) for _ in range(3)], 5)
        found = extract(graph)
        with monkeypatch.context() as patch:
            patch.setattr(exact, "_repetitive", lambda parts, preferred: False)
            whole = extract(graph)
        assert (found.cost, found.status) == (whole.cost, "optimal") == (brute_force(graph), whole.status)
        cut.append(found.work < whole.work)
    assert any(cut)


def test_a_piece_has_only_what_is_its_own() -> None:
    reduced = reduce(from_egraph(blocks(20)), float("inf"))
    assert reduced is not None
    parts, _ = pieces(reduced)
    assert len(parts) == 20
    for part in parts:
        own = {n for ns in part.nodes.values() for n in ns}
        assert set(part.kids) == set(part.cost) == own
        assert all(d in part.nodes for kids in part.kids.values() for d in kids)


def test_answers_carry_over_between_pieces_of_one_shape() -> None:
    reduced = reduce(from_egraph(blocks(2)), float("inf"))
    assert reduced is not None
    (one, two), _ = pieces(reduced)
    assert shape(one, frozenset()) == shape(two, frozenset())
    preferred = frozenset(n for ns in two.nodes.values() for n in ns[:1])
    assert shape(one, frozenset()) != shape(two, preferred)
    choice = {c: ns[-1] for c, ns in one.nodes.items()}
    assert placed(places(choice, one), one) == choice
    assert placed(places(choice, one), two) == {c: ns[-1] for c, ns in two.nodes.items()}


def test_pieces_that_differ_in_cost_have_different_shapes() -> None:
    shapes = set()
    for cost in (5.0, 5.5):
        reduced = reduce(from_egraph(blocks(2, cost)), float("inf"))
        assert reduced is not None
        shapes |= {shape(part, frozenset()) for part in pieces(reduced)[0]}
    assert len(shapes) == 2


@pytest.mark.parametrize("seed", range(40))
def test_what_is_solved_holds_at_other_prices(seed: int) -> None:
    """Some blocks keep their prices from one extraction to the next."""
    rng = random.Random(seed)
    graph = stacked_egraph([random.Random(seed * 3 + i) for i in range(3)], 4)
    solved = Solved()
    for _ in range(6):
        found = extract(graph, solved=solved)
        assert (found.status, found.cost) == ("optimal", pytest.approx(brute_force(graph)))
        cost = graph.cost.copy()
        cost[rng.randrange(graph.num_nodes)] = rng.choice((0.0, 1.0, 4.0, 9.0))
        graph = replace(graph, cost=cost)


def test_other_prices_are_checked_as_well() -> None:
    solved = Solved()
    graph = blocks(2, 5.0, 5.0)
    extract(graph, solved=solved)
    with pytest.raises(ExtractionError, match="not negative"):
        extract(replace(graph, cost=graph.cost - 100.0), solved=solved)


@pytest.mark.usefixtures("_no_descent")
def test_only_the_block_with_other_prices_is_solved_again(formulated: list[object]) -> None:
    prices = [5.0 + i / 64 for i in range(8)]
    solved = Solved()
    assert extract(blocks(8, *prices), solved=solved).cost == sum(prices) + 8
    first = len(formulated)
    for again in (0, first // 8):
        formulated.clear()
        assert extract(blocks(8, *prices), solved=solved).cost == sum(prices) + 8
        assert len(formulated) == again
        prices[3] += 0.5


def test_what_is_not_proven_is_solved_again() -> None:
    solved = Solved()
    graph = stacked_egraph([random.Random(i) for i in range(4)], 5)
    hasty = extract(graph, limits=ExtractLimits(work=1.0), solved=solved)
    assert hasty.status == "feasible"
    assert extract(graph, solved=solved).cost == extract(graph).cost < hasty.cost


@pytest.mark.usefixtures("_no_descent")
def test_progress_tells_of_better_answers_for_single_pieces() -> None:
    seen: list[tuple[float, float]] = []
    found = extract(blocks(3, 5.0, 5.25, 5.5), progress=lambda cost, bound: seen.append((cost, bound)))
    assert (found.status, found.cost) == ("optimal", 5.0 + 5.25 + 5.5 + 3.0)
    between = {(cost, bound) for cost, bound in seen if found.cost < cost and bound > 0}
    assert len({cost for cost, _ in between}) >= 2
