"""Applies rules one at a time: to all matches, on along a chain, or to as many as there is room for."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from itertools import count

from tensat_dl.core.rule import RewriteRule
from tensat_dl.engine.brake import Brake
from tensat_dl.engine.compiled import CompiledRule, ruleset
from tensat_dl.engine.exploration import RuleStats, Stop
from tensat_dl.engine.naming import Store
from tensat_dl.engine.precount import Key, join_size
from tensat_dl.engine.reader import MOST_HELD, EngineReader
from tensat_dl.engine.ready import ReadyRules
from tensat_dl.engine.selection import Selection, joined
from tensat_dl.engine.syntax import saturate

#: A rule that may apply to what it makes takes at most so many steps along a chain in an iteration. If it takes
#: several, they fill at most this share of the room: other rules have their turn.
LONGEST = 16
CHAIN_SHARE = 0.15


class Applying:
    """The rules of an exploration at work, and what is known of them from earlier iterations."""

    def __init__(self, store: Store, selection: Selection, reader: EngineReader, ready: ReadyRules) -> None:
        self._store = store
        self._selection = selection
        self._reader = reader
        self._ready = ready
        self.brake = Brake()
        self.notes = dict[str, None]()
        self.countless = dict[str, int]()  #: matches by rule, at most, where they are too many to look for
        self._done = Counter[str]()  # matches by single-pattern rule that were applied
        self._endless = set[str]()  # rules that took `LONGEST` steps in an iteration: they take one in each
        # By rule and join: the rows that were joined last, and how many rows that gave.
        self._counted = dict[tuple[str, int], tuple[list[Sequence[Key]], int]]()

    def each(
        self, rules: Sequence[RewriteRule], number: int, stats: list[RuleStats]
    ) -> tuple[bool, Stop | None]:
        """Applies single-pattern rules: whether that changed anything, and a limit that bound."""
        changed = False
        nodes = self._selection.nodes()
        allowed = self._selection.limits.nodes
        for single in rules:
            name = single.key
            if until := self.brake.sits_out(name, number):
                stats.append(RuleStats(single.name, 0, 0, 0, 0.0, f"sits out until iteration {until}"))
                continue
            started = time.perf_counter()
            left = self._selection.put_off.pop(name, 0)  # these it finds again
            self.countless.pop(name, None)
            may_add = self._reader.may_add(single, nodes, self._done[name])
            if nodes + may_add > self._selection.limit:
                most = may_add // max(1, len(single.target.nodes))
                new, full = self._selected(single, most, left, nodes, stats)
                changed, nodes = changed or new, self._selection.nodes()
                if full:
                    return True, "nodes"
                continue
            rule = self._ready.compiled(single)
            assert rule is not None, name
            matches, updated, now = self._applied(rule, nodes, allowed)
            changed = changed or updated
            self._done[name] += matches
            if not matches:
                continue
            note = ""
            if self.brake.many(name, now - nodes, allowed):
                until = self.brake.hold(name, number)
                note = f"added {now - nodes:,} e-nodes and sits out until iteration {until}"
                self.notes[f"rule {single.name} grew fast and was held back at times"] = None
            stats.append(
                RuleStats(single.name, matches, matches, now - nodes, time.perf_counter() - started, note)
            )
            nodes = now
            if nodes >= self._selection.limit:
                return True, "nodes"
        return changed, None

    def _applied(self, rule: CompiledRule, nodes: int, allowed: int) -> tuple[int, bool, int]:
        """Applies a single-pattern rule to its matches in an e-graph of so many e-nodes, and if it may go along a
        chain, to those that this makes: to how many, whether that changed anything, and the e-nodes then."""
        matches, changed, now, room = 0, False, nodes, self._selection.limit - nodes
        for step in count(1):
            self._store.engine.run(*rule.prepare)
            counts, updated = self._store.engine.matches(ruleset("rule", rule.name))
            found = sum(counts.values())
            matches += found
            if not updated:
                break
            self._reader.changed()
            self._ready.built(rule.rule, {matched for matched, n in counts.items() if n})
            changed, now = True, self._selection.nodes()
            if step == LONGEST:
                self._endless.add(rule.name)
            fits = now + found * rule.new_nodes - nodes <= CHAIN_SHARE * room
            chained = rule.chained and rule.name not in self._endless and fits
            if not (rule.bounded or chained) or now >= self._selection.limit:
                break
            if self.brake.many(rule.name, now - nodes, allowed):
                break
            self._store.engine.run(saturate("types"))
        return matches, changed, now

    def _selected(
        self, rule: RewriteRule, most: int, left: int, size: int, stats: list[RuleStats]
    ) -> tuple[bool, bool]:
        """Applies a rule, which has at most so many matches, to as many as there is room for in an e-graph of this
        size: whether that changed anything, and whether it leaves some."""
        started = time.perf_counter()
        staged = self._ready.compiled(rule, filtered=True)
        assert staged is not None, rule.key
        self._store.engine.run(*staged.prepare)
        if most * len(staged.tensors) > MOST_HELD and self._is_countless(staged):
            return False, False
        counts, _ = self._store.engine.matches(ruleset("find", staged.name))
        matches = left + sum(counts.values())
        if not matches:
            return False, False
        if size + matches * staged.new_nodes <= self._selection.limit:
            # Nothing is to be selected, so nothing is read.
            return self._apply_all(staged, matches, size, stats, started), False
        waiting = self._selection.matches(staged, self._reader.now())
        applied = self.in_order(staged, waiting, self._selection.limit, stats, started)
        return applied > 0, applied < len(waiting)

    def _apply_all(
        self, rule: CompiledRule, matches: int, before: int, stats: list[RuleStats], started: float
    ) -> bool:
        """Applies a rule to the matches that it has found, so many; whether that changed anything."""
        _, updated = self._store.engine.matches(ruleset("apply-all", rule.name))
        after = before
        if updated:
            self._reader.changed()
            self._ready.built(rule.rule)
            after = self._selection.nodes()
        seconds = time.perf_counter() - started
        stats.append(RuleStats(rule.rule.name, matches, matches, after - before, seconds, ""))
        return updated

    def _is_countless(self, rule: CompiledRule) -> bool:
        """Whether a rule has too many matches to look for, by what its members have in common."""
        most = 0
        for i, tables in enumerate(joined(rule, self._store.engine.freeze())):
            rows = [table.rows for table in tables]
            before, size = self._counted.get((rule.name, i), (None, 0))
            if rows != before:
                size = join_size(tables)
                self._counted[rule.name, i] = rows, size
            most += size
        if most * len(rule.tensors) > MOST_HELD:
            self.countless[rule.name] = most
        return rule.name in self.countless

    def in_order(
        self,
        rule: CompiledRule,
        matches: Sequence[tuple[int, ...]],
        most: int,
        stats: list[RuleStats],
        started: float,
    ) -> int:
        """Applies a rule to matches as `Selection.apply` does, and says so; to how many."""
        if not matches:
            return 0
        before = self._selection.nodes()
        applied = self._selection.apply(rule, matches, most)
        self._reader.changed()
        new = self._selection.nodes() - before
        self._ready.built(rule.rule)
        note = self._selection.left(rule, len(matches), applied)
        seconds = time.perf_counter() - started
        stats.append(RuleStats(rule.rule.name, len(matches), applied, new, seconds, note))
        return applied
