"""Landmarks: e-classes that every derivation contains, against all derivations."""

from __future__ import annotations

import random

import pytest

from tensat_dl.extract import landmarks
from tensat_dl.extract.problem import Problem, from_egraph

from .builders import derivations, egraph, random_egraph, tangled_egraph


def landmarks_of(problem: Problem, c: int) -> set[int]:
    found = landmarks.landmarks(problem)
    return {d for d, i in found.bit.items() if found.above[c] >> i & 1}


@pytest.mark.parametrize("rounds", [0, 1, landmarks.MAX_ROUNDS])
def test_every_derivation_contains_them(rounds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However early a component is given up: until then its sets are too large."""
    monkeypatch.setattr(landmarks, "MAX_ROUNDS", rounds)
    for seed in range(40):
        rng = random.Random(seed)
        graph = random_egraph(rng, 8, 3, 0.4) if seed % 2 else tangled_egraph(rng, 6)
        problem = from_egraph(graph)
        contained = [choice.keys() for choice in derivations(graph)]
        for root in problem.roots:
            found = landmarks_of(problem, root)
            assert root in found
            assert all(found <= classes for classes in contained)


@pytest.mark.parametrize(("rounds", "expected"), [(0, {1}), (landmarks.MAX_ROUNDS, {0, 1})])
def test_of_a_component_that_is_given_up_nothing_is_known(
    rounds: int, expected: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Classes 1 and 2 can be had from one another, and the first one of them from class 0."""
    monkeypatch.setattr(landmarks, "MAX_ROUNDS", rounds)
    problem = from_egraph(egraph([[(1, [])], [(5, [0]), (1, [2])], [(5, [0]), (1, [1])]], [1]))
    assert landmarks_of(problem, 1) == expected
