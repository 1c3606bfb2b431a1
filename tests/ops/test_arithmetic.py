"""Arithmetic on unknown integers, once they are known, is Python's arithmetic: quotients round down."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest

from tensat_dl.ops import symbolic as sym
from tensat_dl.ops.symbolic import Atom, EvaluationError, Int

from .symbols import Case

ATOMS: tuple[Atom, ...] = (("dim", "x", 0), ("dim", "y", 0), ("attr", "a"), ("attr", "b"), ("elem", "l", 0))
BINARY: dict[str, tuple[Callable[[Int, Int], Int], Callable[[int, int], int]]] = {
    "add": (sym.add, lambda a, b: a + b),
    "sub": (sym.sub, lambda a, b: a - b),
    "mul": (sym.mul, lambda a, b: a * b),
    "div": (sym.floordiv, lambda a, b: a // b),
    "mod": (sym.mod, lambda a, b: a % b),
    "max": (sym.maximum, max),
    "min": (sym.minimum, min),
}


class Pair:
    """An expression of unknowns, and the same on known integers; None where it has no value."""

    def __init__(self, unknown: Int | None, known: int | None) -> None:
        self.unknown, self.known = unknown, known


def draw(rng: random.Random, case: Case, depth: int) -> Pair:
    if depth == 0 or rng.random() < 0.2:
        if rng.random() < 0.25:
            n = rng.randint(-4, 4)
            return Pair(n, n)
        atom = rng.choice(ATOMS)
        return Pair(sym.atom(*atom), case.integers[atom])
    if rng.random() < 0.15:
        return select(rng, case, depth)
    name = rng.choice(sorted(BINARY))
    symbolic, concrete = BINARY[name]
    a, b = draw(rng, case, depth - 1), draw(rng, case, depth - 1)
    if a.unknown is None or b.unknown is None:
        return Pair(None, None)
    try:
        unknown: Int | None = symbolic(a.unknown, b.unknown)
    except EvaluationError:
        unknown = None
    if a.known is None or b.known is None or (name in ("div", "mod") and b.known == 0):
        return Pair(unknown, None)
    return Pair(unknown, concrete(a.known, b.known))


def select(rng: random.Random, case: Case, depth: int) -> Pair:
    items = [draw(rng, case, depth - 1) for _ in range(rng.randint(1, 3))]
    return element(items, draw(rng, case, depth - 1))


def element(items: Sequence[Pair], index: Pair) -> Pair:
    if index.unknown is None or any(i.unknown is None for i in items):
        return Pair(None, None)
    try:
        unknown: Int | None = sym.select(
            tuple(i.unknown for i in items if i.unknown is not None), index.unknown
        )
    except EvaluationError:
        unknown = None
    n = len(items)
    if index.known is None or not -n <= index.known < n or any(i.known is None for i in items):
        return Pair(unknown, None)
    return Pair(unknown, items[index.known].known)


@pytest.mark.parametrize("seed", range(10))
def test_arithmetic_is_that_of_integers(seed: int) -> None:
    rng = random.Random(seed)
    compared = 0
    for _ in range(400):
        case = Case()
        for atom in ATOMS:
            case.integers[atom] = rng.randint(1, 6) if atom[0] == "dim" else rng.randint(-6, 6)
        pair = draw(rng, case, 3)
        if pair.known is None:  # a division by zero, or an element that is not there, somewhere inside
            continue
        assert pair.unknown is not None
        assert case.of(pair.unknown) == pair.known, pair.unknown
        compared += 1
    assert compared > 200


@pytest.mark.parametrize("seed", range(4))
def test_elements_of_lists_of_elements(seed: int) -> None:
    """What picks from one list is folded into it. From different lists, and from lists beside other things, every
    element must still come from its own."""
    rng = random.Random(seed)
    for _ in range(200):
        case = Case()
        for atom in ATOMS:
            case.integers[atom] = rng.randint(0, 1)
        known = [Pair(sym.atom(*atom), case.integers[atom]) for atom in ATOMS]
        lists = [[Pair(n, n) for n in rng.sample(range(9), 2)] for _ in range(2)]
        parts = [element(rng.choice(lists), rng.choice(known)) for _ in range(3)]
        picked = element(rng.sample([*parts, known[0], Pair(9, 9)], 2), rng.choice(known))
        assert case.of(picked.unknown) == picked.known, picked.unknown


@pytest.mark.parametrize("seed", range(4))
def test_comparisons_are_those_of_integers(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(200):
        case = Case()
        for atom in ATOMS:
            case.integers[atom] = rng.randint(1, 6) if atom[0] == "dim" else rng.randint(-6, 6)
        a, b = draw(rng, case, 2), draw(rng, case, 2)
        if a.known is None or b.known is None:
            continue
        assert a.unknown is not None
        assert b.unknown is not None
        equal, at_most = sym.equal(a.unknown, b.unknown), sym.at_most(a.unknown, b.unknown)
        assert case.holds(equal) == (a.known == b.known)
        assert case.holds(sym.negate(equal)) == (a.known != b.known)
        assert case.holds(at_most) == (a.known <= b.known)
        assert case.holds(sym.negate(at_most)) == (a.known > b.known)
        assert case.holds(sym.all_of((equal, at_most))) == (a.known == b.known)
        assert case.holds(sym.any_of((equal, at_most))) == (a.known <= b.known)


@pytest.mark.parametrize("divide", [sym.floordiv, sym.mod])
def test_division_by_zero_has_no_value(divide: Callable[[Int, Int], Int]) -> None:
    for a in (0, 7, sym.atom("dim", "x", 0)):
        with pytest.raises(EvaluationError):
            divide(a, 0)
    quotient = divide(sym.atom("attr", "a"), sym.atom("attr", "b"))
    with pytest.raises(EvaluationError):
        sym.substitute(quotient, {("attr", "a"): 3, ("attr", "b"): 0})


@pytest.mark.parametrize("seed", range(4))
def test_substitution_is_evaluation_in_two_steps(seed: int) -> None:
    rng = random.Random(seed)
    compared = 0
    for _ in range(300):
        case, later = Case(), Case()
        for atom in ATOMS:
            case.integers[atom] = rng.randint(1, 6) if atom[0] == "dim" else rng.randint(-6, 6)
        known: dict[Atom, Int] = {}
        for atom in ATOMS:
            replaced = draw(rng, case, 2) if atom[0] != "dim" and rng.random() < 0.6 else Pair(None, None)
            later.integers[atom] = case.integers[atom] if replaced.known is None else replaced.known
            if replaced.known is not None and replaced.unknown is not None:
                known[atom] = replaced.unknown
        pair = draw(rng, later, 3)
        if pair.known is None or pair.unknown is None:
            continue
        assert case.of(sym.substitute(pair.unknown, known)) == pair.known, (pair.unknown, known)
        compared += 1
    assert compared > 100
