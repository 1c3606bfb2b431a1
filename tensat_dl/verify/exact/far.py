"""Numbers far beyond the constants of graphs, so that what functions make of them is beyond these, too.

The root of x is above 100 where x is above 100^2, its reciprocal where x is below 1 / 100^2, its logarithm where x is
above exp(100).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from fractions import Fraction

from tensat_dl.core import expression as ex
from tensat_dl.core.expression import children
from tensat_dl.core.graph import Graph
from tensat_dl.ops.table import OpTable
from tensat_dl.verify.exact.constants import meant

#: At most so many constants have numbers beyond them tried, those that are farthest from 1.
MOST_CONSTANTS = 6
#: Powers of a constant that are tried.
POWERS = (1, 2, 4, -1, -2)
#: Natural logarithms of magnitudes that are tried: what is nearer to 1 is drawn anyway, what is farther may be beyond
#: floats after a few products.
NEAREST = 3.0
FARTHEST = 400.0


def constants(graphs: Iterable[Graph], ops: OpTable) -> tuple[Fraction, ...]:
    """The magnitudes of numbers that graphs or the definitions of their operators have, 0 excepted, the farthest from
    1 first."""
    found: set[float] = set()
    for node in (n for graph in graphs for n in graph.nodes):
        if node.op == "fill" or (node.op in ops and ops[node.op].composition is not None):
            found.update(value for _, value in node.attrs if isinstance(value, float))
            found.update(_written(node.op, ops))
    numbers = {abs(meant(x)) for x in found if math.isfinite(x) and x != 0}
    return tuple(sorted(numbers, key=lambda c: (-abs(_log(c)), c))[:MOST_CONSTANTS])


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
    power of ten."""
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
