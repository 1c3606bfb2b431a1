"""Draws values for unknown dimensions and attributes under which conditions hold.

The numbers are small (dimensions up to 7 or so), and there are many solutions: equations are solved for one unknown
each, the others are drawn in a random order, and every condition is checked as soon as its last unknown has a value.
An equation that is linear in its last unknown gives that one's value; else other values are tried. A thorough search
works out values from the other conditions, too: rules may ask for a dimension beyond 16 * 16.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, reduce
from math import prod
from typing import Any

from tensat_dl.ops import symbolic as sym
from tensat_dl.ops.symbolic import Atom, Bool, Condition, EvaluationError, Int, Opaque, Sym
from tensat_dl.rewrite.conditions import Facts, conjuncts
from tensat_dl.verify.rules.unknowns import INTEGERS, FunctionWriter, Inverse, Values

#: The values to try for an unknown, the first first.
Domain = Callable[[Atom], Sequence[Any]]

#: The functions a and b of an equation a x + b = 0.
Linear = tuple[Callable[[Values], int], Callable[[Values], int]]

#: How many values one search tries before it starts again in another order.
EFFORT = 400
#: How many of the values that are worked out for an unknown are tried, and how many values working them out is worth.
WORKED_OUT = 8
#: How many of the least of these are tried, and how often before others.
NEAREST = 3
OFTEN = 0.7
WORK = 8
#: Sizes of more terms are not written as one sum.
MOST_TERMS = 500


@dataclass(frozen=True)
class _Check:
    """A condition on the unknowns ``mentioned``, which may be ``solved`` for one of them. The limit of a large
    product has no ``condition``."""

    holds: Callable[[Values], Any]
    mentioned: frozenset[Atom]
    solved: bool
    condition: Condition | None


class Constraints:
    """Conditions on unknowns, prepared for drawing solutions.

    ``unknowns`` need a value whether or not a condition mentions them. ``shapes`` are those of tensors, whose numbers
    of elements have a limit. ``possible`` is False where the conditions contradict each other at first sight.
    """

    def __init__(
        self,
        conditions: Iterable[Bool],
        unknowns: Iterable[Any],
        shapes: Iterable[tuple[Int, ...]] = (),
    ) -> None:
        facts = Facts()
        left: dict[Bool, None] = {False: None}
        with suppress(EvaluationError):  # with one, a condition has no value, and nothing is a solution
            flat = [part for c in conditions for part in conjuncts(c)]
            facts.add(flat)
            left = dict.fromkeys(facts.simplify(c) for c in flat)
        self.facts = facts
        unknowns = list(unknowns)
        self._no_integers = {x.atom for x in unknowns if isinstance(x, Opaque)}
        self._writer = FunctionWriter(facts)
        others: list[Bool] = []
        for a, x in facts.known.items():
            if a[0] not in INTEGERS:  # a quotient or the like that must have a value
                others.append(sym.equal(Sym((((a,), 1),)), x))
            elif a[0] == "dim":
                others.append(sym.at_most(1, x))
        self._shapes = [s for s in dict.fromkeys(shapes) if any(isinstance(d, Sym) for d in s)]
        checks = [self._check(c, c.kind == "eq") for c in left if isinstance(c, Condition)]
        checks += [self._check(c, False) for c in others if isinstance(c, Condition)]
        known = [c for c in checks if not c.mentioned]
        self.possible = False not in (*left, *others) and _broken(known, {}) is None
        self._checks = [c for c in checks if c.mentioned]
        self._within: dict[int, list[_Check]] = {}  #: checks of sizes, by limit
        self._linear: dict[tuple[Condition, Atom], Linear | None] = {}
        self._inverses: dict[Atom, Inverse] = {}
        mentioned = [self._writer.unknowns(x) for x in unknowns] + [c.mentioned for c in self._checks]
        mentioned += [self._unknowns(shape) for shape in self._shapes]
        #: The unknowns that are drawn; everything else follows.
        self.free = tuple(dict.fromkeys(a for atoms in mentioned for a in sorted(atoms, key=repr)))

    def draw(
        self, rng: random.Random, domain: Domain, tries: int = 4, limit: int = 512, thorough: bool = False
    ) -> Values | None:
        """The values of the free unknowns of a solution with tensors of at most ``limit`` elements, or None if none
        was found. ``thorough`` searches compute values from conditions."""
        if limit not in self._within:
            self._within[limit] = [c for s in self._shapes if (c := self._fits(s, limit)) is not None]
        checks = [*self._checks, *(c for c in self._within[limit] if c.mentioned)]
        for _ in range(tries if self.possible else 0):
            order = list(self.free)
            rng.shuffle(order)
            if thorough:  # dimensions follow from strides and the like
                order.sort(key=lambda a: (self._apart[a], a[0] == "dim"))
            found = self._search(order, checks, domain, rng, thorough)
            if found is not None:
                return found
        return None

    @cached_property
    def _apart(self) -> dict[Atom, int]:
        """For each free unknown its group: no condition joins two groups but limits of sizes."""
        groups = _joined(self.free, [set(c.mentioned) for c in self._checks])
        return {a: i for i, group in enumerate(groups) for a in group}

    def value(self, x: Any, values: Values) -> Any:
        """The value of an unknown or an expression of unknowns in a solution."""
        return self._writer.value(x, values)

    def _search(
        self,
        order: Sequence[Atom],
        checks: Iterable[_Check],
        domain: Domain,
        rng: random.Random,
        thorough: bool,
    ) -> Values | None:
        position = {a: i for i, a in enumerate(order)}
        due: list[list[_Check]] = [[] for _ in order]
        for check in checks:
            due[max(position[a] for a in check.mentioned)].append(check)
        values: Values = {}
        effort = EFFORT

        def visit(i: int) -> frozenset[Atom] | None:
            """None once all unknowns from this one on have values; else those before it that are to blame: nothing
            is gained by other values of others."""
            nonlocal effort
            if i == len(order):
                return None
            a = order[i]
            values.pop(a, None)
            effort -= WORK if thorough and due[i] else 0
            blamed = set[Atom]().union(*(c.mentioned for c in due[i] if c.solved))
            for value in self._candidates(a, due[i], values, domain, rng, thorough):
                effort -= 1
                if effort < 0:
                    return frozenset()
                values[a] = value
                broken = _broken(due[i], values)
                if broken is not None:
                    blamed |= broken.mentioned
                    continue
                later = visit(i + 1)
                if later is None:
                    return None
                if a not in later:
                    return later
                blamed |= later
            return frozenset(blamed - {a})

        return values if visit(0) is None else None

    def _check(self, c: Condition, solved: bool) -> _Check:
        return _Check(self._writer.function(c), self._writer.unknowns(c), solved, c)

    def _unknowns(self, shape: tuple[Int, ...]) -> frozenset[Atom]:
        return frozenset[Atom]().union(*map(self._writer.unknowns, shape))

    def _fits(self, shape: tuple[Int, ...], limit: int) -> _Check | None:
        """The check that a tensor has at most so many elements; None if it has for sure. Six sums of five terms each,
        as of a tensor that is padded twice, are left a product: as one sum they have 15,625 terms."""
        if prod(len(sym.terms_of(d)) for d in shape) <= MOST_TERMS:
            c = sym.at_most(reduce(sym.mul, shape), limit)
            return self._check(c, False) if isinstance(c, Condition) else None

        def holds(values: Values) -> bool:
            return bool(prod(self._writer.value(shape, values)) <= limit)

        return _Check(holds, self._unknowns(shape), False, None)

    def _solved(self, c: Condition, a: Atom) -> Linear | None:
        """An equation as a x + b = 0 for an unknown x, if it is linear in it: the functions a and b."""
        key = (c, a)
        if key not in self._linear:
            split = _linear_in(c.args[0], a) if a[0] in INTEGERS and a in c.args[0].atoms() else None
            self._linear[key] = (
                None if split is None else (self._writer.function(split[0]), self._writer.function(split[1]))
            )
        return self._linear[key]

    def _candidates(
        self,
        a: Atom,
        due: Sequence[_Check],
        values: Values,
        domain: Domain,
        rng: random.Random,
        thorough: bool,
    ) -> Sequence[Any]:
        """The only value that an equation leaves an unknown, or all that may be tried."""
        for check in due:
            c = check.condition
            if check.solved and c is not None and (linear := self._solved(c, a)) is not None:
                try:
                    slope, rest = (f(values) for f in linear)
                except ArithmeticError:  # a division by an unknown that was drawn as zero
                    return ()
                if slope:
                    return (-rest // slope,) if rest % slope == 0 else ()
        if not thorough or not due:
            return domain(a)
        return (*self._worked_out(a, due, values, rng), *domain(a))

    def _worked_out(
        self, a: Atom, due: Sequence[_Check], values: Values, rng: random.Random
    ) -> Sequence[Any]:
        """Some of the values with which all conditions hold, in a random order."""
        if a not in self._inverses:
            whole = a[0] in INTEGERS and a not in self._no_integers
            self._inverses[a] = Inverse(a, whole, self._writer, self.facts)
        known = [c.condition for c in due if c.condition is not None]
        try:
            found = self._inverses[a].candidates(known, values, rng)
        except (ArithmeticError, EvaluationError):
            return ()
        fitting = []
        for x in found:
            values[a] = x
            if _broken(due, values) is None:
                fitting.append(x)
        values.pop(a, None)
        chosen = rng.sample(fitting, min(len(fitting), WORKED_OUT))
        nearest = fitting[:NEAREST]  # where conditions meet, little room is left beyond a bound
        rng.shuffle(nearest)
        return (*nearest, *chosen) if rng.random() < OFTEN else (*chosen, *nearest)


def _broken(checks: Iterable[_Check], values: Values) -> _Check | None:
    """The first that is not true. One that has no value, as it divides by zero, is not."""
    for check in checks:
        try:
            if not check.holds(values):
                return check
        except (ArithmeticError, EvaluationError):
            return check
    return None


def _joined(atoms: Iterable[Atom], groups: Iterable[set[Atom]]) -> Sequence[frozenset[Atom]]:
    """The atoms in the groups that remain if groups with common atoms are one."""
    found: list[set[Atom]] = []
    for group in ({*g} for g in (*groups, *({a} for a in atoms))):
        for other in [g for g in found if not g.isdisjoint(group)]:
            found.remove(other)
            group |= other
        found.append(group)
    return tuple(map(frozenset, found))


def _linear_in(p: Sym, a: Atom) -> tuple[Int, Int] | None:
    """(slope, rest) of a polynomial in one atom, if it is linear in it."""
    for monomial, _ in p.terms:
        others = [x for x in monomial if x != a]
        if len(monomial) - len(others) > 1 or any(a in Sym((((x,), 1),)).mentioned for x in others):
            return None
    rest = sym.substitute(p, {a: 0})
    return sym.sub(sym.substitute(p, {a: 1}), rest), rest
