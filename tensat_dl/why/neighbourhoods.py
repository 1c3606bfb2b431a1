"""Where a way between two graphs is looked for: near both of them first, then further and further away."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tensat_dl.core.egraph import EGraph


def rings(egraph: EGraph, start: Iterable[int]) -> Iterator[frozenset[int]]:
    """Sets of e-classes, each larger than the one before: ``start``, with what its e-nodes are applied to, and so on.

    All terms that are equal to a graph are made of what can be reached from its e-classes like this. So a way that
    there is at all lies inside of the last set, and most lie inside of the first: rules put the nodes of one graph
    into the e-classes of the other.
    """
    found = set(start)
    new = set(found)
    while new:
        yield frozenset(found)
        new = {d for c in new for n in egraph.nodes_of(c) for d in egraph.children_of(n)} - found
        found |= new
