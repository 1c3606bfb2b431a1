"""`way_between`: the chain of rules from a graph to an optimized graph, every step evaluated."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from tensat_dl.core.graph import Graph, value_numbers
from tensat_dl.core.progress import Progress
from tensat_dl.core.rule import RewriteRule
from tensat_dl.cost import CostModel
from tensat_dl.engine.types import Applied, Exploration, History
from tensat_dl.verify.rule_tests import find
from tensat_dl.why.evaluate import evaluated
from tensat_dl.why.graphs import chain
from tensat_dl.why.partial_replay import furthest
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
    """The steps between two graphs in an e-graph that was explored from the first.

    If it does not have all of the second graph, or Ctrl-C ends this early, there are steps to as much of it as was
    found. Raises `NoWay` if cycle filtering took a part of the first graph out of the e-graph.
    """
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


def missing(after: Graph, before: Graph) -> bool:
    """Whether the second graph has an output that is not the first graph's already."""
    numbers: dict[Hashable, int] = {}
    first, second = (value_numbers(graph, numbers) for graph in (before, after))
    return [first[i] for _, i in before.outputs] != [second[i] for _, i in after.outputs]


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
