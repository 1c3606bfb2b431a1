"""Compares two small graphs as functions: modulo primes, then in exact numbers, then in float64.

The first level that can decide does:

- *modular* (`modular`, `bound`): random functions stand in for elementwise ones and the largest of several numbers.
  Graphs that are equal are so for every function, up to a stated probability of error. A difference counts if nothing
  had a stand-in.
- *integer* (`rational`): relu and the largest of several numbers are what they are, other functions have stand-ins.
  Values are small integers of both signs with many ties and zeros. There is no bound on the error.
- *float*: every function is what it is, in float64, over several ranges. There is no bound, and a tolerance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, Literal

import numpy as np

from tensat_dl.beside import two_at_a_time
from tensat_dl.core.graph import FLOATS, INTEGERS, Graph, TensorType, attr_text
from tensat_dl.ops.flops import flops
from tensat_dl.ops.semantics import SEMANTICS, semantics_of
from tensat_dl.ops.semantics.arrays import Array, Semantics, computed_in
from tensat_dl.ops.table import OpTable
from tensat_dl.verify.equivalence import interface_difference, place
from tensat_dl.verify.exact.arithmetic import OutOfReach
from tensat_dl.verify.exact.constants import constants, far, near, numbers, scales
from tensat_dl.verify.exact.draws import (
    FRACTIONS,
    LARGE,
    RANGES,
    WHOLE,
    DrawRange,
    beyond,
    exact_values,
    leaves,
    ramps,
    real_values,
    wrapping,
)
from tensat_dl.verify.exact.modular import PRIMES, Modular, Residues, fresh_primes
from tensat_dl.verify.exact.operators import evaluate
from tensat_dl.verify.exact.rational import Rational
from tensat_dl.verify.execute import execute
from tensat_dl.verify.keyed import generator

Status = Literal["equal", "different", "unsupported"]
Level = Literal["modular", "integer", "float"]

#: Sets of numbers that exact values are drawn from; besides, so many times numbers near the graphs' constants are, or
#: until so many elements were, as there are many such numbers; and as often numbers far beyond them.
FIXED = (*WHOLE, *FRACTIONS, LARGE)
NEAR_TURNS = 2
NEAR_ELEMENTS = 48
#: Tensors of so many elements get growing ones as well: few numbers have the largest in many places.
LONG = 24
#: How often values are drawn again because a divisor is zero, or an integer has no place in its type.
ATTEMPTS = 8
#: Graphs with more floating-point operations are not evaluated in Python's numbers.
MOST_RATIONAL_OPERATIONS = 3_000_000
#: Rounding is measured for each element: everything is changed by about the first of a scale, relative, a number of
#: times, and what may be 0 for its smallness alone by the second. What float64 rounds is less than the third times
#: what an element changes, on one scale or the other: where nearly all of a number cancels, the second says more.
#: Elements that differ by less than `ROUNDING`, relative, are taken to be equal.
SCALES = ((2.0**-24, 2.0**-1000, 2.0**-22), (2.0**-46, 2.0**-1022, 1.0))
CHANGES = 8
ROUNDING = 2.0**-46
#: Functions whose values may be too small for a float64.
VANISHING = frozenset({"exp", "sigmoid", "power"})
#: Rounding of graphs that may be deep is not measured. A difference is more than this times the output's largest
#: magnitude, plus the second times the largest magnitude of anything that was computed: what cancels leaves an error.
TOLERANCE_DEEP = 1e-9
WITHIN_DEEP = 1e-6
#: Operators that not all numbers have.
PARTIAL = frozenset({"sqrt", "rsqrt", "log", "power", "ewdiv"})
#: Functions whose results are much nearer to 1 than what they are taken of.
LEVELLING = frozenset({"sqrt", "rsqrt", "log"})


@dataclass(frozen=True, slots=True)
class Difference:
    """An element of an output in which two graphs differ, on these inputs and weights.

    At the modular level all numbers are residues modulo ``modulus``.
    """

    output: str
    index: tuple[int, ...]
    before: int | float | Fraction
    after: int | float | Fraction
    values: Mapping[str, Array]
    modulus: int | None = None

    def __str__(self) -> str:
        numbers = "" if self.modulus is None else f", modulo {self.modulus}, on random integers"
        element = f"element {attr_text(self.index)} of output {self.output}"
        return f"{element} is {self.before} before and {self.after} after{numbers}"


@dataclass(frozen=True, slots=True)
class Exact:
    """The result of comparing two graphs, and the level that decided.

    ``log2_error`` bounds the probability that graphs which differ would be found equal, as its logarithm to base 2;
    it is None where none can be stated. ``reason`` then says why; it also says why graphs are "unsupported" or
    differ without a ``difference``. ``stand_ins`` names the functions that random ones stood in for on the level that
    decided, opaque operators included; for graphs that differ also constants that are rounded. ``compared`` has, for
    each comparison of elements in both graphs, the operator and the truth values that it came to in exact numbers;
    for each ``select`` those of its condition where its operands differ.
    """

    status: Status
    level: Level
    log2_error: float | None = None
    difference: Difference | None = None
    reason: str = ""
    stand_ins: tuple[str, ...] = ()
    compared: tuple[tuple[str, frozenset[bool]], ...] = ()


def compare_exactly(before: Graph, after: Graph, ops: OpTable, seed: int = 0) -> Exact:
    """Whether two graphs with the same inputs, weights and outputs (by name) compute the same."""
    if reason := interface_difference(before, after):
        return Exact("different", "modular", reason=reason)
    try:
        modular = compare_modular(before, after, ops, seed, _primes(before, after, ops, seed))
        if modular.status == "equal":
            lost = _lost(before, after, ops, seed)
            return modular if lost is None else Exact("different", "float", None, lost, "compared in float64")
        reason = "true only because of the values of " + ", ".join(modular.stand_ins)
    except (OutOfReach, ValueError) as error:  # NumPy has arrays of up to 64 dimensions
        modular, reason = None, str(error)
    try:
        found = compare_integers(before, after, ops, seed, reason)
        if found.status == "different" and not found.stand_ins:
            return found  # in small numbers, so rather than the same in residues
    except (OutOfReach, ValueError) as error:  # NumPy has arrays of up to 64 dimensions
        found, reason = None, "; ".join(dict.fromkeys((reason, str(error))))
    if modular is not None and not modular.stand_ins:
        return modular
    equal = found if found is not None and found.status == "equal" else None
    if equal is not None and all(name in ops and ops[name].opaque for name in equal.stand_ins):
        return equal
    ranges = (*RANGES, *beyond(scales(constants((before, after), ops))))
    # Where stand-ins differ near a constant, so may what they stand for: no range lies there.
    doubtful = found.difference.values if found is not None and found.difference is not None else None
    floats = _compare_floats(before, after, ops, seed, reason, ranges, values=doubtful)
    if equal is None:
        return floats
    return equal if floats.status == "unsupported" else replace(floats, compared=equal.compared)


def _primes(before: Graph, after: Graph, ops: OpTable, seed: int) -> tuple[int, int]:
    """Primes that nobody knew who wrote the graphs."""
    written = [[(n.op, n.attrs, n.inputs) for n in graph.nodes] for graph in (before, after)]
    return fresh_primes(numbers((before, after), ops), seed, written)


@dataclass(frozen=True, slots=True)
class Half:
    """A graph evaluated on random residues, to be compared with another."""

    arithmetic: Modular
    values: Mapping[str, Residues]
    outputs: Sequence[Residues]


def half_compared(
    graph: Graph,
    types: Mapping[str, TensorType],
    ops: OpTable,
    seed: int,
    primes: tuple[int, int] = PRIMES,
    attempt: int = 0,
    keeps_sigmoid: bool = True,
) -> Half:
    """A graph on residues for leaves of these types. Raises `OutOfReach`, `ZeroDivisionError`, `ExecutionError`."""
    a = Modular(primes, (seed, attempt), keeps_sigmoid)
    values = {name: a.variable(t.shape, t.dtype not in FLOATS, "leaf", name) for name, t in types.items()}
    return Half(a, values, evaluate(graph, values, a, ops))


def compare_modular(
    before: Graph,
    after: Graph,
    ops: OpTable,
    seed: int = 0,
    primes: tuple[int, int] = PRIMES,
    half: Half | None = None,
) -> Exact:
    """Compares on one set of random residues. Small primes put the bound to the test. ``half`` is the first graph's
    half, for this seed and these primes, if it is known. Raises `OutOfReach`."""
    found = _compare_residues(before, after, ops, seed, primes, True, half)
    if found.status == "different" and {"exp", "sigmoid"} <= set(found.stand_ins):
        # what holds for all pairs of functions has a better bound without divisions, but these two are related
        return _compare_residues(before, after, ops, seed, primes, False)
    return found


def _compare_residues(
    before: Graph,
    after: Graph,
    ops: OpTable,
    seed: int,
    primes: tuple[int, int],
    keeps_sigmoid: bool,
    half: Half | None = None,
) -> Exact:
    types = leaves((before, after))
    for attempt in range(ATTEMPTS):
        try:
            if half is None or attempt:
                half = half_compared(before, types, ops, seed, primes, attempt, keeps_sigmoid)
            a, values, x = half.arithmetic, half.values, half.outputs
            y = evaluate(after, values, a, ops)
        except ZeroDivisionError:
            continue
        stand_ins = tuple(sorted(a.stand_ins))
        for i, p in enumerate(primes):
            outputs = [o.arrays[i] for o in x], [o.arrays[i] for o in y]
            residues = {name: v.arrays[i] for name, v in values.items()}
            if difference := _difference(before, *outputs, residues, p):
                doubtful = (*stand_ins, *sorted(a.rounded))
                return Exact("different", "modular", difference=difference, stand_ins=doubtful)
        log2_error = a.ledger.log2_error(((i.degrees, j.degrees) for i, j in zip(x, y, strict=True)), primes)
        if log2_error == 0:
            reason = "the graphs are too large to compute one"
            return Exact("equal", "modular", reason=reason, stand_ins=stand_ins)
        return Exact("equal", "modular", log2_error, stand_ins=stand_ins)
    raise OutOfReach("a divisor is always zero")


def compare_integers(
    before: Graph,
    after: Graph,
    ops: OpTable,
    seed: int,
    reason: str,
    operations: int = MOST_RATIONAL_OPERATIONS,
) -> Exact:
    """Compares on sets of small integers and fractions; ``reason`` says why there is no bound. Raises `OutOfReach`,
    also for graphs of more operations than ``operations``."""
    if operations_of(before, ops) + operations_of(after, ops) > operations:
        raise OutOfReach("the graphs are too large for exact numbers")
    types = leaves((before, after))
    compared = False
    stand_ins: set[str] = set()
    seen: set[Fraction] = set()
    truths: list[tuple[str, frozenset[bool]]] = []
    passed = constants((before, after), ops)
    turns = max(NEAR_TURNS, NEAR_ELEMENTS // max(1, sum(t.size for t in types.values())))
    fixed = (*FIXED, *wrapping((before, after)) * turns)
    longest = max((t.size for t in types.values()), default=0)
    rising = (True, False) if longest >= LONG else ()
    for i in range(-len(rising), len(fixed) + 2 * turns):
        drawn = fixed[i] if 0 <= i < len(fixed) else near(seen) if i < len(fixed) + turns else far(passed)
        if i >= 0 and not drawn:  # the graphs have no constants
            break
        for attempt in range(ATTEMPTS):
            key = (seed, i, attempt)
            a = Rational(key, passed=passed if i >= len(fixed) else ())
            values = exact_values(types, drawn, *key) if i >= 0 else ramps(types, rising[i])
            try:
                x, y = evaluate(before, values, a, ops), evaluate(after, values, a, ops)
            except ArithmeticError:  # a divisor is zero, or a number is not one of i64
                continue
            compared = True
            stand_ins |= a.stand_ins
            seen |= a.constants
            truths = either(truths, a.compared)
            if difference := _difference(before, x, y, values):
                doubtful = (*sorted(stand_ins), *sorted(a.rounded))
                return Exact("different", "integer", None, difference, reason, doubtful)
            break
    if not compared:
        raise OutOfReach("a divisor is always zero, or a number beyond i64")
    return Exact(
        "equal", "integer", reason=reason, stand_ins=tuple(sorted(stand_ins)), compared=tuple(truths)
    )


def either(
    some: Sequence[tuple[str, frozenset[bool]]], others: Sequence[tuple[str, frozenset[bool]]]
) -> list[tuple[str, frozenset[bool]]]:
    """The truth values of each comparison in either of two evaluations of the same graphs."""
    if len(some) != len(others):
        return list(some or others)
    return [(op, x | y) for (op, x), (_, y) in zip(some, others, strict=True)]


def compare_far(before: Graph, after: Graph, ops: OpTable, seed: int) -> Exact:
    """Compares in float64, only on numbers far beyond the graphs' constants; "unsupported" for graphs without
    constants."""
    ranges = beyond(scales(constants((before, after), ops)))
    return _compare_floats(before, after, ops, seed, "far beyond constants", ranges, deep=True)


def _compare_floats(
    before: Graph,
    after: Graph,
    ops: OpTable,
    seed: int,
    reason: str,
    ranges: Sequence[DrawRange],
    deep: bool = False,
    values: Mapping[str, Array] | None = None,
) -> Exact:
    """Compares on values in these ranges, and on given ones. Elements that are not finite are ignored on the latter,
    and if graphs may be ``deep``."""
    semantics = semantics_of(ops)
    reason = f"{reason}; compared in float64, but for rounding"
    compared = False
    # Where nobody writes infinite numbers, they come from numbers that are too large for a float.
    infinite = any(np.isinf(n.attr("value")) for g in (before, after) for n in g.nodes if n.op == "fill")

    def run(k: int) -> tuple[Mapping[str, Array], tuple[list[list[Array]], float, bool]]:
        # A single number has one sign in each range, not the same one in all.
        drawn = own if k == len(ranges) else real_values(before, after, ranges[k], seed * len(ranges) + k)
        return drawn, _run((before, after), drawn, semantics)

    types = leaves((before, after))
    own = {name: np.asarray(v, computed_in(types[name].dtype)) for name, v in (values or {}).items()}
    count = len(ranges) + (values is not None)
    # Graphs that may be deep take longer than threads to start.
    makes = (partial(run, k) for k in range(count))
    runs = two_at_a_time(makes) if deep else (make() for make in makes)
    for _ in range(count):
        try:
            drawn, ((x, y), largest, too_far) = next(runs)
        except ValueError as error:
            return Exact("unsupported", "float", reason=f"{reason}; {error}")
        for (name, _), *found in zip(before.outputs, x, y, strict=True):
            # Truth values have no difference; their numbers have.
            p, q = (np.asarray(array, np.float64) for array in found)
            finite = np.isfinite(p) & np.isfinite(q)
            # Where the first graph has no finite value, it says nothing of what the other's should be. If the other
            # has none, that counts, unless it may come from numbers that a float does not have, but reals do.
            with np.errstate(invalid="ignore"):
                counts = not deep and not too_far and drawn is not own  # where divisors may be 0
                size, apart = np.maximum(np.abs(p), np.abs(q)), np.abs(p - q)
                beyond = finite & (apart > ROUNDING * size)
                unequal = ~finite & np.isfinite(p) & counts
                if infinite:
                    unequal |= ~finite & (p != q) & ~np.isnan(p)
                if deep:
                    unequal |= finite & (
                        apart > TOLERANCE_DEEP * size[finite].max(initial=0.0) + WITHIN_DEEP * largest
                    )
                elif beyond.any() and not unequal.any():
                    unequal = beyond & (apart > _rounded((before, after), drawn, ops, name, seed))
            if unequal.any():
                index = place(unequal)
                difference = Difference(name, index, float(p[index]), float(q[index]), drawn)
                return Exact("different", "float", None, difference, reason)
            compared = compared or bool(finite.any() or (infinite and (p == q).any()))
    if not compared:
        return Exact("unsupported", "float", reason=f"{reason}; no output is a finite number")
    return Exact("equal", "float", reason=reason)


def _lost(before: Graph, after: Graph, ops: OpTable, seed: int) -> Difference | None:
    """An element that is a number in the first graph, and not in the second, as a root is of what lies below 0. Not
    where a number is too large or too small for a float, or where there are integers, as one may be a divisor."""
    integers = any(t.dtype in INTEGERS for t in leaves((before, after)).values())
    if integers or PARTIAL.isdisjoint(ops.closure(n.op for n in after.nodes)):
        return None
    semantics = semantics_of(ops)
    for k, spread in enumerate(RANGES):
        drawn = real_values(before, after, spread, seed * len(RANGES) + k)
        (x, y), _, too_far = _run((before, after), drawn, semantics)
        for (name, _), p, q in zip(before.outputs, x, y, strict=True):
            lost = np.isfinite(np.asarray(p, np.float64)) & ~np.isfinite(np.asarray(q, np.float64))
            if lost.any() and not too_far:
                index = place(lost)
                return Difference(name, index, float(p[index]), float(q[index]), drawn)
    return None


def _rounded(
    graphs: Sequence[Graph], values: Mapping[str, Array], ops: OpTable, output: str, seed: int
) -> Array:
    """How much rounding may change each element of an output, as far as it is measured; infinite if it is no number
    where everything that is computed is changed a little."""
    return np.maximum(*(part * _change(graphs, values, ops, output, seed, *by) for *by, part in SCALES))


def _change(
    graphs: Sequence[Graph],
    values: Mapping[str, Array],
    ops: OpTable,
    output: str,
    seed: int,
    relative: float,
    least: float,
) -> Array:
    """By how much each element of an output changes if all that is computed does."""
    means: list[Array] = []  # of magnitudes: squares of small ones would be 0
    drawn: np.random.Generator

    def changed(x: Array) -> Array:
        return x * (1 + relative * drawn.uniform(-1, 1, x.shape)) if x.dtype.kind == "f" else x

    def perturbed(name: str, function: Semantics) -> Semantics:
        more = least if name in VANISHING else 0.0

        def apply(*xs: Array, **attrs: Any) -> Array:
            x = np.asarray(function(*xs, **attrs))
            return np.asarray(changed(x) + more) if x.dtype.kind == "f" else x

        return apply

    semantics = semantics_of(ops)
    other = semantics_of(ops, {name: perturbed(name, f) for name, f in SEMANTICS.items()})
    with np.errstate(all="ignore"):
        for graph in graphs:
            (k,) = (i for i, (name, _) in enumerate(graph.outputs) if name == output)
            usual = execute(graph, values, semantics)[k]
            total = np.zeros(usual.shape)
            for turn in range(CHANGES):
                drawn = generator("change", seed, turn)
                found = execute(graph, {name: changed(v) for name, v in values.items()}, other)[k]
                error = np.abs(np.asarray(found, np.float64) - np.asarray(usual, np.float64))
                total += np.nan_to_num(error, nan=np.inf)
            means.append(total / CHANGES)
    return np.maximum(*means)


def _run(
    graphs: Sequence[Graph], values: Mapping[str, Array], semantics: Mapping[str, Semantics]
) -> tuple[list[list[Array]], float, bool]:
    """The outputs of graphs; the largest magnitude of anything that was computed; and whether a number was too large
    or too small for a float."""
    levelled = {id(values[name]) for name in _levelled(graphs)}
    magnitudes = [0.0]
    too_far: list[str] = []

    def noted(array: Array) -> None:
        if id(array) not in levelled:
            magnitudes.append(largest_magnitude(np.asarray(array, np.float64)))

    with np.errstate(all="ignore", over="call", under="call", call=lambda error, _: too_far.append(error)):
        found = [execute(graph, values, semantics, noted) for graph in graphs]
    return found, max(magnitudes), bool(too_far)


def largest_magnitude(array: Array) -> float:
    """The largest magnitude of the finite numbers; 0 if there are none."""
    largest = float(np.maximum(array.max(initial=0.0), -array.min(initial=0.0)))
    if not np.isfinite(largest):  # seldom, and it takes several times as long
        largest = float(np.abs(array[np.isfinite(array)]).max(initial=0.0))
    return largest


def _levelled(graphs: Sequence[Graph]) -> set[str]:
    """Leaves that only roots and logarithms are taken of: how large they are makes no sum inaccurate."""
    rooted: set[str] = set()
    others: set[str] = set()
    for graph in graphs:
        names = {i: str(graph.nodes[i].attr("name")) for i in (*graph.inputs, *graph.weights)}
        for node in graph.nodes:
            (rooted if node.op in LEVELLING else others).update(names[i] for i in node.inputs if i in names)
        others.update(names[i] for _, i in graph.outputs if i in names)
    return rooted - others


def _difference(
    graph: Graph,
    x: Sequence[Array],
    y: Sequence[Array],
    values: Mapping[str, Array],
    modulus: int | None = None,
) -> Difference | None:
    for (name, _), p, q in zip(graph.outputs, x, y, strict=True):
        unequal = np.asarray(p != q)
        if unequal.any():
            index = place(unequal)
            return Difference(name, index, _number(p[index]), _number(q[index]), values, modulus)
    return None


def _number(element: int | Fraction | np.generic) -> int | Fraction:
    return element if isinstance(element, int | Fraction) else int(element)


def operations_of(graph: Graph, ops: OpTable) -> float:
    """About how many operations on numbers evaluation takes."""
    count = 0.0
    for node in graph.nodes:
        if node.op in ops and node.op not in ("input", "weight"):
            types = [graph.nodes[i].types[0] for i in node.inputs]
            count += node.types[0].size + flops(ops, node.op, types, dict(node.attrs))
    return count
