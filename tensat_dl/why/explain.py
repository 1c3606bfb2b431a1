"""`explain`: the chain of rules from a graph to an optimized graph, every step evaluated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tensat_dl.core.graph import Graph
from tensat_dl.core.rule import RewriteRule
from tensat_dl.cost import CostModel
from tensat_dl.engine.explore import Exploring, exploring
from tensat_dl.engine.types import Applied, Exploration, History, Limits
from tensat_dl.extract.api import extract
from tensat_dl.extract.types import Limits as ExtractLimits
from tensat_dl.fuse.fuse import fuse
from tensat_dl.report.progress import Progress
from tensat_dl.run.search import Found, Unfit, feedback
from tensat_dl.verify.rule_tests import find
from tensat_dl.why.evaluate import evaluated
from tensat_dl.why.furthest import furthest
from tensat_dl.why.graphs import chain
from tensat_dl.why.replay import Application, Replay
from tensat_dl.why.shorten import shorter
from tensat_dl.why.steps import Explanation, Step

#: Why a chain ends early that Ctrl-C has ended.
INTERRUPTED = "interrupted"


class NoWay(Exception):
    """No way from one graph to the other can be looked for. ``message`` says why."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def explain(
    before: Graph,
    after: Graph,
    rules: Sequence[RewriteRule],
    model: CostModel,
    limits: Limits,
    method: str,
    extract_limits: ExtractLimits,
    progress: Progress,
    seed: int = 0,
    unfit: Unfit | None = None,
    fusing: bool = False,
) -> Explanation:
    """The steps from ``before`` to ``after``, which a run with these rules, limits and methods found.

    Explores again what the run explored; e-nodes that are ``unfit`` are no part of answers, and fused ones are if it
    was ``fusing``. If that does not lead to the second graph, or Ctrl-C ends it early, there are steps to as much of
    the graph as was found. Raises `NoWay` if the two cannot be compared at all.
    """
    after = _aligned(after, before)
    if not missing(after, before):
        return Explanation(())
    progress.phase("explore")
    with exploring(before, model.table, rules, limits, progress.exploring, model.estimate) as worker:
        exploration = worker.run()
        interrupted, history = exploration.stop == "interrupted", History()
        try:
            exploration = _until_found(
                worker, exploration, after, model, method, extract_limits, progress, unfit, fusing
            )
            history = worker.history()
        except KeyboardInterrupt:
            interrupted = True
    found = way_between(before, after, rules, model, exploration, history, progress, seed)
    return replace(found, interrupted=interrupted or found.interrupted)


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
    """The steps between two graphs in an e-graph that was explored from the first; see `explain`."""
    egraph, handles = history.whole or (exploration.egraph, exploration.handles)
    if None in find(before, egraph):
        raise NoWay("cycle filtering left a part of the original out of the e-graph, where steps would begin")
    progress.phase("replay")
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


def _until_found(
    worker: Exploring,
    exploration: Exploration,
    after: Graph,
    model: CostModel,
    method: str,
    limits: ExtractLimits,
    progress: Progress,
    unfit: Unfit | None,
    fusing: bool,
) -> Exploration:
    """The exploration that has the second graph, or the last one. As in a run, groups are merged that an answer uses;
    extraction is quick where it was quick there."""
    while None in find(after, exploration.egraph):
        progress.phase("extract")
        egraph = exploration.egraph
        if unfit is not None:
            egraph = egraph.without(unfit(egraph))
        costs = model
        if fusing:
            fused = fuse(egraph, model.table, model.estimating)
            egraph, costs = fused.egraph, replace(model, table=fused.ops)
        egraph = costs.price(egraph)[0]
        answer = extract(egraph, method, limits, progress.extracting, exploration.early)
        progress.phase("explore")
        refined = worker.refine(feedback(Found(exploration, egraph, answer, costs), costs.table))
        if refined is None:
            break
        exploration = refined
    return exploration


def _aligned(after: Graph, before: Graph) -> Graph:
    """The second graph with the names that inputs have in the first: written as .tsr, names may have changed."""
    if len(after.inputs) != len(before.inputs) or len(after.outputs) != len(before.outputs):
        counts = (len(g.inputs) for g in (before, after)), (len(g.outputs) for g in (before, after))
        (i, j), (k, m) = counts
        raise NoWay(f"the original has {i} inputs and {k} outputs, the optimized graph {j} and {m}")
    nodes = list(after.nodes)
    for i, j in zip(after.inputs, before.inputs, strict=True):
        if nodes[i].types != before.nodes[j].types:
            raise NoWay(f"input {before.nodes[j].attr('name')} has another type in the optimized graph")
        nodes[i] = before.nodes[j]
    outputs = zip(before.outputs, after.outputs, strict=True)
    return replace(after, nodes=tuple(nodes), outputs=tuple((name, j) for (name, _), (_, j) in outputs))


def missing(after: Graph, before: Graph) -> bool:
    """Whether the second graph has an output that is not the first graph's already."""
    numbers: dict[tuple[object, ...], int] = {}
    found = []
    for graph in (before, after):
        own: list[int] = []
        for node in graph.nodes:
            key = node.op, node.attrs, tuple(own[j] for j in node.inputs)
            own.append(numbers.setdefault(key, len(numbers)))
        found.append([own[i] for _, i in graph.outputs])
    return found[0] != found[1]


def _lost(after: Graph, exploration: Exploration) -> str:
    """What of the second graph the e-graph does not have, or ""."""
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
