"""The prover: whatever it says follows is true of every assignment under which the facts are true."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from tensat_dl.ops import symbolic as sym
from tensat_dl.ops.symbolic import Atom, Bool, Condition, EvaluationError, Int
from tensat_dl.rewrite.conditions import Facts

pytestmark = pytest.mark.sampled(4)

ATOMS: tuple[Atom, ...] = (("dim", "x", 0), ("dim", "y", 0), ("attr", "a"), ("attr", "b"))


def integer(rng: random.Random, depth: int = 2) -> Int:
    if depth == 0 or rng.random() < 0.4:
        return rng.randint(-3, 4) if rng.random() < 0.3 else sym.atom(*rng.choice(ATOMS))
    combine = rng.choice(
        (sym.add, sym.sub, sym.mul, sym.mul, sym.floordiv, sym.mod, sym.maximum, sym.minimum)
    )
    try:
        return combine(integer(rng, depth - 1), integer(rng, depth - 1))
    except EvaluationError:
        return integer(rng, depth)


def condition(rng: random.Random, depth: int = 1) -> Bool:
    if depth and rng.random() < 0.3:
        join = rng.choice((sym.all_of, sym.any_of))
        return join([condition(rng, depth - 1), condition(rng, depth - 1)])
    make = rng.choice((sym.equal, sym.at_most, sym.at_most, lambda a, b: sym.negate(sym.equal(a, b))))
    return make(integer(rng), integer(rng))


def holds(c: Bool, values: Mapping[Atom, int]) -> bool:
    if isinstance(c, bool):
        return c
    match c.kind:
        case "eq" | "ne" | "le":
            value = sym.substitute(c.args[0], values)
            return bool({"eq": value == 0, "ne": value != 0, "le": value <= 0}[c.kind])
        case "and":
            return all(holds(x, values) for x in c.args)
        case "or":
            return any(holds(x, values) for x in c.args)
    return not holds(c.args[0], values)


@pytest.mark.parametrize("seed", range(8))
def test_what_is_proven_is_true(seed: int) -> None:
    rng = random.Random(seed)
    proven = 0
    for _ in range(250):
        given = [c for c in (condition(rng) for _ in range(rng.randint(0, 3))) if isinstance(c, Condition)]
        facts = Facts()
        goals = [condition(rng) for _ in range(4)]
        try:
            facts.add(given)
            said = [facts.unproven(g) for g in goals]
        except EvaluationError:  # under these facts something has no value: the rule never applies
            continue
        for _ in range(60):
            values = {a: rng.randint(1, 5) if a[0] == "dim" else rng.randint(-4, 4) for a in ATOMS}
            try:
                if not all(holds(c, values) for c in given):
                    continue
                for goal, rest in zip(goals, said, strict=True):
                    proven += isinstance(goal, Condition) and isinstance(rest, bool)
                    assert holds(goal, values) == holds(rest, values), (given, goal, rest, values)
            except EvaluationError:  # such as a division by zero: nothing is claimed
                continue
    assert proven > 20


def test_unknown_factors_have_no_bound() -> None:
    a, b = sym.atom("attr", "a"), sym.atom("attr", "b")
    goal = sym.at_most(1, sym.mul(a, b))
    assert Facts().unproven(goal) == goal


def test_a_quotient_by_what_may_be_zero_is_not_simplified() -> None:
    a, x = sym.atom("attr", "a"), sym.atom("dim", "x", 0)
    assert sym.floordiv(sym.mul(a, x), a) != x
    assert sym.mod(sym.mul(a, x), a) != 0
    assert sym.floordiv(sym.mul(a, x), x) == a
