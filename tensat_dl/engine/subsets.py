"""Chooses the members of a group to merge: all of them, and the subsets that can beat all of them.

Merging all members of a group can be worse than merging some. Kernels get slower by steps as they grow. Members that
a rule made may never be used, but are computed all the same. A slice of the result that must be copied can cost more
than merging saves. Each application of a group rule adds a node per member, so a handful of subsets is cheap.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tensat_dl.engine.compiled import CompiledRule
from tensat_dl.engine.exploration import Estimate, Feedback
from tensat_dl.engine.groups import View
from tensat_dl.engine.targets import plan
from tensat_dl.rewrite.classes import kind
from tensat_dl.rewrite.groups import Group, Member

#: Targets that are planned at most to find the best partition of one group.
MAX_PLANS = 200
#: Members of a group that is cut at most: looking at all consecutive parts takes time cubic in their number.
MAX_MEMBERS = 48
#: Relative difference of estimated costs below which a partition is not worth a try.
WORTH = 1e-3


@dataclass
class Partitions:
    """Cuts groups into consecutive parts at the least estimated cost. Costs depend on types, and are remembered."""

    estimate: Estimate
    costs: dict[tuple[Any, ...], float] = field(default_factory=dict)

    def best(self, compiled: CompiledRule, group: Group, view: View) -> list[list[Member]]:
        """The parts, of two members or more, of the cheapest partition; none if merging all is as cheap.

        Members are tried in their own order and from small to large: kernels have steps at certain sizes, and
        parts of like members waste less than mixed ones.
        """

        def size(m: Member) -> int:
            return sum(view.types[m[o]].size for o in compiled.rule.member_outputs)

        found: tuple[float, list[list[Member]]] | None = None
        for members in (group.members, sorted(group.members, key=size)):
            result = self._cut(compiled, group, members, view)
            if result is not None and (found is None or result[0] < found[0] * (1 - WORTH)):
                found = result
        return [part for part in found[1] if len(part) > 1] if found is not None else []

    def _cut(
        self, compiled: CompiledRule, group: Group, members: Sequence[Member], view: View
    ) -> tuple[float, list[list[Member]]] | None:
        """Cost and parts of the best partition of members in this order, if it beats merging all of them."""
        n = len(members)
        if n > MAX_MEMBERS:
            return None
        keys = [tuple(kind(view, h) for _, h in m.tensors) for m in members]
        intervals = [(i, j) for i in range(n) for j in range(i + 1, n + 1)]
        if len({tuple(keys[i:j]) for i, j in intervals}) > MAX_PLANS:
            return None
        shared = tuple(view.types[h] for h in group.shared.values()), tuple(map(repr, group.attrs.values()))
        best: list[tuple[float, int]] = [(0.0, 0)]
        whole = float("inf")
        for j in range(1, n + 1):
            options = []
            for i in range(j):
                key = (compiled.name, shared, tuple(keys[i:j]))
                cost = self.costs.get(key)
                if cost is None:
                    cost = self.costs[key] = self._price(compiled, group, members[i:j], view)
                options.append((best[i][0] + cost, i))
                if j - i == n:
                    whole = cost
            best.append(min(options))
        if not best[n][0] < whole * (1 - WORTH):
            return None
        parts: list[list[Member]] = []
        j = n
        while j > 0:
            i = best[j][1]
            parts.append(list(members[i:j]))
            j = i
        return best[n][0], parts[::-1]

    def _price(self, compiled: CompiledRule, group: Group, members: Sequence[Member], view: View) -> float:
        """Estimated milliseconds of members merged, or of a member as it is."""
        if len(members) == 1:
            ops = {n.op for n in compiled.rule.source.nodes}
            outputs = compiled.rule.member_outputs
            return sum(view.cost(members[0][o], ops, self.estimate) for o in outputs)
        target = plan(compiled, group.of(members), view)
        return float("inf") if target is None else target.cost(self.estimate)


def tried(
    compiled: CompiledRule,
    group: Group,
    view: View,
    original: int,
    feedback: Feedback | None,
    partitions: Partitions | None,
) -> Iterator[Group]:
    """The subsets of a maximal group to merge: all members, and those of the input program, whose handles are less
    than ``original``; or, with feedback, the members that an answer computes, and the part of them that need no copy.
    The parts of their best partitions are merged, too."""
    outputs = compiled.rule.member_outputs
    if feedback is None:
        first = [m for m in group.members if all(h < original for _, h in m.tensors)]
        subsets = [group.members, first]
    else:
        used = [m for m in group.members if all(m[o] in feedback.used for o in outputs)]
        subsets = [used, [m for m in used if not any(m[o] in feedback.copied for o in outputs)]]
    for subset in subsets:
        if len(subset) < 2:
            continue
        parts = (
            [subset] if partitions is None else [subset, *partitions.best(compiled, group.of(subset), view)]
        )
        for members in parts:
            yield group.of(members)
