"""Replays the derivation of an optimized graph inside the explored e-graph, with a ledger of reasons.

Rules are applied as in exploration, but only where their targets are in the e-graph; the applications of group and
multi-pattern rules are recorded. First only e-nodes near the two graphs are built, see `rings`. The replay ends as
soon as the outputs of the two graphs are equal. Then the ledger has the applications that were needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from tensat_dl.core.egraph import EGraph, located
from tensat_dl.core.graph import Attrs, Graph
from tensat_dl.core.rule import RewriteRule
from tensat_dl.engine.exploration import Applied
from tensat_dl.engine.targets import Target, target_of
from tensat_dl.ops.table import OpTable
from tensat_dl.rewrite.classes import EGraphTerms, Known
from tensat_dl.rewrite.groups import instances
from tensat_dl.rewrite.matcher import Match, Pattern, merged
from tensat_dl.rewrite.variants import Checks
from tensat_dl.why.ledger import SOURCE, Ledger

#: Rounds after which a way is looked for further away, or given up; exploration takes no more than about twenty.
ROUNDS = 60


@dataclass(frozen=True, slots=True)
class Application:
    """One application of a rule to nodes of a ledger.

    ``names`` has the node of each tensor that the source names, ``source`` are the nodes that the source's operators
    matched, ``equal`` the pairs of nodes that the match needed to be equal already. ``outputs`` pairs each matched
    output with the node that it was found equal to.
    """

    rule: str
    names: Mapping[str, int]
    source: tuple[int, ...]
    equal: tuple[tuple[int, int], ...]
    target: Target
    built: Mapping[str, int]
    outputs: tuple[tuple[int, int], ...]


class Replay:
    """A ledger that grows by the rules' applications, until the outputs of two graphs are equal in it."""

    def __init__(
        self,
        egraph: EGraph,
        before: Graph,
        after: Graph,
        rules: Sequence[RewriteRule],
        ops: OpTable,
        history: Sequence[Applied],
    ) -> None:
        """``history`` is by e-classes in place of handles."""
        self.egraph, self.before, self.after = egraph, before, after
        terms = EGraphTerms(egraph, before, ops)
        self.ops = ops
        self.known: Known = terms
        self._checks = Checks(ops)
        self.ledger = Ledger(terms.types)
        self.applications: list[Application] = []
        self.index = egraph.index()
        arities = {(op, len(egraph.children_of(n))) for n, op in enumerate(egraph.op)}
        found = (one for r in rules if usable(r, egraph) for one in instances(r, arities))
        self._patterns = {one.key: Pattern(one, ops) for one in found}
        self._singles = [p for p in self._patterns.values() if p.rule.kind == "single"]
        self._history = [a for a in history if a.rule in self._patterns]
        self._near: frozenset[int] = frozenset()  #: the e-classes in which something is built
        self._targets: dict[tuple[object, ...], Target | None] = {}
        self._done: set[tuple[object, ...]] = set()
        self._too_far: set[tuple[object, ...]] = set()  #: matches for which something else would be built
        self.nodes = self._source()

    def run(self) -> bool:
        """Whether the outputs were found equal."""
        start = {*self._labels(self.before), *self._labels(self.after)}
        for near in rings(self.egraph, start):
            self._near = near
            self._too_far.clear()
            if self._saturate():
                return True
        return False

    def _saturate(self) -> bool:
        """Applies rules where their targets are near, until the outputs are equal or nothing changes."""
        waiting = [a for a in self._history if self._near.issuperset(a.tensors)]
        for _ in range(ROUNDS):
            if self.equal():
                return True
            changed = False
            for pattern in self._singles:
                for match in list(pattern.matches(self.ledger)):
                    changed |= self._apply(pattern, match)
            left = []
            for applied in waiting:
                again = self._again(applied)
                if again is None:
                    left.append(applied)
                else:
                    changed |= self._apply(self._patterns[applied.rule], again, len(applied.members))
            waiting = left
            if not changed:
                return self.equal()
        return False

    def equal(self) -> bool:
        """Whether each output of the second graph is there and equal to the first graph's."""
        found = located(self.after, self.ledger.lookup)
        return all(
            (n := found[j]) is not None and self.ledger.find(n) == self.ledger.find(self.nodes[i])
            for (_, i), (_, j) in zip(self.before.outputs, self.after.outputs, strict=True)
        )

    # ---- nodes -------------------------------------------------------------------------------------------

    def _source(self) -> list[int]:
        """Adds the first graph."""
        nodes: list[int] = []
        for node in self.before.nodes:
            operands = tuple(nodes[j] for j in node.inputs)
            label = self.label(node.op, node.attrs, operands)
            assert label is not None, "the e-graph has the input graph"
            nodes.append(self.ledger.add(node.op, node.attrs, operands, label, SOURCE))
        return nodes

    def _labels(self, graph: Graph) -> list[int]:
        """The e-classes of a graph's nodes, of those that the e-graph has."""
        return [c for c in located(graph, self.index.get) if c is not None]

    def label(self, op: str, attrs: Attrs, operands: Iterable[int]) -> int | None:
        """The e-class of an operator applied to nodes, if the e-graph has it."""
        return self.index.get((op, attrs, tuple(self.ledger.label[k] for k in operands)))

    # ---- applications ------------------------------------------------------------------------------------

    def _again(self, applied: Applied) -> Match | None:
        """The match of an application that exploration recorded, if all of it is there already."""
        pattern = self._patterns[applied.rule]
        labels = dict(applied.shared)
        if not applied.members:
            for match in self._labelled(pattern, labels, {}, {}):
                return match
            return None
        first, *others = applied.members
        for match in self._labelled(pattern, labels | dict(first), {}, {}):
            shared = {n: c for n, c in match.tensors.items() if n not in pattern.rule.members}
            found = [match]
            for tensors in others:
                more = self._labelled(pattern, labels | dict(tensors), shared, match.attrs)
                one = next(more, None)
                if one is None:
                    break
                found.append(one)
            else:
                return merged(pattern.rule, found)
        return None

    def _labelled(
        self, pattern: Pattern, labels: Mapping[str, int], fixed: Mapping[str, int], attrs: Mapping[str, Any]
    ) -> Iterator[Match]:
        """Matches of classes with these labels that agree with attributes of a match before."""
        ledger = self.ledger

        def fits(name: str, c: int) -> bool:
            return name not in labels or ledger.label[c] == labels[name]

        candidates = (sorted(ledger.labelled.get(labels[root], ())) for root in pattern.roots)
        for classes in product(*candidates):
            roots = dict(zip(pattern.roots, classes, strict=True))
            for match in pattern.matches(ledger, {**fixed, **roots}, fits):
                if all(match.attrs[a] == v for a, v in attrs.items() if a in match.attrs):
                    yield match

    def _apply(self, pattern: Pattern, match: Match, members: int = 0) -> bool:
        """Applies a rule to a match, unless it was applied before or its target is not near. Returns whether anything
        changed."""
        ledger, rule = self.ledger, pattern.rule
        find = ledger.find
        key = (rule.name, *(find(c) for c in match.tensors.values()), *match.nodes.values())
        if key in self._done or key in self._too_far:
            return False
        target = self._target(rule, match, members)
        if target is None or not self._explored(target):
            self._too_far.add(key)
            return False
        self._done.add(key)
        one = self._checks.instance(rule, members)
        names, equal = self._terms(one, match)
        number = len(self.applications)
        built: dict[str, int] = {}
        size = len(ledger.op)
        for o in target.operators:
            operands = tuple(built[a] if a in built else names[a] for a in o.args)
            label = self.label(o.op, o.attrs, operands)
            assert label is not None
            built[o.result] = ledger.add(o.op, o.attrs, operands, label, number)
        outputs = tuple((names[s], built[t] if t in built else names[t]) for s, t in target.outputs)
        changed = [ledger.union(s, t, number) for s, t in outputs]
        self.applications.append(
            Application(rule.name, names, tuple(match.nodes.values()), equal, target, built, outputs)
        )
        return any(changed) or len(ledger.op) > size

    def _target(self, rule: RewriteRule, match: Match, members: int) -> Target | None:
        """The rule's target for this match, if it has one."""
        labels = {n: self.ledger.label[c] for n, c in match.tensors.items()}
        key = (rule.name, *labels.values(), repr(sorted(match.attrs.items())))
        if key not in self._targets:
            one = self._checks.instance(rule, members)
            variant = self._checks.at(one, labels, match.attrs, self.known)
            self._targets[key] = (
                None
                if variant is None
                else target_of(one, labels, variant, self.known, self.ops, nested=rule.kind == "group")
            )
        return self._targets[key]

    def _explored(self, target: Target) -> bool:
        """Whether all of a target is in the e-graph, near and in the right e-classes."""
        labels = dict(target.names)
        for o in target.operators:
            found = self.index.get((o.op, o.attrs, tuple(labels[a] for a in o.args)))
            if found not in self._near:
                return False
            labels[o.result] = found
        return all(labels[s] == labels[t] for s, t in target.outputs)

    def _terms(self, rule: RewriteRule, match: Match) -> tuple[dict[str, int], tuple[tuple[int, int], ...]]:
        """A node for each name of a match, and the pairs that had to be equal for it."""
        names = dict(match.nodes)
        equal: list[tuple[int, int]] = []
        for node in rule.source.nodes:
            operands = self.ledger.operands[match.nodes[node.result]]
            given = operands[::-1] if node.result in match.exchanged else operands
            for a, k in zip(node.args, given, strict=True):
                if names.setdefault(a, k) != k:
                    equal.append((names[a], k))
        return names, tuple(equal)

    # ---- what was needed ---------------------------------------------------------------------------------

    def needed(
        self, ledger: Ledger, before: Sequence[int], applications: Sequence[Application]
    ) -> list[int] | None:
        """The applications, by number, that make the outputs equal in a ledger, with those that these needed, in
        order; None if the outputs are not equal. ``before`` are the first graph's nodes."""
        after: list[int] = []
        for node in self.after.nodes:
            operands = tuple(after[j] for j in node.inputs)
            if ledger.lookup((node.op, node.attrs, operands)) is None:
                return None
            label = self.index[node.op, node.attrs, tuple(ledger.label[k] for k in operands)]
            after.append(ledger.add(node.op, node.attrs, operands, label, SOURCE))
        pairs = [
            (before[i], after[j])
            for (_, i), (_, j) in zip(self.before.outputs, self.after.outputs, strict=True)
        ]
        if any(ledger.find(a) != ledger.find(b) for a, b in pairs):
            return None
        found: set[int] = set()
        seen: set[int] = set()
        waiting = ledger.reasons(pairs)
        while waiting:
            k = waiting.pop()
            if k not in found:
                found.add(k)
                waiting |= ledger.reasons(applications[k].equal) - found
                waiting |= _makers(ledger, applications[k].names.values(), seen) - found
        return sorted(found)


def _makers(ledger: Ledger, nodes: Iterable[int], seen: set[int]) -> set[int]:
    """The applications that made these nodes and their operands; nodes are looked at once."""
    found: set[int] = set()
    stack = list(nodes)
    while stack:
        n = stack.pop()
        if n in seen:
            continue
        seen.add(n)
        if ledger.maker[n] != SOURCE:
            found.add(ledger.maker[n])
        stack += ledger.operands[n]
    return found


def usable(rule: RewriteRule, egraph: EGraph) -> bool:
    """Whether the e-graph has the operators of a rule's source."""
    present = set(egraph.op)
    return all(n.op in present for n in rule.source.nodes)


def rings(egraph: EGraph, start: Iterable[int]) -> Iterator[frozenset[int]]:
    """Sets of e-classes, each larger than the one before: ``start``, with what its e-nodes are applied to, and so on.

    All terms that are equal to a graph are made of what can be reached from its e-classes like this. So every way
    lies inside the last set, and most lie inside the first: rules put the nodes of one graph into the e-classes of
    the other.
    """
    found = set(start)
    new = set(found)
    while new:
        yield frozenset(found)
        new = {d for c in new for n in egraph.nodes_of(c) for d in egraph.children_of(n)} - found
        found |= new
