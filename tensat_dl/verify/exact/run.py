"""The exact comparison of every run: modulo two primes, of graphs that are small enough for that."""

from __future__ import annotations

import math
from dataclasses import replace

from tensat_dl.ir.graph import Graph
from tensat_dl.ops.table import OpTable
from tensat_dl.ops.typing import flops
from tensat_dl.verify.equivalence import Equivalence, interface_difference
from tensat_dl.verify.exact.arithmetic import OutOfReach
from tensat_dl.verify.exact.compare import Exact, compare_modular
from tensat_dl.verify.exact.field import PRIMES

#: Up to this much work, for both graphs, a comparison takes about a second at most.
MOST_WORK = 2_000_000_000
#: A tensor's element takes about as long as this many floating-point operations of a matrix product: it is drawn,
#: cut into parts and reduced.
WORK_PER_ELEMENT = 100


def compare_if_small(before: Graph, after: Graph, ops: OpTable, seed: int) -> Exact:
    """The two graphs compared modulo primes; "unsupported" with the reason where that shows nothing.

    Graphs that are equal only for what relu, say, really is, show nothing: random functions take their places.
    """
    if interface_difference(before, after, {}):  # the comparison in float64 says which
        return Exact("unsupported", "modular", reason="inputs or outputs are not the same")
    work = _work(before, ops) + _work(after, ops)
    if work > MOST_WORK:
        return Exact(
            "unsupported", "modular", reason=f"too large ({work:.1e} operations, more than {MOST_WORK:.0e})"
        )
    try:
        found = compare_modular(before, after, ops, seed)
    except (OutOfReach, ValueError, MemoryError) as error:
        return Exact("unsupported", "modular", reason=str(error) or "out of memory")
    if found.status == "different" and found.stand_ins:
        return Exact(
            "unsupported", "modular", reason=f"they rely on what is true of {', '.join(found.stand_ins)}"
        )
    return found


def refuted_by(found: Equivalence, exact: Exact) -> Equivalence:
    """``found``, or "different" in its place if the exact comparison shows a difference that rounding hid."""
    d = exact.difference
    if exact.status != "different" or found.status == "different" or d is None:
        return found
    index = f"element {list(d.index)} of output {d.output}"
    message = f"{index} is {d.before} before and {d.after} after, modulo {d.modulus}, on random integers"
    return replace(found, status="different", message=message)


def described(exact: Exact) -> str:
    """In a line, for reports."""
    if exact.status == "unsupported":
        return f"not compared: {exact.reason}"
    modulo = "modulo " + " and ".join(f"2^31 - {2**31 - p}" for p in PRIMES)
    if exact.status == "different":
        return f"different {modulo}"
    whatever = f" for any {' and '.join(exact.stand_ins)}" if exact.stand_ins else ""
    bound = (
        exact.reason if exact.log2_error is None else f"error probability < 2^{math.ceil(exact.log2_error)}"
    )
    return f"equal {modulo}{whatever} ({bound})"


def _work(graph: Graph, ops: OpTable) -> float:
    total = 0.0
    for node in graph.nodes:
        total += WORK_PER_ELEMENT * sum(t.size for t in node.types)
        if node.op in ops and node.inputs and not ops[node.op].opaque:
            total += flops(ops, node.op, [graph.nodes[i].types[0] for i in node.inputs], dict(node.attrs))
    return total
