"""The engine's rows as an `EGraph`: plain arrays whose order does not depend on the engine's internal ids."""

from __future__ import annotations

from typing import Any

from tensat_dl.core.egraph import EGraph
from tensat_dl.core.graph import DTYPES, Graph, TensorType
from tensat_dl.engine.declarations import TUPLE
from tensat_dl.engine.egglog import Frozen
from tensat_dl.engine.naming import EngineState, NodeRow, Store


class TypeConflict(Exception):
    """An e-class received two different types: some rule is wrong."""


def class_types(frozen: Frozen) -> dict[Any, tuple[int, ...]]:
    """The encoded type of each e-class that has one. Raises `TypeConflict`."""
    decode = frozen.decoder("Ints")
    types: dict[Any, tuple[int, ...]] = {row.inputs[0]: decode(row.output) for row in frozen.rows("type_of")}
    if (-1,) in types.values():
        raise TypeConflict
    return types


def snapshot(store: Store, state: EngineState, graph: Graph, limit: int) -> tuple[EGraph, tuple[int, ...]]:
    """The e-graph's arrays, of at most ``limit`` e-nodes unless the graph alone has more; its classes' handles.

    E-classes without a type (never for well-typed rules) and their uses are left out.
    """
    frozen, handles = state.frozen, state.handles
    types = class_types(frozen)
    usable, keep = _sound({c for c in handles if c in types}, state.rows)
    if len(keep) > limit:
        first = max(_newest(handles, limit, keep), len(graph.nodes))
        usable, keep = _sound({c for c in usable if handles[c] < first}, keep)
    classes = sorted(usable, key=handles.__getitem__)
    number = {c: i for i, c in enumerate(classes)}
    keyed = []
    for i, r in enumerate(keep):
        kids = tuple(number[c] for c in r.children)
        keyed.append((number[r.output], r.constructor.op, repr(r.attrs), kids, i))
    keyed.sort()
    order = [keep[k[-1]] for k in keyed]
    weights = {row.inputs[0] for row in frozen.rows("weights_only")}
    by_handle = {handles[c]: i for c, i in number.items()}
    canonical = {h: number[c] for h, c in frozen.by_handle() if c in number}  # of merged e-classes, too
    position = {(k[0], k[1], k[2], k[3]): i for i, k in enumerate(keyed)}
    source = []
    for i, node in enumerate(graph.nodes):
        kids = tuple(canonical.get(j, -1) for j in node.inputs)
        own = canonical.get(i, by_handle.get(i, -1))
        source.append(position.get((own, node.op, repr(node.attrs), kids), -1))
    several = {
        canonical[i]: n.types for i, n in enumerate(graph.nodes) if len(n.types) > 1 and i in canonical
    }
    origin = _origins(store, frozen, order)
    for i in source:
        if i >= 0:
            origin[i] = ""
    egraph = EGraph.of(
        [(r.constructor.op, r.attrs, k[3]) for k, r in zip(keyed, order, strict=True)],
        [k[0] for k in keyed],
        types=_types(classes, types, several),
        weights_only=[c in weights for c in classes],
        roots=tuple(canonical[i] for _, i in graph.outputs),
        source=source,
        origin=tuple(origin),
    )
    return egraph, tuple(handles[c] for c in classes)


def _sound(usable: set[Any], rows: list[NodeRow]) -> tuple[set[Any], list[NodeRow]]:
    """The largest set of usable e-classes that each have an e-node with children in the set, and these e-nodes."""
    alive = [r.output in usable and all(c in usable for c in r.children) for r in rows]
    left = dict.fromkeys(usable, 0)  # e-nodes of each class
    users: dict[Any, list[int]] = {}
    for i, r in enumerate(rows):
        if alive[i]:
            left[r.output] += 1
    empty = [c for c, count in left.items() if not count]
    if empty:  # seldom: what used them, and what used that, goes too
        for i, r in enumerate(rows):
            for c in set(r.children):
                users.setdefault(c, []).append(i)
    for gone in empty:  # grows while it is read
        for i in users.get(gone, ()):
            if alive[i]:
                alive[i] = False
                own = rows[i].output
                left[own] -= 1
                if not left[own]:
                    empty.append(own)
    return usable.difference(empty), [r for i, r in enumerate(rows) if alive[i]]


def _newest(handles: dict[Any, int], limit: int, rows: list[NodeRow]) -> int:
    """The handle such that at most ``limit`` e-nodes are of e-classes with smaller handles alone.

    An e-class is named after an e-node whose children are older, so all e-classes older than a handle can be
    computed.
    """
    ages = sorted(max(handles[r.output], *(handles[c] for c in r.children), 0) for r in rows)
    return ages[limit]


def _types(
    classes: list[Any], types: dict[Any, tuple[int, ...]], several: dict[int, tuple[TensorType, ...]]
) -> tuple[tuple[TensorType, ...], ...]:
    """Types by class number. ``several``: those of the input program's nodes with several outputs."""
    known: dict[tuple[int, ...], tuple[TensorType, ...]] = {}
    out = []
    for i, c in enumerate(classes):
        vector = types[c]
        if vector == (TUPLE,):
            out.append(several[i])
            continue
        if vector not in known:
            known[vector] = (TensorType(DTYPES[vector[0]], vector[1:]),)
        out.append(known[vector])
    return tuple(out)


def _origins(store: Store, frozen: Frozen, order: list[NodeRow]) -> list[str]:
    text = frozen.decoder("String")
    tables = {
        c.name: {tuple(row.inputs): row.output for row in frozen.rows(c.origin)}
        for c in store.program.schema.constructors()
    }
    out = []
    for r in order:
        value = tables[r.constructor.name].get(r.inputs)
        out.append("" if value is None else text(value))
    return out
