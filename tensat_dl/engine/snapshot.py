"""The engine's rows as an `EGraph`: plain arrays whose order does not depend on the engine's internal ids."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
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
    frozen, handles, rows, numbered = state.frozen, state.handles, state.rows, state.numbered
    types = {handles[c]: t for c, t in class_types(frozen).items() if c in handles}
    usable, keep = _sound(set(types), numbered)
    if len(keep) > limit:
        first = max(_newest(limit, keep, numbered), len(graph.nodes))
        usable, keep = _sound({c for c in usable if c < first}, numbered)
    classes = sorted(usable)
    number = {c: i for i, c in enumerate(classes)}
    texts: dict[int, str] = {}  #: of attributes, many of which are one object
    keyed = []
    for i in keep:
        own, children = numbered[i]
        attrs = rows[i].attrs
        text = texts.get(id(attrs))
        if text is None:
            text = texts[id(attrs)] = repr(attrs)
        kids = tuple(map(number.__getitem__, children))
        keyed.append((number[own], rows[i].constructor.op, text, kids, i))
    keyed.sort()
    order = [rows[k[-1]] for k in keyed]
    weights = state.members("weights_only")
    canonical = {i: number[i] for i in range(len(graph.nodes)) if i in number}
    if len(canonical) < len(graph.nodes):  # some were merged with older ones
        classes_of = ((h, handles.get(c, -1)) for h, c in frozen.by_handle() if h < len(graph.nodes))
        canonical |= {h: number[own] for h, own in classes_of if own in number}
    known = set(canonical.values())
    position = {k[:4]: i for i, k in enumerate(keyed) if k[0] in known}
    source = []
    for i, node in enumerate(graph.nodes):
        kids = tuple(canonical.get(j, -1) for j in node.inputs)
        own = canonical.get(i, -1)
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
    return egraph, tuple(classes)


def _sound(usable: set[int], nodes: Sequence[tuple[int, tuple[int, ...]]]) -> tuple[set[int], list[int]]:
    """The largest set of usable e-classes that each have an e-node with children in the set, and these e-nodes'
    places; e-classes by handles."""
    contained = usable.issuperset
    alive = [own in usable and contained(children) for own, children in nodes]
    left = dict.fromkeys(usable, 0)  # e-nodes of each class
    users: dict[int, list[int]] = {}
    for i, (own, _) in enumerate(nodes):
        if alive[i]:
            left[own] += 1
    empty = [c for c, count in left.items() if not count]
    if empty:  # seldom: what used them, and what used that, goes too
        for i, (_, children) in enumerate(nodes):
            for c in set(children):
                users.setdefault(c, []).append(i)
    for gone in empty:  # grows while it is read
        for i in users.get(gone, ()):
            if alive[i]:
                alive[i] = False
                own = nodes[i][0]
                left[own] -= 1
                if not left[own]:
                    empty.append(own)
    return usable.difference(empty), [i for i in range(len(nodes)) if alive[i]]


def _newest(limit: int, keep: list[int], nodes: Sequence[tuple[int, tuple[int, ...]]]) -> int:
    """The handle such that at most ``limit`` e-nodes are of e-classes with smaller handles alone.

    An e-class is named after an e-node whose children are older, so all e-classes older than a handle can be
    computed.
    """
    ages = sorted(max(nodes[i][0], *nodes[i][1], 0) for i in keep)
    return ages[limit]


def _types(
    classes: list[int], types: dict[int, tuple[int, ...]], several: dict[int, tuple[TensorType, ...]]
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

    def texts(nodes: list[NodeRow], rows: Sequence[Any]) -> list[str]:
        rules = {tuple(row.inputs): text(row.output) for row in rows}
        return [rules.get(n.inputs, "") for n in nodes]

    found: dict[int, str] = {}  # by the identity of a row
    for constructor in store.program.schema.constructors():
        own, table = frozen.table(constructor.name), frozen.table(constructor.origin)
        if own is not None and table is not None:
            nodes = store.nodes(frozen, constructor)
            found |= zip(map(id, nodes), table.made("rules", partial(texts, nodes), own), strict=True)
    return [found[id(r)] for r in order]
