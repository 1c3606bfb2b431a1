"""Exploration with cycle filtering (paper, section 4.3 and algorithm 2): the e-graph has no cycle after any
iteration.

An iteration searches all rules on one e-graph, multi-pattern rules only in the first k_multi iterations. Matches that
would close a cycle are left out (see `tensat_dl.paper.cycles`). The others are applied in batch, and the filter list
breaks the remaining cycles (see `tensat_dl.paper.postfilter`). A match that was left out stays and is checked again
in the next iteration.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tensat_dl.core.rule import RewriteRule
from tensat_dl.engine.compiled import CompiledRule
from tensat_dl.engine.exploration import History, RuleStats, Stop
from tensat_dl.engine.groups import View, goals_of, in_layers
from tensat_dl.engine.loop import Explorer
from tensat_dl.engine.naming import EngineState
from tensat_dl.engine.snapshot import snapshot
from tensat_dl.engine.syntax import saturate
from tensat_dl.engine.targets import Additions
from tensat_dl.paper.checkers import CHECKERS, Efficient
from tensat_dl.paper.cycles import (
    Checker,
    ClassGraph,
    Reached,
    children_first,
    closes_cycle,
    effect,
    effect_of_facts,
    has_cycle,
)
from tensat_dl.paper.postfilter import (
    Ages,
    ENode,
    Live,
    class_graph,
    cyclic,
    is_live,
    live,
    restorable,
    restore,
    subsume,
)
from tensat_dl.rewrite.variants import Checks


class AcyclicView(View):
    """An e-graph with a filter list, as group matching sees it. Members depend on one another if any e-nodes make
    them, not just their derivations."""

    def __init__(
        self, state: EngineState, checks: Checks, nodes: Live, reach: Callable[[tuple[int, ...]], Reached]
    ) -> None:
        super().__init__(state, checks)
        self.nodes = nodes
        self.reach = reach

    def layers(self, needs: Sequence[Sequence[int]], makes: Sequence[Sequence[int]]) -> list[list[int]]:
        goals = goals_of(makes)
        reach = self.reach(tuple(goals))
        reached = dict.fromkeys((h for need in needs for h in need), 0)
        for h in reached:
            found = reach(h)
            for k, members in enumerate(goals.values()):
                if found >> k & 1:
                    reached[h] |= members
        return in_layers(reached, needs)

    def stale(self, rule: RewriteRule, tensors: Sequence[str], handles: Sequence[int]) -> bool:
        return not is_live(rule, dict(zip(tensors, handles, strict=True)), self.nodes)


@dataclass
class FilteredExplorer(Explorer):
    """One exploration with cycle filtering."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.ages = Ages()
        self.enodes: list[ENode] = []  #: those not on the filter list
        self.classes: ClassGraph = {}  #: which e-classes each one depends on, by those
        self.state: EngineState | None = None

    def _iteration(self, number: int, stats: list[RuleStats]) -> tuple[bool, Stop | None]:
        assert self.state is not None
        self.ready.match_lists()
        before = self._size()
        self.skipped = 0
        k = self.limits.k_multi
        multi = self.ready.of_kind("multi") if k is None or number <= k else []
        if multi:
            self.selection.find(multi, self.state.handles)
        single, group = self.ready.of_kind("single"), self.ready.of_kind("group")
        for rule in (*single, *group):
            self.store.engine.run(*rule.find)
        state = replace(self.state, frozen=self.store.engine.freeze())
        checker = CHECKERS[self.limits.cycles](self.classes)
        nodes = live(self.enodes, self.store.program.schema.ops)
        full = False
        for rule in single:
            full |= self._apply(rule, state, checker, nodes, stats)
        if group:
            view = AcyclicView(state, self.checks, nodes, Efficient(self.classes).reach)
            for rule in group:
                full |= self._apply_groups(rule, view, checker, stats)
        for rule in multi:
            full |= self._apply(rule, state, checker, nodes, stats)
        self.store.engine.run(saturate("types"))
        self._settle()
        return self._size() != before, "nodes" if full else None

    def _size(self) -> tuple[int, ...]:
        """Two e-graphs, one grown from the other, are the same if this is."""
        assert self.state is not None
        return len(self.enodes), self.filtered, len(self.state.handles), self.store.next_handle

    def _apply(
        self,
        rule: CompiledRule,
        state: EngineState,
        checker: Checker,
        nodes: Live,
        stats: list[RuleStats],
    ) -> bool:
        """Applies the matches of a rule that close no cycle; whether there was no room for some."""
        started = time.perf_counter()
        names = rule.tensors
        waiting = [
            m
            for m in self.selection.matches(rule, state)
            if is_live(rule.rule, dict(zip(names, m, strict=True)), nodes)
        ]
        if not waiting:
            return False
        does = effect(rule.rule, names)
        first = size = self.selection.nodes()
        total, applied, skipped = len(waiting), 0, 0
        # Many matches add less than they may, so there can be room for more after some have been applied.
        while waiting:
            room = (self.limits.nodes - size) // max(1, rule.new_nodes)
            if room <= self.limits.nodes // 100:
                break
            chosen = []
            for match in waiting[:room]:
                outputs = does.on(match)
                if closes_cycle(outputs, checker):
                    skipped += 1
                else:
                    checker.accept(outputs)
                    chosen.append(match)
            waiting = waiting[room:]
            if chosen:
                self.ready.built(rule.rule)
                self.selection.apply_to(rule, chosen)
                applied += len(chosen)
                size = self.selection.nodes()
        self._note(stats, rule.rule.name, total, applied, skipped, len(waiting), size - first, started)
        return bool(waiting)

    def _apply_groups(self, rule: CompiledRule, view: View, checker: Checker, stats: list[RuleStats]) -> bool:
        """Applies a group rule to the groups that close no cycle; whether there was no room for some."""
        started = time.perf_counter()
        facts = Additions()
        total = skipped = no_room = 0
        size = self.selection.nodes()
        for key, target in self.merging.targets(rule, view):
            total += 1
            mark = self.store.next_handle
            own = Additions()
            own.add(target, self.store)
            outputs = effect_of_facts(own)
            if size + len(facts.nodes) + len(own.nodes) > self.limits.nodes:
                no_room += 1
            elif closes_cycle(outputs, checker):
                skipped += 1
            else:
                checker.accept(outputs)
                self.selection.applied.add(key)
                facts.extend(own)
                continue
            self.store.next_handle = mark
        if total:
            self._load(facts, view)
            new = self.selection.nodes() - size
            self._note(stats, rule.name, total, total - skipped - no_room, skipped, no_room, new, started)
        return bool(no_room)

    def _note(
        self,
        stats: list[RuleStats],
        name: str,
        total: int,
        applied: int,
        skipped: int,
        no_room: int,
        new_nodes: int,
        started: float,
    ) -> None:
        notes = []
        if skipped:
            self.skipped += skipped
            notes.append(f"{skipped:,} of {total:,} matches skipped: they would close a cycle")
        if no_room:
            why = f"{no_room:,} of {total:,} matches skipped: no room below {self.limits.nodes:,} e-nodes"
            self.applying.notes[f"rule {name}: {why}"] = None
            notes.append(why)
        stats.append(
            RuleStats(name, total, applied, new_nodes, time.perf_counter() - started, "; ".join(notes))
        )

    def history(self) -> History:
        found = super().history()
        if not self.filtered:
            return found
        state = self.reader.fresh()
        return replace(found, whole=snapshot(self.store, state, self.graph, max(1, len(state.rows))))

    # ---- after an iteration ------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Brings the filter list up to date."""
        while True:
            state = self.reader.fresh()
            enodes = self.ages.enodes(state)
            back = restorable(enodes)
            if not back:
                break
            restore(self.store, back)
        self.enodes = [n for n in enodes if not n.row.subsumed]
        self.classes = class_graph(self.enodes)
        if has_cycle(self.classes):
            gone = cyclic(self.enodes)
            subsume(self.store, gone)
            out = {n.age for n in gone}
            self.enodes = [n for n in self.enodes if n.age not in out]
            self.classes = class_graph(self.enodes)
            children_first(self.classes)  # raises if there still is a cycle
        self.filtered = len(enodes) - len(self.enodes)
        self.state = EngineState.of(state.frozen, [n.row for n in self.enodes], state.handles)

    def _settled(self) -> EngineState:
        if self.state is None:
            self._settle()
        assert self.state is not None
        return self.state
