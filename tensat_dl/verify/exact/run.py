"""The exact comparison of every run, of graphs that are small enough: modulo two primes, or in exact numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from tensat_dl.core.graph import Graph
from tensat_dl.core.words import series
from tensat_dl.ops.flops import flops
from tensat_dl.ops.table import OpTable
from tensat_dl.verify.equivalence import Equivalence, interface_difference
from tensat_dl.verify.exact.arithmetic import OutOfReach
from tensat_dl.verify.exact.compare import (
    Half,
    also_at_zero_divisors,
    compare_far,
    compare_integers,
    compare_modular,
    half_compared,
)
from tensat_dl.verify.exact.constants import LARGEST_DENOMINATOR, numbers
from tensat_dl.verify.exact.draws import leaves
from tensat_dl.verify.exact.modular import PRIMES
from tensat_dl.verify.exact.result import Exact

#: Graphs for which a comparison would take more seconds of a processor than about this are not compared.
PATIENCE = 4.0
#: Of graphs for which it would take more, no comparison is begun that would show nothing.
QUICK = 0.5
#: Graphs of more operations are not compared in exact numbers: ten sets of values take two seconds for so many.
MOST_OPERATIONS = 200_000
#: Seconds for each floating-point operation and for each element of a tensor (it is drawn, cut into parts and
#: reduced), as they were measured on one core of a server of 2023.
PER_OPERATION = 2.5e-10
PER_ELEMENT = 1.5e-8
#: So many of the functions and constants that equality depends on are named.
NAMED = 5


def half_if_small(graph: Graph, ops: OpTable, seed: int) -> Half | None:
    """A graph's half of the comparison modulo primes, if that takes little of a comparison's time: the answer to the
    graph may take much longer, as products of its weights do, and then nothing is compared. None as well for graphs
    that cannot be evaluated, about which the comparison says more."""
    if seconds((graph,), ops) > PATIENCE / 4:
        return None
    try:
        return half_compared(graph, leaves((graph,)), ops, seed)
    except (OutOfReach, ZeroDivisionError, ValueError, MemoryError):
        return None


def compare_if_small(before: Graph, after: Graph, ops: OpTable, seed: int, half: Half | None = None) -> Exact:
    """The two graphs compared modulo primes; "unsupported" with the reason where that shows nothing.

    Modulo primes a random function stands in for relu, say, so graphs that are equal only because of what relu
    computes show nothing, and indices and quotients of integers have no residues. In exact numbers all these are
    computed, so such graphs are compared there, if they are small enough. If that shows nothing either, they may
    still differ in float64, far beyond their constants. ``half`` is the first graph's `half_if_small`, if that was
    asked for before.
    """
    if interface_difference(before, after):  # the comparison in float64 says which
        return Exact("unsupported", "modular", reason="inputs or outputs are not the same")
    takes = seconds((before, after), ops)
    if takes > PATIENCE:
        reason = f"too large (it would take about {takes:.0f} s, more than {PATIENCE:.0f})"
        return Exact("unsupported", "modular", reason=reason)
    found = _exactly(before, after, ops, seed, half, takes)
    found = also_at_zero_divisors(found, before, after, ops, seed, MOST_OPERATIONS)
    if found.status == "unsupported":
        beyond = compare_far(before, after, ops, seed)
        if beyond.status == "different":
            return beyond
    return found


def _exactly(before: Graph, after: Graph, ops: OpTable, seed: int, half: Half | None, takes: float) -> Exact:
    try:
        doubtful = _new_rounded(before, after, ops) if takes > QUICK else ()
        if not doubtful:
            found = compare_modular(before, after, ops, seed, half=half)
            if found.status != "different" or not found.stand_ins:
                return found
            doubtful = found.stand_ins
        names, more = doubtful[:NAMED], len(doubtful) - NAMED
        others = f", and {more} more" if more > 0 else ""
        reason = f"equality depends on the values of {', '.join(names)}{others}"
    except (OutOfReach, ValueError, MemoryError) as error:
        reason = str(error) or "out of memory"
    try:
        found = compare_integers(before, after, ops, seed, reason, MOST_OPERATIONS)
    except (OutOfReach, ValueError, MemoryError):
        return Exact("unsupported", "modular", reason=reason)
    if found.status == "different" and found.stand_ins:
        return Exact("unsupported", "integer", reason=reason)
    return found


def _new_rounded(before: Graph, after: Graph, ops: OpTable) -> tuple[str, ...]:
    """The constants of the second graph that are rounded, and not in the first: what they were computed from differs
    from them by the rounding, and modulo primes that is a difference like any other."""
    first, second = (
        {c for c in numbers((graph,), ops) if c.denominator > LARGEST_DENOMINATOR}
        for graph in (before, after)
    )
    return tuple(f"the constant {float(c)!r}" for c in sorted(second - first))


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
    whatever = f" for any {series(exact.stand_ins)}" if exact.stand_ins else ""
    bound = f"no bound on the error: {exact.reason}"
    if exact.log2_error is not None:
        bound = f"error probability < 2^{math.ceil(exact.log2_error)}"
    return f"equal {modulo}{whatever} ({bound})"


def seconds(graphs: Iterable[Graph], ops: OpTable) -> float:
    """About how many seconds one core takes to evaluate graphs modulo primes, by their sizes: the same on every
    machine."""
    total = 0.0
    for graph in graphs:
        for node in graph.nodes:
            total += PER_ELEMENT * sum(t.size for t in node.types)
            if node.op in ops and node.inputs and not ops[node.op].opaque:
                types = [graph.nodes[i].types[0] for i in node.inputs]
                total += PER_OPERATION * flops(ops, node.op, types, dict(node.attrs), node.types[0])
    return total
