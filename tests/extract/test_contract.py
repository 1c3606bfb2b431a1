"""Classes without a choice are contracted into their users."""

from __future__ import annotations

import random
import time

import pytest

from tensat_dl.core.egraph import EGraph
from tensat_dl.extract.problem import Problem, from_egraph
from tensat_dl.extract.reduce import contract

from .builders import egraph, random_egraph


def wide(children: int) -> EGraph:
    """One e-node with many children, each with one e-node."""
    return egraph([*([(1.0, [])] for _ in range(children)), [(1.0, list(range(children)))]], [children])


def one_by_one(problem: Problem, contracted: Problem) -> dict[int, tuple[int, ...]]:
    """The children of the e-nodes that are left, put in the place of one contracted class after the other."""
    kids = {n: problem.kids[n] for n in contracted.candidates()}
    gone = {c: n for c, n in contracted.inlined.items() if c in problem.nodes}
    while any(d in gone for ds in kids.values() for d in ds):
        for n, ds in kids.items():
            at = next((i for i, d in enumerate(ds) if d in gone), None)
            if at is not None:
                kids[n] = tuple(dict.fromkeys((*ds[:at], *problem.kids[gone[ds[at]]], *ds[at + 1 :])))
    return kids


@pytest.mark.parametrize("seed", range(100))
def test_children_take_the_place_of_their_class(seed: int) -> None:
    rng = random.Random(seed)
    problem = from_egraph(random_egraph(rng, rng.randint(3, 25), 2, 0.2, (0, 0, 1)))
    contracted = contract(problem, frozenset())
    assert dict(contracted.kids) == one_by_one(problem, contracted)
    assert set(contracted.nodes).isdisjoint(contracted.inlined)


def test_the_cost_moves_to_the_user() -> None:
    problem = contract(from_egraph(wide(3)), frozenset())
    assert (dict(problem.nodes), dict(problem.cost)) == ({3: (3,)}, {3: 4.0})
    assert problem.kids[3] == ()


def test_many_children_take_time_in_proportion() -> None:
    """Eight times as many children took 64 times as long."""

    def seconds(children: int) -> float:
        problem = from_egraph(wide(children))
        times = []
        for _ in range(3):
            started = time.perf_counter()
            contract(problem, frozenset())
            times.append(time.perf_counter() - started)
        return min(times)

    assert seconds(16_000) < 32 * seconds(2_000)
