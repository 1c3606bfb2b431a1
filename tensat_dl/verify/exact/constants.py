"""The numbers in graphs: the exact number of a literal, and numbers that tell graphs with such constants apart."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from fractions import Fraction
from functools import lru_cache

from tensat_dl.core import expression as ex
from tensat_dl.core.expression import children
from tensat_dl.core.graph import Graph
from tensat_dl.ops.table import OpTable

Numbers = tuple[int | Fraction, ...]

#: A fraction with a larger denominator is taken for a rounded number that is not exactly what was meant, such as the
#: square root of 2.
LARGEST_DENOMINATOR = 1 << 24
#: At most so many constants have numbers near them tried, the simplest, and this is how near; and at most so many
#: numbers beyond them, those that are farthest from 1.
MOST_CONSTANTS = 6
NEAR = Fraction(1, 7)
#: Powers of a constant that are tried.
POWERS = (1, 2, 4, -1, -2)
#: Natural logarithms of magnitudes that are tried: what is nearer to 1 is drawn anyway, what is farther may be beyond
#: floats after a few products.
NEAREST = 3.0
FARTHEST = 400.0


@lru_cache(maxsize=4096)
def meant(value: float) -> Fraction:
    """The simplest fraction that rounds to ``value`` in float64: 0.1 is 1/10, and 1.0 / 3 is 1/3.

    An equation of exact numbers would fail by the rounding of its literals otherwise. Found by the Stern-Brocot tree,
    as the fraction with the least denominator between the midpoints to the neighbouring floats. Raises ``ValueError``
    for what is not a finite number.
    """
    if not math.isfinite(value):
        raise ValueError(f"{value} is not a number to compute with")
    exact = Fraction(value)
    if exact.denominator == 1:
        return exact
    if exact < 0:
        return -meant(-value)
    half = Fraction(1, 2)
    low = exact - (exact - Fraction(math.nextafter(value, 0.0))) * half
    high = exact + (Fraction(math.nextafter(value, math.inf)) - exact) * half
    return _simplest(low, high)


def _simplest(low: Fraction, high: Fraction) -> Fraction:
    """The fraction with the least denominator in ``low <= x <= high``, for 0 <= low < high: their continued
    fractions, as far as they agree, and then the next whole number."""
    floor = low.numerator // low.denominator
    if floor == low:
        return Fraction(floor)
    if floor + 1 <= high:
        return Fraction(floor + 1)
    return floor + 1 / _simplest(1 / (high - floor), 1 / (low - floor))


def near(constants: Collection[Fraction]) -> Numbers:
    """Numbers that tell graphs with these constants from others: on both sides of each, between two, their
    differences (one may be a bound for what the other is added to), and what products with them bring to about 1."""
    chosen = sorted(set(constants) - {Fraction(0)}, key=lambda c: (c.denominator, abs(c), c))[:MOST_CONSTANTS]
    found: dict[Fraction, None] = {}
    for c in chosen:
        for s in (1, -1):
            found |= dict.fromkeys(
                (s * c, s * c + NEAR, s * c - NEAR, 2 * s * c, s / c, s * Fraction(3, 2) / c)
            )
        for d in chosen:
            found |= dict.fromkeys(((c + d) / 2, -(c + d) / 2, c - d))
    return tuple(found)


def constants(graphs: Iterable[Graph], ops: OpTable) -> tuple[Fraction, ...]:
    """The magnitudes of numbers that graphs or the definitions of their operators have, 0 excepted: those that are
    farthest from 1, in this order."""
    return tuple(sorted(numbers(graphs, ops), key=lambda c: (-abs(_log(c)), c))[:MOST_CONSTANTS])


def numbers(graphs: Iterable[Graph], ops: OpTable) -> set[Fraction]:
    """The magnitudes of all of these numbers."""
    found: set[float] = set()
    for node in (n for graph in graphs for n in graph.nodes):
        if node.op == "fill" or (node.op in ops and ops[node.op].composition is not None):
            found.update(value for _, value in node.attrs if isinstance(value, float))
            found.update(_written(node.op, ops))
    return {abs(meant(x)) for x in found if math.isfinite(x) and x != 0}


def _written(op: str, ops: OpTable) -> Iterator[float]:
    """The numbers in the definition of a composition, and in those that it is made of."""
    waiting: list[object] = [ops[op].composition] if op in ops else []
    while waiting:
        expr = waiting.pop()
        if isinstance(expr, ex.Const) and isinstance(expr.value, int | float):
            yield float(expr.value)
        elif isinstance(expr, ex.Call) and expr.fn in ops:
            waiting.append(ops[expr.fn].composition)
        waiting.extend(children(expr))


def scales(numbers: Collection[Fraction]) -> tuple[float, ...]:
    """Magnitudes at which functions pass these numbers: powers, exponentials and logarithms of them, one for each
    power of ten.

    The root of x is above 100 where x is above 100^2, its reciprocal where x is below 1 / 100^2, its logarithm where
    x is above exp(100).
    """
    found: dict[int, float] = {}
    for c in numbers:
        log = _log(c)
        logs = [log * power for power in POWERS]
        logs += [s * float(c) for s in (1, -1) if c < FARTHEST] + ([math.log(abs(log))] if log else [])
        for x in logs:
            if NEAREST <= abs(x) <= FARTHEST:
                place = int(x / math.log(10))
                found[place] = max(found.get(place, x), x, key=abs)
    return tuple(math.exp(found[place]) for place in sorted(found))


def far(numbers: Collection[Fraction]) -> tuple[Fraction, ...]:
    """Products and quotients of two of these numbers, of both signs."""
    found: dict[Fraction, None] = {}
    for c in numbers:
        for d in numbers:
            found |= dict.fromkeys(s * x for x in (c * d, c / d, 1 / (c * d)) for s in (1, -1))
    return tuple(found)


def _log(c: Fraction) -> float:
    return math.log(c.numerator) - math.log(c.denominator)
