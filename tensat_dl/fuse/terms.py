"""Chains of elementwise operators in an e-graph.

A term is an operator on terms and e-classes. For every e-class the terms with few operators are put together from
those of the classes below, and only the most promising are kept: those that save the most launches and the most
traffic of what lies between the operators.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from tensat_dl.core.egraph import EGraph
from tensat_dl.core.graph import Attrs
from tensat_dl.core.types import FLOATS
from tensat_dl.cost.device import Device
from tensat_dl.ops.traits import having

#: The most operators and the most tensors of one term, and how many terms an e-class keeps.
MOST_OPERATORS, MOST_TENSORS, KEPT = 8, 8, 6
#: How many terms of each operand are combined with one another.
COMBINED = 3

ELEMENTWISE = having(lambda t: t.chained)


@dataclass(frozen=True)
class Term:
    """An operator on terms and, as numbers, e-classes. ``saved`` is an estimate, in milliseconds, of what it saves
    against one kernel for each operator."""

    op: str
    attrs: Attrs
    operands: tuple[Term | int, ...]
    operators: int
    leaves: tuple[int, ...]  #: the e-classes that it reads, each once, in order
    saved: float

    @property
    def key(self) -> tuple[float, int, str]:
        """What terms are ordered by: the best first, and no two alike."""
        return (-self.saved, self.operators, repr(self))


def terms(egraph: EGraph, device: Device) -> dict[int, list[Term]]:
    """By e-class, the terms of two operators or more that compute it, the most promising first."""
    single = {c: own for c in range(egraph.num_classes) if (own := single_nodes(egraph, c, ELEMENTWISE))}
    # What is broadcast is not computed again for each place that it goes to.
    return grow(egraph, device, single, MOST_OPERATORS, lambda c, d: egraph.types[d] == egraph.types[c])


def grow(
    egraph: EGraph,
    device: Device,
    single: Mapping[int, Sequence[int]],
    most: int,
    pulled: Callable[[int, int], bool],
) -> dict[int, list[Term]]:
    """By e-class, the terms of two to so many e-nodes out of ``single``, the most promising first. ``pulled`` says of
    an e-class and an operand of it whether the latter may be computed together with it."""
    found: dict[int, list[Term]] = {c: [] for c in single}
    # Each round adds an operator at least, on top of what the rounds before have found.
    for _ in range(most - 1):
        grown = {c: _grown(egraph, device, c, own, single, found, most, pulled) for c, own in single.items()}
        if grown == found:
            break
        found = grown
    return {c: own for c, own in found.items() if own}


def single_nodes(egraph: EGraph, c: int, ops: Container[str]) -> list[int]:
    """The e-nodes of some operators in a class of floats that is computed at run time."""
    if egraph.weights_only[c] or len(egraph.types[c]) != 1 or egraph.types[c][0].dtype not in FLOATS[:3]:
        return []
    return [n for n in egraph.nodes_of(c) if egraph.op[n] in ops and c not in egraph.children_of(n)]


def _grown(
    egraph: EGraph,
    device: Device,
    c: int,
    nodes: Sequence[int],
    single: Mapping[int, Sequence[int]],
    found: Mapping[int, list[Term]],
    most: int,
    pulled: Callable[[int, int], bool],
) -> list[Term]:
    """The terms of a class whose operands are e-classes or terms that are known."""
    best: dict[Term, None] = {}
    for n in nodes:
        options: list[list[Term | int]] = []
        for d in egraph.children_of(n):
            below: list[Term | int] = [d]
            if d in single and pulled(c, d):
                below += [term_of(egraph, device, m, egraph.children_of(m)) for m in single[d]][:COMBINED]
                below += found[d][:COMBINED]
            options.append(below)
        for operands in product(*options):
            if all(isinstance(x, int) for x in operands):
                continue
            term = term_of(egraph, device, n, operands)
            if term.operators <= most and len(term.leaves) <= MOST_TENSORS and c not in term.leaves:
                best[term] = None
    return sorted(best, key=lambda t: t.key)[:KEPT]


def term_of(egraph: EGraph, device: Device, n: int, operands: Sequence[Term | int]) -> Term:
    """An e-node on terms and e-classes."""
    leaves: dict[int, None] = {}
    operators, saved = 1, 0.0
    for x in operands:
        if isinstance(x, int):
            leaves[x] = None
            continue
        leaves.update(dict.fromkeys(x.leaves))
        operators += x.operators
        # What is between the two is neither written nor read.
        between = 2 * egraph.types[int(egraph.node_class[n])][0].nbytes
        saved += x.saved + device.launch_ms + 1e3 * between / device.bandwidth
    return Term(egraph.op[n], egraph.attrs[n], tuple(operands), operators, tuple(leaves), saved)
