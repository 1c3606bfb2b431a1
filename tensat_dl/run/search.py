"""The search for a cheaper graph: explore, price, extract; then merge the members that the answer uses, and extract
again.

An answer tells which members of a group are worth merging: those that it computes. Merging exactly these can be
better than merging all, and better than what was found without. So exploration goes on with them, until an extraction
gains nothing from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tensat_dl.core.egraph import BoolArray, EGraph, find
from tensat_dl.core.graph import Graph
from tensat_dl.core.progress import Progress
from tensat_dl.core.rule import RewriteRule
from tensat_dl.cost import CostModel
from tensat_dl.engine.exploration import Exploration, History, Limits
from tensat_dl.engine.explore import Exploring, exploring
from tensat_dl.extract.api import extract
from tensat_dl.extract.budget import ExtractLimits
from tensat_dl.extract.extraction import TOLERANCE, Extraction
from tensat_dl.fuse.fuse import fuse
from tensat_dl.lang.declare import Declared
from tensat_dl.measure.machine import Machine
from tensat_dl.run.feedback import feedback
from tensat_dl.why.steps import Explanation
from tensat_dl.why.way import NoWay, missing, way_between

#: Tells which e-nodes [N] can be no part of an answer, for reasons that no price knows.
Unfit = Callable[[EGraph], BoolArray]

#: How often exploration goes on from an answer at most.
REFINEMENTS = 10
#: How many answers there are by measured prices, to choose from by timing them as a whole.
CANDIDATES = 2
#: Work units of extraction by other prices, which is for a candidate, not for a proof.
OTHER_WORK = 1_000_000.0


@dataclass(frozen=True, slots=True)
class Setup:
    """The setup of a search: limits of growth, the method of extraction, and the cost model.

    With a ``machine`` at hand, operators are measured on it before they are priced, and the exact method looks for
    runners-up as well. With ``fusing``, chains of elementwise operators are e-nodes, too. E-nodes that are ``unfit``
    are left out.
    """

    model: CostModel
    limits: Limits = field(default_factory=Limits)
    method: str = "exact"
    extract_limits: ExtractLimits = field(default_factory=ExtractLimits)
    machine: Machine | None = None
    fusing: bool = False
    unfit: Unfit | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """The cheapest extraction, its priced e-graph, and the exploration."""

    exploration: Exploration
    egraph: EGraph
    extraction: Extraction
    model: CostModel  #: that the prices are from, with what was measured on the way
    interrupted: bool = False  #: by Ctrl-C, before a better answer could be looked for
    past: tuple[Exploration, History] | None = None  #: the last exploration and what led to it, if asked for
    declared: Mapping[str, Declared] = field(default_factory=dict)  #: fused operators


class Search:
    """Prices and extracts each explored e-graph, as long as exploration goes on.

    ``model`` is the setup's with further measurements, ``extract_limits`` is the rest of the setup's limits.
    """

    def __init__(self, setup: Setup, progress: Progress) -> None:
        self.setup = setup
        self.progress = progress
        self.model = setup.model
        self.extract_limits = setup.extract_limits
        self._declared: Mapping[str, Declared] = {}

    def priced(self, exploration: Exploration, measuring: bool = True) -> EGraph:
        """The e-graph to extract from: without unfit e-nodes, with fused e-nodes, with prices."""
        setup, progress = self.setup, self.progress
        progress.phase("cost")
        egraph = exploration.egraph
        if setup.unfit is not None:
            egraph = egraph.without(setup.unfit(egraph))
        if setup.fusing:
            fused = fuse(egraph, setup.model.table, self.model.estimating)
            egraph, self._declared = fused.egraph, fused.declared
            self.model = replace(self.model, table=fused.ops)
        if setup.machine is not None and measuring:
            progress.phase("measure")
            self.model = setup.machine.complete(self.model, egraph, progress.measuring)
            progress.phase("cost")
        return self.model.price(egraph)[0]

    def answer(self, exploration: Exploration, egraph: EGraph, patient: bool = True) -> Found:
        """The cheapest extraction. Ctrl-C makes it the quickest one, unless the caller is not ``patient``."""
        setup, progress = self.setup, self.progress
        progress.phase("extract")
        n_best = CANDIDATES if setup.machine is not None and setup.method == "exact" else 1
        try:
            found = extract(
                egraph, setup.method, self.extract_limits, progress.extracting, exploration.early, n_best
            )
        except KeyboardInterrupt:  # before there was any choice
            if not patient:
                raise
            found = replace(extract(egraph, setup.method, ExtractLimits(seconds=0.0)), interrupted=True)
        if self.extract_limits.seconds is not None:  # the limit is one for all extractions of a search
            left = max(0.0, self.extract_limits.seconds - found.seconds)
            self.extract_limits = replace(self.extract_limits, seconds=left)
        return Found(exploration, egraph, found, self.model, declared=self._declared)

    def first(self, worker: Exploring) -> Found:
        """The answer of the first exploration. Without prices there is no answer, so Ctrl-C does not spare them."""
        self.progress.phase("explore")
        exploration = worker.run()
        try:
            return self.answer(exploration, self.priced(exploration))
        except KeyboardInterrupt:
            found = self.answer(exploration, self.priced(exploration, measuring=False))
            return replace(found, interrupted=True)

    def more(self, worker: Exploring, found: Found) -> Exploration | None:
        """The exploration that goes on with the members which an answer uses; None if that adds nothing."""
        self.progress.phase("explore")
        return worker.refine(
            feedback(
                found.exploration,
                found.egraph,
                found.extraction,
                self.setup.model.table,
                self.extract_limits,
            )
        )

    def refined(self, worker: Exploring, best: Found) -> Found:
        """The best answer of going on from each answer, until that gains nothing."""
        for _ in range(REFINEMENTS):
            if best.extraction.interrupted:
                break
            try:
                more = self.more(worker, best)
                if more is None:
                    notes = (*best.exploration.notes, *([worker.lost] if worker.lost else []))
                    return replace(best, exploration=replace(best.exploration, notes=notes))
                other = self.answer(more, self.priced(more))
            except KeyboardInterrupt:
                return replace(best, interrupted=True)
            if other.extraction.cost >= best.extraction.cost * (1 - TOLERANCE):
                tried = replace(best.exploration, groups=more.groups)
                return replace(best, exploration=tried, interrupted=other.extraction.interrupted)
            best = other
        return best


def search(
    graph: Graph, rules: Sequence[RewriteRule], setup: Setup, progress: Progress, past: bool = False
) -> Found:
    """The cheapest extraction from the e-graph of a graph and rules; with its history, if ``past`` is set.

    Refinement runs only with the exact method. Ctrl-C ends the phase that is running, and the best answer until then
    is returned.
    """
    model = setup.model
    with exploring(graph, model.table, rules, setup.limits, progress.exploring, model.estimate) as worker:
        rounds = Search(setup, progress)
        found = rounds.first(worker)
        if setup.method == "exact" and not found.interrupted:
            found = rounds.refined(worker, found)
        if past and worker.latest is not None:
            try:
                found = replace(found, past=(worker.latest, worker.history()))
            except KeyboardInterrupt:
                found = replace(found, interrupted=True)
    return found


def candidates(found: Found, method: str, limits: ExtractLimits) -> Iterator[Extraction]:
    """The graphs that may be the fastest: the cheapest by measured prices, the next ones, and the cheapest by the
    roofline alone."""
    yield found.extraction
    yield from found.extraction.runners_up
    if found.model.profile is not None:
        little = replace(limits, work=min(limits.most_work, OTHER_WORK))
        yield extract(found.model.estimated().price(found.egraph)[0], method, little)


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
