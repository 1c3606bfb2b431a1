"""The paper's way of applying multi-pattern rules (algorithm 1), up to the matches that it would apply.

The S-expressions of all source patterns are made canonical, so that those which differ in their variables' names
alone are searched for once. For every rule the matches found are given the rule's own names again, and of the
Cartesian product of the lists those combinations are kept which agree on the variables that they share.

`Product` enumerates the product, as the paper does; `hash_join` finds the same by looking shared values up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from tensat_dl.core.egraph import EGraph
from tensat_dl.core.graph import Graph
from tensat_dl.core.rule import (
    Attribute,
    AttrPattern,
    Computed,
    Elements,
    Fixed,
    PatternNode,
    RewriteRule,
    Side,
    Variable,
)
from tensat_dl.ops.table import OpTable
from tensat_dl.rewrite.classes import EGraphTerms
from tensat_dl.rewrite.matcher import Pattern

#: What a rule's names stand for in a match: e-classes, and values of attributes.
Substitution = dict[str, Any]


class Unsupported(Exception):
    """A pattern has an attribute that is given by an expression."""


@dataclass(frozen=True)
class Canonical:
    """A source pattern whose variables are numbers in the order in which they occur. E-classes of operators are
    variables as well, so that a match says what they are."""

    nodes: tuple[Any, ...]  #: result, operator, arguments and attributes of each
    variables: int
    pattern: Pattern = field(compare=False)

    def matches(self, terms: EGraphTerms) -> list[tuple[Any, ...]]:
        """The values of the variables in each match."""
        names = list(map(str, range(self.variables)))
        found = ({**m.tensors, **m.attrs} for m in self.pattern.matches(terms))
        return list(dict.fromkeys(tuple([values[n] for n in names]) for values in found))


def canonical(rule: RewriteRule, output: str, ops: OpTable) -> tuple[Canonical, tuple[str, ...]]:
    """The pattern of one of a rule's matched outputs, and the rule's names of its variables in order.

    Raises `Unsupported`.
    """
    nodes = {n.result: n for n in rule.source.nodes}
    numbers: dict[str, str] = {}
    out: list[PatternNode] = []

    def number(name: str) -> str:
        return numbers.setdefault(name, str(len(numbers)))

    def visit(node: PatternNode) -> None:
        result, args = number(node.result), tuple(map(number, node.args))
        given = {a.name: a for a in node.attrs}
        attrs = [_renamed(given[a.name], node, number) for a in ops[node.op].attrs if a.name in given]
        out.append(replace(node, result=result, args=args, attrs=tuple(attrs)))
        for a in dict.fromkeys(node.args):
            if a in nodes:
                visit(nodes[a])

    visit(nodes[output])
    pattern = Pattern(replace(rule, source=Side(tuple(out), (numbers[output],))), ops)
    key = tuple(
        (n.result, n.op, n.args, frozenset(pattern.shapes[n.result].tests), n.result in pattern.either)
        for n in out
    )
    return Canonical(key, len(numbers), pattern), tuple(numbers)


def _renamed(attribute: Attribute, node: PatternNode, number: Callable[[str], str]) -> Attribute:
    def change(pattern: AttrPattern) -> Any:
        match pattern:
            case Fixed():
                return pattern
            case Variable(name):
                return Variable(number(name))
            case Elements(items):
                return Elements(tuple(map(change, items)))
            case Computed():
                raise Unsupported(f"{node.op}: {attribute.name} = {attribute.value.span.text}")

    return replace(attribute, pattern=change(attribute.pattern))


class SourcePatterns:
    """The source patterns of rules, each canonical one once."""

    def __init__(self, rules: Sequence[RewriteRule], ops: OpTable) -> None:
        self.ops = ops
        self.of_rule: dict[str, list[tuple[Canonical, tuple[str, ...]]]] = {
            rule.name: [canonical(rule, output, ops) for output in rule.source.outputs] for rule in rules
        }
        self.distinct = tuple(dict.fromkeys(p for found in self.of_rule.values() for p, _ in found))

    def search(self, egraph: EGraph) -> dict[Canonical, list[tuple[Any, ...]]]:
        """All matches of every canonical pattern."""
        terms = EGraphTerms(egraph, Graph("", (), ()), self.ops)  # conditions alone ask for the graph
        return {pattern: pattern.matches(terms) for pattern in self.distinct}

    def decanonical(
        self, rule: RewriteRule, found: dict[Canonical, list[tuple[Any, ...]]]
    ) -> list[list[Substitution]]:
        """The match list of each of a rule's source patterns, under the rule's names."""
        return [
            [dict(zip(names, match, strict=True)) for match in found[pattern]]
            for pattern, names in self.of_rule[rule.name]
        ]


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
    """The result of `Product`, by look-ups of the values of shared variables."""
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
