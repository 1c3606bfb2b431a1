"""Counts the matches of a rule before it is run.

A join of two tables is counted from how often each value of the shared columns comes up: linear in the tables, where
the join itself may be quadratic in them. The matches of one pattern are counted e-class by e-class, from the
operands up, as if every operand fitted: an upper bound.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from math import prod

from tensat_dl.core.rule import PatternNode, RewriteRule


@dataclass(frozen=True, slots=True)
class Table:
    """Named columns and rows of values."""

    columns: tuple[Hashable, ...]
    rows: Sequence[tuple[Hashable, ...]]


def join_size(tables: Sequence[Table]) -> int:
    """The number of rows of the natural join of tables. Without tables, the one row of no columns."""
    live: tuple[Hashable, ...] = ()  # columns seen that later tables have too
    counts: Counter[tuple[Hashable, ...]] = Counter({(): 1})
    for i, table in enumerate(tables):
        later = {c for t in tables[i + 1 :] for c in t.columns}
        shared = [c for c in live if c in table.columns]
        kept = [live.index(c) for c in live if c in later]
        added = [c for c in table.columns if c in later and c not in live]
        grouped: defaultdict[tuple[Hashable, ...], Counter[tuple[Hashable, ...]]] = defaultdict(Counter)
        at = [table.columns.index(c) for c in shared]
        new = [table.columns.index(c) for c in added]
        for row in table.rows:
            grouped[tuple(row[k] for k in at)][tuple(row[k] for k in new)] += 1
        result: Counter[tuple[Hashable, ...]] = Counter()
        positions = [live.index(c) for c in shared]
        for key, count in counts.items():
            for values, more in grouped.get(tuple(key[k] for k in positions), {}).items():
                result[(*(key[k] for k in kept), *values)] += count * more
        live = (*(live[k] for k in kept), *added)
        counts = result
    return sum(counts.values())


@dataclass(frozen=True, slots=True)
class Alike:
    """The e-nodes of one operator and number of operands: own e-class and operands of each."""

    nodes: Sequence[tuple[Hashable, tuple[Hashable, ...]]]
    widest: int  #: how many the e-class with most of them has


#: E-nodes by operator and number of operands.
Nodes = Mapping[tuple[str, int], Alike]


def most_matches(rule: RewriteRule, nodes: Nodes, either: Set[str] = frozenset()) -> int:
    """An upper bound of the matches of a single-pattern rule: conditions and repeated variables are not looked at.
    The pattern nodes in ``either`` are matched in both orders of their operands."""
    patterns = {n.result: n for n in rule.source.nodes}
    by_class: dict[str, Counter[Hashable]] = {}

    def count(pattern: PatternNode) -> Counter[Hashable]:
        """Matches of a pattern by e-class."""
        if pattern.result not in by_class:
            operands = [count(patterns[a]) if a in patterns else None for a in pattern.args]
            found: Counter[Hashable] = Counter()
            alike = nodes.get((pattern.op, len(pattern.args)))
            orders = (operands, operands[::-1]) if pattern.result in either else (operands,)
            for own, children in alike.nodes if alike is not None else ():
                for order in orders:
                    matches = prod(
                        1 if below is None else below[c] for c, below in zip(children, order, strict=True)
                    )
                    if matches:
                        found[own] += matches
            by_class[pattern.result] = found
        return by_class[pattern.result]

    return sum(count(patterns[rule.source.outputs[0]]).values()) if patterns else 0


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
    return {key: Alike(nodes, max(Counter(own for own, _ in nodes).values())) for key, nodes in found.items()}
