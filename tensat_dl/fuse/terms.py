"""Terms of several operators in an e-graph that one kernel can compute.

A term is an operator on terms and e-classes. It reads an e-class or computes it by one e-node, even if it needs it
twice. For every e-class, terms with few operators are built from the terms of the classes below. Only the most
promising are kept: those that save the most launches and memory traffic between operators. An e-class that the term
computes and that other operators of the input graph read saves nothing if these operators have it computed anyway, so
terms are ranked twice: as if they do, and as if they do not.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product

from tensat_dl.core.egraph import EGraph
from tensat_dl.core.graph import FLOATS, Attrs, TensorType
from tensat_dl.cost.device import Device
from tensat_dl.ops.traits import having

#: The most operators of one term, counted as often as they are written, and the most tensors that it reads. The cell
#: of a GRU has 13 to 18 operators on 8 tensors, as it is written; biases and peepholes add some.
MOST_OPERATORS, MOST_TENSORS = 24, 12
#: How many terms an e-class keeps, half of them by each ranking.
KEPT = 6
#: How many terms of each operand are combined with one another.
COMBINED = 3
#: The most elements of rows that are reduced or normalised in a term.
LONGEST = 16_384

ELEMENTWISE = having(lambda t: t.chained)
ROWWISE = having(lambda t: t.rowwise)
PRODUCTS = having(lambda t: t.family == "product")
ACTIVATIONS = having(lambda t: t.activation)


@dataclass(frozen=True)
class Term:
    """An operator on terms and, as numbers, e-classes. ``saved`` is its estimated saving, in milliseconds, against
    one kernel for each operator; ``sure`` is the part of it that is left if shared e-classes are computed anyway."""

    op: str
    attrs: Attrs
    operands: tuple[Term | int, ...]
    operators: int
    leaves: tuple[int, ...]  #: the e-classes that it reads, each once, in order
    computed: frozenset[tuple[int, int]]  #: the e-classes that it computes, with the e-node of each
    saved: float
    sure: float

    @property
    def once(self) -> bool:
        """Whether it gets every e-class in one way."""
        classes = {c for c, _ in self.computed}
        return len(classes) == len(self.computed) and classes.isdisjoint(self.leaves)

    @property
    def rest(self) -> tuple[int, int, str]:
        """The sort key of terms that save as much as each other, no two alike."""
        return len(self.leaves), self.operators, repr(self)


@dataclass(frozen=True, slots=True)
class Readers:
    """E-classes with other readers than one term, in the input graph: those of ``kept`` are outputs or read by an
    operator that is no part of terms, those of ``shared`` may also have several readers."""

    kept: frozenset[int]
    shared: frozenset[int]

    @classmethod
    def of(cls, egraph: EGraph, fusible: Container[str]) -> Readers:
        """The readers in the input graph, where terms have ``fusible`` operators."""
        kept = set(egraph.roots)
        readers: dict[int, set[int]] = {}
        for n in {n for n in egraph.source.tolist() if n >= 0}:
            for d in egraph.children_of(n):
                readers.setdefault(d, set()).add(int(egraph.node_class[n]))
                if egraph.op[n] not in fusible:
                    kept.add(d)
        several = {d for d, own in readers.items() if len(own) > 1}
        return cls(frozenset(kept), frozenset(kept | several))


NO_READERS = Readers(frozenset(), frozenset())


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
    readers = Readers.of(egraph, ELEMENTWISE)
    # What is broadcast is not computed again for each place that it goes to.
    return _grow(egraph, device, single, readers, lambda c, d: egraph.types[d] == egraph.types[c])


def _grow(
    egraph: EGraph,
    device: Device,
    single: Mapping[int, Sequence[int]],
    readers: Readers,
    pulled: Callable[[int, int], bool],
) -> dict[int, list[Term]]:
    """By e-class, the terms of two e-nodes or more out of ``single``, the most promising first. ``pulled`` says of an
    e-class and an operand of it whether the latter may be computed together with it."""
    found: dict[int, list[Term]] = {c: [] for c in single}
    # Each round adds an operator at least, on top of what the rounds before have found.
    for _ in range(MOST_OPERATORS - 1):
        grown = {
            c: _grown(egraph, device, c, own, single, found, readers, pulled) for c, own in single.items()
        }
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
    readers: Readers,
    pulled: Callable[[int, int], bool],
) -> list[Term]:
    """The terms of a class whose operands are e-classes or terms that are known."""
    grown: set[Term] = set()
    for n in nodes:
        options: list[list[Term | int]] = []
        for d in egraph.children_of(n):
            below: list[Term | int] = [d]
            if d in single and pulled(c, d):
                below += [
                    _term(egraph, device, m, egraph.children_of(m), readers) for m in single[d][:COMBINED]
                ]
                below += found[d][:COMBINED]
            options.append(below)
        for operands in product(*options):
            if all(isinstance(x, int) for x in operands):
                continue
            term = _term(egraph, device, n, operands, readers)
            if term.operators > MOST_OPERATORS or len(term.leaves) > MOST_TENSORS:
                continue
            if term.once:
                grown.add(term)
    return _most_promising(grown)


def _most_promising(found: Iterable[Term]) -> list[Term]:
    """The best terms of both rankings in turn, each term once."""
    terms = sorted(set(found), key=lambda t: t.rest)
    rankings = sorted(terms, key=lambda t: -t.sure), sorted(terms, key=lambda t: -t.saved)
    return list(dict.fromkeys(chain.from_iterable(zip(*rankings, strict=True))))[:KEPT]


def _term(
    egraph: EGraph, device: Device, n: int, operands: Sequence[Term | int], readers: Readers = NO_READERS
) -> Term:
    """An e-node on terms and e-classes."""
    leaves: dict[int, None] = {}
    computed = {(int(egraph.node_class[n]), n)}
    operators, saved, sure = 1, 0.0, 0.0
    for x, d in zip(operands, egraph.children_of(n), strict=True):
        if isinstance(x, int):
            leaves[x] = None
            continue
        leaves.update(dict.fromkeys(x.leaves))
        computed |= x.computed
        operators += x.operators
        # What is between the two is neither written nor read.
        between = 2 * egraph.types[d][0].nbytes
        here = device.launch_ms + 1e3 * between / device.bandwidth
        saved += 0.0 if d in readers.kept else x.saved + here
        sure += 0.0 if d in readers.shared else x.sure + here
    read, made = tuple(leaves), frozenset(computed)
    return Term(egraph.op[n], egraph.attrs[n], tuple(operands), operators, read, made, saved, sure)


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
    return {c: _most_promising(own) for c, own in found.items()}


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
    readers = Readers.of(egraph, ELEMENTWISE | ROWWISE)
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
        for c, grown in _grow(egraph, device, members, readers, lambda c, d: True).items():
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
