"""Layered drawing of an acyclic graph: layers by longest path, crossings reduced by barycentres.

Positions within a layer are the least-squares fit to the positions of neighbours that keeps order and
distances, which makes chains straight. Everything is deterministic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

#: Distances between boxes of a layer, and between layers.
GAP_X = 18.0
GAP_Y = 26.0

#: Long edges bend at a way point in each layer that they pass; beyond this many they go straight.
MAX_WAYPOINTS = 12_000
_WAYPOINT_WIDTH = 4.0
_ORDER_SWEEPS = 10
_PLACE_SWEEPS = 14

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Drawing:
    """Centres of boxes, way points of edges between the boxes' borders, and the size of the whole."""

    centres: tuple[Point, ...]
    routes: tuple[tuple[Point, ...], ...]
    width: float
    height: float


def draw(sizes: Sequence[tuple[float, float]], edges: Sequence[tuple[int, int]]) -> Drawing:
    """Places boxes of these sizes. Edges go from a lower to a higher index."""
    if not sizes:
        return Drawing((), (), 0.0, 0.0)
    layer = _layers(len(sizes), edges)
    widths = [w for w, _ in sizes]
    paths: list[list[int]] = []  # of each edge: its ends, and the way points between them
    waypoints = sum(layer[b] - layer[a] - 1 for a, b in edges)
    for a, b in edges:
        path = [a]
        if waypoints <= MAX_WAYPOINTS:
            for level in range(layer[a] + 1, layer[b]):
                path.append(len(widths))
                widths.append(_WAYPOINT_WIDTH)
                layer.append(level)
        paths.append([*path, b])
    above: list[list[int]] = [[] for _ in widths]
    below: list[list[int]] = [[] for _ in widths]
    for path in paths:
        for a, b in pairwise(path):
            below[a].append(b)
            above[b].append(a)
    rows: list[list[int]] = [[] for _ in range(max(layer) + 1)]
    for v in _first_order(len(widths), above, below):
        rows[layer[v]].append(v)
    _reduce_crossings(rows, above, below)
    x = _place(rows, widths, above, below, len(sizes))
    left = min(x[v] - widths[v] / 2 for v in range(len(widths)))
    x = [value - left for value in x]
    y: list[float] = []
    top = 0.0
    for row in rows:
        height = max((sizes[v][1] for v in row if v < len(sizes)), default=0.0)
        y.append(top + height / 2)
        top += height + GAP_Y
    routes = []
    for path in paths:
        a, b = path[0], path[-1]
        start = (x[a], y[layer[a]] + sizes[a][1] / 2)
        end = (x[b], y[layer[b]] - sizes[b][1] / 2)
        routes.append((start, *((x[v], y[layer[v]]) for v in path[1:-1]), end))
    centres = tuple((x[v], y[layer[v]]) for v in range(len(sizes)))
    return Drawing(centres, tuple(routes), max(x[v] + widths[v] / 2 for v in range(len(widths))), top - GAP_Y)


def _layers(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """The longest path from above; a node without a predecessor moves down to its first reader."""
    layer = [0] * count
    incoming = [False] * count
    for a, b in sorted(edges, key=lambda e: e[1]):
        layer[b] = max(layer[b], layer[a] + 1)
        incoming[b] = True
    first: dict[int, int] = {}
    for a, b in edges:
        first[a] = min(first.get(a, layer[b]), layer[b])
    return [layer[v] if incoming[v] else first.get(v, 1) - 1 for v in range(count)]


def _first_order(count: int, above: list[list[int]], below: list[list[int]]) -> list[int]:
    """Depth first from the sources, so that what belongs together starts out together."""
    seen = [False] * count
    order = []
    for root in range(count):
        stack = [root] if not above[root] else []
        while stack:
            v = stack.pop()
            if not seen[v]:
                seen[v] = True
                order.append(v)
                stack += reversed(below[v])
    return order


def _reduce_crossings(rows: list[list[int]], above: list[list[int]], below: list[list[int]]) -> None:
    """Sorts each layer by the mean position of neighbours, going down and up in turn."""
    rank = {v: k / max(1, len(row)) for row in rows for k, v in enumerate(row)}
    for sweep in range(_ORDER_SWEEPS):
        down = sweep % 2 == 0
        near = above if down else below
        for row in rows if down else reversed(rows):
            # Relative positions: layers differ in length, and one that is short lies in the middle.
            key = {v: _mean([rank[u] for u in near[v]], rank[v]) for v in row}
            row.sort(key=lambda v: key[v])
            for k, v in enumerate(row):
                rank[v] = (k + 0.5) / len(row)


def _mean(values: list[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _place(
    rows: list[list[int]], widths: list[float], above: list[list[int]], below: list[list[int]], boxes: int
) -> list[float]:
    """Positions of centres. Way points weigh more than boxes: a long edge is straight first of all."""
    x = [0.0] * len(widths)
    offsets: list[list[float]] = []
    for row in rows:
        at, offset = 0.0, []
        for k, v in enumerate(row):
            if k > 0:
                at += (widths[row[k - 1]] + widths[v]) / 2 + GAP_X
            offset.append(at)
        offsets.append(offset)
        for k, v in enumerate(row):
            x[v] = offset[k] - at / 2
    for sweep in range(_PLACE_SWEEPS):
        last = sweep == _PLACE_SWEEPS - 1
        down = sweep % 2 == 0
        for i in range(len(rows)) if down else reversed(range(len(rows))):
            row = rows[i]
            wishes, weights = [], []
            for k, v in enumerate(row):
                near = [*above[v], *below[v]] if last else (above if down else below)[v]
                wishes.append(_mean([x[u] for u in near], x[v]) - offsets[i][k])
                weights.append(1.0 if v < boxes else 4.0)
            for k, value in enumerate(_isotonic(wishes, weights)):
                x[row[k]] = value + offsets[i][k]
    return x


def _isotonic(wishes: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The non-decreasing sequence that is nearest to the wishes in weighted squares."""
    blocks: list[tuple[float, float, int]] = []  # mean, weight, length
    for wish, weight in zip(wishes, weights, strict=True):
        mean, total, length = wish, weight, 1
        while blocks and blocks[-1][0] > mean:
            other, more, count = blocks.pop()
            mean = (mean * total + other * more) / (total + more)
            total, length = total + more, length + count
        blocks.append((mean, total, length))
    return [mean for mean, _, length in blocks for _ in range(length)]
