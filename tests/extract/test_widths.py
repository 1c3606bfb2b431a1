"""Widths of e-classes, and sets that are chosen more than they are derived."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import pytest

from tensat_dl.extract.cut_sets import Branch, underived_sets

Branches = dict[int, list[Branch]]


def some(seed: int) -> Branches:
    """Up to nine e-classes with up to three branches each, which may lead round in circles."""
    rng = random.Random(seed)
    count = rng.randint(2, 9)
    return {
        c: [
            (rng.randint(1, 8) / 8, tuple(rng.sample(range(count), rng.choice((0, 1, 1, 2)))))
            for _ in range(rng.randint(1, 3))
        ]
        for c in range(count)
    }


def derived(branches: Mapping[int, Sequence[Branch]], least: float) -> set[int]:
    """E-classes with a derivation of branches that all have at least this value."""
    found: set[int] = set()
    while True:
        more = {
            c
            for c, out in branches.items()
            if c not in found and any(v >= least and found.issuperset(kids) for v, kids in out)
        }
        if not more:
            return found
        found |= more


def chosen(branches: Mapping[int, Sequence[Branch]], c: int) -> float:
    return sum(value for value, _ in branches[c])


@pytest.mark.parametrize("seed", range(300))
def test_little_leads_into_the_sets(seed: int) -> None:
    branches = some(seed)
    for found in underived_sets(branches, 0.01):
        entering = sum(v for c in found for v, kids in branches[c] if found.isdisjoint(kids))
        assert max(chosen(branches, c) for c in found) - entering >= 0.01 - 1e-9


@pytest.mark.parametrize("seed", range(300))
def test_what_has_no_derivation_is_in_a_set(seed: int) -> None:
    branches = some(seed)
    sets = list(underived_sets(branches, 0.01))
    assert set(branches) - derived(branches, 0.0) <= set().union(*sets)


@pytest.mark.parametrize("seed", range(300))
def test_what_is_derived_in_full_starts_no_set(seed: int) -> None:
    branches = {c: out[:1] for c, out in some(seed).items()}
    whole = {c for c in branches if c in derived(branches, chosen(branches, c))}
    assert not any(found <= whole for found in underived_sets(branches, 0.01))


def test_sets_differ() -> None:
    circle: Branches = {0: [(1.0, (1,))], 1: [(1.0, (0,))], 2: [(1.0, (3,))], 3: [(0.9, (2,)), (0.1, ())]}
    assert list(underived_sets(circle, 0.01)) == [{0, 1}, {2, 3}]
    assert list(underived_sets(circle, 0.95)) == [{0, 1}]
