"""`way_between`: the chain of rules from a graph to an optimized graph, every step evaluated."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tensat_dl.core.egraph import find
from tensat_dl.core.graph import Graph
from tensat_dl.core.progress import Progress
from tensat_dl.core.rule import RewriteRule
from tensat_dl.cost import CostModel, PricedGraph
from tensat_dl.engine.exploration import Applied, Exploration, History
from tensat_dl.ops.semantics import semantics_of
from tensat_dl.rewrite.orders import commuted
from tensat_dl.verify.equivalence import compare
from tensat_dl.verify.exact.compare import compare_exactly
from tensat_dl.verify.exact.run import seconds
from tensat_dl.verify.opaque_laws import assumed
from tensat_dl.why.graphs import chain
from tensat_dl.why.replay import Application, Replay
from tensat_dl.why.shorten import furthest, shorter
from tensat_dl.why.steps import INTERRUPTED, Explained, Explanation, NoWay, Step, Verdict, missing

#: Sides of which exact evaluation would take more seconds of a processor than about this are compared in float64.
PATIENCE = 0.5

_Found = tuple[Verdict, str, bool]


def way_between(
    before: Graph,
    after: Graph,
    rules: Sequence[RewriteRule],
    model: CostModel,
    exploration: Exploration,
    history: History,
    progress: Progress,
    seed: int = 0,
) -> Explanation:
    """The steps between two graphs, in an e-graph that was explored from the first graph.

    If it does not have all of the second graph, or Ctrl-C ends this early, there are steps to as much of it as was
    found. Raises `NoWay` if cycle filtering took a part of the first graph out of the e-graph.
    """
    egraph, handles = history.whole or (exploration.egraph, exploration.handles)
    if None in find(before, egraph):
        raise NoWay(
            "cycle filtering dropped a part of the original from the e-graph, so no step can begin there"
        )
    progress.phase("replay")
    decls = (model.table[op] for op in sorted({*egraph.op} & {*model.table}))
    rules = (*rules, *(commuted(d) for d in decls if d.commutative))
    replay = Replay(egraph, before, after, rules, model.table, _by_class(history.applied, handles))
    unfinished, interrupted = "", False
    try:
        if not replay.run():
            unfinished = _lost(after, exploration) or (
                "the rules, applied again one by one, did not make the outputs equal"
            )
    except KeyboardInterrupt:
        unfinished, interrupted = INTERRUPTED, True
    if unfinished:
        replay.after = furthest(replay)
        if not missing(replay.after, before):
            return Explanation((), unfinished, interrupted)
    steps, whole, stopped = _steps(replay, rules, model, progress, patient=not interrupted)
    if not whole:
        unfinished = unfinished or INTERRUPTED
    interrupted |= stopped
    progress.phase("evaluate")
    done, stopped = evaluated(steps, rules, model, seed, progress.counting)
    return Explanation(done, unfinished, interrupted or stopped)


def _steps(
    replay: Replay, rules: Sequence[RewriteRule], model: CostModel, progress: Progress, patient: bool
) -> tuple[list[Step], bool, bool]:
    """The chain of a replay as far as it was made, whether that is the whole of it, and whether Ctrl-C was pressed.
    If that was before this, it is not ``patient`` and does not make the chain as short as possible."""
    way: list[Application] | None = None
    steps: list[Step] = []
    stopped = False
    try:
        ways = shorter(replay)
        while (shortest := next(ways, None)) is not None:
            way = shortest
            if not patient:
                break
    except KeyboardInterrupt:
        stopped = True
    if way is None:
        return [], False, True
    try:
        for step in chain(replay, way, {r.name: r for r in rules}, model.table):
            steps.append(step)
            progress.counting(len(steps), len(way))
    except KeyboardInterrupt:
        return steps, False, True
    return steps, True, stopped


def _lost(after: Graph, exploration: Exploration) -> str:
    """The first node of the second graph that the e-graph does not have, in words; "" if it has all."""
    classes = find(after, exploration.egraph)
    if None not in classes:
        return ""
    node = after.nodes[classes.index(None)]
    if node.op in ("input", "weight"):
        return f"the original has no {node.op} {node.attr('name')} of type {node.type}"
    what = f"{node.op} ({node.name})" if node.name else node.op
    early = ", as Ctrl-C ended it" if exploration.stop == "interrupted" else ""
    return f"exploring the original again did not lead to its {what}{early}"


def _by_class(applied: Sequence[Applied], handles: Sequence[int]) -> list[Applied]:
    """Applications by e-class instead of by handle; of e-classes that the e-graph has."""
    number = {h: c for c, h in enumerate(handles)}
    out = []
    for a in applied:
        if all(h in number for h in a.tensors):
            shared, *members = (tuple((n, number[h]) for n, h in part) for part in (a.shared, *a.members))
            out.append(Applied(a.rule, shared, tuple(members)))
    return out


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
        found: _Found = "inconclusive", "interrupted", False
        try:
            count(number, len(steps))
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
        return "assumed", f"the values of {', '.join(opaque)} are unknown", False
    if seconds(step.sides, ops) <= PATIENCE:
        exact = compare_exactly(*step.sides, ops, seed)
        if exact.status != "unsupported":
            difference = "" if exact.difference is None else str(exact.difference)
            return exact.status, difference, exact.level != "float"
    found = compare(*step.sides, semantics_of(ops), seed)
    return ("equal" if found.status == "equivalent" else found.status), found.message, False
