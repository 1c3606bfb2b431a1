"""Operators that jump, of numbers that an answer rounds otherwise."""

from __future__ import annotations

from collections.abc import Container, Hashable, Sequence

from tensat_dl.core.graph import FLOATS, INTEGERS, Graph, Node, value_numbers
from tensat_dl.ops.table import OpTable
from tensat_dl.verify.rules.verdict import Verdict

#: Operators whose results jump where a number passes another.
JUMPS = frozenset({"floor", "equal", "greater"})


def rounded_jumps(
    before: Graph, after: Graph, ops: OpTable, used: Container[str], verdicts: Sequence[Verdict]
) -> list[str]:
    """A note about the operators of an answer that jump, of floats that are not computed as they were ``before``, if
    a rule that was ``used`` rounds otherwise: what comes to lie on the other side differs by a whole step."""
    rule = next((v.rule for v in verdicts if v.rounding == "reassociating" and v.rule in used), None)
    if rule is None:
        return []
    numbers: dict[Hashable, int] = {}
    known = set(value_numbers(before, numbers))
    found = value_numbers(after, numbers)
    jumping = [
        n.op for n, k in zip(after.nodes, found, strict=True) if k not in known and _jumps(after, n, ops)
    ]
    names = ", ".join(f"`{op}`" for op in dict.fromkeys(jumping))
    return [
        f"{names}: what it takes is rounded otherwise by {rule}, so a number next to a step may end on its other "
        "side; --no-reassociate keeps the order of operations"
    ] * bool(names)


def _jumps(graph: Graph, node: Node, ops: OpTable) -> bool:
    """Whether an operator jumps, and takes floats."""
    floats = any(graph.nodes[j].types[0].dtype in FLOATS for j in node.inputs)
    to_whole = node.op == "cast" and node.types[0].dtype in INTEGERS
    return floats and (to_whole or not ops.closure((node.op,)).isdisjoint(JUMPS))
