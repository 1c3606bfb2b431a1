"""Values to compare graphs on: those that bring out what a rule may have overlooked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tensat_dl.ir.graph import Graph
from tensat_dl.ir.types import FLOATS, TensorType
from tensat_dl.ops.semantics.types import Array
from tensat_dl.verify.exact.keyed import generator
from tensat_dl.verify.exact.rational import exact_type
from tensat_dl.verify.weights import draw_values

Numbers = tuple[int, ...]

#: Whole numbers that tensors are filled with, one after the other: few of them, so that there are ties and zeros;
#: both signs; and wide apart. The simplest come first, as a counterexample is shown in them.
WHOLE: tuple[Numbers, ...] = (
    (-1, 0, 1),
    tuple(range(-3, 4)),
    (0, 0, 0, 1),
    (-2, -1),
    (1, 2, 3),
    tuple(range(-99, 100)),
    (-3, -2, -1, 0, 1, 2, 3),
)
#: Of the last of these, floats are halves: what rounds tells them from whole numbers.
HALVES = len(WHOLE) - 1


def leaves(graphs: Iterable[Graph]) -> dict[str, TensorType]:
    """Inputs and weights of graphs by name."""
    return {
        str(graph.nodes[i].attr("name")): graph.nodes[i].type
        for graph in graphs
        for i in (*graph.inputs, *graph.weights)
    }


def whole_values(
    types: Mapping[str, TensorType], numbers: Numbers, *key: object, halves: bool = False
) -> dict[str, Array]:
    """For each tensor random ones of these numbers; their magnitudes for ``u8``, truth values for ``bool``. Halves of
    them for floats, if they are to be ``halves``."""
    values: dict[str, Array] = {}
    for name, type_ in types.items():
        drawn = np.asarray(generator(*key, name).choice(numbers, type_.shape))
        drawn = np.abs(drawn) if type_.dtype == "u8" else drawn
        values[name] = drawn.astype(exact_type(type_.dtype))
        if halves and type_.dtype in FLOATS:
            values[name] = np.asarray(values[name] * Fraction(1, 2), object)
    return values


@dataclass(frozen=True, slots=True)
class Range:
    """What becomes of values near 1, and whether values that have to be positive take part."""

    name: str
    change: Callable[[Array, np.random.Generator], Array]
    keeps_sign: bool = True


#: Adversarial changes to normally distributed values.
RANGES = (
    Range("near 1", lambda x, _: x),
    Range("tiny", lambda x, _: x * 1e-3),
    Range("large", lambda x, _: x * 30),
    Range("negative", lambda x, _: -np.abs(x), keeps_sign=False),
    Range("positive", lambda x, _: np.abs(x)),
    Range("mixed", lambda x, g: x * 10 ** g.uniform(-2, 2, x.shape)),
    Range("ties", lambda x, _: np.where(x < 0, -1.0, 1.0) * np.ceil(np.abs(x))),
)


def real_values(before: Graph, after: Graph, spread: Range, seed: int) -> dict[str, Array]:
    """Values in float64 (integers stay as drawn), positive ones where ``before`` needs them."""
    values = draw_values((before, after), seed, {})
    for name, x in values.items():
        if x.dtype != np.float64:
            continue
        positive = x.size > 0 and bool(np.all(x > 0))
        if spread.keeps_sign or not positive:
            values[name] = spread.change(x, generator("range", seed, spread.name, name))
    return values
