"""E-graphs in the JSON format of the egraph-serialize project.

The format names e-nodes: ``{"nodes": {id: {"op", "children": [id], "eclass", "cost"}}, "root_eclasses":
[class], "class_data": {class: {"type"}}}``. A child names an e-node and stands for the e-class of that
e-node. Without "children" an e-node has none, without "cost" it costs 1. An e-node that is ``"subsumed": true`` is no
candidate: others may name it as a child. Costs are milliseconds in the files written here; in foreign files they have
the unit of their author.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from tensat_dl.core.egraph import EGraph, NodeKey
from tensat_dl.core.graph import attr_text


class EGraphFormatError(ValueError):
    """The text is not an e-graph in egraph-serialize JSON."""


def loads(text: str) -> EGraph:
    """Reads an e-graph written by any program.

    Operators are kept as written, types are empty, no class is weights-only and no e-node is from a source
    program. Classes and e-nodes are numbered in the order of the file. Raises `EGraphFormatError`.
    """
    return loads_named(text)[0]


def loads_named(text: str) -> tuple[EGraph, tuple[str, ...], tuple[str, ...]]:
    """As `loads`, with the file's names of the e-classes and of the e-nodes, by number."""
    try:
        data = json.loads(text, object_pairs_hook=_unique)
    except RecursionError:
        raise EGraphFormatError("not an e-graph: its JSON is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise EGraphFormatError(f"not JSON: {error}") from None
    entries = _field(data, "nodes", dict, "the file")
    roots = _field(data, "root_eclasses", list, "the file")
    if not roots:
        raise EGraphFormatError("root_eclasses is empty: there is nothing to extract")

    class_of: dict[str, str] = {}
    members: dict[str, list[str]] = {}
    for node_id, entry in entries.items():
        name = _field(entry, "eclass", (str, int), f"e-node {node_id!r}")
        class_of[node_id] = str(name)
        candidates = members.setdefault(str(name), [])
        if not _subsumed(entry, f"e-node {node_id!r}"):
            candidates.append(node_id)
    classes = tuple(members)
    number = {name: i for i, name in enumerate(classes)}

    ids = tuple(node_id for name in classes for node_id in members[name])
    nodes: list[NodeKey] = []
    cost: list[float] = []
    for node_id in ids:
        entry, where = entries[node_id], f"e-node {node_id!r}"
        op = _field(entry, "op", str, where)
        cost.append(_cost(entry, where))
        children: list[int] = []
        for child in _field(entry, "children", list, where, default=[]):
            if not isinstance(child, str) or child not in class_of:
                raise EGraphFormatError(
                    f"{where} has the child {child!r}, which is not an e-node of the file"
                )
            children.append(number[class_of[child]])
        nodes.append((op, (), tuple(children)))
    for root in roots:
        if str(root) not in number:
            raise EGraphFormatError(f"root_eclasses names {root!r}, which is not an e-class of the file")

    egraph = EGraph.of(
        nodes,
        [number[class_of[node_id]] for node_id in ids],
        types=((),) * len(classes),
        weights_only=[False] * len(classes),
        roots=tuple(number[str(root)] for root in roots),
        source=(),
        cost=cost,
    )
    return egraph, classes, ids


def dumps(egraph: EGraph) -> str:
    """The e-graph as text; it must be priced.

    E-class ``c`` is named ``"c"`` and its ``i``-th e-node ``"c.i"``. Attributes are part of the operator's
    label. The format has no word for weights-only classes: their e-nodes are written with cost zero, and
    ``class_data`` marks the class. Raises `EGraphFormatError` for an e-graph that the format cannot hold.
    """
    node_class = egraph.node_class.tolist()
    start = egraph.class_start.tolist()
    names = [f"{c}.{n - start[c]}" for n, c in enumerate(node_class)]
    nodes: dict[str, Any] = {}
    for n, name in enumerate(names):
        c = node_class[n]
        cost = 0.0 if egraph.weights_only[c] else float(egraph.cost[n])
        if not math.isfinite(cost):
            raise EGraphFormatError(f"e-node {n} ({egraph.op[n]}) has cost {cost}: price the e-graph first")
        kids = egraph.children_of(n)
        empty = [d for d in kids if start[d] == start[d + 1]]
        if empty:
            raise EGraphFormatError(
                f"e-node {n} ({egraph.op[n]}) has the child e-class {empty[0]}, which is empty"
            )
        nodes[name] = {
            "op": _label(egraph, n),
            "children": [names[start[d]] for d in kids],
            "eclass": str(c),
            "cost": cost,
        }
    class_data: dict[str, Any] = {}
    for c, types in enumerate(egraph.types):
        entry: dict[str, Any] = {}
        if types:
            entry["type"] = ", ".join(map(str, types))
        if egraph.weights_only[c]:
            entry["weights_only"] = True
        if entry:
            class_data[str(c)] = entry
    whole = {
        "nodes": nodes,
        "root_eclasses": [str(r) for r in dict.fromkeys(egraph.roots)],
        "class_data": class_data,
    }
    return json.dumps(whole, indent=1) + "\n"


def _label(egraph: EGraph, n: int) -> str:
    """The operator with its attributes, such as ``matmul[act = relu]``."""
    attrs = egraph.attrs[n]
    if not attrs:
        return egraph.op[n]
    return f"{egraph.op[n]}[{', '.join(f'{key} = {attr_text(value)}' for key, value in attrs)}]"


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object. JSON leaves open which of two values a name has."""
    found = dict(pairs)
    if len(found) < len(pairs):
        ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise EGraphFormatError(f"the name {twice!r} appears twice in one object")
    return found


def _subsumed(entry: Mapping[str, Any], where: str) -> bool:
    value = entry.get("subsumed", False)
    if not isinstance(value, bool):
        raise EGraphFormatError(f"{where}: field 'subsumed' must not be {_kind(value)}")
    return value


def _field(entry: object, key: str, kind: type | tuple[type, ...], where: str, default: object = None) -> Any:
    if not isinstance(entry, Mapping):
        raise EGraphFormatError(f"{where} must be an object, not {_kind(entry)}")
    if key not in entry:
        if default is not None:
            return default
        raise EGraphFormatError(f"{where} has no field {key!r}")
    value = entry[key]
    if not isinstance(value, kind) or isinstance(value, bool):
        raise EGraphFormatError(f"{where}: field {key!r} must not be {_kind(value)}")
    return value


def _cost(entry: object, where: str) -> float:
    cost = _field(entry, "cost", (int, float), where, default=1.0)
    try:
        value = float(cost)
    except OverflowError:
        value = math.inf
    if not math.isfinite(value) or value < 0:
        raise EGraphFormatError(f"{where} has cost {value}: costs must be finite and not negative")
    return value


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")
