"""The exploration loop: find, filter, apply, types to fixpoint; iteration by iteration until a limit.

An iteration runs every single-pattern rule once, or, if it makes products of a bounded number of factors, until it
has no more matches. When these have nothing left to do, or at the latest after
`PATIENCE` iterations in a row, group rules and (in at most k_multi iterations) multi-pattern rules run as well: on
an e-graph where the single-pattern rules have finished, what can be merged is visible, and less is merged twice.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tensat_dl.datalog.compiled import CompiledRule, match_relation, ok_relation, ruleset
from tensat_dl.datalog.engine import Engine, Frozen
from tensat_dl.datalog.program import Program
from tensat_dl.explore.groups import Group, View, find_groups
from tensat_dl.explore.matches import oldest_first
from tensat_dl.explore.naming import Row, Store
from tensat_dl.explore.seeds import Partitions
from tensat_dl.explore.snapshot import TypeConflict, snapshot
from tensat_dl.explore.targets import Facts, plan
from tensat_dl.explore.types import Estimate, Feedback, Limits, RuleAlarm, Step
from tensat_dl.ir.graph import Graph
from tensat_dl.ir.rule import RewriteRule
from tensat_dl.ops.table import OpTable
from tensat_dl.result import Iteration, RuleStats, Stop

#: Iterations of single-pattern rules before multi-pattern rules run although those have not saturated.
PATIENCE = 3
#: A rule that adds more e-nodes than this in one iteration, or this share of those that are allowed in all, sits out
#: the next ones, longer each time.
RULE_BUDGET = 4_000
RULE_SHARE = 0.08
#: Said of groups that were merged because an answer uses them.
REFINED = "what the extracted graph uses"


@dataclass
class _Ban:
    """The growth brake of one rule."""

    until: int = 0
    times: int = 0


@dataclass
class Explorer:
    """One exploration. `run` yields a step for every iteration, the first of which is the input program."""

    graph: Graph
    ops: OpTable
    rules: tuple[RewriteRule, ...]
    limits: Limits
    estimate: Estimate | None = None
    bans: dict[str, _Ban] = field(default_factory=dict)
    applied: set[tuple[str, tuple[object, ...]]] = field(default_factory=set)
    notes: dict[str, None] = field(default_factory=dict)
    multi_done: int = 0
    quiet: int = 0  #: iterations since group and multi-pattern rules last ran
    skipped: int = 0  #: matches of this iteration that would close a cycle
    filtered: int = 0  #: e-nodes on the filter list

    def __post_init__(self) -> None:
        self.partitions = None if self.estimate is None else Partitions(self.ops, self.estimate)

    def run(self) -> Iterator[Step]:
        started = time.perf_counter()
        self.program = Program(self.ops, self.rules, self.graph, self.limits.cycles != "none")
        self.store = Store(Engine(), self.program)
        self.store.load_graph(self.graph)
        self.by_kind = {
            k: [r for r in self.program.rules if r.rule.kind == k] for k in ("single", "multi", "group")
        }
        stop: Stop | None = None if self.program.rules else "saturated"
        if stop is None and self.limits.iterations == 0:
            stop = "iterations"
        if stop is None and self.nodes() >= self.limits.nodes:
            stop = "nodes"
        yield self._step(started, [], stop)
        if stop is not None:
            return
        for number in range(1, self.limits.iterations + 1):
            started_iteration = time.perf_counter()
            stats: list[RuleStats] = []
            changed, stop = self._iteration(number, stats)
            if stop is None and not changed:
                stop = "saturated"
            elif stop is None and number == self.limits.iterations:
                stop = "iterations"
            seconds = self.limits.seconds
            if stop is None and seconds is not None and time.perf_counter() - started > seconds:
                stop = "time"
            yield self._step(started_iteration, stats, stop)
            if stop is not None:
                return

    def refine(self, feedback: Feedback) -> Step | None:
        """Merges those members of each group that an answer computes, and of these the ones that need no copy.

        What is new goes through the single-pattern rules. None if nothing is.
        """
        started = time.perf_counter()
        for rule in self.by_kind["group"]:
            self.store.engine.matches(ruleset("find", rule.name))
        frozen, rows, handles = self._freeze()
        view = View(frozen, rows, handles)
        facts = Facts()
        stats: list[RuleStats] = []
        for rule in self.by_kind["group"]:
            before = len(facts.nodes)
            done = self._group(rule, frozen, view, facts, feedback)
            if done:
                stats.append(RuleStats(rule.name, done, done, len(facts.nodes) - before, 0.0, REFINED))
        if not stats:
            return None
        self._load(facts)
        for _ in range(PATIENCE):
            changed, stop = self._singles(self.limits.iterations + 1, stats)
            if stop is not None or not changed:
                break
        return self._step(started, stats, None)

    # ---- one iteration -----------------------------------------------------------------------------------

    def nodes(self) -> int:
        """E-nodes in the engine."""
        (sizes,) = self.store.engine.run("(print-size)")
        names = {c.name for c in self.program.schema.constructors()}
        return sum(n for name, n in sizes.sizes if name in names)

    def _iteration(self, number: int, stats: list[RuleStats]) -> tuple[bool, Stop | None]:
        """Whether another iteration may find more, and a limit that bound."""
        changed, stop = self._singles(number, stats)
        banned = any(b.until > number for b in self.bans.values())
        self.quiet += 1
        if stop is None and (not changed or self.quiet >= PATIENCE):
            self._freeze()
            more, stop = self._merges(stats)
            changed = changed or more
            self.quiet = 0
        self.store.engine.run("(run-schedule (saturate types))")
        return changed or banned, stop

    def _singles(self, number: int, stats: list[RuleStats]) -> tuple[bool, Stop | None]:
        changed = False
        nodes = self.nodes()
        budget = max(RULE_BUDGET, int(RULE_SHARE * self.limits.nodes))
        for rule in self.by_kind["single"]:
            ban = self.bans.setdefault(rule.name, _Ban())
            if ban.until > number:
                stats.append(RuleStats(rule.name, 0, 0, 0, 0.0, f"sits out until iteration {ban.until}"))
                continue
            started = time.perf_counter()
            matches, now = 0, nodes
            while True:
                counts, updated = self.store.engine.matches(ruleset("rule", rule.name))
                matches += sum(counts.values())
                changed = changed or updated
                now = self.nodes() if updated else now
                # A rule of bounded products would go one step along a chain in each iteration.
                grown = now - nodes > budget << ban.times
                if not updated or not rule.bounded or grown or now >= self.limits.nodes:
                    break
                self.store.engine.run("(run-schedule (saturate types))")
            if not matches:
                continue
            note = ""
            if now - nodes > budget << ban.times:
                ban.times += 1
                ban.until = number + 1 + ban.times
                note = f"added {now - nodes} e-nodes and sits out until iteration {ban.until}"
                self.notes[f"rule {rule.name} grew fast and was held back at times"] = None
            stats.append(
                RuleStats(rule.name, matches, matches, now - nodes, time.perf_counter() - started, note)
            )
            nodes = now
            if nodes >= self.limits.nodes:
                return True, "nodes"
        self.store.engine.run("(run-schedule (saturate types))")
        return changed, None

    def _merges(self, stats: list[RuleStats]) -> tuple[bool, Stop | None]:
        """Group rules, and multi-pattern rules while k_multi allows, all on the e-graph as it is now."""
        with_pairs = self.multi_done < self.limits.k_multi and bool(self.by_kind["multi"])
        active = [*self.by_kind["group"], *(self.by_kind["multi"] if with_pairs else ())]
        if not active:
            return False, None
        for rule in active:
            self.store.engine.find(rule)
        frozen, rows, handles = self._freeze()
        before = self.nodes()
        changed = False
        view = View(frozen, rows, handles)
        facts = Facts()
        group_stats = []
        for rule in self.by_kind["group"]:
            started = time.perf_counter()
            done = self._group(rule, frozen, view, facts)
            if done:
                group_stats.append((rule.name, done, len(facts.nodes), time.perf_counter() - started))
        changed = bool(group_stats)
        budget = self.limits.nodes - before - len(facts.nodes)
        selected: list[tuple[CompiledRule, int, int]] = []
        if with_pairs:
            self.multi_done += 1
            for rule in self.by_kind["multi"]:
                total, chosen = self._select(rule, frozen, handles, budget)
                budget -= chosen * rule.new_nodes
                if total:
                    selected.append((rule, total, chosen))
        self._load(facts)
        now = self.nodes()
        previous = 0
        for name, done, upto, seconds in group_stats:
            stats.append(RuleStats(name, done, done, upto - previous, seconds))
            previous = upto
        for rule, total, chosen in selected:
            started = time.perf_counter()
            if chosen:
                _, updated = self.store.engine.matches(ruleset("apply", rule.name))
                changed = changed or updated
            after = self.nodes()
            note = ""
            if chosen < total:
                note = (
                    f"{total - chosen} of {total} matches skipped: no room below {self.limits.nodes} e-nodes"
                )
                self.notes[f"rule {rule.name}: {note}"] = None
            stats.append(
                RuleStats(rule.name, total, chosen, after - now, time.perf_counter() - started, note)
            )
            now = after
        full = now >= self.limits.nodes or any(chosen < total for _, total, chosen in selected)
        return changed, "nodes" if full else None

    def _select(
        self, rule: CompiledRule, frozen: Frozen, handles: dict[Any, int], budget: int
    ) -> tuple[int, int]:
        """Marks the matches of a multi-pattern rule that are applied, oldest operands first, within the budget."""
        keys = self._matches(rule, frozen, handles)
        room = max(0, budget // max(1, rule.new_nodes))
        chosen = keys[:room]
        self.applied.update((rule.name, k) for k in chosen)
        self.store.engine.load(ok_relation(rule.name), chosen)
        return len(keys), len(chosen)

    def _matches(self, rule: CompiledRule, frozen: Frozen, handles: dict[Any, int]) -> list[tuple[int, ...]]:
        """The matches in a rule's relation that have not been applied, by handles, oldest operands first."""
        keys: set[tuple[int, ...]] = set()
        for row in frozen.rows(match_relation(rule.name)):
            tensors = row.inputs[: len(rule.tensors)]
            if all(t in handles for t in tensors):
                keys.add(tuple(handles[t] for t in tensors))
        if rule.mirror is not None:  # of a match and its mirror image the first
            images = {k: tuple(k[i] for i in rule.mirror) for k in keys}
            keys = {k for k, image in images.items() if k <= image or image not in images}
            if rule.pointless_alone:
                keys = {k for k in keys if k != images[k]}
        keys = {k for k in keys if (rule.name, k) not in self.applied}
        return oldest_first(keys)

    def _group(
        self, rule: CompiledRule, frozen: Frozen, view: View, facts: Facts, feedback: Feedback | None = None
    ) -> int:
        """Applies a group rule; to how many groups."""
        done = 0
        for key, group in self._groups(rule, frozen, view, feedback):
            self.applied.add(key)
            target = plan(rule, group, view, self.ops)
            if target is not None:
                facts.add(target, self.store)
                done += 1
        return done

    def _groups(
        self, rule: CompiledRule, frozen: Frozen, view: View, feedback: Feedback | None = None
    ) -> Iterator[tuple[tuple[str, tuple[object, ...]], Group]]:
        """Groups that the rule has not been applied to, each with what names it in `applied`.

        They are the maximal ones and their members from the input program, or, with feedback, the members that an
        answer computes and of these the ones that need no copy; and the parts of their best partitions.
        """
        outputs = [o for o in rule.rule.source.outputs if o in rule.rule.members]
        original = len(self.graph.nodes)
        for group in find_groups(rule, frozen, view, self.ops):
            if feedback is None:
                first = [m for m in group.members if all(h < original for _, h in m.tensors)]
                subsets = [group.members, first]
            else:
                used = [m for m in group.members if all(m[o] in feedback.used for o in outputs)]
                subsets = [used, [m for m in used if not any(m[o] in feedback.copied for o in outputs)]]
            for subset in subsets:
                if len(subset) < 2:
                    continue
                parts = [subset]
                if self.partitions is not None:
                    parts += self.partitions.best(rule, group.of(subset), view)
                for members in parts:
                    operands = (h for m in members for _, h in m.tensors)
                    attrs = map(repr, group.attrs.values())
                    key = (rule.name, (*group.shared.values(), *operands, *attrs))
                    if key not in self.applied:
                        yield key, group.of(members)

    def _load(self, facts: Facts) -> None:
        if not facts.nodes:
            return
        self.store.load_types(facts.types)
        self.store.load_nodes(facts.nodes, run=False)
        self.store.engine.load("in_equal", facts.equal)
        self.store.engine.load("in_merged", [(h,) for h in facts.merged])
        self.store.engine.run("(run-schedule (saturate load))\n(run-schedule (saturate types))")

    # ---- snapshots ---------------------------------------------------------------------------------------

    def _freeze(self) -> tuple[Frozen, list[Row], dict[Any, int]]:
        """The rows and handles now, new e-classes named."""
        frozen = self.store.engine.freeze()
        rows = list(self.store.rows(frozen))
        known = len(self.store.handles(frozen))
        handles = self.store.name_classes(frozen, rows)
        if len(handles) != known:
            frozen = self.store.engine.freeze()
        return frozen, rows, handles

    def _settled(self) -> tuple[Frozen, list[Row], dict[Any, int]]:
        """Rows and handles after an iteration: those of the snapshot."""
        return self._freeze()

    def _step(self, started: float, stats: list[RuleStats], stop: Stop | None) -> Step:
        frozen, rows, handles = self._settled()
        try:
            egraph, names = snapshot(self.store, frozen, rows, handles, self.graph, self.limits.nodes)
        except TypeConflict:
            applied = ", ".join(sorted({s.rule for s in stats if s.applied})) or "none"
            raise RuleAlarm(
                f"an e-class received two different types; rules that ran in this iteration: {applied}"
            ) from None
        seconds = time.perf_counter() - started
        iteration = Iteration(
            egraph.num_nodes, egraph.num_classes, seconds, tuple(stats), self.skipped, self.filtered
        )
        return Step(iteration, egraph, stop, tuple(self.notes), names)
