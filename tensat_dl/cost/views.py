"""Free views: view e-nodes whose every consumer takes them as strides, on a device with strides.

For each e-class the bits of `layout` that some consumer needs are collected into a *demand*: all bits for a
graph output and for an operand of an opaque operator; none for operands of other operators, which read
through strides; for an operand of a view, what this view needs itself and what its own class's demand comes
to before it. A view is free if it has the bits that are demanded of its class, given an input with the bits
demanded of it; else it is copied, and a copy is contiguous.

The demands are the least solution of these equations. They only grow while they are computed, whatever cycles
the e-graph has, so the order of computation does not matter, and fewer consumers mean fewer demands and fewer
copies. A copied view asks no less of its input than a free one: asking less would make the solution depend on
the order. Each demand has at most as many bits as a tensor has dimensions, so the time is linear in the size
of the e-graph.
"""

from __future__ import annotations

import numpy as np

from tensat_dl.core.egraph import BoolArray, EGraph
from tensat_dl.core.graph import Attrs
from tensat_dl.core.types import TensorType
from tensat_dl.cost.device import Device
from tensat_dl.cost.layout import ViewEffect, contiguous, effect
from tensat_dl.ops.table import OpTable
from tensat_dl.ops.traits import traits


def free_views(egraph: EGraph, table: OpTable, device: Device) -> BoolArray:
    """[N] whether each e-node is a view that costs nothing. E-nodes of weights-only classes are not looked
    at: their values are computed ahead of time and stored contiguously."""
    if not device.strided_views:
        return np.fromiter(
            (traits(op).renames and table[op].view for op in egraph.op), np.bool_, egraph.num_nodes
        )
    views = _views(egraph, table)
    demand = _demands(egraph, table, views)
    free = np.zeros(egraph.num_nodes, dtype=np.bool_)
    for n, (c, _, view) in views.items():
        free[n] = demand[c] & ~view.keeps == 0
    return free


#: The views of an e-graph: e-node -> (its class, its operand's class, its effect on layouts)
_Views = dict[int, tuple[int, int, ViewEffect]]


def _views(egraph: EGraph, table: OpTable) -> _Views:
    is_view = {op: op in table and table[op].view for op in set(egraph.op)}
    node_class, offsets = egraph.node_class.tolist(), egraph.offsets.tolist()
    dead = egraph.weights_only.tolist()
    known: dict[tuple[str, Attrs, TensorType, TensorType], ViewEffect] = {}
    found: _Views = {}
    for n, op in enumerate(egraph.op):
        c = node_class[n]
        if not is_view[op] or dead[c]:
            continue
        child = int(egraph.children[offsets[n]])
        key = (op, egraph.attrs[n], egraph.types[child][0], egraph.types[c][0])
        view = known.get(key)
        if view is None:
            view = known[key] = effect(*key)
        found[n] = (c, child, view)
    return found


def _demands(egraph: EGraph, table: OpTable, views: _Views) -> list[int]:
    """The demand on each e-class."""
    demand = [0] * egraph.num_classes
    node_class, offsets = egraph.node_class.tolist(), egraph.offsets.tolist()
    dead = egraph.weights_only.tolist()
    demanding = list(egraph.roots)
    opaque = {op for op in set(egraph.op) if op in table and table[op].opaque}
    for n, op in enumerate(egraph.op):
        if op in opaque and not dead[node_class[n]]:
            demanding += egraph.children[offsets[n] : offsets[n + 1]].tolist()
    for c in demanding:
        demand[c] = contiguous(egraph.types[c][0])

    members: dict[int, list[tuple[int, ViewEffect]]] = {}
    for c, child, view in views.values():
        members.setdefault(c, []).append((child, view))
    waiting = list(members)
    queued = set(waiting)
    while waiting:
        c = waiting.pop()
        queued.discard(c)
        for child, view in members[c]:
            bits = demand[child] | view.asks(demand[c])
            if bits != demand[child]:
                demand[child] = bits
                if child in members and child not in queued:
                    waiting.append(child)
                    queued.add(child)
    return demand
