"""`explain`: how a run came to its answer, by exploring again what it explored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tensat_dl.core.graph import Graph
from tensat_dl.core.progress import Progress
from tensat_dl.core.rule import RewriteRule
from tensat_dl.engine.explore import Exploring, exploring
from tensat_dl.engine.types import Exploration, History
from tensat_dl.run.search import Search, Setup
from tensat_dl.verify.rule_tests import find
from tensat_dl.why.steps import Explanation
from tensat_dl.why.way import NoWay, missing, way_between


def explain(
    before: Graph, after: Graph, rules: Sequence[RewriteRule], setup: Setup, progress: Progress, seed: int = 0
) -> Explanation:
    """The steps from ``before`` to ``after``, which a run with these rules and this setup found.

    If exploring again does not lead to the second graph, or Ctrl-C ends it early, there are steps to as much of the
    graph as was found. Raises `NoWay` if the two cannot be compared at all.
    """
    after = _aligned(after, before)
    if not missing(after, before):
        return Explanation(())
    model = setup.model
    progress.phase("explore")
    with exploring(before, model.table, rules, setup.limits, progress.exploring, model.estimate) as worker:
        exploration = worker.run()
        interrupted, history = exploration.stop == "interrupted", History()
        try:
            exploration = _until_found(worker, exploration, after, Search(setup, progress))
            history = worker.history()
        except KeyboardInterrupt:
            interrupted = True
    found = way_between(before, after, rules, model, exploration, history, progress, seed)
    return replace(found, interrupted=interrupted or found.interrupted)


def _until_found(worker: Exploring, exploration: Exploration, after: Graph, rounds: Search) -> Exploration:
    """The exploration that has the second graph, or the last one: as in a run, groups are merged that an answer
    uses."""
    while None in find(after, exploration.egraph):
        found = rounds.answer(exploration, rounds.priced(exploration), patient=False)
        refined = rounds.more(worker, found)
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
