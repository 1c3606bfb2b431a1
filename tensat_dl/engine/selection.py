"""Selects the matches to apply: as many as there is room for, in order of their estimated saving.

Multi-pattern rules have matches in numbers that grow with the square of an e-graph, and what they add can be merged
again. Their joins are counted before they are run, and each rule has a share of the room in an iteration. What is
left out is reported, and tried in the next iteration.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import fsum
from typing import Any

import numpy as np

from tensat_dl.engine.compiled import CompiledRule, match_relation, ok_relation, old_relation, ruleset
from tensat_dl.engine.egglog import Frozen
from tensat_dl.engine.exploration import Applied, Estimate, Limits
from tensat_dl.engine.groups import View
from tensat_dl.engine.naming import EngineState, Store
from tensat_dl.engine.precount import Table, join_size, oldest_within
from tensat_dl.engine.render import variable
from tensat_dl.engine.syntax import saturate
from tensat_dl.engine.targets import target_of
from tensat_dl.rewrite.classes import kind

#: A multi-pattern rule may add this share of the node limit in one iteration; its other matches wait for the next.
MULTI_SHARE = 0.2
#: The least that it may add, so that small limits don't bind twice.
MULTI_FLOOR = 1_000
#: A join with more matches than this times the node limit is restricted to older e-classes.
JOIN_SHARE = 1


@dataclass
class Selection:
    """The matches that were applied, and those that were not."""

    store: Store
    limits: Limits
    estimate: Estimate | None
    applied: set[tuple[str, tuple[object, ...]]] = field(default_factory=set)
    put_off: dict[str, int] = field(default_factory=dict)  #: matches by rule that are not tried yet
    limit: int = 0  #: of e-nodes
    restricted: dict[str, str] = field(default_factory=dict)  #: rules that are not run on everything, and why
    #: E-nodes by operator and number of operands.
    _counts: dict[tuple[str, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.limit = self.limits.nodes

    @property
    def share(self) -> int:
        """E-nodes that a multi-pattern rule may add in one iteration."""
        return max(MULTI_FLOOR, int(self.limits.nodes * MULTI_SHARE))

    def nodes(self) -> int:
        """E-nodes in the engine."""
        rows = self.store.engine.sizes()
        self._counts = {
            (c.op, c.arity): rows.get(c.name, 0) for c in self.store.program.schema.constructors()
        }
        return sum(self._counts.values())

    def count(self, op: str, arity: int) -> int:
        """E-nodes of an operator with so many operands, when `nodes` was last asked for."""
        return self._counts.get((op, arity), 0)

    def find(self, rules: Sequence[CompiledRule], handles: dict[Any, int]) -> None:
        """Finds the matches of multi-pattern rules. A join with too many, as counted before, runs on older e-classes
        only."""
        if not rules:
            return
        for rule in rules:
            self.store.engine.matches(rule.members)
        frozen = self.store.engine.freeze()
        limit = int(JOIN_SHARE * self.limits.nodes)
        for rule in rules:
            joins = joined(rule, frozen)
            count = sum(map(join_size, joins))
            if count <= limit:
                self.store.engine.matches(ruleset("find", rule.name))
                continue
            owners = [variable(o) for o in rule.rule.source.outputs]
            old = oldest_within(joins, owners, handles, limit)
            self.store.engine.load(f"in_{old_relation(rule.name)}", [(h,) for h in old])
            self.store.engine.run(saturate("load"))
            self.store.engine.matches(ruleset("find-old", rule.name))
            self.restricted[rule.name] = (
                f"rule {rule.rule.name}: up to {count:,} matches exceed the limit of {limit:,}; "
                f"only the {len(old):,} oldest e-classes were searched"
            )

    def ordered(
        self, rule: CompiledRule, matches: list[tuple[int, ...]], view: View
    ) -> list[tuple[int, ...]]:
        """Matches in the order in which they are tried: if there is no room for all, by their estimated saving."""
        room = self.share // max(1, rule.new_nodes)
        if self.estimate is None or len(matches) <= room:
            return matches
        saving = Savings(rule, view, self.estimate)
        return sorted(matches, key=lambda m: -round(saving.of(m), 9))  # equal ones stay oldest first

    def matches(self, rule: CompiledRule, state: EngineState) -> list[tuple[int, ...]]:
        """The matches in a rule's relation that have not been applied, by handles, oldest operands first."""
        keys: set[tuple[int, ...]] = set()
        handles = state.handles
        for row in state.frozen.rows(match_relation(rule.name)):
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

    def apply(self, rule: CompiledRule, matches: Sequence[tuple[int, ...]], most: int) -> int:
        """Applies a rule to matches in order, until it has added ``most`` e-nodes or there is no room. Returns the
        number of matches applied.

        Many matches add fewer e-nodes than they may, so there can be room for more after some have been applied.
        """
        first = size = self.nodes()
        applied = 0
        while applied < len(matches):
            room = min(self.room(rule, size), (first + most - size) // max(1, rule.new_nodes))
            if room <= 0:
                break
            chosen = matches[applied : applied + room]
            self.apply_to(rule, chosen)
            applied += len(chosen)
            size = self.nodes()
        return applied

    def apply_to(self, rule: CompiledRule, chosen: Sequence[tuple[int, ...]]) -> None:
        """Applies a rule to these matches."""
        self.applied.update((rule.name, m) for m in chosen)
        self.store.engine.run(*self.store.program.selecting(rule))
        self.store.engine.load(ok_relation(rule.name), chosen)
        self.store.engine.matches(ruleset("apply", rule.name))

    def left(self, rule: CompiledRule, total: int, applied: int) -> str:
        """Says why matches were left, if some were."""
        left = total - applied
        self.put_off[rule.name] = left
        if not left:
            return ""
        if not self.room(rule, self.nodes()):
            return f"{left:,} of {total:,} matches skipped: no room below {self.limit:,} e-nodes"
        return f"{left:,} of {total:,} matches put off: the rule has used its share of this iteration"

    def history(self, rules: Sequence[CompiledRule], canonical: Mapping[int, int]) -> tuple[Applied, ...]:
        """The applications of group and multi-pattern rules, oldest tensors first. Single-pattern rules run inside of
        the engine, which keeps no record; their matches can be found again in the e-graph.

        ``canonical`` has the handle that the e-class of any handle has now.
        """
        known = {r.name: r for r in rules if r.rule.kind != "single"}
        found = [
            _application(known[name], [canonical[h] for h in key if isinstance(h, int)])
            for name, key in self.applied
            if name in known
        ]
        return tuple(sorted(found, key=lambda a: (max(a.tensors), a.rule, a.shared, a.members)))

    def room(self, rule: CompiledRule, size: int) -> int:
        """The number of matches to which a rule can be applied below the node limit; 0 if the room is under a
        thousandth of the limit."""
        room = (self.limit - size) // max(1, rule.new_nodes)
        return room if room > self.limit // 1000 else 0


def joined(rule: CompiledRule, frozen: Frozen) -> list[list[Table]]:
    """What each variant of a rule joins. Tables of one relation share its rows: a rule of lists has many."""
    functions = {row.function for join in rule.joins for row in join}
    known = {name: Table((), frozen.rows_of(name)) for name in functions}
    return [[replace(known[row.function], columns=row.args) for row in join] for join in rule.joins]


def oldest_first(matches: Collection[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Matches by their youngest tensor, then by all in order: the order in which they are applied."""
    if len(matches) < 1000:
        return sorted(matches, key=lambda k: (max(k), k))
    rows = list(matches)
    table = np.array(rows, dtype=np.int64)
    order = np.lexsort((*table.T[::-1], table.max(axis=1)))
    return [rows[i] for i in order.tolist()]


def _application(compiled: CompiledRule, handles: Sequence[int]) -> Applied:
    """From a key: the handles of shared tensors, then those of each member."""
    shared, varying = compiled.shared, compiled.varying
    members = []
    rest = handles[len(shared) :]
    while rest:
        members.append(tuple(zip(varying, rest, strict=False)))
        rest = rest[len(varying) :]
    return Applied(compiled.name, tuple(zip(shared, handles, strict=False)), tuple(members))


class Savings:
    """What the matches of a multi-pattern rule are estimated to save on one e-graph, remembered by their types.

    The saving of a match is the present cost of its outputs less the cost of the target's operators. It is an
    estimate: operands may be computed for other uses, and views may have to be copied. It may be negative for a step
    on the way to a better one. So it decides the order of matches, and drops none.
    """

    def __init__(self, compiled: CompiledRule, view: View, estimate: Estimate) -> None:
        self.compiled = compiled
        self.view = view
        self.estimate = estimate
        self.patterns = {n.result: n for n in compiled.rule.source.nodes}
        self._targets: dict[tuple[Any, ...], float] = {}

    def of(self, match: Sequence[int]) -> float:
        """Estimated milliseconds that a match saves, given the handles of the rule's tensors."""
        names = dict(zip(self.compiled.tensors, match, strict=True))
        rule = self.compiled.rule
        now = fsum(
            self.view.cost(names[o], {self.patterns[o].op}, self.estimate) for o in rule.source.outputs
        )
        attributes = self._attributes(names)
        if attributes is None:
            return 0.0
        key = (*(kind(self.view, h) for h in match), repr(attributes))
        if key not in self._targets:
            self._targets[key] = self._target(names, attributes)
        return now - self._targets[key]

    def _target(self, names: dict[str, int], attributes: dict[str, Any]) -> float:
        """Estimated milliseconds of the target's operators."""
        rule, view = self.compiled.rule, self.view
        variant = view.checks.at(rule, names, attributes, view)
        if variant is None:
            return 0.0
        return target_of(rule, names, variant, view, view.checks.ops, nested=False).cost(self.estimate)

    def _attributes(self, names: dict[str, int]) -> dict[str, Any] | None:
        """The rule's attribute variables, from e-nodes that are matched; None where those are not known."""
        found: dict[str, Any] = {}
        for pattern in self.patterns.values():
            tensors = (*pattern.args, pattern.result)
            if not pattern.attrs or any(t not in names for t in tensors):
                continue
            attrs = self.view.attributes(
                pattern.op, tuple(names[a] for a in pattern.args), names[pattern.result]
            )
            if attrs is None:
                return None
            values = dict(attrs)
            for attribute in pattern.attrs:
                found |= attribute.bound(values[attribute.name])
        return found
