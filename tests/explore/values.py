"""The values of an e-graph: whatever is in one e-class is one tensor."""

from __future__ import annotations

import numpy as np

from tensat_dl.core.egraph import EGraph
from tensat_dl.core.graph import Graph
from tensat_dl.ops.semantics import Array, semantics_of
from tensat_dl.verify.weights import draw_values
from tests.explore.graphs import library


def check_values(g: Graph, e: EGraph) -> None:
    """Computes every e-node of a graph's e-graph; all of one e-class agree."""
    values = draw_values([g], 0, {})
    semantics = semantics_of(library().ops)
    found: dict[int, Array] = {}
    waiting = list(range(e.num_nodes))
    while waiting:
        later = []
        for n in waiting:
            if any(c not in found for c in e.children_of(n)):
                later.append(n)
                continue
            attrs, c = dict(e.attrs[n]), int(e.node_class[n])
            known = e.op[n] in ("input", "weight")
            value = (
                values[str(attrs["name"])]
                if known
                else semantics[e.op[n]](*(found[k] for k in e.children_of(n)), **attrs)
            )
            assert np.allclose(found.setdefault(c, value), value, 1e-8, 1e-8), (e.op[n], attrs, e.origin[n])
        assert len(later) < len(waiting), "e-classes that nothing computes"
        waiting = later
    assert len(found) == e.num_classes
