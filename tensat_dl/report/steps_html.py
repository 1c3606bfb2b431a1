"""The steps of ``tensat-dl why`` as one HTML page that needs nothing else: each rule drawn on the tensors it met."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from tensat_dl.cost import CostModel
from tensat_dl.ir.graph import Graph
from tensat_dl.report.diff import changed_nodes
from tensat_dl.report.facts import milliseconds
from tensat_dl.report.labels import FAMILIES
from tensat_dl.report.picture import picture
from tensat_dl.report.steps import VERDICTS, Alike, alike, conclusion, place
from tensat_dl.why.explain import Explained


@dataclass(frozen=True, slots=True)
class _Part:
    """Steps alike, with the two sides of the first one drawn; None where that is too large."""

    alike: Alike
    places: tuple[tuple[int, str, str, str], ...]  #: number, where, cost after it, what evaluating it showed
    sides: tuple[Markup | None, Markup | None]


def steps_to_html(name: str, steps: Sequence[Explained], model: CostModel) -> str:
    """The page. Equal steps give equal text."""
    return _template().render(
        name=name,
        device=model.device.name,
        conclusion=conclusion(steps),
        good=all(e.verdict == "equal" for e in steps),
        first=milliseconds(steps[0].cost[0]) if steps and steps[0].cost else "",
        last=milliseconds(steps[-1].cost[1]) if steps and steps[-1].cost else "",
        parts=[_part(p, model) for p in alike(steps)],
        families={name: colour for name, colour in FAMILIES.items() if name != "leaf"},
    )


def _part(part: Alike, model: CostModel) -> _Part:
    places = tuple(
        (
            part.first + k,
            place(e, most=50),
            milliseconds(e.cost[1]) if e.cost is not None else "",
            VERDICTS[e.verdict] + (f": {e.message}" if e.verdict != "equal" else ""),
        )
        for k, e in enumerate(part.steps)
    )
    before, after = part.steps[0].step.sides
    gone, new = changed_nodes(before, after)
    return _Part(part, places, (_drawn(before, gone, model), _drawn(after, new, model)))


def _drawn(graph: Graph, changed: frozenset[int], model: CostModel) -> Markup | None:
    svg = picture(model.price_graph(graph), changed, graph.name).svg
    return None if svg is None else Markup(svg)


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("tensat_dl.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("steps.html")
