"""Products to which a tensor of their type is added, in an e-graph, with an activation after that or without.

By themselves the product is written, read again, and the sum is written; in one kernel the sum alone is.
"""

from __future__ import annotations

from tensat_dl.core.egraph import EGraph
from tensat_dl.cost.device import Device
from tensat_dl.fuse.terms import KEPT, Term, single_nodes, term_of
from tensat_dl.ops.traits import having

PRODUCTS = having(lambda t: t.family == "product")
ACTIVATIONS = having(lambda t: t.activation)


def residuals(egraph: EGraph, device: Device) -> dict[int, list[Term]]:
    """By e-class, the terms of this kind that compute it, the most promising first."""
    sums = {c: own for c in range(egraph.num_classes) if (own := _sums(egraph, device, c))}
    found = dict(sums)
    for c in range(egraph.num_classes):
        for n in single_nodes(egraph, c, ACTIVATIONS):
            (d,) = egraph.children_of(n)
            activated = [term_of(egraph, device, n, (x,)) for x in sums.get(d, ()) if c not in x.leaves]
            if activated:
                found[c] = [*found.get(c, ()), *activated]
    return {c: sorted(dict.fromkeys(own), key=lambda t: t.key)[:KEPT] for c, own in found.items()}


def _sums(egraph: EGraph, device: Device, c: int) -> list[Term]:
    """The sums of a product and an e-class that compute an e-class, with their operands as an e-node has them: taken
    apart, they are found in the e-graph again. Of a sum and the same turned round there is one."""
    found: dict[tuple[Term, int], Term] = {}
    for n in single_nodes(egraph, c, {"ewadd"}):
        left, right = egraph.children_of(n)
        for d, other, turned in ((left, right, False), (right, left, True)):
            if egraph.types[d] != egraph.types[c] or egraph.types[other] != egraph.types[c]:
                continue
            for m in single_nodes(egraph, d, PRODUCTS):
                if dict(egraph.attrs[m]).get("act") == "none":
                    product = term_of(egraph, device, m, egraph.children_of(m))
                    operands = (other, product) if turned else (product, other)
                    term = term_of(egraph, device, n, operands)
                    if c not in term.leaves:
                        found.setdefault((product, other), term)
    return list(found.values())
