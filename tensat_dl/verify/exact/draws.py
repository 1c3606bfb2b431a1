"""Values to compare graphs on, chosen to expose the cases that a rule may have overlooked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor

import numpy as np

from tensat_dl.core.graph import INTEGERS, Graph, TensorType
from tensat_dl.ops.semantics.arrays import Array
from tensat_dl.verify.exact.constants import Numbers
from tensat_dl.verify.exact.rational import exact_type
from tensat_dl.verify.keyed import generator
from tensat_dl.verify.weights import Distribution, draw, draw_values

#: Whole numbers that tensors are filled with, one after the other: few of them, so that there are ties and zeros;
#: both signs; and wide apart. The simplest come first, as a counterexample is shown in them.
WHOLE: tuple[Numbers, ...] = (
    (-1, 0, 1),
    tuple(range(-3, 4)),
    (0, 0, 0, 1),
    (-2, -1),
    (1, 2, 3),
    tuple(range(-99, 100)),
)
#: Halves, and then fractions with other denominators: what rounds tells them from whole numbers.
FRACTIONS: tuple[Numbers, ...] = (
    tuple(Fraction(n, 2) for n in range(-3, 4)),
    tuple(map(Fraction, ("-7/3", "-9/10", "-1/3", "-1/7", "1/1000", "2/7", "7/10", "9/10", "10/3"))),
)
#: Numbers that are beyond what bounds of clipping and narrow integer types hold.
LARGE: Numbers = tuple(s * n for n in (100, 200, 300, 70_000, 1_000_000, 3_000_000_000) for s in (1, -1))
#: Numbers that casts to types of 8, 16 and 32 bits make 0 of, beside 0 itself and numbers that they keep.
WRAPPING: tuple[Numbers, ...] = tuple((0, 0, 1, -1, n, -n, 2 * n, n + 1) for n in (1 << 8, 1 << 16, 1 << 32))


def wrapping(graphs: Iterable[Graph]) -> tuple[Numbers, ...]:
    """Numbers that differ, and are the same in a narrower integer type, if graphs cast to any."""
    casts = any(n.op == "cast" and n.type.dtype in INTEGERS for graph in graphs for n in graph.nodes)
    return WRAPPING if casts else ()


def leaves(graphs: Iterable[Graph]) -> dict[str, TensorType]:
    """Inputs and weights of graphs by name."""
    nodes = (n for graph in graphs for n in graph.nodes)
    return {str(n.attr("name")): n.type for n in nodes if n.op in ("input", "weight")}


def exact_values(types: Mapping[str, TensorType], numbers: Numbers, *key: object) -> dict[str, Array]:
    """For each tensor, random elements out of these numbers. Integer types get whole numbers within their range, for
    a fraction those on both sides of it; ``u8`` magnitudes, ``bool`` truth values."""
    values: dict[str, Array] = {}
    for name, type_ in types.items():
        drawn = _usable(numbers, type_.dtype)
        picked = np.asarray(generator(*key, name).integers(0, len(drawn), type_.shape))
        values[name] = np.asarray(drawn[picked], drawn.dtype).astype(exact_type(type_.dtype))
    return values


def without_largest(numbers: Numbers) -> Numbers:
    """Numbers without those of the largest magnitude, if there are others."""
    largest = max(n * n for n in numbers)
    return tuple(n for n in numbers if n * n < largest) or numbers


def ramps(types: Mapping[str, TensorType], rising: bool) -> dict[str, Array]:
    """Tensors whose elements grow from the first to the last, or fall: none but the last, or the first, is
    the largest of many."""
    values: dict[str, Array] = {}
    for name, t in types.items():
        least, most = INTEGERS.get(t.dtype, (-t.size, t.size))
        ramp = np.linspace(max(least, -t.size), min(most, t.size), t.size).astype(np.int64)
        values[name] = (ramp if rising else ramp[::-1]).reshape(t.shape).astype(exact_type(t.dtype))
    return values


def _usable(numbers: Numbers, dtype: str) -> Array:
    """The numbers that an element type has."""
    if dtype not in INTEGERS:
        return np.array(numbers, object)
    least, most = INTEGERS[dtype]
    whole = [n for x in numbers for n in ((x,) if x == int(x) else (floor(x), ceil(x)))]
    whole = [abs(int(n)) if least == 0 else int(n) for n in whole]
    return np.array([n for n in whole if least <= n <= most] or [0], np.int64)


@dataclass(frozen=True, slots=True)
class DrawRange:
    """A change to values near 1; without ``keeps_sign`` positive values stay as they are. ``anywhere``: none has to
    be positive; where the first graph has no finite result, nothing is asked of the second."""

    name: str
    change: Callable[[Array, np.random.Generator], Array]
    keeps_sign: bool = True
    anywhere: bool = False


#: Adversarial changes to normally distributed values.
RANGES = (
    DrawRange("near 1", lambda x, _: x),
    DrawRange("tiny", lambda x, _: x * 1e-3),
    DrawRange("large", lambda x, _: x * 30),
    DrawRange("all large", lambda x, _: 30 * np.abs(x)),
    DrawRange("all far below 0", lambda x, _: -30 * np.abs(x), keeps_sign=False),
    DrawRange("negative", lambda x, _: -np.abs(x), keeps_sign=False),
    DrawRange("positive", lambda x, _: np.abs(x)),
    DrawRange("mixed", lambda x, g: x * 10 ** g.uniform(-2, 2, x.shape)),
    DrawRange("any sign", lambda x, _: 2 * x, anywhere=True),
    DrawRange("ties", lambda x, _: np.where(x < 0, -1.0, 1.0) * np.ceil(np.abs(x))),
)


def beyond(scales: Iterable[float]) -> tuple[DrawRange, ...]:
    """Changes to values beyond each of these magnitudes, on the other side of it than 1."""

    def change(scale: float) -> Callable[[Array, np.random.Generator], Array]:
        further = 1 if scale > 1 else -1
        return lambda x, _: np.where(x < 0, -scale, scale) * (1 + np.abs(x)) ** further

    return tuple(DrawRange(f"beyond {scale!r}", change(scale)) for scale in scales)


def beside(numbers: Numbers, turns: int) -> tuple[DrawRange, ...]:
    """Values out of these numbers, if there are any, so many times: no other range has what lies near a constant."""
    found = np.array(numbers, np.float64)

    def change(x: Array, g: np.random.Generator) -> Array:
        return np.asarray(g.choice(found, x.shape))

    count = turns if numbers else 0
    return tuple(DrawRange(f"beside constants {i}", change, False, anywhere=True) for i in range(count))


def real_values(before: Graph, after: Graph, spread: DrawRange, seed: int) -> dict[str, Array]:
    """Values in float64 (integers stay as drawn), positive ones where ``before`` needs them."""
    if spread.anywhere:
        values = {name: draw(name, t, Distribution(), seed) for name, t in leaves((before, after)).items()}
    else:
        values = draw_values((before, after), seed, {})
    for name, x in values.items():
        if x.dtype != np.float64:
            continue
        positive = x.size > 0 and bool(np.all(x > 0))
        if spread.keeps_sign or not positive:
            values[name] = spread.change(x, generator("range", seed, spread.name, name))
    return values
