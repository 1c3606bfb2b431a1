"""One round: explore a graph, price, extract; then merge what the answer uses, and extract again.

An answer tells which members of a group are worth merging: those that it computes. Merging exactly these can be
better than merging all, and better than what was found without. So exploration goes on with them, until an extraction
gains nothing from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tensat_dl.core.egraph import CONTIGUOUS, COPY, EGraph, find, located
from tensat_dl.core.graph import Graph
from tensat_dl.core.progress import Progress
from tensat_dl.cost import CostModel, PricedGraph
from tensat_dl.engine.exploration import Exploration, History
from tensat_dl.engine.explore import Exploring
from tensat_dl.extract.api import extract, next_best
from tensat_dl.extract.budget import WORK, ExtractLimits
from tensat_dl.extract.exact import Solved
from tensat_dl.extract.extraction import TOLERANCE, Extraction
from tensat_dl.extract.rebuild import rebuild
from tensat_dl.fuse.fuse import fuse
from tensat_dl.lang.declare import Declared
from tensat_dl.ops.table import OpTable
from tensat_dl.run.beginning import EqualGraph, Setup
from tensat_dl.run.feedback import feedback
from tensat_dl.run.needed import measure_needed, untried
from tensat_dl.run.overflow import without_overflows
from tensat_dl.run.stages import Stage

#: A graph, and the rule that first built each of its nodes.
Rebuilt = tuple[Graph, tuple[str, ...]]
#: Is told of answers while the search goes on, each with the operators that it has.
Answered = Callable[[Graph, OpTable], None]

#: How often exploration goes on from an answer at most.
REFINEMENTS = 10
#: How many answers there are by measured prices, to choose from by timing them as a whole.
CANDIDATES = 2
#: All extractions of a search get so many times the work of one; and one of several gets at most this share of the
#: work and time that are left.
EXTRACTIONS = 5
ONE_SHARE = 0.5
#: Work units of extraction by other prices, which is for a candidate or for all of a feedback, not for a proof.
OTHER_WORK = 1_000_000.0
#: Work units of extraction for what is to be measured.
NEEDED_WORK = 100_000.0


@dataclass(frozen=True, slots=True)
class Found:
    """The cheapest extraction of a round, the priced e-graph that it is from, and how that was explored."""

    start: EqualGraph
    exploration: Exploration
    egraph: EGraph
    layouts: EGraph  #: the e-graph by layouts, which the extraction is of
    extraction: Extraction
    model: CostModel  #: that the prices are from, with what was measured on the way
    interrupted: bool = False  #: by Ctrl-C, before a better answer could be looked for
    past: tuple[Exploration, History] | None = None  #: the last exploration and what led to it, if asked for
    whole: bool = True  #: whether the round had all rules and settings
    #: What `rebuilt` has made: an answer that was told of is asked for again at the end of its round.
    _rebuilt: list[tuple[Extraction, Rebuilt]] = field(default_factory=list, repr=False)

    def rebuilt(self, extraction: Extraction) -> Rebuilt:
        """The graph of an extraction from this e-graph, and the rule that first built each of its nodes."""
        for known, made in self._rebuilt:
            if known is extraction:
                return made
        made = rebuild(self.layouts, extraction, self.start.apart, self.start.origins_apart)
        self._rebuilt.append((extraction, made))
        return made


class Reached(Exception):
    """An exploration has led to the goal of a search."""

    def __init__(self, exploration: Exploration) -> None:
        super().__init__()
        self.exploration = exploration


class Search:
    """The state that the rounds of a search share: the ``model`` is the setup's with what was measured on the way,
    ``extract_limits`` has the rest of the setup's time, ``work`` is the rest of the work for extractions, and
    ``declared`` are the fused operators of all e-graphs. The search ends at its ``goal``, if there is one, and Ctrl-C
    is the caller's business then. A ``single`` round may use all of the limits. Each answer that costs less than
    those before it is told of (``answered``)."""

    def __init__(
        self,
        setup: Setup,
        progress: Progress,
        single: bool = False,
        answered: Answered | None = None,
    ) -> None:
        self.setup = setup
        self.progress = progress
        self.single = single
        self.goal: Graph | None = None
        self.model = setup.model
        self.extract_limits = setup.extract_limits
        self.work = EXTRACTIONS * setup.extract_limits.most_work
        self.declared: dict[str, Declared] = {}
        self.solved = Solved()
        self._answered = answered
        self._priced: tuple[CostModel, dict[int, PricedGraph]] = setup.model, {}
        self._least = math.inf  #: the cost of the last answer that was told of

    def tell_of(self, found: Found) -> None:
        """Tells of an answer, unless one that was told of costs as little."""
        if self._answered is not None and found.extraction.cost < self._least * (1 - TOLERANCE):
            self._least = found.extraction.cost
            self._answered(found.rebuilt(found.extraction)[0], self.model.table)

    def priced(self, graph: Graph) -> PricedGraph:
        """A graph with its costs, by the model as it is now: rounds compare the same few graphs again and again."""
        if self._priced[0] is not self.model:
            self._priced = self.model, {}
        known = self._priced[1]
        if id(graph) not in known:
            known[id(graph)] = self.model.price_graph(graph)  # which holds the graph
        return known[id(graph)]

    @property
    def limits_of_one(self) -> ExtractLimits:
        """The limits of an extraction that others follow: a share of what is left, and no more work than one has
        without a limit of seconds. What the first answer lacks for its proof is worth less than another round."""
        limits = self.extract_limits
        if self.single or self.setup.method != "exact":
            return limits
        if limits.seconds is not None:
            return replace(limits, seconds=ONE_SHARE * limits.seconds, work=limits.work or WORK)
        return replace(limits, work=min(limits.most_work, ONE_SHARE * self.work))

    def extracted(
        self, egraph: EGraph, known: Sequence[Graph], limits: ExtractLimits, early: int = 0
    ) -> Extraction:
        """The cheapest extraction from a priced e-graph by layouts, which costs no more than the ``known`` graphs
        that it has. Ctrl-C makes it the quickest one."""
        method = self.setup.method
        self.progress.phase("extract")
        ways = [enodes(graph, egraph) for graph in known]
        try:
            found = extract(
                egraph,
                method,
                limits=limits,
                progress=self.progress.extracting,
                early=early,
                known=ways,
                solved=self.solved,
            )
        except KeyboardInterrupt:  # before there was any choice
            if self.goal is not None:
                raise
            found = replace(extract(egraph, method, ExtractLimits(seconds=0.0)), interrupted=True)
        return self._charged(found)

    def at_other_prices(self, egraph: EGraph, most_work: float) -> Extraction:
        """The cheapest extraction as far as little work finds it."""
        return self._charged(
            extract(egraph, limits=_little(self.limits_of_one, most_work), solved=self.solved)
        )

    def _charged(self, found: Extraction) -> Extraction:
        """An extraction, whose work and time those that follow do not have."""
        self.work = max(0.0, self.work - found.work)
        if self.extract_limits.seconds is not None:
            left = max(0.0, self.extract_limits.seconds - found.seconds)
            self.extract_limits = replace(self.extract_limits, seconds=left)
        return found

    def known(self, graph: Graph, origins: tuple[str, ...]) -> EqualGraph:
        """A graph that computes the same as the input, given the rules that built its nodes."""
        return self.setup.known(graph, self.model.table, origins)


class Round:
    """One round: the best answer that a stage gives for the graph of ``start``. Where its e-graph has the ``known``
    graphs, the answer costs no more there than these. If it is the e-graph of the round ``before``, which may take
    the same operators from it, so is the answer."""

    def __init__(
        self,
        search: Search,
        worker: Exploring,
        stage: Stage,
        start: EqualGraph,
        known: Sequence[EqualGraph],
        before: Found | None = None,
    ) -> None:
        self.search = search
        self.worker = worker
        self.stage = stage
        self.start = start
        self.known = known
        self.before = before

    def run(self) -> Found:
        """The answer. Refinement runs only with the exact method. Ctrl-C ends the phase that is running. Raises
        `Reached` for an e-graph that has the goal."""
        found = self.first()
        known = self.before is not None and found.egraph is self.before.egraph
        if self.search.setup.method == "exact" and not found.interrupted and not known:
            found = self.refined(found)
        return self.grouped(found)

    def grouped(self, found: Found) -> Found:
        """With the groups of its e-graph, which were looked for meanwhile."""
        try:
            return replace(found, exploration=self.worker.grouped(found.exploration))
        except KeyboardInterrupt:
            if self.search.goal is not None:
                raise
            return replace(found, interrupted=True)

    def explored(self, exploration: Exploration) -> Exploration:
        """The exploration, unless it has the goal. Raises `Reached`."""
        goal = self.search.goal
        if goal is not None and None not in find(goal, exploration.egraph):
            raise Reached(exploration)
        return exploration

    def answer(self, exploration: Exploration, measuring: bool = True) -> Found:
        """The cheapest extraction. Ctrl-C makes it the quickest one. What is needed is measured, and what an answer
        has, until an answer has nothing that could be measured."""
        search = self.search
        egraph = self.offered(exploration)
        machine = search.setup.machine if measuring else None
        known = [k.graph for k in self.known]
        while True:
            if machine is not None:
                self.worker.wait_for_groups()  # to look for them would disturb what is timed
                search.progress.phase("measure")
                counting = search.progress.measuring
                search.model = measure_needed(
                    search.model, machine, egraph, self.start.apart, known, self.cheapest, counting
                )
            search.progress.phase("cost")
            priced, _ = search.model.mean_price(egraph, self.start.apart)
            layouts = search.model.by_layout(priced)
            early = int(np.searchsorted(layouts.home, exploration.early))
            # An e-graph that is not split by layout has the graph that it is explored from as its source.
            others = [g for g in known if g is not self.start.apart or layouts is not priced]
            extraction = search.extracted(layouts, others, search.limits_of_one, early)
            found = Found(self.start, exploration, priced, layouts, extraction, search.model)
            if machine is None or extraction.interrupted:
                search.tell_of(found)
                return found
            graph, _ = found.rebuilt(extraction)
            if not untried(search.model, [graph]):
                return found
            known = [*known, graph]

    def offered(self, exploration: Exploration) -> EGraph:
        """The e-graph that an answer is extracted from: without what is unfit, or overflows, with fused e-nodes."""
        search = self.search
        setup = search.setup
        search.progress.phase("cost")
        graph = self.start.apart
        egraph = without_overflows(exploration.egraph, graph.opaque)
        if setup.unfit is not None:
            egraph = egraph.without(setup.unfit(egraph, graph), graph.opaque)
        if self.stage.fusing:
            before = [e for known in self.known for e in known.fused(egraph)]
            fused = fuse(egraph, search.model.table, search.model.estimating, before)
            egraph = fused.egraph
            search.declared |= fused.declared
            search.model = replace(search.model, table=fused.ops)
        return egraph

    def cheapest(self, priced: EGraph) -> Graph:
        """A graph of an e-graph at other prices, as far as little work finds it. Raises KeyboardInterrupt."""
        layouts = self.search.model.by_layout(priced)
        found = self.search.at_other_prices(layouts, NEEDED_WORK)
        if found.interrupted:
            raise KeyboardInterrupt
        return rebuild(layouts, found, self.start.apart, self.start.origins_apart)[0]

    def first(self) -> Found:
        """The answer of the first exploration. Without prices there is no answer, so Ctrl-C does not spare them."""
        search = self.search
        search.progress.phase("explore")
        exploration = self.explored(self.worker.run(self.stage.start(self.start.apart, search.setup.limits)))
        if self.before is not None and exploration.egraph is self.before.exploration.egraph:
            return replace(self.before, exploration=exploration)
        try:
            return self.answer(exploration)
        except KeyboardInterrupt:
            if search.goal is not None:
                raise
            found = self.answer(exploration, measuring=False)
            return replace(found, interrupted=True)

    def refined(self, best: Found) -> Found:
        """The best answer of going on from each answer, with the members of groups that it uses, until that gains
        nothing."""
        progress = self.search.progress
        for _ in range(REFINEMENTS):
            if best.extraction.interrupted:
                break
            try:
                progress.phase("explore")
                grouped = self.worker.grouped(best.exploration)
                progress.phase("extract")
                asked = feedback(
                    grouped,
                    best.layouts,
                    best.extraction,
                    self.search.model.table,
                    self.search.at_other_prices,
                    OTHER_WORK,
                )
                progress.phase("explore")
                more = self.worker.refine(asked)
                if more is None:
                    lost = [self.worker.lost] if self.worker.lost else []
                    notes = (*best.exploration.notes, *lost)
                    return replace(best, exploration=replace(best.exploration, notes=notes))
                other = self.answer(self.explored(more))
            except KeyboardInterrupt:
                if self.search.goal is not None:
                    raise
                return replace(best, interrupted=True)
            if other.extraction.cost >= best.extraction.cost * (1 - TOLERANCE):
                return replace(best, interrupted=other.extraction.interrupted)
            best = other
        return best


def enodes(graph: Graph, egraph: EGraph) -> list[int]:
    """The e-nodes of an e-graph that a graph has, in all layouts."""
    home, own = egraph.home.tolist(), egraph.node_class.tolist()
    alike: dict[Hashable, list[int]] = {}
    found = [n for n, op in enumerate(egraph.op) if op in (CONTIGUOUS, COPY)]
    copies = {own[n] for n in found if egraph.op[n] == COPY}
    for n, (op, attrs, children) in enumerate(egraph.keys()):
        if op not in (CONTIGUOUS, COPY):
            operands = tuple([home[c] for c in children if c not in copies])
            alike.setdefault((op, attrs, operands), []).append(n)
    at = located(graph, lambda key: home[own[alike[key][0]]] if key in alike else None)
    for node, c in zip(graph.nodes, at, strict=True):
        if c is not None:
            found += alike[node.op, node.attrs, tuple(at[j] for j in node.inputs)]
    return found


def candidates(found: Found, method: str, limits: ExtractLimits, solved: Solved) -> Iterator[Extraction]:
    """The graphs that may be the fastest: the cheapest by measured prices, the next ones, and the cheapest by the
    roofline alone. What the search has ``solved`` is not solved again."""
    yield found.extraction
    if method == "exact":
        yield from next_best(found.layouts, found.extraction, CANDIDATES - 1, limits, solved)
    if found.model.profile is not None:
        model = found.model.estimated()
        priced, _ = model.mean_price(found.egraph, found.start.apart)
        yield extract(model.by_layout(priced), method, _little(limits), solved=solved)


def _little(limits: ExtractLimits, most: float = OTHER_WORK) -> ExtractLimits:
    return replace(limits, work=min(limits.most_work, most))
