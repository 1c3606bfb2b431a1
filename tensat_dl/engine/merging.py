"""What group rules merge in one exploration: at first all members of each group, then the subsets that an answer asks
for (see `subsets`)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from tensat_dl.core.graph import Graph
from tensat_dl.engine.compiled import CompiledRule
from tensat_dl.engine.exploration import Feedback, Groups, RuleStats
from tensat_dl.engine.groups import View
from tensat_dl.engine.naming import Store
from tensat_dl.engine.selection import Selection
from tensat_dl.engine.subsets import Merge, Merges, Prices, Refinement, savings, shares
from tensat_dl.engine.targets import Additions, Target
from tensat_dl.ops.table import OpTable
from tensat_dl.rewrite.groups import Member

#: Said of groups that were merged because an answer uses them.
REFINED = "subsets that the extracted graph could use"


@dataclass
class Merging:
    """What group rules have merged so far. The selection knows the groups that they were applied to."""

    graph: Graph
    ops: OpTable
    store: Store
    selection: Selection
    prices: Prices
    merges: list[Merge] = field(default_factory=list)
    wanted: set[int] = field(default_factory=set)  #: results of members that an answer has asked for

    def merge(
        self,
        rules: Sequence[CompiledRule],
        view: View,
        stats: list[RuleStats],
        answer: Refinement | None = None,
    ) -> Additions:
        """What group rules add to the e-graph, within the limit of e-nodes."""
        facts = Additions()
        size = self.selection.nodes()
        note = "" if answer is None else REFINED
        for rule in rules:
            if size + len(facts.nodes) > self.selection.limit:
                break
            started, first = time.perf_counter(), len(facts.nodes)
            done = 0
            for key, target in self.targets(rule, view, answer):
                self.selection.applied.add(key)
                handles = facts.add(target, self.store)
                product = next(o for o in reversed(target.operators) if not self.ops[o.op].view)
                results = frozenset(handles[s] for s, _ in target.outputs)
                self.merges.append(Merge(rule.name, handles[product.result], results))
                done += 1
            if done:
                seconds = time.perf_counter() - started
                stats.append(RuleStats(rule.name, done, done, len(facts.nodes) - first, seconds, note))
        return facts

    def targets(
        self, rule: CompiledRule, view: View, answer: Refinement | None = None
    ) -> Iterator[tuple[tuple[str, tuple[object, ...]], Target]]:
        """The targets of a group rule for groups that it has not been applied to, each with the group's key in
        `Selection.applied`: for all members, and for those of the input program; or for the subsets that pay for an
        answer."""
        original = len(self.graph.nodes)
        for whole in view.groups(rule):
            if answer is None:
                first = [m for m in whole.members if all(h < original for _, h in m.tensors)]
                chosen: Iterable[list[Member]] = (whole.members, first)
            else:
                chosen = answer.subsets(rule, whole, view, self.prices.of(rule, whole, view))
            for group in (whole.of(members) for members in chosen if len(members) > 1):
                operands = (h for m in group.members for _, h in m.tensors)
                attrs = map(repr, group.attrs.values())
                key = (rule.name, (*group.shared.values(), *operands, *attrs))
                if key not in self.selection.applied:
                    target = self.prices.plans.target(rule, group, view)
                    if target is not None:
                        yield key, target

    def refinement(self, feedback: Feedback) -> Refinement:
        """What to merge for an answer: what this and earlier ones have asked for."""
        self.wanted |= feedback.wanted
        merges = [m for m in self.merges if m.product in feedback.used]
        return Refinement(replace(feedback, wanted=frozenset(self.wanted)), Merges(merges))

    def groups(self, rules: Sequence[CompiledRule], view: View) -> Groups:
        """The groups of an e-graph, with what merges of their members could save."""
        canonical = view.canonical()
        self.wanted = {canonical[h] for h in self.wanted}
        self.merges = [m.now(canonical) for m in self.merges]
        merges = Merges(self.merges)
        found = Groups()
        for rule in rules:
            for merge in (m for m in self.merges if m.rule == rule.name):
                found.shares.setdefault(merge.product, {})
            for group in view.groups(rule):
                n = len(group.members)
                price = self.prices.of(rule, group, view)
                for h, saved in savings(rule, group, price).items():
                    if h not in self.wanted:
                        found.savings[h] = max(found.savings.get(h, 0.0), saved)
                subsets = {m.product: members for m, members in merges.of(rule, group)}
                for product, members in subsets.items():
                    found.shares[product].update(shares(rule, group, members, price))
                found = replace(
                    found,
                    count=found.count + 1,
                    merged=found.merged + len({tuple(s) for s in subsets.values() if len(s) > 1}),
                    possible=found.possible + 2**n - n - 1,
                )
        return found
