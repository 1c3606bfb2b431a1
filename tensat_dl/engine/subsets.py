"""Which members of a group are merged: all of them, and every subset that can beat what is merged already.

Merging all members of a group can lose to merging some. Kernels get slower by steps as they grow; members that exist
only because a rule made them may never be used, and are computed all the same; a slice of the result that must be
copied can cost more than was saved. A member may also have an alternative, another member that serves the same need.

Exploration merges all members. After an extraction, the members that matter are known: those that the answer uses,
and those that it would use at the least price that a merge can have for it. Of few such members every subset is
merged that is estimated to cost less than its parts. Of many, every subset is that differs by one member from a merge
of the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from math import inf
from typing import Any

from tensat_dl.core.graph import TensorType
from tensat_dl.engine.compiled import CompiledRule
from tensat_dl.engine.exploration import Estimate, Feedback
from tensat_dl.engine.groups import View
from tensat_dl.engine.targets import Plans
from tensat_dl.rewrite.groups import Group, Member

#: Members of which all subsets are weighed: a group of n has 2^n.
FEW = 6
#: Members of a group that is cut at most: looking at all consecutive parts takes time cubic in their number.
MAX_MEMBERS = 32
#: Relative difference of estimated costs below which one is not less than the other.
WORTH = 1e-9


@dataclass
class Prices:
    """Prices the subsets of groups. A price depends on types and on which tensors are weights, and is remembered."""

    estimate: Estimate | None
    plans: Plans = field(default_factory=Plans)
    known: dict[tuple[Any, ...], float] = field(default_factory=dict)
    kinds: dict[tuple[Any, ...], int] = field(default_factory=dict)  #: of members, numbered
    savings: dict[tuple[Any, ...], tuple[float, ...]] = field(default_factory=dict)  #: see `Price.savings`

    def of(self, compiled: CompiledRule, group: Group, view: View) -> Price:
        return Price(self, compiled, group, view)


class Price:
    """Estimated milliseconds of any members of a group merged, or of one as it is; infinite if the rule does not
    apply to them. Without estimates every merge costs as much as one member."""

    def __init__(self, prices: Prices, compiled: CompiledRule, group: Group, view: View) -> None:
        self._known, self._estimate, self._plans = prices.known, prices.estimate, prices.plans
        self._savings = prices.savings
        self._compiled, self._group, self._view = compiled, group, view
        self._shared = repr(group.attrs), *(self._seen(h) for h in group.shared.values())
        self._kinds = {
            m: prices.kinds.setdefault(tuple(self._seen(h) for _, h in m.tensors), len(prices.kinds))
            for m in group.members
        }

    def _seen(self, handle: int) -> tuple[TensorType, bool]:
        return self._view.types[handle], handle in self._view.weights

    def __call__(self, members: Sequence[Member]) -> float:
        if self._estimate is None:
            return 1.0
        rule = self._compiled.rule
        if len(members) == 1:
            ops = {n.op for n in rule.source.nodes}
            return sum(self._view.cost(members[0][o], ops, self._estimate) for o in rule.member_outputs)
        key = (self._compiled.name, self._shared, *sorted(self._kinds[m] for m in members))
        if key not in self._known:
            target = self._plans.target(self._compiled, self._group.of(members), self._view)
            self._known[key] = inf if target is None else target.cost(self._estimate)
        return self._known[key]

    def savings(self, members: Sequence[Member]) -> tuple[float, ...]:
        """The most that a merge with each of these is estimated to save; 0 for those that no merge saves anything
        with. Members of the same kinds that cost the same, of which repeated blocks have many, are looked at once."""
        kinds, alone = zip(*((self._kinds[m], self([m])) for m in members), strict=True)
        key = (self._compiled.name, self._shared, kinds, alone)
        if key not in self._savings:
            most = dict.fromkeys(members, 0.0)
            for chosen, saved in indivisible(members, self):
                most |= {m: max(most[m], saved) for m in chosen}
            self._savings[key] = tuple(most.values())
        return self._savings[key]

    def without_each(self, members: Sequence[Member]) -> list[float]:
        """The prices of all members but one, for each of them. Members of one kind have the same price."""
        kinds = [self._kinds[m] for m in members]
        first = {kind: i for i, kind in reversed([*enumerate(kinds)])}
        by_kind = {kind: self([*members[:i], *members[i + 1 :]]) for kind, i in first.items()}
        return [by_kind[kind] for kind in kinds]


def indivisible(members: Sequence[Member], price: Price) -> Iterator[tuple[list[Member], float]]:
    """The subsets of two members or more that cost less merged than in any parts, and how much less than all of their
    members alone."""
    best = [0.0]  # by the members as bits: the least cost, merged or in parts
    alone = [0.0]
    for bits in range(1, 1 << len(members)):
        chosen = [m for i, m in enumerate(members) if bits >> i & 1]
        whole = price(chosen)
        first = bits & -bits
        rest = part = bits ^ first
        parts = inf
        while part:  # the parts without the first member
            parts = min(parts, best[part] + best[bits ^ part])
            part = part - 1 & rest
        best.append(min(whole, parts))
        alone.append(alone[rest] + alone[first] if rest else whole)
        if rest and whole < parts * (1 - WORTH):
            yield chosen, alone[bits] - whole


def savings(compiled: CompiledRule, group: Group, price: Price) -> dict[int, float]:
    """For each member's results, by handle, the most that a merge with it is estimated to save; of members that no
    merge saves anything with, nothing. Infinite for many members."""
    outputs = compiled.rule.member_outputs
    found: dict[int, float] = {}
    many = len(group.members) > FEW
    most = [inf] * len(group.members) if many else price.savings(group.members)
    for m, saved in zip(group.members, most, strict=True):
        for o in outputs if saved else ():
            found[m[o]] = max(found.get(m[o], 0.0), saved)
    return found


@dataclass(frozen=True, slots=True)
class Merge:
    """What a group rule has built: the handles of the merged operator and of its members' results."""

    rule: str
    product: int
    results: frozenset[int]

    def now(self, canonical: Mapping[int, int]) -> Merge:
        """The same by the handles that e-classes have now."""
        return Merge(self.rule, canonical[self.product], frozenset(canonical[h] for h in self.results))


class Merges:
    """Merges by the results of their members: a deep graph has thousands of groups and of merges, and a group few."""

    def __init__(self, merges: Iterable[Merge]) -> None:
        self._merges = tuple(merges)
        self._with_result: dict[tuple[str, int], list[int]] = {}
        for i, merge in enumerate(self._merges):
            for h in merge.results:
                self._with_result.setdefault((merge.rule, h), []).append(i)

    def of(self, compiled: CompiledRule, group: Group) -> list[tuple[Merge, list[Member]]]:
        """The rule's merges of members of a group, in the order in which they were made, each with these members."""
        outputs = compiled.rule.member_outputs
        found: dict[int, list[Member]] = {}
        for m in group.members:
            results = [m[o] for o in outputs]
            for i in self._with_result.get((compiled.name, results[0]), ()):
                if self._merges[i].results.issuperset(results):
                    found.setdefault(i, []).append(m)
        return [(self._merges[i], members) for i, members in sorted(found.items())]


def shares(compiled: CompiledRule, group: Group, members: list[Member], price: Price) -> dict[int, float]:
    """For the results of each of some members that are merged, what the merge would cost less without it; none for a
    group of few."""
    if len(group.members) <= FEW or len(members) < 2:
        return {}
    whole = price(members)
    rest = price.without_each(members)
    outputs = compiled.rule.member_outputs
    return {m[o]: max(0.0, whole - less) for m, less in zip(members, rest, strict=True) for o in outputs}


@dataclass(frozen=True, slots=True)
class Refinement:
    """What is known of an answer: its feedback, in which the members that earlier answers wanted are wanted, too; and
    the merges that it uses."""

    feedback: Feedback
    merges: Merges

    def subsets(
        self, compiled: CompiledRule, group: Group, view: View, price: Price
    ) -> Iterator[list[Member]]:
        """What is merged of a group for the sake of this answer."""
        outputs = compiled.rule.member_outputs

        def among(handles: Set[int]) -> list[Member]:
            return [m for m in group.members if all(m[o] in handles for o in outputs)]

        def size(m: Member) -> int:
            return sum(view.types[m[o]].size for o in outputs)

        merged = [{*members} for _, members in self.merges.of(compiled, group)]
        used = {*among(self.feedback.used)}
        spare = among(self.feedback.spare)
        chosen = used.union(among(self.feedback.wanted), *merged)
        if len(chosen) <= FEW:
            yield from (s for s, _ in indivisible([m for m in group.members if m in chosen], price))
            return
        # Parts of like members waste less than mixed ones.
        parts = partition(sorted((m for m in group.members if m in used), key=size), price)
        found = [chosen, used, used.difference(spare), *map(set, parts)]
        alone = used.difference(*merged)
        lone = [m for m in group.members if m in alone]  # members in a set have another order in each run
        # A member that the answer uses as it is counts as a merge of one, if there are few of them.
        for merge in [*merged, *({m} for m in lone if len(lone) <= FEW)]:
            fewer = [merge - {m} for m in spare if m in merge]
            more = [m for m in group.members if m in chosen - merge]
            found += [merge & used, (merge & used).difference(spare), *fewer]
            found += [s | {m} for s in (merge, *fewer) for m in more]
        for subset in found:
            if len(subset) > 1:
                yield [m for m in group.members if m in subset]


def partition(members: Sequence[Member], price: Price) -> list[Sequence[Member]]:
    """The cheapest partition into consecutive parts; none of too many members."""
    if len(members) > MAX_MEMBERS:
        return []
    best: list[tuple[float, int]] = [(0.0, 0)]
    for j in range(1, len(members) + 1):
        best.append(min((best[i][0] + price(members[i:j]), i) for i in range(j)))
    parts: list[Sequence[Member]] = []
    j = len(members)
    while j > 0:
        parts.append(members[best[j][1] : j])
        j = best[j][1]
    return parts
