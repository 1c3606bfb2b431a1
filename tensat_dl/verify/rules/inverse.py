"""Works out what one unknown can be from the conditions on it: their comparisons, taken back step by step.

The result is what to try: too many values are no harm, as conditions are evaluated afterwards.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import floor, gcd, lcm
from typing import Any

from tensat_dl.ops.symbolic import Atom, Condition, Int, Opaque, Sym
from tensat_dl.rewrite.facts import Facts
from tensat_dl.verify.rules.expressions import INTEGERS, FunctionWriter

#: What no bound is beyond, and what a dimension that a condition asks for is within.
FAR = 1 << 60
NEAR = 1 << 32
#: How many numbers from an end of a range are tried.
SCANNED = 128


@dataclass
class _Range:
    """The whole numbers from ``low`` to ``high`` that are ``rest`` modulo ``step``."""

    low: int
    high: int
    step: int = 1
    rest: int = 0

    def clip(self, low: int, high: int) -> None:
        self.low, self.high = max(self.low, low), min(self.high, high)

    def congruent(self, slope: int, rest: int, modulus: int) -> None:
        """Keeps the numbers n for which slope n = rest modulo ``modulus``."""
        common = gcd(slope, modulus)
        if rest % common:
            self.high = self.low - 1
            return
        modulus //= common
        wanted = rest // common * pow(slope // common, -1, modulus) % modulus
        common = gcd(self.step, modulus)
        if (wanted - self.rest) % common:
            self.high = self.low - 1
            return
        ahead = (wanted - self.rest) // common * pow(self.step // common, -1, modulus // common)
        self.rest += self.step * (ahead % (modulus // common))
        self.step = lcm(self.step, modulus)
        self.rest %= self.step

    def numbers(self) -> Iterator[int]:
        """The first and the last of them, or those around 0 if it has no ends."""
        first = self.low if self.low > -NEAR else min(0, self.high)
        first += (self.rest - first) % self.step
        last = self.high - (self.high - self.rest) % self.step
        yield from range(first, min(self.high, first + SCANNED * self.step) + 1, self.step)
        if self.high < NEAR:
            yield from range(last, max(first - 1, last - SCANNED // 4 * self.step), -self.step)


class Inverse:
    """Takes conditions back to the unknown ``a``; ``value`` gives the values of expressions without it."""

    def __init__(
        self, a: Atom, writer: FunctionWriter, facts: Facts, value: Callable[[Any], Any], rng: random.Random
    ) -> None:
        self._a = a
        self._writer = writer
        self._facts = facts
        self._value = value
        self._rng = rng

    def candidates(self, conditions: Iterable[Condition]) -> tuple[Any, ...]:
        """What to try for the unknown, each value once; of words nothing."""
        if self._a[0] in INTEGERS:
            found = _Range(1 if self._a[0] == "dim" else -FAR, FAR)
            for c in conditions:
                self._meet(c, found)
            return tuple(dict.fromkeys(found.numbers()))
        points = sorted({x for c in conditions for x in self._compared(c)})
        return tuple(dict.fromkeys(around(points)))

    def _meet(self, c: Condition, found: _Range) -> None:
        match c.kind:
            case "eq":
                self._within(c.args[0], 0, 0, found)
            case "le":
                self._within(c.args[0], -FAR, 0, found)
            case "and":
                for part in c.args:
                    self._meet(part, found)
            case "or":
                self._meet(self._rng.choice(c.args), found)

    def _mentions(self, x: Any) -> bool:
        return self._a in self._writer.unknowns(x)

    def _linear(self, p: Int) -> tuple[Atom, int, int, int] | None:
        """(b, n, slope, rest) of a polynomial that is slope b^n + rest; only b depends on the unknown."""
        if not isinstance(p, Sym):
            return None
        parts: dict[tuple[Atom, ...], int] = {}
        rest = 0
        for monomial, k in p.terms:
            inside = tuple(b for b in monomial if self._mentions(_plain(b)))
            for b in monomial:
                k *= 1 if b in inside else self._value(_plain(b))
            if inside:
                parts[inside] = parts.get(inside, 0) + k
            else:
                rest += k
        if len(parts) != 1:
            return None
        ((inside, slope),) = parts.items()
        return (inside[0], len(inside), slope, rest) if slope and len(set(inside)) == 1 else None

    def _within(self, p: Int, low: int, high: int, found: _Range) -> None:
        """Keeps the numbers for which low <= p <= high, as far as that can be said."""
        split = self._linear(p)
        if split is None:
            return
        b, n, slope, rest = split
        low, high = low - rest, high - rest
        if slope < 0:
            low, high, slope = -high, -low, -slope
        low, high = -(-low // slope), high // slope
        if n > 1:  # of positive numbers, and roughly
            low, high = int(max(low, 0) ** (1 / n)), int(max(high, 0) ** (1 / n)) + 1
        if b == self._a:
            found.clip(low, high)
            return
        known = self._facts.known.get(b)
        if b[0] in INTEGERS and known is not None:
            self._within(known, low, high, found)
        elif b[0] == "div" and not self._mentions(b[2]) and (by := self._value(b[2])) > 0:
            self._within(b[1], low * by, high * by + by - 1, found)
        elif b[0] == "mod" and not self._mentions(b[2]) and (by := self._value(b[2])) > 0:
            if low > 0 or high < by - 1:
                self._remains(b[1], by, max(low, 0), min(high, by - 1), found)
        elif b[0] in ("max", "min"):
            self._extreme(b, low, high, found)

    def _remains(self, p: Int, modulus: int, low: int, high: int, found: _Range) -> None:
        """Keeps numbers for which p has one of the remainders from low to high."""
        split = self._linear(p)
        if split is None or low > high:
            return
        wanted = self._rng.randint(low, high)
        b, n, slope, rest = split
        if b == self._a and n == 1:
            found.congruent(slope, wanted - rest, modulus)
        else:
            wanted += modulus * self._rng.randrange(3)
            self._within(p, wanted, wanted, found)

    def _extreme(self, b: Atom, low: int, high: int, found: _Range) -> None:
        """Keeps the numbers for which the larger, or the smaller, of two is from low to high."""
        for p, other in ((b[1], b[2]), (b[2], b[1])):
            fixed = None if self._mentions(other) else self._value(other)
            if b[0] == "max":
                self._within(p, low if fixed is not None and fixed < low else -FAR, high, found)
            else:
                self._within(p, low, high if fixed is not None and fixed > high else FAR, found)

    def _compared(self, c: Condition) -> Iterator[float]:
        """The numbers that the unknown is compared with."""
        if c.kind in ("and", "or", "not"):
            for part in c.args:
                yield from self._compared(part)
        elif c.kind in ("below", "same"):
            for x, other in (c.args, c.args[::-1]):
                if isinstance(x, Opaque) and self._mentions(x) and not self._mentions(other):
                    value = self._value(other)
                    if isinstance(value, int | float):
                        yield value


def around(points: Iterable[float]) -> Iterator[float]:
    """Numbers, in order, with others between any two neighbours and beyond both ends: whole ones, if there are."""
    points = list(points)
    for low, high in pairwise(points):
        yield low + (high - low) / 2
        if floor(low) + 1 < high:
            yield float(floor(low) + 1)
    if points:
        yield from (float(floor(points[0]) - 1), float(floor(points[-1]) + 1), *map(float, points))


def _plain(b: Atom) -> Sym:
    return Sym((((b,), 1),))
