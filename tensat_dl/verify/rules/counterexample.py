"""Makes a counterexample small: few elements, plain attributes, values that can be checked by hand."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from tensat_dl.core.graph import Graph
from tensat_dl.ops.semantics.elementwise import cast
from tensat_dl.ops.semantics.types import Array, Semantics
from tensat_dl.ops.table import OpTable
from tensat_dl.verify.exact import Difference
from tensat_dl.verify.execute import ExecutionError, execute
from tensat_dl.verify.rules.expressions import Values
from tensat_dl.verify.rules.instance import Instance
from tensat_dl.verify.rules.sampling import Frame
from tensat_dl.verify.rules.terms import attribute, terms
from tensat_dl.verify.rules.verdict import Counterexample, Elements

#: How many smaller instances are tried, and how many in a row may fail.
TRIES = 300
PATIENCE = 60
#: What elements are drawn from, the simplest first.
PALETTES = (
    (0, 1),
    (-1, 0, 1),
    (1, 2, 3),
    (-2, -1, 0, 1, 2, 3),
    (0, 0.5),
    (-1.5, -0.5, 0.5),
    tuple(range(-9, 10)),
)
#: How often elements are set to something simpler, and how many a tensor may have to be shown.
SIMPLER = 400
SHOWN = 4096
#: Sides that differ by less than this, relative to the larger, are not said to differ.
TOLERANCE = 1e-6


@dataclass(frozen=True)
class _Found:
    values: dict[str, Array]
    output: int
    index: tuple[int, ...]
    left: float
    right: float


def smallest(
    frame: Frame, values: Values, instance: Instance, differs: Callable[[Instance], bool], seed: int
) -> Instance:
    """An instance of the same ranks, as small as is found, whose sides still differ."""
    rng = random.Random(seed)
    best = size(instance)
    failures = 0
    for _ in range(TRIES):
        if failures == PATIENCE:
            break
        failures += 1
        found = frame.smaller(values, rng)
        if found is None or size(found[1]) >= best or not differs(found[1]):
            continue
        values, instance = found
        best, failures = size(instance), 0
    return instance


def size(instance: Instance) -> tuple[int, ...]:
    """What is smaller is better: elements, then dimensions, attributes, element types, operators."""
    attrs = instance.assignment.attrs.values()
    numbers = [abs(x) for a in attrs for x in (a if isinstance(a, tuple) else (a,)) if isinstance(x, int)]
    words = sum(isinstance(a, str) and a != "none" for a in attrs)
    dtypes = sum(t.dtype != "f32" for t in instance.assignment.types.values())
    nodes = len(instance.before.nodes) + len(instance.after.nodes)
    ranks = sum(t.rank for t in instance.assignment.types.values())
    return (instance.assignment.elements, ranks, sum(numbers) + words, dtypes, nodes)


def counterexample(
    instance: Instance, ops: OpTable, semantics: Mapping[str, Semantics], seed: int
) -> Counterexample | None:
    """Values for which the two sides differ, with as many zeros as possible; None if none are found."""
    found = next(_differences(instance, semantics, seed), None)
    if found is None:
        return None
    return _told(instance, ops, _simpler(instance, semantics, found))


def as_found(instance: Instance, ops: OpTable, difference: Difference | None) -> Counterexample | None:
    """The counterexample that a comparison found, unless it is one in residues."""
    if difference is None or difference.modulus is not None:
        return None
    output = [name for name, _ in instance.before.outputs].index(difference.output)
    values = dict(difference.values)
    before, after = _real(difference.before), _real(difference.after)
    return _told(instance, ops, _Found(values, output, difference.index, before, after))


def _real(number: int | float | Fraction) -> float:
    """The nearest float; infinite for what is too large for one."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _told(instance: Instance, ops: OpTable, found: _Found) -> Counterexample:
    given = instance.assignment
    graphs = (instance.before, instance.after)
    kinds = {str(n.attr("name")): n.op for g in graphs for n in g.nodes if n.op in ("input", "weight")}
    return Counterexample(
        tuple((name, str(t)) for name, t in given.types.items()),
        tuple((name, attribute(value)) for name, value in given.attrs.items()),
        tuple((tensor, float(value)) for (fn, tensor), value in given.facts.items() if fn == "value"),
        terms(instance.before, ops),
        terms(instance.after, ops),
        tuple(
            (name, _nested(found.values[name]))
            for name, t in given.types.items()
            if name in kinds and t.size <= SHOWN
        ),
        found.output,
        found.index,
        found.left,
        found.right,
        tuple(sorted({n.op for n in instance.before.nodes if n.op in ops and ops[n.op].opaque})),
    )


def _differences(instance: Instance, semantics: Mapping[str, Semantics], seed: int) -> Iterator[_Found]:
    rng = np.random.default_rng(seed)
    types = {
        str(n.attr("name")): n.type
        for g in (instance.before, instance.after)
        for n in g.nodes
        if n.op in ("input", "weight")
    }
    for palette in PALETTES:
        for _ in range(12):
            values = {
                name: cast([np.asarray(rng.choice(palette, t.shape))], {"to": t.dtype})
                for name, t in types.items()
            }
            found = _differs(instance, semantics, values)
            if found is not None:
                yield found


def _simpler(instance: Instance, semantics: Mapping[str, Semantics], found: _Found) -> _Found:
    """With elements set to 0, or to 1, as long as the sides differ: many at once at first."""
    effort = SIMPLER
    longest = max((v.size for v in found.values.values()), default=0)
    step = 1 << max(0, longest - 1).bit_length()
    while step and effort:
        for name, start in [(n, k) for n, v in found.values.items() for k in range(0, v.size, step)]:
            for value in (0, 1) if step == 1 else (0,):
                part = found.values[name].reshape(-1)[start : start + step]
                if not effort or not part.size or (part == value).all():
                    break
                effort -= 1
                values = {n: v.copy() for n, v in found.values.items()}
                values[name].reshape(-1)[start : start + step] = value
                again = _differs(instance, semantics, values)
                if again is not None:
                    found = again
                    break
        step //= 2
    return found


def _differs(
    instance: Instance, semantics: Mapping[str, Semantics], values: dict[str, Array]
) -> _Found | None:
    """The element that differs most, if any does."""
    try:
        with np.errstate(all="ignore"):
            left, right = (_run(g, values, semantics) for g in (instance.before, instance.after))
    except (ExecutionError, ArithmeticError):
        return None
    for k, (a, b) in enumerate(zip(left, right, strict=True)):
        x, y = a.astype(np.float64), b.astype(np.float64)
        if not (np.isfinite(x).all() and np.isfinite(y).all()):
            continue
        error = np.abs(x - y) - TOLERANCE * np.maximum(1, np.maximum(np.abs(x), np.abs(y)))
        if error.size and error.max() > 0:
            index = tuple(int(i) for i in np.unravel_index(int(error.argmax()), error.shape))
            return _Found(values, k, index, float(x[index]), float(y[index]))
    return None


def _run(graph: Graph, values: Mapping[str, Array], semantics: Mapping[str, Semantics]) -> Sequence[Array]:
    return execute(graph, values, semantics)


def _nested(value: Array) -> Elements:
    def convert(x: Any) -> Elements:
        return tuple(map(convert, x)) if isinstance(x, list) else float(x)

    return convert(value.tolist())
