"""Terms of several operators in an e-graph that one kernel can compute.

A term is an operator on terms and e-classes. For every e-class, terms with few operators are built from the terms of
the classes below. Only the most promising are kept: those that save the most launches and memory traffic between
operators.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from tensat_dl.core.egraph import EGraph
from tensat_dl.core.graph import FLOATS, Attrs, TensorType
from tensat_dl.cost.device import Device
from tensat_dl.ops.traits import having

#: The most operators and the most tensors of one term, and how many terms an e-class keeps.
MOST_OPERATORS, MOST_TENSORS, KEPT = 8, 8, 6
#: How many terms of each operand are combined with one another.
COMBINED = 3

#: The most operators of a term along rows, counted as often as they are written: a row less its mean has the mean
#: once, squared twice. And how many elements the longest rows have.
MOST_IN_ROWS, LONGEST = 16, 16_384

ELEMENTWISE = having(lambda t: t.chained)
ROWWISE = having(lambda t: t.rowwise)
PRODUCTS = having(lambda t: t.family == "product")
ACTIVATIONS = having(lambda t: t.activation)


@dataclass(frozen=True)
class Term:
    """An operator on terms and, as numbers, e-classes. ``saved`` is its estimated saving, in milliseconds, against
    one kernel for each operator."""

    op: str
    attrs: Attrs
    operands: tuple[Term | int, ...]
    operators: int
    leaves: tuple[int, ...]  #: the e-classes that it reads, each once, in order
    saved: float

    @property
    def key(self) -> tuple[float, int, str]:
        """The sort key of terms: the best first, no two alike."""
        return (-self.saved, self.operators, repr(self))


def terms(egraph: EGraph, device: Device) -> dict[int, list[Term]]:
    """By e-class, the terms that compute it: chains of elementwise operators, products with what is added to them,
    elementwise operators with reductions and normalisations of rows. The most promising of a kind come first."""
    found: dict[int, list[Term]] = {}
    for kind in (_chains, _residuals, _row_terms):
        for c, own in kind(egraph, device).items():
            found[c] = [*found.get(c, ()), *own]
    return found


# ---- chains of elementwise operators ---------------------------------------------------------------------


def _chains(egraph: EGraph, device: Device) -> dict[int, list[Term]]:
    """By e-class, the terms of two operators or more."""
    single = {c: own for c in range(egraph.num_classes) if (own := _nodes(egraph, c, ELEMENTWISE))}
    # What is broadcast is not computed again for each place that it goes to.
    return _grow(egraph, device, single, MOST_OPERATORS, lambda c, d: egraph.types[d] == egraph.types[c])


def _grow(
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


def _nodes(egraph: EGraph, c: int, ops: Container[str]) -> list[int]:
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
                below += [_term(egraph, device, m, egraph.children_of(m)) for m in single[d]][:COMBINED]
                below += found[d][:COMBINED]
            options.append(below)
        for operands in product(*options):
            if all(isinstance(x, int) for x in operands):
                continue
            term = _term(egraph, device, n, operands)
            if term.operators <= most and len(term.leaves) <= MOST_TENSORS and c not in term.leaves:
                best[term] = None
    return sorted(best, key=lambda t: t.key)[:KEPT]


def _term(egraph: EGraph, device: Device, n: int, operands: Sequence[Term | int]) -> Term:
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


# ---- products with what is added to them -----------------------------------------------------------------
#
# By themselves the product is written, read again, and the sum is written; in one kernel the sum alone is.


def _residuals(egraph: EGraph, device: Device) -> dict[int, list[Term]]:
    """By e-class, products to which a tensor of their type is added, with an activation after that or without."""
    sums = {c: own for c in range(egraph.num_classes) if (own := _sums(egraph, device, c))}
    found = dict(sums)
    for c in range(egraph.num_classes):
        for n in _nodes(egraph, c, ACTIVATIONS):
            (d,) = egraph.children_of(n)
            activated = [_term(egraph, device, n, (x,)) for x in sums.get(d, ()) if c not in x.leaves]
            if activated:
                found[c] = [*found.get(c, ()), *activated]
    return {c: sorted(dict.fromkeys(own), key=lambda t: t.key)[:KEPT] for c, own in found.items()}


def _sums(egraph: EGraph, device: Device, c: int) -> list[Term]:
    """The sums of a product and an e-class that compute an e-class. The operands have the order of an e-node, so that
    an unfused sum is in the e-graph. A sum and its mirror image count once."""
    found: dict[tuple[Term, int], Term] = {}
    for n in _nodes(egraph, c, {"ewadd"}):
        left, right = egraph.children_of(n)
        for d, other, turned in ((left, right, False), (right, left, True)):
            if egraph.types[d] != egraph.types[c] or egraph.types[other] != egraph.types[c]:
                continue
            for m in _nodes(egraph, d, PRODUCTS):
                if dict(egraph.attrs[m]).get("act") == "none":
                    product = _term(egraph, device, m, egraph.children_of(m))
                    operands = (other, product) if turned else (product, other)
                    term = _term(egraph, device, n, operands)
                    if c not in term.leaves:
                        found.setdefault((product, other), term)
    return list(found.values())


# ---- rows ------------------------------------------------------------------------------------------------
#
# A kernel that holds whole rows computes all of it: a normalisation that is written out, a scaled softmax, a sum and
# its normalisation.


def _row_terms(egraph: EGraph, device: Device) -> dict[int, list[Term]]:
    """By e-class, the terms with a reduction or a normalisation along the last axis."""
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
                if own := own + _nodes(egraph, c, ELEMENTWISE):
                    members[c] = own
        for c, grown in _grow(egraph, device, members, MOST_IN_ROWS, lambda c, d: True).items():
            found[c] = [*found.get(c, ()), *(t for t in grown if _reduces(t))]
    return {c: own for c, own in found.items() if own}


def _along(egraph: EGraph, c: int) -> list[int]:
    """The reductions and normalisations of a class that go along the last axis."""
    found = []
    for n in _nodes(egraph, c, ROWWISE):
        last = egraph.types[egraph.children_of(n)[0]][0].rank - 1
        if dict(egraph.attrs[n]).get("axis", last) == last:
            found.append(n)
    return found


def _reduces(term: Term) -> bool:
    return term.op in ROWWISE or any(isinstance(x, Term) and _reduces(x) for x in term.operands)
