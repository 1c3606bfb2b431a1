"""Values that meet conditions are found, however many other unknowns there are."""

from __future__ import annotations

import random

import pytest

from tensat_dl.ops import symbolic as sym
from tensat_dl.verify.rules.solve import Constraints


@pytest.mark.parametrize("seed", range(20))
def test_a_search_goes_back_to_what_is_to_blame(seed: int) -> None:
    """One of a hundred pairs is a solution. No other values of the other unknowns help a pair that is none."""
    x, y, *others = (sym.atom("dim", "x", k) for k in range(9))
    problem = Constraints([sym.at_most(100, sym.mul(x, y))], [x, *others, y])
    rng = random.Random(seed)
    found = problem.draw(rng, lambda a: rng.sample(range(1, 11), 10), tries=1)
    assert found is not None
    assert [problem.value(n, found) for n in (x, y)] == [10, 10]


@pytest.mark.parametrize("seed", range(20))
def test_equations_that_decide_an_unknown_are_to_blame(seed: int) -> None:
    """x or y is solved for, and is a whole number for few values of the other alone."""
    x, y, z, *others = (sym.atom("dim", "x", k) for k in range(9))
    conditions = [sym.equal(sym.mul(x, y), 91), sym.at_most(sym.mul(y, z), 13)]
    problem = Constraints(conditions, [x, *others, y, z])
    rng = random.Random(seed)
    found = problem.draw(rng, lambda a: rng.sample(range(1, 16), 15), tries=4)
    assert found is not None
    assert problem.value(sym.mul(x, y), found) == 91
    assert problem.value(sym.mul(y, z), found) <= 13
