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
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from tensat_dl.core.graph import FLOATS, Graph, TensorType
from tensat_dl.ops.flops import flops
from tensat_dl.ops.semantics.arrays import Array
from tensat_dl.ops.table import OpTable
from tensat_dl.verify.equivalence import interface_difference, place
from tensat_dl.verify.exact.arithmetic import OutOfReach
from tensat_dl.verify.exact.constants import constants, far, near, numbers, scales
from tensat_dl.verify.exact.draws import (
    FRACTIONS,
    LARGE,
    RANGES,
    WHOLE,
    beside,
    beyond,
    exact_values,
    leaves,
    ramps,
    without_largest,
    wrapping,
)
from tensat_dl.verify.exact.floats import compare_floats, lost_in
from tensat_dl.verify.exact.modular import PRIMES, Modular, Residues, fresh_primes
from tensat_dl.verify.exact.operators import evaluate
from tensat_dl.verify.exact.rational import Rational
from tensat_dl.verify.exact.result import Difference, Exact, number
from tensat_dl.verify.exact.zero_divisors import compare_at_zero_divisors, divides

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
#: Why graphs differ that are equal elsewhere.
AT_ZERO = "what has a value before has another or none after, where a divisor is zero"


def compare_exactly(before: Graph, after: Graph, ops: OpTable, seed: int = 0) -> Exact:
    """Whether two graphs with the same inputs, weights and outputs (by name) compute the same."""
    return also_at_zero_divisors(_compared(before, after, ops, seed), before, after, ops, seed)


def also_at_zero_divisors(
    found: Exact,
    before: Graph,
    after: Graph,
    ops: OpTable,
    seed: int,
    operations: int = MOST_RATIONAL_OPERATIONS,
) -> Exact:
    """``found``, or "different" in its place if graphs of no more operations than so many differ where divisors are
    zero."""
    if found.status != "equal" or found.level == "float" or not divides((before, after), ops):
        return found
    takes = operations_of(before, ops) + operations_of(after, ops)
    if takes > operations:
        return found
    try:
        difference = compare_at_zero_divisors(before, after, ops, takes, seed)
    except (OutOfReach, ValueError):
        return found
    return found if difference is None else Exact("different", "integer", None, difference, AT_ZERO)


def _compared(before: Graph, after: Graph, ops: OpTable, seed: int) -> Exact:
    if reason := interface_difference(before, after):
        return Exact("different", "modular", reason=reason)
    try:
        modular = compare_modular(before, after, ops, seed, _primes(before, after, ops, seed))
        if modular.status == "equal":
            lost = None
            with suppress(ValueError):  # NumPy has arrays of up to 64 dimensions
                lost = lost_in(before, after, ops, seed)
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
    ranges = (
        *RANGES,
        *beyond(scales(constants((before, after), ops))),
        *beside(near(numbers((before, after), ops)), NEAR_TURNS),
    )
    # Where stand-ins differ, so may what they stand for.
    doubtful = found.difference.values if found is not None and found.difference is not None else None
    floats = compare_floats(before, after, ops, seed, reason, ranges, values=doubtful)
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
                if not doubtful and any(t.dtype == "bool" for t in types.values()):
                    # What is equal for 0 and 1 alone, as b b = b is, differs for residues.
                    doubtful = ("bool",)
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
            except OverflowError:  # a number is not one of i64: smaller ones may be
                drawn = without_largest(drawn) if i >= 0 else drawn
                continue
            except ArithmeticError:  # a divisor is zero
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
    return compare_floats(before, after, ops, seed, "far beyond constants", ranges, deep=True)


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
            return Difference(name, index, number(p[index]), number(q[index]), values, modulus)
    return None


def operations_of(graph: Graph, ops: OpTable) -> float:
    """About how many operations on numbers evaluation takes."""
    count = 0.0
    for node in graph.nodes:
        if node.op in ops and node.op not in ("input", "weight"):
            types = [graph.nodes[i].types[0] for i in node.inputs]
            count += node.types[0].size + flops(ops, node.op, types, dict(node.attrs), node.types[0])
    return count
