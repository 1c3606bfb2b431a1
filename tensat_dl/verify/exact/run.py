"""The exact comparison of every run, of graphs that are small enough: modulo two primes, or in exact numbers."""

from __future__ import annotations

import math
from dataclasses import replace

from tensat_dl.core.graph import Graph
from tensat_dl.ops.table import OpTable
from tensat_dl.verify.equivalence import Equivalence, interface_difference
from tensat_dl.verify.exact.arithmetic import OutOfReach
from tensat_dl.verify.exact.compare import Exact, compare_far, compare_integers, compare_modular
from tensat_dl.verify.exact.field import PRIMES
from tensat_dl.verify.exact.work import seconds

#: Graphs for which a comparison would take more seconds of a processor than about this are not compared.
PATIENCE = 4.0
#: Graphs of more operations are not compared in exact numbers: ten sets of values take two seconds for so many.
MOST_OPERATIONS = 200_000


def compare_if_small(before: Graph, after: Graph, ops: OpTable, seed: int) -> Exact:
    """The two graphs compared modulo primes; "unsupported" with the reason where that shows nothing.

    Graphs that are equal only for what relu, say, really is, show nothing: random functions take their places. In
    exact numbers relu is what it is, so these graphs are compared there, if they are small enough. Where that shows
    nothing either, they may still differ in float64, far beyond their constants.
    """
    if interface_difference(before, after):  # the comparison in float64 says which
        return Exact("unsupported", "modular", reason="inputs or outputs are not the same")
    takes = seconds((before, after), ops)
    if takes > PATIENCE:
        reason = f"too large (it would take about {takes:.0f} s, more than {PATIENCE:.0f})"
        return Exact("unsupported", "modular", reason=reason)
    found = _exactly(before, after, ops, seed)
    if found.status == "unsupported":
        beyond = compare_far(before, after, ops, seed)
        if beyond.status == "different":
            return beyond
    return found


def _exactly(before: Graph, after: Graph, ops: OpTable, seed: int) -> Exact:
    try:
        found = compare_modular(before, after, ops, seed)
    except (OutOfReach, ValueError, MemoryError) as error:
        return Exact("unsupported", "modular", reason=str(error) or "out of memory")
    if found.status == "different" and found.stand_ins:
        return _in_exact_numbers(before, after, ops, seed, found.stand_ins)
    return found


def _in_exact_numbers(
    before: Graph, after: Graph, ops: OpTable, seed: int, functions: tuple[str, ...]
) -> Exact:
    reason = f"equality depends on the values of {', '.join(functions)}"
    try:
        found = compare_integers(before, after, ops, seed, reason, MOST_OPERATIONS)
    except (OutOfReach, ValueError, MemoryError):
        return Exact("unsupported", "modular", reason=reason)
    if found.status == "different" and found.stand_ins:
        return Exact("unsupported", "integer", reason=reason)
    return found


def refuted_by(found: Equivalence, exact: Exact) -> Equivalence:
    """``found``, or "different" in its place if the exact comparison shows a difference that rounding hid."""
    if exact.status != "different" or found.status == "different" or exact.difference is None:
        return found
    return replace(found, status="different", message=str(exact.difference))


def described(exact: Exact) -> str:
    """In a line, for reports."""
    if exact.status == "unsupported":
        return f"not compared: {exact.reason}"
    modulo = "in float64, far beyond constants" if exact.level == "float" else "in exact numbers"
    if exact.level == "modular":
        modulo = "modulo " + " and ".join(f"2^31 - {2**31 - p}" for p in PRIMES)
    if exact.status == "different":
        return f"different {modulo}"
    whatever = f" for any {' and '.join(exact.stand_ins)}" if exact.stand_ins else ""
    bound = f"no bound on the error: {exact.reason}"
    if exact.log2_error is not None:
        bound = f"error probability < 2^{math.ceil(exact.log2_error)}"
    return f"equal {modulo}{whatever} ({bound})"
