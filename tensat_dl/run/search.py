"""The search for a cheaper graph: explore, price, extract; then merge what the answer uses, and extract again.

An answer tells which members of a group are worth merging: those that it computes. Merging exactly these can be
better than merging all, and better than what was found without. So exploration goes on with them, until an extraction
gains nothing from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tensat_dl.core.egraph import BoolArray, EGraph
from tensat_dl.core.graph import Graph
from tensat_dl.core.rule import RewriteRule
from tensat_dl.cost import CostModel
from tensat_dl.engine.explore import Exploring, exploring
from tensat_dl.engine.types import Exploration, Feedback, History, Limits
from tensat_dl.extract.api import extract
from tensat_dl.extract.types import TOLERANCE, Extraction
from tensat_dl.extract.types import Limits as ExtractLimits
from tensat_dl.fuse.fuse import fuse
from tensat_dl.lang import ast
from tensat_dl.measure.machine import Machine
from tensat_dl.ops.table import OpTable
from tensat_dl.report.progress import Progress

#: Tells which e-nodes [N] can be no part of an answer, for reasons that no price knows.
Unfit = Callable[[EGraph], BoolArray]

#: How often exploration goes on from an answer at most.
REFINEMENTS = 3
#: How many answers there are by measured prices, to choose from by timing them as a whole.
CANDIDATES = 2
#: Work units of extraction by other prices, which is for a candidate, not for a proof.
OTHER_WORK = 1_000_000.0


@dataclass(frozen=True, slots=True)
class Found:
    """The cheapest extraction, the priced e-graph that it is from, and how that was explored."""

    exploration: Exploration
    egraph: EGraph
    extraction: Extraction
    model: CostModel  #: that the prices are from, with what was measured on the way
    interrupted: bool = False  #: by Ctrl-C, before a better answer could be looked for
    past: tuple[Exploration, History] | None = None  #: the last exploration and what led to it, if asked for
    declared: Mapping[str, ast.Op] = field(default_factory=dict)  #: fused operators


def search(
    graph: Graph,
    rules: Sequence[RewriteRule],
    model: CostModel,
    limits: Limits,
    method: str,
    extract_limits: ExtractLimits,
    progress: Progress,
    machine: Machine | None = None,
    past: bool = False,
    fusing: bool = False,
    unfit: Unfit | None = None,
) -> Found:
    """The cheapest extraction of what the rules make of a graph; with what led to it, if its ``past`` is asked for.

    Only the exact method is worth refining for.

    With a machine at hand, operators are measured on it before they are priced, and the exact method looks for
    runners-up as well. With ``fusing``, chains of elementwise operators are e-nodes, too. What is ``unfit`` is left
    out.

    Ctrl-C ends the phase that is running, and the best answer until then is returned.
    """
    table = model.table
    declared: Mapping[str, ast.Op] = {}
    n_best = CANDIDATES if machine is not None and method == "exact" else 1

    def priced(exploration: Exploration, measuring: bool = True) -> EGraph:
        nonlocal model, declared
        egraph = exploration.egraph
        if unfit is not None:
            progress.phase("cost")
            egraph = egraph.without(unfit(egraph))
        if fusing:
            progress.phase("cost")
            fused = fuse(egraph, table, model.estimating)
            egraph, declared = fused.egraph, fused.declared
            model = replace(model, table=fused.ops)
        if machine is not None and measuring:
            progress.phase("measure")
            model = machine.complete(model, egraph, progress.measuring)
        progress.phase("cost")
        return model.price(egraph)[0]

    def answer(exploration: Exploration, egraph: EGraph) -> Found:
        nonlocal extract_limits
        progress.phase("extract")
        try:
            found = extract(egraph, method, extract_limits, progress.extracting, exploration.early, n_best)
        except KeyboardInterrupt:  # before there was any choice: the quickest one is made
            quickly = ExtractLimits(seconds=0.0)
            found = replace(extract(egraph, method, quickly), interrupted=True)
        if extract_limits.seconds is not None:  # the limit is one for all extractions of a search
            left = max(0.0, extract_limits.seconds - found.seconds)
            extract_limits = replace(extract_limits, seconds=left)
        return Found(exploration, egraph, found, model, declared=declared)

    def refined(worker: Exploring) -> Found:
        progress.phase("explore")
        exploration = worker.run()
        interrupted = False
        try:
            egraph = priced(exploration)
        except KeyboardInterrupt:  # without prices there is no answer, so they are worked out nevertheless
            interrupted = True
            egraph = priced(exploration, measuring=False)
        best = answer(exploration, egraph)
        if interrupted:
            return replace(best, interrupted=True)
        if method != "exact":
            return best
        for _ in range(REFINEMENTS):
            if best.extraction.interrupted:
                break
            try:
                progress.phase("explore")
                more = worker.refine(feedback(best, model.table))
                if more is None:
                    return _noted(best, worker.lost)
                other = answer(more, priced(more))
            except KeyboardInterrupt:
                return replace(best, interrupted=True)
            if other.extraction.cost >= best.extraction.cost * (1 - TOLERANCE):
                return replace(best, interrupted=other.extraction.interrupted)
            best = other
        return best

    with exploring(graph, model.table, rules, limits, progress.exploring, model.estimate) as worker:
        found = refined(worker)
        if past and worker.latest is not None:
            try:
                found = replace(found, past=(worker.latest, worker.history()))
            except KeyboardInterrupt:
                found = replace(found, interrupted=True)
    return found


def candidates(found: Found, method: str, limits: ExtractLimits) -> Iterator[Extraction]:
    """What may be the fastest graph: the cheapest by measured prices, the next ones, and the cheapest by the
    roofline, which knows nothing of what single operators are."""
    yield found.extraction
    yield from found.extraction.runners_up
    if found.model.profile is not None:
        little = replace(limits, work=min(limits.most_work, OTHER_WORK))
        yield extract(found.model.estimated().price(found.egraph)[0], method, little)


def _noted(found: Found, note: str) -> Found:
    """The same with another note, if it says anything."""
    if not note:
        return found
    exploration = replace(found.exploration, notes=(*found.exploration.notes, note))
    return replace(found, exploration=exploration)


def feedback(found: Found, ops: OpTable) -> Feedback:
    """What an answer computes, and where in it a view would have to be copied."""
    egraph, handles = found.egraph, found.exploration.handles
    classes = found.extraction.choices
    copied = (
        c
        for c in classes
        if any(
            ops[egraph.op[n]].view and egraph.cost[n] > 0 for n in egraph.nodes_of(c) if egraph.op[n] in ops
        )
    )
    return Feedback(frozenset(handles[c] for c in classes), frozenset(handles[c] for c in copied))
