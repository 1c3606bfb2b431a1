"""Symbolic integers and conditions as Python functions of the values of unknowns; and conditions taken back, step by
step, to the values that one unknown can have."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import floor, gcd, inf, isfinite, lcm, nan
from typing import Any

from tensat_dl.ops.symbolic import Atom, Condition, Int, Opaque, Sym, add, mod, mul, select, sub
from tensat_dl.ops.values import FUNCTIONS
from tensat_dl.rewrite.conditions import Facts
from tensat_dl.verify.symbolic.polynomials import long_division, quotient_by

#: Values of unknowns by atom, such as ("dim", "x", 0): integers, words, floats, truth values.
Values = dict[Atom, Any]
#: Atoms that are integers by themselves; others are computed from these.
INTEGERS = ("dim", "attr", "elem", "factors")

_OPERATORS = {"div": "//", "mod": "%"}
_SIGNS = {"eq": "==", "ne": "!=", "le": "<="}
#: Names in the texts of functions.
_NAMES = {"at": select, "holds": FUNCTIONS["holds"].apply, "inf": inf, "nan": nan}

#: No bound is beyond the first, and dimensions that conditions ask for are within the second.
FAR = 1 << 60
NEAR = 1 << 32
#: How many numbers from an end of a range are tried.
SCANNED = 128
#: How often a float is brought nearer to one that a condition asks for.
SECANTS = 24


class FunctionWriter:
    """Writes expressions over unknowns as Python text, with the known values put in place."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._unknowns: dict[Any, frozenset[Atom]] = {}
        self._functions: dict[Int | Opaque | Condition, Callable[[Values], Any]] = {}

    def function(self, x: Int | Opaque | Condition) -> Callable[[Values], Any]:
        """The value of an expression as a function of the values by atom."""
        if x not in self._functions:
            self._functions[x] = _compiled(self.text(x))
        return self._functions[x]

    def value(self, x: Any, values: Values) -> Any:
        """The value of an unknown, of an expression of unknowns, or of several."""
        if isinstance(x, tuple):
            return tuple(self.value(item, values) for item in x)
        return self.function(x)(values) if isinstance(x, Sym | Opaque | Condition) else x

    def text(self, x: Any) -> str:
        """An expression in Python, in which ``v`` has the values by atom."""
        if isinstance(x, Sym):
            return "(" + " + ".join(self._term(m, k) for m, k in x.terms) + ")"
        if isinstance(x, Condition):
            return self._condition(x)
        if isinstance(x, Opaque):
            value = self._facts.value(x)
            if isinstance(value, Opaque) and value.atom[0] == "float":
                _, op, left, right = value.atom
                return f"({self.text(left)} {op} {self.text(right)})"
            return f"v[{value.atom!r}]" if isinstance(value, Opaque) else self.text(value)
        return repr(x)

    def unknowns(self, x: Any) -> frozenset[Atom]:
        """The atoms whose values an expression needs."""
        found = self._unknowns.get(x)
        if found is None:
            found = self._unknowns[x] = self._needed(x)
        return found

    def _needed(self, x: Any) -> frozenset[Atom]:
        if isinstance(x, Sym):
            known = self._facts.known
            base = [a for a in x.mentioned if a[0] in INTEGERS]
            return frozenset(b for a in base for b in (self.unknowns(known[a]) if a in known else (a,)))
        if isinstance(x, Opaque):
            value = self._facts.value(x)
            if isinstance(value, Opaque) and value.atom[0] == "float":
                return frozenset(a for part in value.atom[2:] for a in self.unknowns(part))
            return frozenset((value.atom,)) if isinstance(value, Opaque) else self.unknowns(value)
        if isinstance(x, Condition):
            if x.kind in ("weight", "start"):
                return frozenset(((x.kind, *x.args),))
            return frozenset(a for part in x.args for a in self.unknowns(part))
        return frozenset()

    def _term(self, monomial: Sequence[Atom], k: int) -> str:
        return " * ".join([str(k), *(self._atom(a) for a in monomial)])

    def _atom(self, a: Atom) -> str:
        kind = a[0]
        if kind in _OPERATORS:
            return f"({self.text(a[1])} {_OPERATORS[kind]} {self.text(a[2])})"
        if kind in ("max", "min"):
            return f"{kind}({self.text(a[1])}, {self.text(a[2])})"
        if kind == "select":
            items = "".join(f"{self.text(i)}, " for i in a[1])
            return f"at(({items}), {self.text(a[2])})"
        known = self._facts.known.get(a)
        return f"v[{a!r}]" if known is None else self.text(known)

    def _condition(self, c: Condition) -> str:
        match c.kind:
            case "eq" | "ne" | "le":
                return f"({self.text(c.args[0])} {_SIGNS[c.kind]} 0)"
            case "same":
                return f"({self.text(c.args[0])} == {self.text(c.args[1])})"
            case "below":
                return f"({self.text(c.args[0])} < {self.text(c.args[1])})"
            case "holds":
                return f"holds({self.text(c.args[0])}, {self.text(c.args[1])})"
            case "and" | "or":
                return "(" + f" {c.kind} ".join(self._condition(x) for x in c.args) + ")"
            case "not":
                return f"(not {self._condition(c.args[0])})"
        return f"v[{(c.kind, *c.args)!r}]"  # weight, start


@lru_cache(maxsize=20_000)
def _compiled(text: str) -> Callable[[Values], Any]:
    """The same conditions come up at many ranks."""
    result: Callable[[Values], Any] = eval(f"lambda v: {text}", _NAMES)
    return result


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


@dataclass(frozen=True)
class _Power:
    """A polynomial as slope b^n + rest, where only the atom b depends on an unknown."""

    b: Atom
    n: int
    slope: Int
    rest: Int


class Inverse:
    """Takes conditions back to the unknown ``a``, an integer if it is ``whole``, given the ``values`` of the other
    unknowns. There may be too many candidates, as conditions are evaluated afterwards."""

    def __init__(self, a: Atom, whole: bool, writer: FunctionWriter, facts: Facts) -> None:
        self._a = a
        self._whole = whole
        self._writer = writer
        self._facts = facts
        self._powers: dict[Int, _Power | None] = {}
        self._values: Values = {}
        self._rng = random.Random()

    def candidates(
        self, conditions: Iterable[Condition], values: Values, rng: random.Random
    ) -> tuple[Any, ...]:
        """Values to try for the unknown, each once; of words none."""
        self._values, self._rng = values, rng
        if self._whole:
            found = _Range(1 if self._a[0] == "dim" else -FAR, FAR)
            for c in conditions:
                self._meet(c, found)
            return tuple(dict.fromkeys(found.numbers()))
        points = sorted({x for c in conditions for x in self._compared(c)})
        return tuple(dict.fromkeys(around(points)))

    def _value(self, x: Any) -> Any:
        return self._writer.value(x, self._values)

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
        if p not in self._powers:
            self._powers[p] = self._power(p)
        power = self._powers[p]
        if power is None:
            return None
        slope = self._value(power.slope)
        return (power.b, power.n, slope, self._value(power.rest)) if slope else None

    def _power(self, p: Int) -> _Power | None:
        if not isinstance(p, Sym):
            return None
        slopes: dict[tuple[Atom, ...], Int] = {}
        rest: Int = 0
        for monomial, k in p.terms:
            inside = tuple(b for b in monomial if self._mentions(_plain(b)))
            outside: Int = k
            for b in monomial:
                outside = outside if b in inside else mul(outside, _plain(b))
            if inside:
                slopes[inside] = add(slopes.get(inside, 0), outside)
            else:
                rest = add(rest, outside)
        if len(slopes) != 1:
            other = self._by_remainders(p)
            return None if other == p else self._power(other)
        ((inside, slope),) = slopes.items()
        return _Power(inside[0], len(inside), slope, rest) if len(set(inside)) == 1 else None

    def _by_remainders(self, p: Sym) -> Int:
        """A polynomial with q - q % k in place of (q / k) k: what is cut into blocks of k is a multiple of k."""
        for a in sorted(p.atoms(), key=repr):
            if a[0] == "div" and self._mentions(_plain(a)):
                factor, rest = long_division(quotient_by(p, a), a[2])
                if factor != 0 and rest == 0:
                    less = sub(sub(a[1], mod(*a[1:])), mul(a[2], _plain(a)))
                    new = add(p, mul(factor, less))
                    return self._by_remainders(new) if isinstance(new, Sym) else new
        return p

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
        b, n, slope, rest = split
        if b == self._a and n == 1:
            common = gcd(slope * found.step, modulus)
            fits = [
                w
                for w in range(low, min(high, low + SCANNED) + 1)
                if (w - rest - slope * found.rest) % common == 0
            ]
            found.congruent(slope, (self._rng.choice(fits) if fits else low) - rest, modulus)
        elif (
            b[0] == "div"
            and (slope, rest, n) == (1, 0, 1)
            and not self._mentions(b[2])
            and (by := self._value(b[2])) > 0
        ):
            self._remains(b[1], modulus * by, low * by, high * by + by - 1, found)
        else:
            wanted = self._rng.randint(low, high) + modulus * self._rng.randrange(3)
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
                if isinstance(x, Opaque) and x.atom[0] == "float" and self._mentions(x):
                    yield from self._where_equal(x, other)
                elif isinstance(x, Opaque) and self._mentions(x) and not self._mentions(other):
                    value = self._value(other)
                    if isinstance(value, int | float):
                        yield value

    def _where_equal(self, x: Opaque, y: Any) -> Iterator[float]:
        """A number for which two computed floats are equal, by the secant method: at once for linear ones."""

        def difference(point: float) -> float:
            values = {**self._values, self._a: point}
            return float(self._writer.value(x, values) - self._writer.value(y, values))

        (p, at_p), (q, at_q) = ((point, difference(point)) for point in (1.0, 2.0))
        for _ in range(SECANTS):
            if at_q in (0.0, at_p):
                break
            p, at_p, q = q, at_q, q - at_q * (q - p) / (at_q - at_p)
            at_q = difference(q)
        if isfinite(q):
            yield q


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
