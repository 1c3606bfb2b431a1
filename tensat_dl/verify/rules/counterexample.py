"""Makes counterexamples small: few elements, plain attributes, values that can be checked by hand."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from tensat_dl.core.graph import attr_text
from tensat_dl.ops.semantics.arrays import Array, Semantics
from tensat_dl.ops.semantics.elementwise import cast
from tensat_dl.ops.table import OpTable
from tensat_dl.verify.equivalence import place
from tensat_dl.verify.exact.draws import leaves
from tensat_dl.verify.exact.result import Difference
from tensat_dl.verify.execute import ExecutionError, execute
from tensat_dl.verify.rules.frame import Frame
from tensat_dl.verify.rules.instance import Instance
from tensat_dl.verify.rules.unknowns import Values
from tensat_dl.verify.rules.verdict import Counterexample, Elements, terms

#: How many smaller instances are tried, and how many in a row may fail.
TRIES = 300
PATIENCE = 60
#: Numbers that elements are drawn from, the simplest first.
PALETTES = (
    (0, 1),
    (-1, 0, 1),
    (1, 2, 3),
    (-2, -1, 0, 1, 2, 3),
    (0, 0.5),
    (-1.5, -0.5, 0.5),
    tuple(range(-9, 10)),
    tuple(10.0**k for k in range(-6, 7)),
)
#: How often elements are set to something simpler; in elements of both sides, all times together; and at least.
SIMPLER = 400
SIMPLER_WORK = 20_000_000
SIMPLER_LEAST = 4
#: How many elements a tensor may have to be shown. Of larger tensors only all elements at once are made simpler.
SHOWN = 4096
#: With how many significant digits the numbers of the two sides are told, at least.
DIGITS = 4
#: Sides that differ by less than this, relative to the larger, are not said to differ.
TOLERANCE = 1e-6


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
    """The size of an instance: elements, then dimensions, attributes, element types, operators."""
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
    found = _difference(instance, semantics, seed)
    return None if found is None else told(instance, ops, _simpler(instance, semantics, found))


def told(instance: Instance, ops: OpTable, difference: Difference | None) -> Counterexample | None:
    """The counterexample that a comparison found, unless it is one in residues."""
    if difference is None or difference.modulus is not None:
        return None
    given = instance.assignment
    left, right = _apart(_real(difference.before), _real(difference.after))
    kinds = leaves((instance.before, instance.after))
    return Counterexample(
        tuple((name, str(t)) for name, t in given.types.items()),
        # The element types of literals are called as in `fill.l0.dtype`, which nobody wrote.
        tuple((name, attr_text(value)) for name, value in given.attrs.items() if "." not in name),
        tuple((tensor, float(value)) for (fn, tensor), value in given.facts.items() if fn == "value"),
        terms(instance.before, ops),
        terms(instance.after, ops),
        tuple(
            (name, _nested(difference.values[name].tolist()))
            for name, t in given.types.items()
            if name in kinds and t.size <= SHOWN
        ),
        [name for name, _ in instance.before.outputs].index(difference.output),
        difference.index,
        left,
        right,
        tuple(sorted(instance.before.opaque)),
    )


def _apart(x: float, y: float) -> tuple[float, float]:
    """Two different numbers. Those that are not whole are rounded to the fewest digits that tell the two apart."""

    def rounded(number: float, digits: int) -> float:
        return number if number.is_integer() else float(f"{number:.{digits}g}")

    pairs = ((rounded(x, n), rounded(y, n)) for n in range(DIGITS, 17))
    return next((pair for pair in pairs if pair[0] != pair[1]), (x, y))


def _real(number: int | float | Fraction) -> float:
    """The nearest float; infinite for what is too large for one."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _difference(instance: Instance, semantics: Mapping[str, Semantics], seed: int) -> Difference | None:
    rng = np.random.default_rng(seed)
    types = leaves((instance.before, instance.after))
    for palette in PALETTES:
        for _ in range(12):
            values = {
                name: cast(np.asarray(rng.choice(palette, t.shape)), t.dtype) for name, t in types.items()
            }
            found = _largest_difference(instance, semantics, values)
            if found is not None:
                return found
    return None


def _simpler(instance: Instance, semantics: Mapping[str, Semantics], found: Difference) -> Difference:
    """With elements set to 0, or to 1, as long as the sides differ: many at once at first."""
    elements = sum(n.type.size for graph in (instance.before, instance.after) for n in graph.nodes)
    effort = max(SIMPLER_LEAST, min(SIMPLER, SIMPLER_WORK // max(1, elements)))
    longest = max((v.size for v in found.values.values()), default=0)
    step = 1 << max(0, longest - 1).bit_length()
    while step and effort:
        left = {n: v.size for n, v in found.values.items() if v.size <= max(SHOWN, step)}
        for name, start in [(n, k) for n, m in left.items() for k in range(0, m, step)]:
            for value in (0, 1) if step == 1 else (0,):
                part = found.values[name].reshape(-1)[start : start + step]
                if not effort or not part.size or (part == value).all():
                    break
                effort -= 1
                values = {n: v.copy() for n, v in found.values.items()}
                values[name].reshape(-1)[start : start + step] = value
                again = _largest_difference(instance, semantics, values)
                if again is not None:
                    found = again
                    break
        step //= 2
    return found


def _largest_difference(
    instance: Instance, semantics: Mapping[str, Semantics], values: Mapping[str, Array]
) -> Difference | None:
    """The element that differs most in the first output that differs, if any does."""
    try:
        with np.errstate(all="ignore"):
            left, right = (execute(g, values, semantics) for g in (instance.before, instance.after))
    except (ExecutionError, ArithmeticError):
        return None
    for (name, _), a, b in zip(instance.before.outputs, left, right, strict=True):
        x, y = a.astype(np.float64), b.astype(np.float64)
        if not (np.isfinite(x).all() and np.isfinite(y).all()):
            continue
        error = np.abs(x - y) - TOLERANCE * np.maximum(1, np.maximum(np.abs(x), np.abs(y)))
        if error.size and error.max() > 0:
            index = place(error)
            return Difference(name, index, float(x[index]), float(y[index]), values)
    return None


def _nested(value: Any) -> Elements:
    return tuple(map(_nested, value)) if isinstance(value, list) else float(value)
