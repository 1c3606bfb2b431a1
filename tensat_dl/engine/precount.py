"""Counts the matches of a rule before it is run.

A join of two tables is counted from how often each value of the shared columns comes up: linear in the tables, where
the join itself may be quadratic in them. The matches of one pattern are counted e-class by e-class, from the
operands up, as if every operand fitted: an upper bound.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from types import MappingProxyType

from tensat_dl.core.rule import RewriteRule

#: Values of some columns.
Key = tuple[Hashable, ...]
#: How often rows have values of some columns, given those of others.
Grouped = Mapping[Key, Mapping[Key, int]]


@dataclass(frozen=True, slots=True)
class Table:
    """Named columns and rows of values. Tables of the same rows may share what they are grouped by."""

    columns: tuple[Hashable, ...]
    rows: Sequence[Key]
    groups: dict[Hashable, Grouped] = field(default_factory=dict, compare=False, repr=False)

    def grouped(self, by: tuple[int, ...], counted: tuple[int, ...]) -> Grouped:
        """How often rows have values in the places ``counted``, given those in the places ``by``."""
        found = self.groups.get((by, counted))
        if found is None:
            new: defaultdict[Key, Counter[Key]] = defaultdict(Counter)
            for row in self.rows:
                new[tuple([row[k] for k in by])][tuple([row[k] for k in counted])] += 1
            found = self.groups[by, counted] = new
        return found


def join_size(tables: Sequence[Table]) -> int:
    """The number of rows of the natural join of tables. Without tables, the one row of no columns."""
    live: tuple[Hashable, ...] = ()  # columns seen that later tables have too
    counts: Counter[Key] = Counter({(): 1})
    for i, table in enumerate(tables):
        later = {c for t in tables[i + 1 :] for c in t.columns}
        shared = [c for c in live if c in table.columns]
        kept = [live.index(c) for c in live if c in later]
        added = [c for c in table.columns if c in later and c not in live]
        place = table.columns.index
        grouped = table.grouped(tuple(map(place, shared)), tuple(map(place, added)))
        result: Counter[Key] = Counter()
        positions = [live.index(c) for c in shared]
        for key, count in counts.items():
            more = grouped.get(tuple([key[k] for k in positions]))
            if more is not None:
                left = tuple([key[k] for k in kept])
                for values, n in more.items():
                    result[left + values] += count * n
        live = (*(live[k] for k in kept), *added)
        counts = result
    return sum(counts.values())


@dataclass(frozen=True)
class Alike:
    """The e-nodes of one operator and number of operands: own e-class and operands of each."""

    nodes: Sequence[tuple[Hashable, tuple[Hashable, ...]]]

    @cached_property
    def widest(self) -> int:
        """How many the e-class with most of them has."""
        return max(Counter(map(itemgetter(0), self.nodes)).values())


class Nodes(dict[tuple[str, int], Alike]):
    """E-nodes by operator and number of operands. Rules have many patterns in common: each is counted once."""

    def __init__(self, alike: Mapping[tuple[str, int], Alike] = MappingProxyType({})) -> None:
        super().__init__(alike)
        self._places: dict[tuple[str, tuple[int | None, ...], bool], int] = {}
        self._counts: list[dict[Hashable, int]] = []

    def pattern(self, op: str, operands: tuple[int | None, ...], both: bool) -> int:
        """The number of a pattern, for `matches`. ``operands`` are the numbers of patterns, None for what matches any
        e-class; ``both`` if it is matched in both orders of these."""
        key = (op, operands, both)
        place = self._places.get(key)
        if place is None:
            counts = self._count(*key)
            place = self._places[key] = len(self._counts)
            self._counts.append(counts)
        return place

    def matches(self, pattern: int) -> dict[Hashable, int]:
        """The matches of a pattern in each e-class that has some."""
        return self._counts[pattern]

    def _count(self, op: str, operands: tuple[int | None, ...], both: bool) -> dict[Hashable, int]:
        alike = self.get((op, len(operands)))
        below = [(i, self._counts[o]) for i, o in enumerate(operands) if o is not None]
        if alike is None or not all(counts for _, counts in below):
            return {}
        found: dict[Hashable, int] = {}
        last = len(operands) - 1
        for order in (below, [(last - i, counts) for i, counts in below])[: 1 + both]:
            for own, children in alike.nodes:
                n = 1
                for i, counts in order:
                    n *= counts.get(children[i], 0)
                    if not n:
                        break
                else:
                    found[own] = found.get(own, 0) + n
        return found


def most_matches(rule: RewriteRule, nodes: Nodes, either: Set[str] = frozenset()) -> int:
    """An upper bound of the matches of a single-pattern rule: conditions and repeated variables are not looked at.
    The pattern nodes in ``either`` are matched in both orders of their operands."""
    counts = _matches(rule, nodes, either)
    return sum(counts[rule.source.outputs[0]].values()) if counts else 0


def may_match(rule: RewriteRule, nodes: Nodes, either: Set[str] = frozenset()) -> bool:
    """Whether a rule may match: each of its patterns has matches, as far as `most_matches` looks at them. The members
    of a group rule are one member here."""
    counts = _matches(rule, nodes, either)
    return bool(counts) and all(counts.values())


def _matches(rule: RewriteRule, nodes: Nodes, either: Set[str]) -> dict[str, dict[Hashable, int]]:
    """The matches of each pattern node of a rule in each e-class, by its result; nothing if an operator has no
    e-nodes."""
    if any((n.op, len(n.args)) not in nodes for n in rule.source.nodes):
        return {}
    places: dict[str, int] = {}
    for n in rule.source.nodes:  # operands first
        places[n.result] = nodes.pattern(n.op, tuple(map(places.get, n.args)), n.result in either)
    return {result: nodes.matches(place) for result, place in places.items()}


def oldest_within(
    joins: Sequence[Sequence[Table]], owners: Sequence[Hashable], ages: Mapping[Hashable, int], limit: int
) -> list[int]:
    """The ages of the oldest e-classes to which joins can be restricted so that they have at most ``limit`` rows in
    all.

    ``owners`` names for each table of a join the column that is restricted.
    """
    restricted = [[(t, t.columns.index(o)) for t, o in zip(tables, owners, strict=True)] for tables in joins]
    known = sorted({ages[r[k]] for tables in restricted for t, k in tables for r in t.rows if r[k] in ages})

    def size(count: int) -> int:
        last = known[count - 1] if count else -1
        return sum(
            join_size(
                [Table(t.columns, [r for r in t.rows if ages.get(r[k], last + 1) <= last]) for t, k in tables]
            )
            for tables in restricted
        )

    low, high = 0, len(known)  # size(low) fits
    while low < high:
        middle = (low + high + 1) // 2
        if size(middle) <= limit:
            low = middle
        else:
            high = middle - 1
    return known[:low]


def by_operator(rows: Iterable[tuple[str, Hashable, tuple[Hashable, ...]]]) -> Nodes:
    """E-nodes, given as operator, own e-class and operands."""
    found: defaultdict[tuple[str, int], list[tuple[Hashable, tuple[Hashable, ...]]]] = defaultdict(list)
    for op, own, children in rows:
        found[op, len(children)].append((own, children))
    return Nodes({k: Alike(nodes) for k, nodes in found.items()})
