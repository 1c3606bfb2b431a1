"""The paper's way of applying multi-pattern rules (algorithm 1), up to the matches that it would apply.

The S-expressions of all source patterns are made canonical, so that those which differ in their variables' names
alone are searched for once. For every rule the matches found are given the rule's own names again, and of the
Cartesian product of the lists those combinations are kept which agree on the variables that they share.

`Product` enumerates the product, as the paper does; `hash_join` finds the same by looking shared values up.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

from tensat_dl.core.egraph import EGraph
from tensat_dl.core.graph import Attrs
from tensat_dl.core.rule import RewriteRule
from tensat_dl.ops.table import OpTable
from tensat_dl.paper.canonical import Canonical, canonical

#: What a rule's names stand for in a match: e-classes, and values of attributes.
Substitution = dict[str, Any]


class NodeIndex:
    """An e-graph's nodes by operator and number of inputs, and by e-class."""

    def __init__(self, egraph: EGraph) -> None:
        offsets, children = egraph.offsets.tolist(), egraph.children.tolist()
        self.by_op: dict[tuple[str, int], list[tuple[int, Attrs, list[int]]]] = {}
        self.by_class: dict[tuple[str, int, int], list[tuple[int, Attrs, list[int]]]] = {}
        for n, c in enumerate(egraph.node_class.tolist()):
            kids = children[offsets[n] : offsets[n + 1]]
            entry = (c, egraph.attrs[n], kids)
            key = (egraph.op[n], len(kids))
            self.by_op.setdefault(key, []).append(entry)
            self.by_class.setdefault((*key, c), []).append(entry)


class SourcePatterns:
    """The source patterns of rules, each canonical S-expression once."""

    def __init__(self, rules: Sequence[RewriteRule], ops: OpTable) -> None:
        self.of_rule: dict[str, list[tuple[Canonical, tuple[str, ...]]]] = {
            rule.name: [canonical(rule, output, ops) for output in rule.source.outputs] for rule in rules
        }
        self.distinct = tuple(dict.fromkeys(p for found in self.of_rule.values() for p, _ in found))

    def search(self, egraph: EGraph) -> dict[Canonical, list[tuple[Any, ...]]]:
        """All matches of every canonical pattern."""
        index = NodeIndex(egraph)
        return {pattern: list(_matches(pattern, index)) for pattern in self.distinct}

    def decanonical(
        self, rule: RewriteRule, found: dict[Canonical, list[tuple[Any, ...]]]
    ) -> list[list[Substitution]]:
        """The match list of each of a rule's source patterns, under the rule's names."""
        return [
            [dict(zip(names, match, strict=True)) for match in found[pattern]]
            for pattern, names in self.of_rule[rule.name]
        ]


def _matches(pattern: Canonical, index: NodeIndex) -> Iterator[tuple[Any, ...]]:
    """The values of a canonical pattern's variables in each of its matches."""

    def visit(i: int, bound: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        if i == len(pattern.nodes):
            yield bound
            return
        node = pattern.nodes[i]
        key = (node.op, len(node.args))
        candidates = index.by_op.get(key) if i == 0 else index.by_class.get((*key, bound[node.result]))
        for c, attrs, kids in candidates or ():
            values = list(bound)
            values[node.result] = c
            if _bind(zip(node.args, kids, strict=True), values) and _bind(node.attributes(attrs), values):
                yield from visit(i + 1, tuple(values))

    yield from dict.fromkeys(visit(0, (None,) * pattern.variables))


def _bind(pairs: Any, values: list[Any]) -> bool:
    """Sets variables, or compares where they are set. A negative variable never is equal to anything."""
    for variable, value in pairs:
        if variable < 0 or values[variable] not in (None, value):
            return False
        values[variable] = value
    return True


def _shared(lists: Sequence[list[Substitution]]) -> list[tuple[str, ...]]:
    """For each list the variables that an earlier list has, too."""
    seen: dict[str, None] = {}
    out = []
    for matches in lists:
        names = matches[0] if matches else {}
        out.append(tuple(n for n in names if n in seen))
        seen.update(dict.fromkeys(names))
    return out


class Product:
    """The compatible elements of the Cartesian product of match lists, enumerated.

    Every match carries the values of the variables that an earlier list has, so compatibility is one comparison;
    a combination of the first lists that is not compatible is not extended. ``total`` combinations there are;
    ``done`` is the share that was looked at when the enumeration ended, after ``seconds`` at the latest.
    """

    def __init__(self, lists: Sequence[list[Substitution]], seconds: float | None = None) -> None:
        self.lists = lists
        self.seconds = seconds
        self.total = prod(map(len, lists))
        self.done = 0.0 if self.total else 1.0

    def __iter__(self) -> Iterator[Substitution]:
        deadline = None if self.seconds is None else time.perf_counter() + self.seconds
        if not self.total:
            return
        shared = _shared(self.lists)
        steps = [
            (names, [(tuple(m[v] for v in names), m) for m in matches])
            for matches, names in zip(self.lists[1:], shared[1:], strict=True)
        ]
        first = self.lists[0]
        for i, match in enumerate(first):
            yield from _extend(match, steps)
            self.done = (i + 1) / len(first)
            if deadline is not None and time.perf_counter() > deadline:
                return


def _extend(left: Substitution, steps: Sequence[Any]) -> Iterator[Substitution]:
    if not steps:
        yield left
        return
    (names, matches), *rest = steps
    wanted = tuple(left[v] for v in names)
    for key, right in matches:
        if key == wanted:
            yield from _extend({**left, **right}, rest)


def hash_join(lists: Sequence[list[Substitution]]) -> Iterator[Substitution]:
    """What `Product` finds, by looking the values of shared variables up in tables."""
    shared = _shared(lists)
    tables: list[dict[tuple[Any, ...], list[Substitution]]] = []
    for names, matches in zip(shared[1:], lists[1:], strict=True):
        tables.append({})
        for m in matches:
            tables[-1].setdefault(tuple(m[v] for v in names), []).append(m)

    def extend(left: Substitution, i: int) -> Iterator[Substitution]:
        if i == len(tables):
            yield left
            return
        for right in tables[i].get(tuple(left[v] for v in shared[i + 1]), ()):
            yield from extend({**left, **right}, i + 1)

    for match in lists[0]:
        yield from extend(match, 0)
