"""The steps from a graph to the optimized one as HTML, each rule drawn on the tensors it met: a page of their own
that needs nothing else, and a part of the report of a run."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from tensat_dl.cost.priced import PricedGraph
from tensat_dl.report.diff import changed_nodes
from tensat_dl.report.facts import milliseconds
from tensat_dl.report.labels import FAMILIES
from tensat_dl.report.picture import picture
from tensat_dl.report.steps import AlikeSteps, alike, conclusion, place, verdict, whole_cost
from tensat_dl.report.template import template
from tensat_dl.why.steps import Explanation


@dataclass(frozen=True, slots=True)
class Part:
    """Steps alike, with the two sides of the first step drawn; None if a side is too large."""

    alike: AlikeSteps
    places: tuple[tuple[int, str, str, str], ...]  #: number, place, cost after the step, verdict
    sides: tuple[Markup | None, Markup | None]


def steps_to_html(name: str, explanation: Explanation, device: str) -> str:
    """The page. Equal steps give equal text."""
    steps = explanation.steps
    return template("steps.html").render(
        name=name,
        device=device,
        conclusion=conclusion(explanation),
        unfinished=explanation.unfinished if steps else "",
        good=not explanation.unfinished and all(e.verdict == "equal" for e in steps),
        cost=whole_cost(explanation, device),
        parts=parts(explanation),
        families={name: colour for name, colour in FAMILIES.items() if name != "leaf"},
    )


def parts(explanation: Explanation) -> list[Part]:
    """The steps for the templates; steps in a row that apply one rule are one part."""
    return [_part(p) for p in alike(explanation.steps)]


def _part(part: AlikeSteps) -> Part:
    places = tuple(
        (
            part.first + k,
            place(e, most=50),
            milliseconds(e.cost[1]) if e.cost is not None else "",
            verdict(e),
        )
        for k, e in enumerate(part.steps)
    )
    before, after = part.steps[0].sides
    gone, new = changed_nodes(before.graph, after.graph)
    return Part(part, places, (_drawn(before, gone), _drawn(after, new)))


def _drawn(side: PricedGraph, changed: frozenset[int]) -> Markup | None:
    svg = picture(side, changed, side.graph.name).svg
    return None if svg is None else Markup(svg)
