"""Constants that rules compute, and that are infinite in their element type."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from tensat_dl.core.egraph import EGraph
from tensat_dl.core.graph import CONSTANTS, constant_overflows


def without_overflows(egraph: EGraph, opaque: Collection[str] = ()) -> EGraph:
    """The e-graph without the e-nodes that are such a constant, or compute one ahead of time.

    Rules hold of numbers of any size. No file may have such a constant, and elements that were finite would be
    infinite or not a number. What the input program has stays.
    """
    found = np.zeros(egraph.num_nodes, np.bool_)
    for n in (n for n, op in enumerate(egraph.op) if op in CONSTANTS):
        c = int(egraph.node_class[n])
        if constant_overflows(egraph.op[n], egraph.attrs[n], egraph.types[c][0].dtype):
            found[egraph.nodes_of(c) if egraph.op[n] == "fill" else n] = True
    found[egraph.source[egraph.source >= 0]] = False
    return egraph.without(found, opaque) if found.any() else egraph
