"""Compares two graphs where divisors are zero: what has a value in the first graph has the same one in the second.

A proof, and numbers at random, say nothing of a divisor that is 0. An element that is divided by 0 has no value, nor
has what is computed from it. But a `select` that takes its other operand has one, and so has what is not divided at
all: there the second graph has to have it, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import cycle
from math import nan
from typing import Any

import numpy as np

from tensat_dl.core.graph import FLOATS, Graph, Node
from tensat_dl.ops.semantics.arrays import Array
from tensat_dl.ops.table import OpTable
from tensat_dl.verify.equivalence import place
from tensat_dl.verify.exact.constants import near, numbers
from tensat_dl.verify.exact.draws import FRACTIONS, WHOLE, exact_values, leaves
from tensat_dl.verify.exact.operators import evaluate
from tensat_dl.verify.exact.rational import COMPARISONS, Rational
from tensat_dl.verify.exact.result import Difference, number

#: Operators that divide, of which roots are looked for elsewhere.
DIVIDING = frozenset({"ewdiv", "power"})
#: How often values are drawn from each set of numbers, or until so many elements were; but less often where that
#: would take more operations than so many, down to so many draws.
TURNS = 2
ELEMENTS = 24
WORK = 500_000
FEWEST = 3


@dataclass(frozen=True)
class _Nothing:
    """In place of a number that is not there. What is computed from it is not there, either."""

    def _itself(self, *_: object) -> _Nothing:
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _itself
    __neg__ = __pow__ = _itself


NOTHING: Any = _Nothing()
_is_nothing = np.frompyfunc(lambda x: x is NOTHING, 1, 1)


class Lost(ArithmeticError):
    """A comparison, a cast to integers, or an opaque operator of what has no value: machines make something of it."""


def missing(x: Array) -> Array:
    """Which elements have no value."""
    return np.asarray(_is_nothing(x) if x.dtype == object else False).astype(np.bool_)


def _elsewhere(function: Callable[[Array], Array], x: Array, there: Array | None = None) -> Array:
    """A function of elements that have a value; what is not ``there`` has none."""
    gone = missing(x)
    if not gone.any():
        return function(x)
    out = function(np.where(gone, 0, x))
    return np.asarray(np.where(gone if there is None else ~there, NOTHING, out), object)


class Partial(Rational):
    """Rational numbers, and `NOTHING` for a quotient by 0. That of integers is a `ZeroDivisionError`, as no machine
    has one."""

    def divide(self, x: Array, y: Array) -> Array:
        zero = np.asarray(y == 0, np.bool_)
        if not zero.any() or object not in (x.dtype, y.dtype):
            return super().divide(x, y)
        return np.asarray(np.where(zero, NOTHING, super().divide(x, np.where(zero, 1, y))), object)

    def move(self, function: Callable[[Sequence[Array]], Array], xs: Sequence[Array]) -> Array:
        """Padding fills a tensor up: beside elements without a value it has none, either."""
        out = super().move(function, xs)
        if not any(missing(x).any() for x in xs):
            return out
        there = function([np.ones(x.shape, object) if x.dtype == object else x for x in xs])
        return np.asarray(np.where(there == 0, NOTHING, out), object)

    def largest(
        self, sums: Callable[[Array], Array], largest: Callable[[Array], Array], terms: int, x: Array
    ) -> Array:
        there = ~missing(np.asarray(sums(x))) if missing(x).any() else None
        return _elsewhere(lambda x: super(Partial, self).largest(sums, largest, terms, x), x, there)

    def typed(self, x: Array, to: str) -> Array:
        if to not in FLOATS and missing(x).any():
            raise Lost
        return super().typed(x, to)

    def function(self, name: str, x: Array) -> Array:
        if name in COMPARISONS and missing(x).any():
            raise Lost
        return _elsewhere(lambda x: super(Partial, self).function(name, x), x)

    def opaque(self, node: Node, xs: Sequence[Array]) -> tuple[Array, ...]:
        if any(missing(x).any() for x in xs):
            raise Lost
        return super().opaque(node, xs)


def divides(graphs: Iterable[Graph], ops: OpTable) -> bool:
    """Whether one of the graphs divides."""
    return not DIVIDING.isdisjoint(ops.closure({n.op for graph in graphs for n in graph.nodes}))


def compare_at_zero_divisors(
    before: Graph, after: Graph, ops: OpTable, operations: float, seed: int
) -> Difference | None:
    """An element that has a value in the first graph, and another or none in the second, of two graphs that are equal
    in exact numbers where no divisor is 0, and take so many ``operations``."""
    types = leaves((before, after))
    sets = [s for s in (WHOLE[0], near(numbers((before, after), ops)), *WHOLE[1:], FRACTIONS[0]) if s]
    turns = max(TURNS, ELEMENTS // max(1, sum(t.size for t in types.values())))
    draws = max(FEWEST, min(turns * len(sets), int(WORK / max(1, operations))))
    for k, drawn in zip(range(draws), cycle(sets), strict=False):
        a = Partial((seed, "zero", k))
        values = exact_values(types, drawn, seed, "zero", k)
        try:
            x, y = evaluate(before, values, a, ops), evaluate(after, values, a, ops)
        except ArithmeticError:
            continue
        for (name, _), p, q in zip(before.outputs, x, y, strict=True):
            unequal = np.asarray(~missing(p) & np.asarray(p != q, np.bool_))
            if unequal.any():
                at = place(unequal)
                there = nan if q[at] is NOTHING else number(q[at])
                return Difference(name, at, number(p[at]), there, values)
    return None
