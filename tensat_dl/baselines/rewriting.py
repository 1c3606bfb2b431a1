"""All substitutions that rules make in a graph.

The part of a pattern below one of its outputs matches at a node or not, whatever graph the node is in. So it is
matched once for each node of the store. In each graph, rules with several outputs join the parts of their outputs
over the names that these share, and a target is built once for each match.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

from tensat_dl.baselines.store import NodeStore
from tensat_dl.core.graph import constant_overflows
from tensat_dl.core.rule import RewriteRule
from tensat_dl.engine.targets import Target, target_of
from tensat_dl.ops.table import OpTable
from tensat_dl.rewrite.groups import instances
from tensat_dl.rewrite.matcher import Match, Pattern, merged
from tensat_dl.rewrite.symmetry import automorphism
from tensat_dl.rewrite.variants import Checks


@dataclass(frozen=True, slots=True)
class Substitution:
    """A rule at one match of nodes of a store: ``outputs`` pairs each node that it replaces with the node that stands
    there afterwards; ``made`` are the nodes of its target, by name. ``members`` is that of a group, else 0."""

    rule: RewriteRule
    match: Match
    members: int
    target: Target
    made: Mapping[str, int]
    outputs: tuple[tuple[int, int], ...]


class Rewriting:
    """The rules of a search, and what is known of their matches in its store."""

    def __init__(self, store: NodeStore, rules: Sequence[RewriteRule], ops: OpTable) -> None:
        self.store, self.ops = store, ops
        self._rules = rules
        self._checks = Checks(ops)
        self._targets: dict[tuple[object, ...], Target | None] = {}
        self._arities = -1
        self._patterns: dict[str, _RuleParts] = {}
        self._ends_in: dict[str, list[_RuleParts]] = {}  #: rules with one output, by its operator
        self._single: dict[int, tuple[Substitution, ...]] = {}
        self._joined: dict[tuple[object, ...], Substitution | None] = {}
        self.matches: dict[str, int] = {r.name: 0 for r in rules}

    def at(self, nodes: Sequence[int]) -> Iterator[Substitution]:
        """The substitutions in the graph of these nodes."""
        for n in nodes:
            if n not in self._single:
                self._single[n] = tuple(self._of_node(n))
            yield from self._single[n]
        there: dict[str, list[int]] = {}
        for n in nodes:
            there.setdefault(self.store.op[n], []).append(n)
        for rule in tuple(self._current().values()):
            if not rule.single:
                yield from self._members(rule, there) if rule.group else self._join(rule, there)

    # ---- rules ---------------------------------------------------------------------------------------------

    def _current(self) -> Mapping[str, _RuleParts]:
        """The rules, list rules for the lengths that the store's operators have."""
        if len(self.store.arities) != self._arities:
            self._arities = len(self.store.arities)
            present = {op for op, _ in self.store.arities}
            for rule in self._rules:
                if all(n.op in present for n in rule.source.nodes):
                    for one in instances(rule, self.store.arities):
                        if one.key not in self._patterns:
                            made = self._patterns[one.key] = _RuleParts(Pattern(one, self.ops))
                            if made.single:
                                self._ends_in.setdefault(made.root_ops[0], []).append(made)
        return self._patterns

    def _of_node(self, n: int) -> Iterator[Substitution]:
        """The substitutions of rules with one output that replace a node."""
        self._current()
        for rule in tuple(self._ends_in.get(self.store.op[n], ())):
            for match in rule.parts(self.store, 0, n):
                if rule.pattern.complete(self.store, match):
                    found = self._applied(rule, match)
                    if found is not None:
                        yield found

    # ---- several outputs -----------------------------------------------------------------------------------

    def _join(self, rule: _RuleParts, nodes: Mapping[str, Sequence[int]]) -> Iterator[Substitution]:
        done: set[tuple[int, ...]] = set()
        for match, key in rule.joined(self.store, nodes):
            outputs = [match.tensors[o] for o in rule.rule.source.outputs]
            if len(set(outputs)) < len(outputs):
                continue
            mirrored = tuple(sorted(outputs))
            if rule.symmetric and mirrored in done:
                continue
            if key not in self._joined:
                complete = rule.pattern.complete(self.store, match)
                self._joined[key] = self._applied(rule, match) if complete else None
            found = self._joined[key]
            if found is not None:
                done.add(mirrored)
                yield found

    # ---- groups --------------------------------------------------------------------------------------------

    def _members(self, rule: _RuleParts, nodes: Mapping[str, Sequence[int]]) -> Iterator[Substitution]:
        """Each two members that go together, and all of them. (A product of a merge may be merged again, so two at a
        time lead to any number.)"""
        groups: dict[object, list[tuple[Match, object]]] = {}
        for match, key in rule.joined(self.store, nodes):
            outputs = [match.tensors[o] for o in rule.rule.member_outputs]
            if self.store.weights.issuperset(outputs) or not rule.pattern.complete(self.store, match):
                continue
            shared = tuple((n, c) for n, c in match.tensors.items() if n not in rule.rule.members)
            groups.setdefault((shared, repr(sorted(match.attrs.items()))), []).append((match, key))
        for members in groups.values():
            unique = {
                tuple(m.tensors[o] for o in rule.rule.member_outputs): (m, k) for m, k in reversed(members)
            }
            members = sorted(unique.values(), key=lambda mk: str(mk[1]))
            fitting: dict[int, list[tuple[Match, object]]] = {}
            taken: set[int] = set()
            for (i, a), (j, b) in combinations(enumerate(members), 2):
                found = self._together(rule, [a, b])
                if found is not None:
                    yield found
                    if i not in taken and j not in taken:
                        fitting.setdefault(i, [a]).append(b)
                        taken.add(j)
            for chosen in fitting.values():
                if len(chosen) > 2 and (whole := self._together(rule, chosen)) is not None:
                    yield whole

    def _together(self, rule: _RuleParts, members: Sequence[tuple[Match, object]]) -> Substitution | None:
        key = (rule.rule.key, *(k for _, k in members))
        if key not in self._joined:
            self._joined[key] = self._applied(rule, merged(rule.rule, [m for m, _ in members]), len(members))
        return self._joined[key]

    # ---- targets -------------------------------------------------------------------------------------------

    def _applied(self, rule: _RuleParts, match: Match, members: int = 0) -> Substitution | None:
        """The substitution of a match; None if the rule does not apply there, or changes nothing."""
        store = self.store
        names = dict(match.tensors)
        key = (
            rule.rule.key,
            members,
            repr(sorted(match.attrs.items())),
            *(store.kind[c] for c in names.values()),
            *names,
        )
        if key not in self._targets:
            self._targets[key] = self._target(rule, names, match.attrs, members)
        target = self._targets[key]
        if target is None:
            return None
        made: dict[str, int] = {}
        part = store.part[names[target.outputs[0][0]]]
        for o in target.operators:
            operands = tuple(made[a] if a in made else names[a] for a in o.args)
            made[o.result] = store.add(o.op, o.attrs, operands, (o.type,), origin=rule.rule.name, part=part)
        outputs = tuple((names[s], made[t] if t in made else names[t]) for s, t in target.outputs)
        if all(s == t for s, t in outputs):
            return None
        self.matches[rule.rule.name] += 1
        return Substitution(rule.rule, match, members, target, made, outputs)

    def _target(
        self, rule: _RuleParts, names: dict[str, int], attrs: Mapping[str, Any], members: int
    ) -> Target | None:
        one = self._checks.instance(rule.rule, members) if members else rule.rule
        variant = self._checks.at(one, names, attrs, self.store)
        if variant is None:
            return None
        target = target_of(one, names, variant, self.store, self.ops, nested=rule.group)
        infinite = any(constant_overflows(o.op, o.attrs, o.type.dtype) for o in target.operators)
        return None if infinite else target  # no file may have such a constant


class _RuleParts:
    """The pattern of a rule, and the matches of its parts at each node."""

    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern
        self.rule = rule = pattern.rule
        self.group = rule.kind == "group"
        self.single = rule.kind == "single"
        self.symmetric = not self.group and automorphism(rule) is not None
        self.roots = pattern.roots
        self.root_ops = [pattern.shapes[root].node.op for root in self.roots]
        self._parts: list[dict[int, tuple[Match, ...]]] = [{} for _ in self.roots]

    def parts(self, store: NodeStore, root: int, n: int) -> tuple[Match, ...]:
        """The matches of one part at a node."""
        found = self._parts[root]
        if n not in found:
            found[n] = tuple(self.pattern.part(store, self.roots[root], n))
        return found[n]

    @cached_property
    def shared(self) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
        """For each part the tensors and the attributes that it has in common with the parts before it."""
        tensors: set[str] = set()
        attrs: set[str] = set()
        found = []
        for root in self.roots:
            own, variables = self._names(root)
            found.append((tuple(sorted(own & tensors)), tuple(sorted(variables & attrs))))
            tensors |= own
            attrs |= variables
        return found

    def _names(self, root: str) -> tuple[set[str], set[str]]:
        tensors: set[str] = set()
        attrs: set[str] = set()
        stack = [root]
        while stack:
            name = stack.pop()
            if name in tensors:
                continue
            tensors.add(name)
            if (shape := self.pattern.shapes.get(name)) is not None:
                stack += shape.node.args
                attrs |= {t.variable for t in shape.tests if t.variable}
        return tensors, attrs

    def joined(
        self, store: NodeStore, nodes: Mapping[str, Sequence[int]]
    ) -> Iterator[tuple[Match, tuple[object, ...]]]:
        """The matches of all parts together at some nodes, by operator; each with a key of its own."""
        parts = []
        for k, op in enumerate(self.root_ops):
            tensors, attrs = self.shared[k]
            index: dict[object, list[tuple[int, int, Match]]] = {}
            for n in nodes.get(op, ()):
                for number, match in enumerate(self.parts(store, k, n)):
                    at = (*(match.tensors[t] for t in tensors), *(match.attrs[a] for a in attrs))
                    index.setdefault(at, []).append((n, number, match))
            if not index:
                return
            parts.append(index)

        def extend(
            k: int, so_far: Match, key: tuple[object, ...]
        ) -> Iterator[tuple[Match, tuple[object, ...]]]:
            if k == len(parts):
                yield so_far, key
                return
            tensors, attrs = self.shared[k]
            at = (*(so_far.tensors[t] for t in tensors), *(so_far.attrs[a] for a in attrs))
            for n, number, match in parts[k].get(at, ()):
                both = match if k == 0 else _both(so_far, match)
                yield from extend(k + 1, both, (*key, n, number))

        yield from extend(0, Match({}, {}, {}), (self.rule.key,))


def _both(a: Match, b: Match) -> Match:
    return Match(
        {**a.tensors, **b.tensors},
        {**a.attrs, **b.attrs},
        {**a.nodes, **b.nodes},
        (),
        a.exchanged | b.exchanged,
    )
