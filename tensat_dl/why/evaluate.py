"""Evaluates the steps of a chain: what each costs, and whether both sides of its rule compute the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tensat_dl.core.graph import Graph
from tensat_dl.core.rule import RewriteRule
from tensat_dl.cost import CostModel, PricedGraph
from tensat_dl.ops.compose import semantics_of
from tensat_dl.verify.equivalence import compare
from tensat_dl.verify.exact import compare_exactly
from tensat_dl.verify.exact.work import seconds
from tensat_dl.verify.opaque_laws import assumed
from tensat_dl.why.steps import Explained, Step, Verdict

#: Sides of which exact evaluation would take more seconds of a processor than about this are compared in float64.
PATIENCE = 0.5

_Found = tuple[Verdict, str, bool]


def evaluated(
    steps: Sequence[Step],
    rules: Sequence[RewriteRule],
    model: CostModel,
    seed: int,
    count: Callable[[int, int], None],
) -> tuple[tuple[Explained, ...], bool]:
    """Each step with its cost and verdict, and whether Ctrl-C ended that early: the others were not evaluated then.
    Steps that say the same of tensors of equal types are evaluated once."""
    on_trust = assumed(rules, model.table)
    verdicts: dict[tuple[Graph, Graph], _Found] = {}
    priced: dict[tuple[Graph, Graph], tuple[PricedGraph, PricedGraph]] = {}
    graphs: dict[int, PricedGraph] = {}
    interrupted = False

    def whole(graph: Graph) -> PricedGraph:
        if id(graph) not in graphs:
            graphs[id(graph)] = model.price_graph(graph)
        return graphs[id(graph)]

    out = []
    for number, s in enumerate(steps, start=1):
        count(number, len(steps))
        found: _Found = "inconclusive", "interrupted", False
        try:
            if not interrupted and s.sides not in verdicts:
                verdicts[s.sides] = _verdict(s, on_trust.get(s.rule.name, ()), model, seed)
        except KeyboardInterrupt:
            interrupted = True
        if s.sides not in priced:
            priced[s.sides] = model.price_graph(s.sides[0]), model.price_graph(s.sides[1])
        both = None if s.before is None or s.after is None else (whole(s.before), whole(s.after))
        out.append(Explained(s, priced[s.sides], both, *verdicts.get(s.sides, found)))
    return tuple(out), interrupted


def _verdict(step: Step, opaque: Sequence[str], model: CostModel, seed: int) -> _Found:
    ops = model.table
    if opaque:
        return "assumed", f"nothing is known of what {', '.join(opaque)} computes", False
    if seconds(step.sides, ops) <= PATIENCE:
        exact = compare_exactly(*step.sides, ops, seed)
        if exact.status != "unsupported":
            difference = "" if exact.difference is None else str(exact.difference)
            return exact.status, difference, exact.level != "float"
    found = compare(*step.sides, semantics_of(ops), seed)
    return ("equal" if found.status == "equivalent" else found.status), found.message, False
