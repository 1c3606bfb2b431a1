"""Loop cuts: they hold for every answer, and say what the relaxation without them forgets."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest

from tensat_dl.extract.ascent import Ascent
from tensat_dl.extract.budget import Budget, ExtractLimits
from tensat_dl.extract.cutting import Cutting
from tensat_dl.extract.formulation import Formulation, Vector, formulate
from tensat_dl.extract.incumbent import Incumbent
from tensat_dl.extract.loops import LoopSeparator, remaining
from tensat_dl.extract.problem import Choice, from_egraph, needed, prune, topological
from tensat_dl.extract.reduce import reduce
from tensat_dl.extract.relaxation import Relaxation

from .builders import Spec, egraph, random_egraph


def formulation(classes: list[list[Spec]]) -> Formulation:
    """Of a problem whose only answer so far costs 100, with class 0 as root."""
    reduced = reduce(from_egraph(egraph(classes, [0])), 100.0, frozenset())
    assert reduced is not None
    return formulate(reduced)


def answers(form: Formulation) -> list[Vector]:
    """Every answer as a point."""
    problem = form.reduced.problem
    points = []
    for nodes in product(*problem.nodes.values()):
        choice: Choice = needed(problem, dict(zip(problem.nodes, nodes, strict=True)))
        if topological(problem, choice) is not None:
            x = np.zeros(len(form.cost))
            x[[form.class_col[c] for c in choice]] = 1.0
            x[[form.node_col[n] for n in choice.values()]] = 1.0
            points.append(x)
    return points


def some_point(form: Formulation, rng: random.Random) -> Vector:
    """Each e-class chosen by the sum of its e-nodes, whatever these need."""
    x = np.zeros(len(form.cost))
    for c, nodes in form.reduced.problem.nodes.items():
        shares = [rng.choice((0.0, 0.0, 0.25, 0.5, 1.0)) for _ in nodes]
        for n, share in zip(nodes, shares, strict=True):
            x[form.node_col[n]] = share / max(1.0, sum(shares))
        x[form.class_col[c]] = sum(x[form.node_col[n]] for n in nodes)
    return x


@pytest.mark.parametrize("back", [0.0, 0.5])
def test_cuts_hold_for_every_answer(back: float) -> None:
    cuts = 0
    for seed in range(200):
        rng = random.Random(seed)
        graph = random_egraph(rng, 9, 3, back, choices=(1, 1.25, 1.5, 2.75))
        reduced = reduce(from_egraph(graph), float("inf"), frozenset())
        if reduced is None:
            continue
        form = formulate(reduced)
        points = answers(form)
        for cut in LoopSeparator(form).separate(some_point(form, rng), 100):
            cuts += 1
            assert all(sum(a * x[i] for i, a in cut.entries) <= 0 for x in points)
    assert cuts > 20


def test_loops_of_a_problem_hold_for_what_is_left_of_it() -> None:
    """Of a problem without some of its e-nodes, reduced anew."""
    cuts = shorter = other = 0
    for seed in range(300):
        rng = random.Random(seed)
        problem = from_egraph(random_egraph(rng, 9, 3, 0.5, choices=(1, 1.25, 1.5, 2.75)))
        reduced = reduce(problem, float("inf"))
        part = prune(problem, {c: [n for n in ns if rng.random() < 0.8] for c, ns in problem.nodes.items()})
        smaller = part and reduce(part, float("inf"))
        if reduced is None or smaller is None:
            continue
        loops = [
            cut.loop
            for cut in LoopSeparator(formulate(reduced)).separate(some_point(formulate(reduced), rng), 100)
        ]
        form = formulate(smaller)
        separator = LoopSeparator(form)
        for goal, members in remaining(loops, smaller):
            cuts += 1
            shorter += all(len(members) < len(loop) for _, loop in loops)
            other += all(goal != c for c, _ in loops)
            cut = separator.cut(goal, members)
            assert all(sum(a * x[i] for i, a in cut.entries) <= 0 for x in answers(form))
    assert cuts > 50
    assert shorter > 10
    assert other > 5


def test_two_halves_of_an_e_node_are_no_whole_one() -> None:
    """The root comes from class 1 or 2, each of which comes from class 3 for nothing or has a price of its own."""
    form = formulation([[(0, [1]), (0, [2])], [(0, [3]), (5, [])], [(0, [3]), (5, [])], [(4, [])]])
    separator = LoopSeparator(form)
    assert separator.acyclic
    plain = Relaxation(form).solve(Budget.of(ExtractLimits()))
    assert plain is not None
    assert plain.bound == pytest.approx(2.0)
    best = Incumbent(form.reduced.problem)
    Cutting(form, Ascent(form.reduced.problem, form.reduced.forced)).run(best, Budget.of(ExtractLimits()))
    assert best.bound == pytest.approx(4.0)
    assert best.cost == 4.0
