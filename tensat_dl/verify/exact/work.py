"""How long it takes to evaluate graphs modulo primes, estimated from their sizes: the same on every machine."""

from __future__ import annotations

from collections.abc import Iterable

from tensat_dl.core.graph import Graph
from tensat_dl.ops.table import OpTable
from tensat_dl.ops.typing import flops

#: Seconds for each floating-point operation and for each element of a tensor (it is drawn, cut into parts and
#: reduced), as they were measured on one core of a server of 2023.
PER_OPERATION = 2.5e-10
PER_ELEMENT = 1.5e-8


def seconds(graphs: Iterable[Graph], ops: OpTable) -> float:
    """About how many seconds one core takes for all of these graphs."""
    total = 0.0
    for graph in graphs:
        for node in graph.nodes:
            total += PER_ELEMENT * sum(t.size for t in node.types)
            if node.op in ops and node.inputs and not ops[node.op].opaque:
                types = [graph.nodes[i].types[0] for i in node.inputs]
                total += PER_OPERATION * flops(ops, node.op, types, dict(node.attrs))
    return total
