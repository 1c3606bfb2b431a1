"""Counts the matches of a rule before it is run, and before it is compiled: a rule without any need not be.

A join of two tables is counted from how often each value of the shared columns comes up: linear in the tables, where
the join itself may be quadratic in them. The matches of one pattern are counted e-class by e-class, from the
operands up; of conditions, only those on weights are looked at: an upper bound.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from itertools import compress
from operator import itemgetter
from types import MappingProxyType

from tensat_dl.core.expression import Fact
from tensat_dl.core.graph import Attrs
from tensat_dl.core.rule import Fixed, RewriteRule

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
    """The e-nodes of one operator and number of operands: own e-class and operands of each; and attributes, where
    these are known."""

    nodes: Sequence[tuple[Hashable, tuple[Hashable, ...]]]
    attrs: Sequence[Attrs] = ()

    @cached_property
    def widest(self) -> int:
        """How many the e-class with most of them has."""
        return max(Counter(map(itemgetter(0), self.nodes)).values())

    def having(self, words: Attrs) -> Iterable[tuple[Hashable, tuple[Hashable, ...]]]:
        """Those with these attributes, as far as attributes are known."""
        if not words or not self.attrs:
            return self.nodes
        suits: dict[int, bool] = {}  # by the identity of attributes, which many have in common
        for attrs in self.attrs:
            if id(attrs) not in suits:
                suits[id(attrs)] = all(word in attrs for word in words)
        return compress(self.nodes, [suits[id(attrs)] for attrs in self.attrs])


#: An operand of a pattern: the number of a pattern, the relation of the e-classes that it matches, or anything.
Operand = int | str | None
#: The relations of e-classes that conditions ask for, by the functions that do.
RELATIONS = {"weight": "weights_only", "varying": "varying"}


class Nodes(dict[tuple[str, int], Alike]):
    """E-nodes by operator and number of operands. Rules have many patterns in common: each is counted once.
    ``members`` tells the e-classes of a relation, if that is known."""

    def __init__(
        self,
        alike: Mapping[tuple[str, int], Alike] = MappingProxyType({}),
        members: Callable[[str], Iterable[Hashable]] | None = None,
    ) -> None:
        super().__init__(alike)
        self._members = members
        self._related: dict[str, dict[Hashable, int]] = {}
        self._places: dict[tuple[str, Attrs, tuple[Operand, ...], bool], int] = {}
        self._counts: list[dict[Hashable, int]] = []

    def pattern(self, op: str, words: Attrs, operands: tuple[Operand, ...], both: bool) -> int:
        """The number of a pattern, for `matches`; ``both`` if it is matched in both orders of its operands."""
        key = (op, words, operands, both)
        place = self._places.get(key)
        if place is None:
            counts = self._count(*key)
            place = self._places[key] = len(self._counts)
            self._counts.append(counts)
        return place

    def matches(self, pattern: int) -> dict[Hashable, int]:
        """The matches of a pattern in each e-class that has some."""
        return self._counts[pattern]

    def _matched(self, operand: Operand) -> dict[Hashable, int] | None:
        """The matches of an operand in each e-class; None for whatever there is."""
        if operand is None or isinstance(operand, int):
            return None if operand is None else self._counts[operand]
        if self._members is None:
            return None
        if operand not in self._related:
            self._related[operand] = dict.fromkeys(self._members(operand), 1)
        return self._related[operand]

    def _count(self, op: str, words: Attrs, operands: tuple[Operand, ...], both: bool) -> dict[Hashable, int]:
        alike = self.get((op, len(operands)))
        below = [(i, counts) for i, o in enumerate(operands) if (counts := self._matched(o)) is not None]
        if alike is None or not all(counts for _, counts in below):
            return {}
        found: dict[Hashable, int] = {}
        last = len(operands) - 1
        for order in (below, [(last - i, counts) for i, counts in below])[: 1 + both]:
            for own, children in alike.having(words):
                n = 1
                for i, counts in order:
                    n *= counts.get(children[i], 0)
                    if not n:
                        break
                else:
                    found[own] = found.get(own, 0) + n
        return found


@dataclass(frozen=True, slots=True)
class OutlineNode:
    """A node of a source pattern. ``words`` are its attributes that are words; an operand is the place of another
    node in `Outline.nodes`, a relation, or anything. With ``both`` it is matched in both orders of its operands."""

    op: str
    words: Attrs
    operands: tuple[Operand, ...]
    both: bool


@dataclass(frozen=True, slots=True)
class Outline:
    """What is counted of the source of a rule: its nodes, operands first, and the place of its first output. Most
    conditions and repeated variables are left out. The members of a group rule are one member."""

    nodes: tuple[OutlineNode, ...]
    root: int

    @staticmethod
    def of(rule: RewriteRule, either: Set[str] = frozenset()) -> Outline:
        """The nodes with a result in ``either`` are matched in both orders of their operands."""
        facts = [f for f in rule.conditions if isinstance(f, Fact) and f.function in RELATIONS]
        related = {f.name: RELATIONS[f.function] for f in facts}
        place: dict[str, int] = {}
        found: list[OutlineNode] = []
        for n in rule.source.nodes:
            fixed = ((a.name, a.pattern.value) for a in n.attrs if isinstance(a.pattern, Fixed))
            words = tuple([(name, value) for name, value in fixed if isinstance(value, str)])
            operands = tuple([place.get(a, related.get(a)) for a in n.args])
            place[n.result] = len(found)
            found.append(OutlineNode(n.op, words, operands, n.result in either))
        return Outline(tuple(found), place[rule.source.outputs[0]])

    def most_matches(self, nodes: Nodes) -> int:
        """An upper bound of the matches of a single-pattern rule."""
        counts = self._matches(nodes)
        return sum(counts[self.root].values()) if counts else 0

    def may_match(self, nodes: Nodes) -> bool:
        """Whether every pattern has matches."""
        counts = self._matches(nodes)
        return bool(counts) and all(counts)

    def _matches(self, nodes: Nodes) -> list[dict[Hashable, int]]:
        """The matches of each pattern in each e-class; nothing if an operator has no e-nodes."""
        for n in self.nodes:
            if (n.op, len(n.operands)) not in nodes:
                return []
        at: list[int] = []
        for n in self.nodes:
            operands = tuple([at[o] if isinstance(o, int) else o for o in n.operands])
            at.append(nodes.pattern(n.op, n.words, operands, n.both))
        return [nodes.matches(k) for k in at]


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
