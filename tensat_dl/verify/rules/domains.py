"""Values to try for an unknown of a rule: dimensions, attributes, element types."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tensat_dl.core import graph
from tensat_dl.ops.symbolic import Atom
from tensat_dl.ops.table import AttrDecl
from tensat_dl.verify.rules.unknowns import INTEGERS, Values, around

#: Dimensions of one instance are mostly from one of these, so that some are equal and many divide each other.
POOLS = ((1, 2, 3), (1, 2, 4), (2, 4), (2, 3), (1, 3, 4), (1, 2, 3, 4, 6), (2, 4, 6))
DIMENSIONS = (1, 2, 3, 4, 5, 6, 7, 8, 12)
#: Integers that attributes get: some are more frequent, one is seldom legal.
ATTRIBUTES = (0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 4, 5, -1)
FLOATS = (0.5, 0.00001, 2.0, 1.0, 0.25, -1.0, -0.5, 0.0, 3.0, 5.0, 7.0, -7.5)
#: How often numbers near those of a rule are tried first.
NEARBY = 0.2
VALUES = (0.0, 1.0, 2.0, 3.0, -1.0, -2.0, 0.5)
DTYPES = ("f32", "f32", "f32", "f32", "f32", "i32", "i32", "f64", "bool")
#: More element types that casts lead to.
CAST_DTYPES = ("i8", "u8", "i64", "f16")
FACTORS = (1, 2, 3)


class RandomDomain:
    """Values for one instance in a random order. ``attrs`` maps names to their attributes. ``constants`` are the
    numbers of a rule: in comparisons, bounds, sizes. ``every_type``: all element types are tried, not just common
    ones. ``thorough``: numbers between the rule's numbers are tried, too."""

    def __init__(
        self,
        rng: random.Random,
        attrs: Mapping[str, AttrDecl],
        constants: Sequence[float],
        every_type: bool = False,
        thorough: bool = False,
    ) -> None:
        self._rng = rng
        self._attrs = attrs
        self._constants = constants
        #: Whole numbers near those of the rule: `dim(x, 0) == 64`, `min(dim(x, 0), 100)`.
        near = [int(c) + d for c in constants if float(c).is_integer() for d in (0, 1, -1, int(c))]
        self._near = tuple(n for n in dict.fromkeys(near) if n > max(ATTRIBUTES))
        floats = [c for c in constants if isinstance(c, float)]
        self._floats = tuple(x for c in floats for x in (c, 2 * c, -2 * c, c + 0.5, c - 0.5))
        if thorough:
            self._floats += tuple(around(sorted(constants)))
        self._pool = rng.choice(POOLS)
        self._dtypes = tuple(dict.fromkeys((*DTYPES, *graph.DTYPES))) if every_type else DTYPES
        self._dtype = rng.choice(self._dtypes)
        #: Lists whose elements are to be equal, by attribute: pads of 0, strides of 2.
        self._uniform: dict[str, Any] = {}

    def __call__(self, a: Atom) -> Sequence[Any]:
        match a[0]:
            case "dim":
                # Most dimensions are from the pool; windows and strides need other sizes now and then.
                first = self._order(self._pool if self._rng.random() < 0.7 else DIMENSIONS)
                return tuple(dict.fromkeys((*self._nearby(), *first, *self._order(DIMENSIONS), *self._near)))
            case "dtype":
                return tuple(dict.fromkeys((self._dtype, *self._order(self._dtypes))))
            case "value":
                return self._order((*map(float, self._constants), *self._floats, *VALUES))
            case "factors":
                return self._order(FACTORS)
            case "weight" | "start":
                return self._order((True, False))
        values = self._attribute(self._attrs.get(a[1]))
        if len(a) == 3:  # an element of a list
            first = self._first(a[1], values[0])
            return values if first is None else (first, *(v for v in values if v != first))
        return values

    def _first(self, name: str, value: Any) -> Any:
        """The value of all elements of a list, if they are to be equal: its default, or a random value."""
        if name not in self._uniform:
            decl = self._attrs.get(name)
            default = decl.default if decl is not None else None
            plain = default[0] if isinstance(default, tuple) and default else value
            self._uniform[name] = self._rng.choice((None, None, None, value, plain))
        return self._uniform[name]

    def _attribute(self, a: AttrDecl | None) -> Sequence[Any]:
        match a.type if a is not None else "int":
            case "choice":
                assert a is not None
                return self._order(a.choices)
            case "float":
                return self._order((*FLOATS, *self._floats))
            case "bool":
                return self._order((False, True))
            case "string":
                return self._order(("a", "b"))
            case "dtype":
                # What casts do shows where types differ: half of the time they do not have to be the common one.
                first = (self._dtype,) if self._rng.random() < 0.5 else ()
                return tuple(dict.fromkeys((*first, *self._order((*DTYPES, *CAST_DTYPES)))))
        return tuple(dict.fromkeys((*self._nearby(), *self._order(ATTRIBUTES), *self._near)))

    def _nearby(self) -> tuple[int, ...]:
        """Whole numbers near the rule's numbers, now and then: a rule may be false beyond a size that no condition
        names."""
        return self._order(self._near) if self._near and self._rng.random() < NEARBY else ()

    def _order(self, values: Iterable[Any]) -> tuple[Any, ...]:
        """Each value once, those that come up more often likelier first."""
        return tuple(dict.fromkeys(sorted(values, key=lambda _: self._rng.random())))  # faster than shuffle()


class SmallerDomain:
    """Values that are not larger than those of a solution, the smallest first or in a random order."""

    def __init__(self, rng: random.Random, solution: Values, attrs: Mapping[str, AttrDecl]) -> None:
        self._rng = rng
        self._solution = solution
        self._attrs = attrs

    def __call__(self, a: Atom) -> Sequence[Any]:
        value = self._solution.get(a)
        if value is None:
            return ()
        if a[0] not in INTEGERS or not isinstance(value, int) or isinstance(value, bool):
            simplest = _simplest(a, self._attrs)
            return (value,) if simplest in (None, value) else (simplest, value)
        low = 1 if a[0] == "dim" else min(0, value)
        smaller = [*range(low, value + 1)]
        return smaller if self._rng.random() < 0.5 else self._rng.sample(smaller, len(smaller))


def _simplest(a: Atom, attrs: Mapping[str, AttrDecl]) -> Any:
    """The value that is easiest to read in a counterexample, or None."""
    if a[0] == "dtype":
        return "f32"
    decl = attrs.get(a[1]) if a[0] == "attr" else None
    if decl is None:
        return None
    return decl.choices[0] if decl.choices else decl.default
