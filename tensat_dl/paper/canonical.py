"""Canonical S-expressions: source patterns whose variables are numbered in the order in which they occur."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tensat_dl.core.graph import Attrs
from tensat_dl.core.rule import AttrPattern, Elements, Fixed, PatternNode, RewriteRule, Variable
from tensat_dl.ops.table import OpTable
from tensat_dl.ops.typing import defaults

#: How an attribute is matched: by a constant, by the variable of that number, or element by element.
Spec = tuple[str, Any]


class Unsupported(Exception):
    """A pattern has an attribute that is given by an expression."""


@dataclass(frozen=True, slots=True)
class CanonicalNode:
    """``result = op(args; attrs)`` with variables as numbers."""

    result: int
    op: str
    args: tuple[int, ...]
    attrs: tuple[tuple[str, Spec], ...]

    def attributes(self, actual: Attrs) -> Iterator[tuple[int, Any]]:
        """Variables and the values that an e-node's attributes give them; variable -1 for a constant that
        differs."""
        for (_, spec), (_, value) in zip(self.attrs, actual, strict=True):
            yield from _bindings(spec, value)


def _bindings(spec: Spec, value: Any) -> Iterator[tuple[int, Any]]:
    kind, what = spec
    if kind == "variable":
        yield what, value
    elif kind == "list":
        for s, v in zip(what, value, strict=True):
            yield from _bindings(s, v)
    elif what != value:
        yield -1, value


@dataclass(frozen=True, slots=True)
class Canonical:
    """A tree of operators, each before its operands."""

    nodes: tuple[CanonicalNode, ...]
    variables: int


def canonical(rule: RewriteRule, output: str, ops: OpTable) -> tuple[Canonical, tuple[str, ...]]:
    """The S-expression of one of a rule's matched outputs, and the rule's names of its variables in order.

    E-classes of operators are variables as well, so that a match says what they are. Raises `Unsupported`.
    """
    nodes = {n.result: n for n in rule.source.nodes}
    numbers: dict[str, int] = {}
    out: list[CanonicalNode] = []

    def number(name: str) -> int:
        return numbers.setdefault(name, len(numbers))

    def visit(node: PatternNode) -> None:
        result = number(node.result)
        args = tuple(number(a) for a in node.args)
        out.append(CanonicalNode(result, node.op, args, tuple(_attributes(node, ops, number))))
        for a in dict.fromkeys(node.args):
            if a in nodes:
                visit(nodes[a])

    visit(nodes[output])
    return Canonical(tuple(out), len(numbers)), tuple(numbers)


def _attributes(node: PatternNode, ops: OpTable, number: Any) -> Iterator[tuple[str, Spec]]:
    given = {a.name: a for a in node.attrs}
    usual = defaults(ops[node.op])
    for a in ops[node.op].attrs:
        attribute = given.get(a.name)
        if attribute is None:
            yield a.name, ("is", usual[a.name])
            continue
        try:
            yield a.name, _spec(attribute.pattern, number)
        except Unsupported:
            raise Unsupported(f"{node.op}: {a.name} = {attribute.value.span.text}") from None


def _spec(pattern: AttrPattern, number: Any) -> Spec:
    match pattern:
        case Fixed(value):
            return "is", value
        case Variable(name):
            return "variable", number(name)
        case Elements(items):
            return "list", tuple(_spec(item, number) for item in items)
    raise Unsupported
