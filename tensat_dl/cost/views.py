"""Free views: view e-nodes whose every consumer takes them as strides, on a device with strides.

For each e-class the bits of layout that some consumer needs are collected into a *demand*: all bits for a
graph output and for an operand of an opaque operator; none for operands of other operators, which read
through strides; for an operand of a view, what this view needs itself and what its own class's demand comes
to before it. A view is free if it has the bits that are demanded of its class, given an input with the bits
demanded of it; else it is copied, and a copy is contiguous.

The demands are the least solution of these equations. They only grow while they are computed, whatever cycles
the e-graph has, so the order of computation does not matter, and fewer consumers mean fewer demands and fewer
copies. A copied view asks no less of its input than a free one: asking less would make the solution depend on
the order. Each demand has at most as many bits as a tensor has dimensions, so the time is linear in the size
of the e-graph.

Dimensions of size 1 have no layout: write the shape without them as q[0..r-1]. A layout is described by r bits. Bit
i < r - 1 is set if dimensions i and i + 1 are *joined*, stride[i] == stride[i + 1] * q[i + 1], so that both can be
walked as one dimension. Bit r - 1 is set if the innermost stride is 1. A tensor is contiguous exactly if all its bits
are set.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping, MutableSequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from tensat_dl.core.egraph import BoolArray, EGraph
from tensat_dl.core.graph import Attrs, TensorType
from tensat_dl.cost.device import Device
from tensat_dl.ops.table import OpTable
from tensat_dl.ops.traits import traits


@dataclass(frozen=True, slots=True)
class ViewEffect:
    """The effect of one view on layouts.

    ``needs`` are the input's bits without which no view exists, whoever reads it. Of a contiguous input the
    view has the bits ``keeps``. It has bit i of these whenever the input has the bits ``back[i]``.
    """

    needs: int
    keeps: int
    back: tuple[int, ...]

    def asks(self, wanted: int) -> int:
        """The input's bits that give the view those of the ``wanted`` bits that it can have."""
        bits = self.needs
        for i, source in enumerate(self.back):
            if wanted >> i & 1 and self.keeps >> i & 1:
                bits |= source
        return bits


def free_views(egraph: EGraph, table: OpTable, device: Device) -> BoolArray:
    """[N] whether each e-node is a view that costs nothing. E-nodes of weights-only classes are not looked
    at: their values are computed ahead of time and stored contiguously."""
    if not device.strided_views:
        return np.fromiter(
            (traits(op).renames and table[op].view for op in egraph.op), np.bool_, egraph.num_nodes
        )
    views = views_of(egraph, table)
    demand = _demands(egraph, table, views)
    free = np.zeros(egraph.num_nodes, dtype=np.bool_)
    for n, view in views.items():
        free[n] = not view.pays(demand[view.home])
    return free


@dataclass(frozen=True, slots=True)
class StridedView:
    """A view e-node, its e-class, the e-class of its operand, and its effect on layouts."""

    node: int
    home: int
    child: int
    effect: ViewEffect

    def pays(self, demand: int) -> bool:
        """Whether it lacks a bit that is demanded of it."""
        return demand & ~self.effect.keeps != 0


def views_of(egraph: EGraph, table: OpTable) -> dict[int, StridedView]:
    """The views of an e-graph by e-node, without those of weights-only classes."""
    is_view = {op: op in table and table[op].view for op in set(egraph.op)}
    node_class, offsets = egraph.node_class.tolist(), egraph.offsets.tolist()
    dead = egraph.weights_only.tolist()
    found: dict[int, StridedView] = {}
    for n, op in enumerate(egraph.op):
        c = node_class[n]
        if not is_view[op] or dead[c]:
            continue
        child = int(egraph.children[offsets[n]])
        view = effect(op, egraph.attrs[n], egraph.types[child][0], egraph.types[c][0])
        found[n] = StridedView(n, c, child, view)
    return found


def asking(egraph: EGraph, table: OpTable) -> frozenset[int]:
    """The e-nodes that take contiguous operands only."""
    opaque = {op for op in set(egraph.op) if op in table and table[op].opaque}
    dead = egraph.weights_only[egraph.node_class].tolist()
    return frozenset(n for n, op in enumerate(egraph.op) if op in opaque and not dead[n])


def _demands(egraph: EGraph, table: OpTable, views: Mapping[int, StridedView]) -> list[int]:
    """The demand of all consumers on each e-class."""
    demand = [0] * egraph.num_classes
    demanding = [*egraph.roots, *(d for n in asking(egraph, table) for d in egraph.children_of(n))]
    for c in demanding:
        demand[c] = contiguous(egraph.types[c][0])

    spread(demand, views.values())
    return demand


def spread(demand: MutableSequence[int] | MutableMapping[int, int], views: Iterable[StridedView]) -> None:
    """Adds to demands what views ask of their operands: the least solution. ``demand`` is by e-class."""
    members: dict[int, list[StridedView]] = {}
    for view in views:
        members.setdefault(view.home, []).append(view)
    waiting = list(members)
    queued = set(waiting)
    while waiting:
        c = waiting.pop()
        queued.discard(c)
        for view in members[c]:
            child = view.child
            bits = demand[child] | view.effect.asks(demand[c])
            if bits != demand[child]:
                demand[child] = bits
                if child in members and child not in queued:
                    waiting.append(child)
                    queued.add(child)


def contiguous(t: TensorType) -> int:
    """The layout with all bits set."""
    return (1 << len(_large(t.shape))) - 1


@cache
def effect(op: str, attrs: Attrs, given: TensorType, result: TensorType) -> ViewEffect:
    """The effect of the view ``op`` on layouts. A view operator that is not built in may be anything: it is taken
    to ask for a contiguous input and to return no known layout."""
    match op:
        case "dropout":
            rank = len(_large(given.shape))
            return ViewEffect(0, contiguous(given), tuple(1 << i for i in range(rank)))
        case "reshape":
            return _reshape(_large(given.shape), _large(result.shape))
        case "transpose":
            return _transpose(given.shape, _attr(attrs, "perm"))
        case "slice":
            return _slice(given.shape, result.shape, _attr(attrs, "axis"))
    return ViewEffect(contiguous(given), 0, ())


def _large(shape: tuple[int, ...]) -> list[int]:
    return [d for d in shape if d != 1]


def _attr(attrs: Attrs, name: str) -> object:
    return next(value for key, value in attrs if key == name)


def _transpose(shape: tuple[int, ...], perm: object) -> ViewEffect:
    assert isinstance(perm, tuple)
    number = {axis: i for i, axis in enumerate(a for a, d in enumerate(shape) if d != 1)}
    order = [number[axis] for axis in perm if axis in number]
    last = len(order) - 1
    keeps = 0
    back = []
    for i, axis in enumerate(order):
        # Neighbours are joined if they were neighbours; the inner stride is 1 if its dimension was innermost.
        kept = order[i + 1] == axis + 1 if i < last else axis == last
        keeps |= kept << i
        back.append(1 << axis if kept else 0)
    return ViewEffect(0, keeps, tuple(back))


def _slice(shape: tuple[int, ...], result: tuple[int, ...], axis: object) -> ViewEffect:
    assert isinstance(axis, int)
    rank = len(_large(shape))
    if result[axis] == shape[axis]:
        return ViewEffect(0, (1 << rank) - 1, tuple(1 << i for i in range(rank)))
    cut = len(_large(shape[:axis]))  # the cut dimension's place among the large ones
    # The dimension before the cut one steps over what was cut away, so it is not joined to what follows it,
    # or, where nothing follows, its stride is not 1. A dimension cut to size 1 is gone, and so is its bit.
    back = [1 << i for i in range(rank) if i != cut or result[axis] != 1]
    keeps = (1 << len(back)) - 1
    if cut > 0:
        keeps &= ~(1 << (cut - 1))
    return ViewEffect(0, keeps, tuple(back))


def _reshape(given: list[int], result: list[int]) -> ViewEffect:
    """Shapes are cut into the shortest runs of dimensions with equal products. A run of several input
    dimensions must be joined; the bits inside a run of the result then come for free, and those between runs
    stay as they are."""
    needs = 0
    back: list[int] = []
    i = j = 0
    while i < len(given):
        start = i
        left, right = given[i], result[j]
        i, j = i + 1, j + 1
        back.append(0)
        while left != right:
            if left < right:
                left *= given[i]
                i += 1
            else:
                right *= result[j]
                j += 1
                back.append(0)
        for bit in range(start, i - 1):
            needs |= 1 << bit
        back[-1] = 1 << (i - 1)
    return ViewEffect(needs, (1 << len(result)) - 1, tuple(back))
