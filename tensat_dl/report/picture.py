"""A graph as inline SVG: weights folded into the nodes that use them, changed nodes highlighted."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from markupsafe import Markup

from tensat_dl.core.graph import Graph, attr_text
from tensat_dl.cost.model import PricedGraph
from tensat_dl.ops.traits import traits
from tensat_dl.report.facts import latency
from tensat_dl.report.graphs import shape, shown_attrs
from tensat_dl.report.picture_layout import Point, draw
from tensat_dl.report.template import drawing

#: Graphs with more boxes are not drawn: neither people nor browsers make sense of them.
MAX_BOXES = 1500

_CHARACTER = 6.0
_LINE = 13.0
_LONGEST = 30
_MARGIN = 12.0


@dataclass(slots=True)
class Box:
    """One drawn node: lines of text, and the text shown on pointing at it."""

    lines: list[str]
    kind: str
    changed: bool = False
    details: list[str] = field(default_factory=list)

    @property
    def size(self) -> tuple[float, float]:
        longest = max(len(line) for line in self.lines)
        return max(56.0, longest * _CHARACTER + 18), len(self.lines) * _LINE + 9

    @property
    def radius(self) -> float:
        """The radius of its corners."""
        return self.size[1] / 2 if self.kind in ("leaf", "output") else 5.0

    def placed_lines(self) -> Iterator[tuple[float, str]]:
        """The lines, with their places below the centre."""
        for i, line in enumerate(self.lines):
            yield -self.size[1] / 2 + 4 + _LINE * (i + 0.78), line


@dataclass(frozen=True, slots=True)
class Picture:
    """The SVG of a graph, or None if it is too large; ``boxes`` counts the nodes that are (or would be) drawn."""

    svg: Markup | None
    boxes: int
    changed: int


def picture(priced: PricedGraph, changed: Collection[int], label: str) -> Picture:
    """Draws a graph. ``label`` says what the picture is of, for those who cannot see it."""
    boxes, edges = _boxes(priced, changed)
    count = sum(b.changed for b in boxes)
    if len(boxes) > MAX_BOXES:
        return Picture(None, len(boxes), count)
    drawn = draw([b.size for b in boxes], edges)
    size = drawn.width + 2 * _MARGIN, drawn.height + 2 * _MARGIN
    paths = [(a, b, _curve(route)) for (a, b), route in zip(edges, drawn.routes, strict=True)]
    placed = list(zip(boxes, drawn.centres, strict=True))
    return Picture(drawing("graph", *size, _MARGIN, label, placed, paths), len(boxes), count)


def _boxes(priced: PricedGraph, changed: Collection[int]) -> tuple[list[Box], list[tuple[int, int]]]:
    """The nodes to draw: those that depend on inputs, and the outputs."""
    graph = priced.graph
    constant = graph.weights_only()
    texts = _expressions(graph)
    outputs = {i for _, i in graph.outputs}
    boxes: list[Box] = []
    edges: dict[tuple[int, int], None] = {}
    place: dict[int, int] = {}
    for i, node in enumerate(graph.nodes):
        if constant[i] and i not in outputs:
            continue
        if node.op == "proj":  # an edge from the node with several outputs
            place[i] = place[node.inputs[0]]
            continue
        place[i] = len(boxes)
        if node.op == "input":
            lines = [_short(str(node.attr("name"))), shape(node.type)]
        elif constant[i]:
            lines = [_short(texts[i]), shape(node.type)]
        else:
            lines = [_short(" ".join([node.op, *shown_attrs(node)])), ", ".join(map(shape, node.types[:2]))]
        weights = [texts[j] for j in dict.fromkeys(node.inputs) if constant[j]]
        if weights and not constant[i]:
            lines.append(_short(", ".join(weights)))
        boxes.append(Box(lines, traits(node.op).family, i in changed, _details(priced, i, weights)))
        edges.update({(place[j], place[i]): None for j in node.inputs if not constant[j] or j in outputs})
    for name, i in graph.outputs:
        edges[(place[i], len(boxes))] = None
        boxes.append(Box([_short(name)], "output", details=[f"output {name}"]))
    return boxes, list(edges)


def _details(priced: PricedGraph, i: int, weights: list[str]) -> list[str]:
    node = priced.graph.nodes[i]
    lines = [node.op + (f"  {node.name}" if node.name else "")]
    if node.inputs:
        lines.append("takes " + ", ".join(str(t) for j in node.inputs for t in priced.graph.nodes[j].types))
    lines.append("gives " + ", ".join(map(str, node.types)))
    told = ((name, value) for name, value in node.attrs if name not in ("name", "dtype", "shape"))
    lines += [f"{name} = {attr_text(value)}" for name, value in told]
    lines += [f"weight {text}" for text in weights]
    if node.op != "input":
        lines.append(f"costs {latency(priced.cost[i])} ({'measured' if priced.measured[i] else 'estimated'})")
    return lines


def _expressions(graph: Graph) -> list[str]:
    """For nodes computed from weights alone how they are computed, in a limited number of characters."""
    texts: list[str] = []
    constant = graph.weights_only()
    for i, node in enumerate(graph.nodes):
        if not constant[i]:
            texts.append("")
        elif node.op == "weight":
            texts.append(str(node.attr("name")))
        elif node.op == "fill":
            texts.append(f"{node.attr('value'):g}")
        else:
            text = f"{node.op}({', '.join(texts[j] for j in node.inputs)})"
            texts.append(text if len(text) <= 200 else text[:199] + "…")
    return texts


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _curve(route: tuple[Point, ...]) -> str:
    """A smooth line that leaves and arrives vertically."""
    (x, y), *rest = route
    parts = [f"M{x:.1f} {y:.1f}"]
    for nx, ny in rest:
        if abs(nx - x) < 0.5:
            parts.append(f"L{nx:.1f} {ny:.1f}")
        else:
            middle = (y + ny) / 2
            parts.append(f"C{x:.1f} {middle:.1f} {nx:.1f} {middle:.1f} {nx:.1f} {ny:.1f}")
        x, y = nx, ny
    return "".join(parts)
