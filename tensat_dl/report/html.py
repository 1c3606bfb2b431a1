"""The HTML report: one file that needs nothing else, with both graphs drawn."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from markupsafe import Markup

from tensat_dl.cost.priced import PricedGraph
from tensat_dl.report import facts
from tensat_dl.report.bars import by_rule, growth_bars, seconds_bars
from tensat_dl.report.chart import growth_chart
from tensat_dl.report.diff import changed_nodes
from tensat_dl.report.labels import FAMILIES, shape, shown_attrs
from tensat_dl.report.picture import MAX_BOXES, Picture, picture
from tensat_dl.report.steps import conclusion
from tensat_dl.report.steps_html import parts
from tensat_dl.report.template import template
from tensat_dl.report.text import STOPS
from tensat_dl.run.result import Result

#: Tables show at most so many rows, and count the rest.
MAX_ROWS = 30


@dataclass(frozen=True, slots=True)
class Change:
    """Nodes of one kind that are gone from the graph or new in it."""

    what: str
    count: int
    cost: float


@dataclass(frozen=True, slots=True)
class RuleRow:
    """One rule over all iterations."""

    rule: str
    matches: int
    applied: int
    new_nodes: int
    seconds: float
    used: int
    notes: tuple[str, ...]


def result_to_html(result: Result, model: Mapping[str, Any] | None = None) -> str:
    """The report of a run, with the summary of its ONNX ``model`` (`model_to_json`), if it had one. Equal results
    give equal text."""
    gone, new = changed_nodes(result.before.graph, result.after.graph)
    rows = facts.by_operator(result.before, result.after)
    rules = _rules(result)
    return template("report.html").render(
        result=result,
        model=model,
        facts=facts,
        name=result.before.graph.name,
        stop=STOPS[result.stop],
        source=facts.costs_come_from(result.before, result.after, result.device),
        faster=facts.times_faster(result),
        counts=[len(facts.running(p.graph)) for p in (result.before, result.after)],
        rows=rows,
        most=max((max(r.cost) for r in rows), default=0.0) or 1.0,
        gone=_changes(result.before, gone),
        new=_changes(result.after, new),
        rules=rules,
        most_new=max((r.new_nodes for r in rules), default=0) or 1,
        chart=Markup(growth_chart(result.iterations)),
        bars=Markup(growth_bars(result.iterations)),
        seconds_bars=Markup(seconds_bars(result.iterations)),
        by_rule=by_rule(result.iterations),
        explanation=result.steps,
        conclusion=None if result.steps is None else conclusion(result.steps),
        steps_alike=[] if result.steps is None else parts(result.steps),
        pictures=[
            ("before", _drawn(picture(result.before, gone, "the graph before"))),
            ("after", _drawn(picture(result.after, new, "the graph after"))),
        ],
        families={name: colour for name, colour in FAMILIES.items() if name != "leaf"},
        max_rows=MAX_ROWS,
        max_boxes=MAX_BOXES,
        bounded=isfinite(result.extraction.bound) and result.extraction.bound > 0,
    )


def _drawn(found: Picture) -> dict[str, object]:
    """A picture for the template. Its SVG needs no escaping: all texts in it are escaped."""
    svg = None if found.svg is None else Markup(found.svg)
    return {"svg": svg, "boxes": found.boxes, "changed": found.changed}


def _changes(priced: PricedGraph, changed: Collection[int]) -> list[Change]:
    """The changed nodes that run, grouped by kind, the costliest first."""
    totals: dict[str, tuple[int, float]] = defaultdict(lambda: (0, 0.0))
    nodes = priced.graph.nodes
    for i in facts.running(priced.graph):
        if i in changed:
            operands = ", ".join(shape(t) for j in nodes[i].inputs for t in nodes[j].types)
            gives = ", ".join(map(shape, nodes[i].types))
            what = f"{' '.join([nodes[i].op, *shown_attrs(nodes[i], place=False)])}: {operands} → {gives}"
            count, cost = totals[what]
            totals[what] = count + 1, cost + priced.cost[i]
    changes = [Change(what, count, cost) for what, (count, cost) in totals.items()]
    return sorted(changes, key=lambda c: (-c.cost, -c.count, c.what))


def _rules(result: Result) -> list[RuleRow]:
    """The work of each rule over all iterations: rules that the result uses first, then by added e-nodes."""
    totals: dict[str, list[float]] = defaultdict(lambda: [0, 0, 0, 0.0])
    notes: dict[str, dict[str, None]] = defaultdict(dict)
    for iteration in result.iterations:
        for r in iteration.rules:
            for k, value in enumerate((r.matches, r.applied, r.new_nodes, r.seconds)):
                totals[r.rule][k] += value
            if r.note:
                notes[r.rule][r.note] = None
    used = dict(result.rules_used)
    rows = []
    for rule in {**totals, **used}:
        matches, applied, new_nodes, seconds = totals[rule]
        rows.append(
            RuleRow(
                rule,
                int(matches),
                int(applied),
                int(new_nodes),
                seconds,
                used.get(rule, 0),
                tuple(notes[rule]),
            )
        )
    rows = [r for r in rows if r.used or r.matches or r.notes]
    return sorted(rows, key=lambda r: (-r.used, -r.new_nodes, -r.matches, r.rule))
