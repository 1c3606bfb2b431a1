"""Elementwise operators, reductions and normalisations along the last axis, together, in an e-graph.

A kernel that holds whole rows computes all of it: a normalisation that is written out, a scaled softmax, a sum and
its normalisation.
"""

from __future__ import annotations

from tensat_dl.core.egraph import EGraph
from tensat_dl.core.types import TensorType
from tensat_dl.cost.device import Device
from tensat_dl.fuse.terms import ELEMENTWISE, Term, grow, single_nodes
from tensat_dl.ops.traits import having

ROWWISE = having(lambda t: t.rowwise)
#: Operators of a term, counted as often as they are written: a row less its mean has the mean once, squared twice.
MOST_OPERATORS = 16
#: Elements of the longest rows.
LONGEST = 16_384


def row_terms(egraph: EGraph, device: Device) -> dict[int, list[Term]]:
    """By e-class, the terms with a reduction or a normalisation that compute it, the most promising first."""
    along = {c: own for c in range(egraph.num_classes) if (own := _along(egraph, c))}
    rows = {egraph.types[egraph.children_of(n)[0]][0] for own in along.values() for n in own}
    found: dict[int, list[Term]] = {}
    for full in sorted(rows, key=str):
        if not 1 < full.shape[-1] <= LONGEST:
            continue
        types = {(full,), (TensorType(full.dtype, (*full.shape[:-1], 1)),)}
        members = {}
        for c in range(egraph.num_classes):
            if egraph.types[c] in types:
                own = [n for n in along.get(c, ()) if egraph.types[egraph.children_of(n)[0]] == (full,)]
                if own := own + single_nodes(egraph, c, ELEMENTWISE):
                    members[c] = own
        for c, terms in grow(egraph, device, members, MOST_OPERATORS, lambda c, d: True).items():
            found[c] = [*found.get(c, ()), *(t for t in terms if _reduces(t))]
    return {c: own for c, own in found.items() if own}


def _along(egraph: EGraph, c: int) -> list[int]:
    """The reductions and normalisations of a class that go along the last axis."""
    found = []
    for n in single_nodes(egraph, c, ROWWISE):
        last = egraph.types[egraph.children_of(n)[0]][0].rank - 1
        if dict(egraph.attrs[n]).get("axis", last) == last:
            found.append(n)
    return found


def _reduces(term: Term) -> bool:
    return term.op in ROWWISE or any(isinstance(x, Term) and _reduces(x) for x in term.operands)
