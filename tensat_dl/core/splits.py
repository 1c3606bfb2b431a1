"""Slices that together are the parts of one tensor."""

from __future__ import annotations

from tensat_dl.core.graph import AttrValue, Graph


def splits(graph: Graph) -> dict[int, tuple[int, ...]]:
    """Slices that follow each other and cover a tensor, in that order: they are one ``split``. By node,
    for each of them."""
    groups: dict[tuple[int, int], list[int]] = {}
    for i, node in enumerate(graph.nodes):
        if node.op == "slice":
            groups.setdefault((node.inputs[0], _int(node.attr("axis"))), []).append(i)
    found: dict[int, tuple[int, ...]] = {}
    for (source, axis), members in groups.items():
        bounds = sorted(
            (_int(graph.nodes[i].attr("start")), _int(graph.nodes[i].attr("stop")), i) for i in members
        )
        starts = [start for start, _, _ in bounds]
        ends = [0, *(stop for _, stop, _ in bounds)]
        if len(members) > 1 and [*starts, graph.nodes[source].type.shape[axis]] == ends:
            parts = tuple(i for _, _, i in bounds)
            found.update(dict.fromkeys(parts, parts))
    return found


def _int(value: AttrValue) -> int:
    assert isinstance(value, int)
    return value
