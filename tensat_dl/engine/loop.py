"""The exploration loop: find, filter, apply, types to fixpoint; iteration by iteration until a limit.

An iteration runs every single-pattern rule once, or, if it may go along a chain, several times. When these have
nothing left to do, or at the latest after `PATIENCE` iterations in a row, group rules run as well, and when these
have nothing left either, multi-pattern rules (in at most k_multi iterations): on an e-graph where the other rules
have finished, what can be merged is visible, and less is merged twice.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from tensat_dl.core.egraph import EGraph
from tensat_dl.core.expression import base_of
from tensat_dl.core.graph import Graph
from tensat_dl.core.rule import RewriteRule
from tensat_dl.engine.applying import Applying
from tensat_dl.engine.brake import Brake
from tensat_dl.engine.compiled_rules import CompiledRules
from tensat_dl.engine.exploration import (
    REFINABLE,
    Estimate,
    ExploredIteration,
    Feedback,
    Groups,
    History,
    Iteration,
    Limits,
    RuleAlarm,
    RuleStats,
    Stop,
)
from tensat_dl.engine.groups import View
from tensat_dl.engine.merging import Merging
from tensat_dl.engine.naming import EngineState, NodeRow
from tensat_dl.engine.reader import EngineReader
from tensat_dl.engine.ready import ReadyRules
from tensat_dl.engine.selection import Selection
from tensat_dl.engine.snapshot import TypeConflict, snapshot
from tensat_dl.engine.subsets import Refinement
from tensat_dl.engine.syntax import saturate
from tensat_dl.engine.targets import Additions
from tensat_dl.ops.table import OpTable

#: Iterations of single-pattern rules before multi-pattern rules run although those have not saturated.
PATIENCE = 3
#: This share of the node limit is kept for `refine`, where there are group rules: what an answer uses can be merged
#: although the exploration ran into its limit.
REFINING_SHARE = 0.1


@dataclass
class Explorer:
    """One exploration. `run` yields a step for every iteration, the first of which is the input program.

    ``compiled`` are these rules and perhaps more, for a graph from which they lead to this one; without it, `run`
    compiles them.
    """

    graph: Graph
    ops: OpTable
    rules: tuple[RewriteRule, ...]
    limits: Limits
    estimate: Estimate | None = None
    compiled: CompiledRules | None = None

    def __post_init__(self) -> None:
        self.multi_done = 0
        self.first_late = 0  #: the first handle of what was made after multi-pattern rules were applied
        self.quiet = 0  #: iterations since group and multi-pattern rules last ran
        #: the last snapshot, and what it is of
        self.last: tuple[list[NodeRow], EGraph, tuple[int, ...]] | None = None
        self.applied = set[str]()  #: rules that were, in any iteration
        self.skipped = 0  #: matches of this iteration that would close a cycle
        self.filtered = 0  #: e-nodes on the filter list
        self.grouping = False  #: whether the e-graph can be refined
        self.seen: View | None = None  #: the e-graph as group rules have seen it last

    def run(self) -> Iterator[ExploredIteration]:
        started = time.perf_counter()
        known = self.compiled or CompiledRules(self.graph, self.ops, self.rules, self.limits, self.estimate)
        self.store, self.checks = known.store, known.checks
        self.store.clear()
        self.program = self.store.program
        self.selection = Selection(self.store, self.limits, self.estimate)
        self.reader = EngineReader(self.store, self.selection)
        self.ready = ReadyRules(self.store, self.reader)
        self.applying = Applying(self.store, self.selection, self.reader, self.ready)
        self.merging = Merging(self.graph, self.ops, self.store, self.selection, known.prices)
        self.store.load_graph(self.graph)
        self.ready.choose(self.rules)
        self._reserve()
        stop: Stop | None = None if self.rules else "saturated"
        if stop is None and self.limits.iterations == 0:
            stop = "iterations"
        if stop is None and self.selection.nodes() >= self.selection.limit:
            stop = "nodes"
        yield self._step(started, [], stop, False)
        if stop is None:
            yield from self._grown(started)

    def further(self, rules: tuple[RewriteRule, ...], limits: Limits) -> Iterator[ExploredIteration | None]:
        """Goes on from the saturated e-graph with more rules, which have all of the iterations. Only None if these
        add nothing."""
        self.rules, self.limits, self.selection.limits = rules, limits, limits
        self.applying.brake = Brake()
        self.quiet = 0
        self.seen = None  # by other rules
        self.ready.choose(self.rules)
        self._reserve()
        steps = self._grown(time.perf_counter())
        first = next(steps, None)
        if first is None or first.stop == "saturated":
            yield None
        else:
            yield first
            yield from steps

    def _reserve(self) -> None:
        """Keeps a part of the node limit for `refine`."""
        share = REFINING_SHARE if self.ready.by_kind["group"] else 0.0
        self.selection.limit = self.limits.nodes - int(share * self.limits.nodes)

    def _grown(self, started: float) -> Iterator[ExploredIteration]:
        """A step for every iteration until a limit, seconds counted from ``started``."""
        for number in range(1, self.limits.iterations + 1):
            started_iteration = time.perf_counter()
            stats: list[RuleStats] = []
            changed, stop = self._iteration(number, stats)
            if stop is None and not changed:
                stop = "nodes" if self.applying.countless else "saturated"
            elif stop is None and number == self.limits.iterations:
                stop = "iterations"
            seconds = self.limits.seconds
            if stop is None and seconds is not None and time.perf_counter() - started > seconds:
                stop = "time"
            yield self._step(
                started_iteration, stats, stop, stop in REFINABLE and self.limits.cycles == "none"
            )
            if stop is not None:
                return

    def refine(self, feedback: Feedback) -> ExploredIteration | None:
        """Merges the subsets of each group that are worth it for an answer (see `subsets`).

        Single-pattern rules then run on the new e-nodes. None if there are none, or if the e-graph can't be refined.
        """
        if not self.grouping:
            return None
        started = time.perf_counter()
        self.selection.limit = self.limits.nodes
        stats: list[RuleStats] = []
        if not self._group_all(self._view(), stats, self.merging.refinement(feedback)):
            return None
        for _ in range(PATIENCE):
            changed, stop = self._singles(self.limits.iterations + 1, stats)
            if stop is not None or not changed:
                break
        return self._step(started, stats, None, refinable=True)

    def groups(self) -> Groups:
        """The groups of the e-graph as it is now, for `refine`: after a step that is grouping."""
        return self.merging.groups(self.ready.of_kind("group"), self._view())

    def _view(self) -> View:
        """The e-graph as group rules see it now."""
        if self.seen is None or self.seen.rows is not self.reader.current().rows:
            for rule in self.ready.of_kind("group"):
                self.store.engine.run(*rule.find)
            self.seen = View(self.reader.now(), self.checks)
        return self.seen

    def history(self) -> History:
        """The applications that led to the e-graph, by the present handles of e-classes."""
        frozen = self.store.engine.freeze()
        handles = self.store.handles(frozen)
        canonical = {h: handles[c] for h, c in frozen.by_handle() if c in handles}
        return History(self.selection.history(self.program.current(), canonical))

    # ---- one iteration -----------------------------------------------------------------------------------

    def _iteration(self, number: int, stats: list[RuleStats]) -> tuple[bool, Stop | None]:
        """Whether another iteration may find more, and a limit that bound."""
        changed, stop = self._singles(number, stats)
        held = self.applying.brake.holds(number)
        self.quiet += 1
        if stop is None and (not changed or self.quiet >= PATIENCE):
            more, stop = self._merges(stats)
            changed = changed or more
            self.quiet = 0
        self._type()
        return changed or held, stop

    def _type(self) -> None:
        """Types what was added, and makes equal what differs in the order of operands."""
        if self.store.engine.changes(saturate("types")):
            self.reader.changed()

    def _singles(self, number: int, stats: list[RuleStats]) -> tuple[bool, Stop | None]:
        """Runs every rule once: those that e-nodes may match, then those that may match what these made."""
        self.ready.match_lists()
        changed, waiting = False, self.ready.by_kind["single"]
        while ready := self.ready.among(waiting):
            more, stop = self.applying.each(ready, number, stats)
            changed = changed or more
            if stop is not None:
                return changed, stop
            self._type()
            had = {r.key for r in ready}
            waiting = [r for r in waiting if r.key not in had]
        return changed, None

    def _merges(self, stats: list[RuleStats]) -> tuple[bool, Stop | None]:
        """Group rules; and once these have nothing left to merge, multi-pattern rules, while k_multi allows.

        Groups come first because they merge more with fewer e-nodes: what they find is there, however many pairs
        are merged afterwards.
        """
        if self.ready.by_kind["group"] and self._group_all(self._view(), stats):
            return True, "nodes" if self.selection.nodes() >= self.selection.limit else None
        k = self.limits.k_multi
        multi = self.ready.of_kind("multi") if k is None or self.multi_done < k else []
        if not multi:
            return False, None
        self.selection.find(multi, self.reader.current().handles)
        state = self.reader.now()
        view = View(state, self.checks)
        waiting = {
            rule.name: self.selection.ordered(rule, self.selection.matches(rule, state), view)
            for rule in multi
        }
        changed = full = False
        if not self.multi_done:
            self.first_late = self.store.next_handle
        self.multi_done += 1
        for rule in multi:
            matches = waiting[rule.name]
            applied = self.applying.in_order(rule, matches, self.selection.share, stats, time.perf_counter())
            changed = changed or bool(applied)
            full = full or (applied < len(matches) and not self.selection.room(rule, self.selection.nodes()))
        return changed, "nodes" if full else None

    def _group_all(self, view: View, stats: list[RuleStats], answer: Refinement | None = None) -> bool:
        """Applies every group rule; whether there was something to apply one to."""
        before = len(stats)
        self._load(self.merging.merge(self.ready.of_kind("group"), view, stats, answer), view)
        return len(stats) > before

    def _load(self, facts: Additions, view: View) -> None:
        if not facts.nodes:
            return
        self.reader.changed()
        types = {**view.types, **dict(facts.types)}
        self.program.loaded(
            {
                (op, tuple([types[c].rank for c in children]), types[h].rank, attrs)
                for h, op, attrs, children, _ in facts.nodes
            }
        )
        self.store.engine.run(*self.program.new_types())
        self.store.load_types(facts.types)
        self.store.load_nodes(facts.nodes, run=False)
        self.store.engine.load("in_equal", facts.equal)
        self.store.engine.load("in_merged", [(h,) for h in facts.merged])
        self.store.engine.run(saturate("load", "types"))

    # ---- snapshots ---------------------------------------------------------------------------------------

    def _settled(self) -> EngineState:
        """The engine after an iteration, as the snapshot has it."""
        return self.reader.current()

    def _step(
        self, started: float, stats: list[RuleStats], stop: Stop | None, refinable: bool
    ) -> ExploredIteration:
        state = self._settled()
        self.applied.update(s.rule for s in stats if s.applied)
        if self.last is None or self.last[0] is not state.rows:
            try:
                self.last = state.rows, *snapshot(self.store, state, self.graph, self.limits.nodes)
            except TypeConflict:
                raise RuleAlarm(tuple(sorted(self.applied))) from None
        _, egraph, names = self.last
        seconds = time.perf_counter() - started
        iteration = Iteration(
            egraph.num_nodes, egraph.num_classes, seconds, tuple(stats), self.skipped, self.filtered
        )
        left = Counter[str]()
        for name, n in self.selection.put_off.items():
            left[base_of(name)] += n
        notes = [f"rule {name}: {n:,} matches were not tried" for name, n in left.items() if n]
        notes += [
            f"rule {base_of(name)}: up to {n:,} matches are too many to look for"
            for name, n in self.applying.countless.items()
        ]
        notes = [*self.applying.notes, *self.selection.restricted.values(), *notes]
        early = bisect_left(names, self.first_late)
        if self.seen is not None and self.seen.rows is not state.rows:
            self.seen = None  # it holds memory
        self.grouping = refinable and bool(self.ready.by_kind["group"])
        return ExploredIteration(iteration, egraph, stop, tuple(notes), names, early, self.grouping)
