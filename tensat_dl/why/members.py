"""Why a group rule does not merge: members that are missing, that share nothing, do not fit, or need one another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from typing import Any

from tensat_dl.core.graph import Graph
from tensat_dl.rewrite.checks import Known, fact
from tensat_dl.rewrite.classes import Terms
from tensat_dl.rewrite.groups import member
from tensat_dl.rewrite.matcher import Match, Pattern
from tensat_dl.why.conditions import Failure, failure
from tensat_dl.why.instances import Instances
from tensat_dl.why.nearest import MAX_MATCHES, Near, nearest

#: Pairs of members that are compared.
MAX_PAIRS = 20_000


@dataclass(frozen=True, slots=True)
class Apart:
    """Two members, and in what they differ that members share: (name, value of the first, of the second). Values of
    tensors are classes in braces."""

    first: Match
    second: Match
    differences: tuple[tuple[str, str, str], ...]


@dataclass
class FoundMembers:
    """Groups that the rule merges, or the reason why there is none. Of the reasons the first that is set counts."""

    groups: list[list[Match]]
    dependent: tuple[Match, Match] | None = None  #: the second needs the first
    failed: tuple[Match, Match, Failure] | None = None
    apart: Apart | None = None
    single: Match | None = None  #: the only member
    constant: int = 0  #: members that are left out because they are computed ahead of time
    near: Near | None = None


def look_for_members(pattern: Pattern, terms: Terms, known: Known, graph: Graph) -> FoundMembers:
    """Looks for groups in a graph."""
    rule = pattern.rule
    found = FoundMembers([])
    members: list[Match] = []
    for match in islice(pattern.matches(terms), MAX_MATCHES):
        if all(match.tensors[o] in known.weights for o in rule.source.outputs):
            found.constant += 1
        else:
            members.append(match)
    if not members:
        found.near = None if found.constant else nearest(pattern, terms)
        return found
    if len(members) == 1:
        found.single = members[0]
        return found
    groups: dict[tuple[Any, ...], list[Match]] = {}
    for m in members:
        groups.setdefault(_key(pattern, m), []).append(m)
    instances = Instances(pattern.ops, known)
    above = _Above(graph)
    for group in groups.values():
        for bucket in _buckets(pattern, instances, known, group, found):
            apart = _independent(pattern, above, bucket, found)
            wrong = _failure(pattern, instances, known, apart) if len(apart) > 1 else None
            if wrong is not None:
                found.failed = found.failed or (apart[0], apart[1], wrong)
            elif len(apart) > 1:
                found.groups.append(apart)
    if not found.groups and not found.failed and not found.dependent:
        pairs = islice(combinations(members, 2), MAX_PAIRS)
        found.apart = min((_apart(pattern, a, b) for a, b in pairs), key=lambda p: len(p.differences))
    return found


def _key(pattern: Pattern, m: Match) -> tuple[Any, ...]:
    shared = [c for n, c in m.tensors.items() if n not in pattern.rule.members]
    return (*shared, repr(sorted(m.attrs.items())))


def _apart(pattern: Pattern, a: Match, b: Match) -> Apart:
    found = []
    for name, c in a.tensors.items():
        if name not in pattern.rule.members and b.tensors[name] != c:
            found.append((name, f"{{{c}}}", f"{{{b.tensors[name]}}}"))
    for name, value in a.attrs.items():
        if b.attrs[name] != value:
            found.append((name, _text(value), _text(b.attrs[name])))
    return Apart(a, b, tuple(found))


def _text(value: Any) -> str:
    return f"[{', '.join(map(str, value))}]" if isinstance(value, tuple) else str(value).lower()


def _buckets(
    pattern: Pattern, instances: Instances, known: Known, group: list[Match], found: FoundMembers
) -> list[list[Match]]:
    """Members that fit the first one of theirs, as exploration collects them; notes what does not."""
    buckets: list[list[Match]] = []
    compared = 0
    for m in group:
        for bucket in buckets:
            compared += 1
            if compared > MAX_PAIRS:
                return buckets
            wrong = _failure(pattern, instances, known, [bucket[0], m])
            if wrong is None:
                bucket.append(m)
                break
            found.failed = found.failed or (bucket[0], m, wrong)
        else:
            buckets.append([m])
    return buckets


def _independent(pattern: Pattern, above: _Above, bucket: list[Match], found: FoundMembers) -> list[Match]:
    """Those of the members that need none before them; notes a pair of which one needs the other."""
    kept: list[Match] = []
    for m in bucket:
        pair = next((p for k in kept if (p := above.needs(pattern, k, m))), None)
        if pair is None:
            kept.append(m)
        found.dependent = found.dependent or pair
    return kept


def _failure(
    pattern: Pattern, instances: Instances, known: Known, members: Sequence[Match]
) -> Failure | None:
    """Why members cannot be merged."""
    names = {
        (member(n, k) if n in pattern.rule.members else n): c
        for k, m in enumerate(members)
        for n, c in m.tensors.items()
    }
    attrs = members[0].attrs
    rule = instances.rule(pattern.rule, len(members))
    if instances.variant(rule, names, attrs, len(members)) is not None:
        return None
    types = {n: known.types[c] for n, c in names.items()}
    return failure(rule, pattern.ops, types, attrs, lambda fn, name: fact(known, fn, names[name]))


class _Above:
    """What of a graph is computed from what: one bit for each node."""

    def __init__(self, graph: Graph) -> None:
        self.bits: list[int] = []
        for i, node in enumerate(graph.nodes):
            bits = 1 << i
            for j in node.inputs:
                bits |= self.bits[j]
            self.bits.append(bits)

    def needs(self, pattern: Pattern, a: Match, b: Match) -> tuple[Match, Match] | None:
        """The two members, one that is needed first, if one is computed from the other."""
        for first, second in ((a, b), (b, a)):
            made = [c for n, c in first.tensors.items() if n in pattern.rule.source.outputs]
            needed = [c for n, c in second.tensors.items() if n not in pattern.rule.source.outputs]
            if any(self.bits[c] >> m & 1 for c in needed for m in made):
                return first, second
        return None
