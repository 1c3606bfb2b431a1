"""HTML pages that need nothing else: the report of a run with both graphs drawn, and the steps of `why`, where each
rule is drawn on the tensors that it met."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from markupsafe import Markup

from tensat_dl.cost.model import PricedGraph
from tensat_dl.engine.exploration import RuleStats
from tensat_dl.report import facts
from tensat_dl.report.charts import by_rule, growth_bars, growth_chart, seconds_bars
from tensat_dl.report.facts import latency
from tensat_dl.report.graphs import FAMILIES, changed_nodes, shape, shown_attrs
from tensat_dl.report.picture import MAX_BOXES, picture
from tensat_dl.report.steps import AlikeSteps, alike, conclusion, place, verdict, whole_cost
from tensat_dl.report.template import template
from tensat_dl.run.growth import together
from tensat_dl.run.result import Result
from tensat_dl.verify.exact.run import described
from tensat_dl.why.steps import Explanation

#: Tables show at most so many rows, and count the rest.
MAX_ROWS = 30

#: The colours of families that the legend names.
_COLOURS = {name: colour for name, colour in FAMILIES.items() if name != "leaf"}
#: Steps alike; number, place, cost afterwards and verdict of each; the two sides of the first one, drawn if they are
#: not too large.
Part = tuple[AlikeSteps, list[tuple[int, str, str, str]], list[Markup | None]]


@dataclass(frozen=True, slots=True)
class Change:
    """Nodes of one kind that are gone from the graph or new in it."""

    what: str
    count: int
    cost: float


def result_to_html(result: Result, model: Mapping[str, Any] | None = None) -> str:
    """The report of a run, with the summary of its ONNX ``model`` (`Imported.to_json`), if it had one. Equal results
    give equal text."""
    gone, new = changed_nodes(result.before.graph, result.after.graph)
    rows = facts.by_operator(result.before, result.after)
    rules = _rules(result)
    return template("report.html").render(
        result=result,
        model=model,
        facts=facts,
        name=result.before.graph.name,
        stop=facts.stop_of(result),
        source=facts.costs_come_from(result.before, result.after, result.device),
        faster=facts.times_faster(result),
        counts=[len(facts.running(p.graph)) for p in (result.before, result.after)],
        rows=rows,
        most=max((max(r.cost) for r in rows), default=0.0) or 1.0,
        gone=_changes(result.before, gone),
        new=_changes(result.after, new),
        rules=rules,
        most_new=max((r.new_nodes for r, _ in rules), default=0) or 1,
        chart=growth_chart(result.iterations),
        bars=growth_bars(result.iterations),
        seconds_bars=seconds_bars(result.iterations),
        exactly="" if result.exact is None else described(result.exact),
        by_rule=by_rule(result.iterations),
        explanation=result.steps,
        conclusion=None if result.steps is None else conclusion(result.steps),
        steps_alike=[] if result.steps is None else _parts(result.steps),
        pictures=[
            ("before", picture(result.before, gone, "the graph before")),
            ("after", picture(result.after, new, "the graph after")),
        ],
        families=_COLOURS,
        max_rows=MAX_ROWS,
        max_boxes=MAX_BOXES,
        bounded=isfinite(result.extraction.bound) and result.extraction.bound > 0,
    )


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


def _rules(result: Result) -> list[tuple[RuleStats, int]]:
    """The work of each rule over all iterations, and how many nodes of the result it brought: rules that the result
    uses first, then by added e-nodes."""
    used = dict(result.rules_used)
    idle = [RuleStats(rule, 0, 0, 0, 0.0) for rule in used]
    rules = {r.rule: r for r in (*idle, *together(r for it in result.iterations for r in it.rules))}
    rows = [(r, used.get(rule, 0)) for rule, r in rules.items()]
    return sorted(rows, key=lambda row: (-row[1], -row[0].new_nodes, -row[0].matches, row[0].rule))


def steps_to_html(explanation: Explanation) -> str:
    """The page. Equal steps give equal text."""
    steps = explanation.steps
    return template("steps.html").render(
        name=explanation.name,
        device=explanation.device,
        conclusion=conclusion(explanation),
        unfinished=explanation.unfinished if steps else "",
        good=not explanation.unfinished and all(e.verdict == "equal" for e in steps),
        cost=whole_cost(explanation),
        parts=_parts(explanation),
        families=_COLOURS,
    )


def _parts(explanation: Explanation) -> list[Part]:
    return [_part(p) for p in alike(explanation.steps)]


def _part(part: AlikeSteps) -> Part:
    places = [
        (number, place(e, most=50), latency(e.cost[1]) if e.cost is not None else "", verdict(e))
        for number, e in enumerate(part.steps, part.first)
    ]
    before, after = part.steps[0].sides
    gone, new = changed_nodes(before.graph, after.graph)
    sides = [picture(side, changed, side.graph.name).svg for side, changed in ((before, gone), (after, new))]
    return part, places, sides
