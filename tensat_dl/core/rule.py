"""Rewrite rules as data: both sides are flat patterns, one operator per node, with resolved attributes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from tensat_dl.core import expression as ex
from tensat_dl.core.diagnostics import Span
from tensat_dl.core.expression import base_of, is_every, member


@dataclass(frozen=True, slots=True)
class Fixed:
    """An attribute given by a literal or a word: its value, of the declared type."""

    value: Any


@dataclass(frozen=True, slots=True)
class Variable:
    """An attribute given by a variable. In a source, the first place of a variable binds it."""

    name: str


@dataclass(frozen=True, slots=True)
class Computed:
    """An attribute given by an expression or a preset. In a source, the matched value is compared with it."""


@dataclass(frozen=True, slots=True)
class Elements:
    """A list given element by element."""

    items: tuple[Fixed | Variable | Computed, ...]


AttrPattern = Fixed | Variable | Elements | Computed


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute of a pattern node: ``pattern`` matches its value, the expression ``value`` computes it."""

    name: str
    value: ex.Expr
    pattern: AttrPattern

    def variables(self) -> Iterator[str]:
        """The variables that stand for the value or for an element of it."""
        items = self.pattern.items if isinstance(self.pattern, Elements) else (self.pattern,)
        yield from (item.name for item in items if isinstance(item, Variable))

    def bound(self, value: Any) -> dict[str, Any]:
        """The values of these variables, if the attribute has this value."""
        match self.pattern:
            case Variable(name):
                return {name: value}
            case Elements(items):
                pairs = zip(items, value, strict=True)
                return {item.name: v for item, v in pairs if isinstance(item, Variable)}
        return {}


@dataclass(frozen=True, slots=True)
class PatternNode:
    """``result = op(args; attrs)``. Arguments and results are names; an argument is a variable unless it is the
    result of another node of the same side (or, on the right, a name of the left).

    In a group or list rule ``each`` is the index name of a node that exists once per member; a name that varies by
    member is in `RewriteRule.members`, and an argument ``w[..]`` stands for all members' ``w``.
    """

    result: str
    op: str
    args: tuple[str, ...]
    attrs: tuple[Attribute, ...]
    each: str | None
    span: Span


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a rule. ``lets`` are names of integers and lists, in order; ``outputs`` the matched outputs'
    names on this side, in the order of the rule's outputs."""

    nodes: tuple[PatternNode, ...]
    outputs: tuple[str, ...]
    lets: tuple[tuple[str, ex.Expr], ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class RewriteRule:
    """source => target, for all values of the variables that meet ``conditions``.

    A *list rule* takes lists of any length as operands in its source; a *group rule* merges as many nodes as have an
    operand in common. Both are instantiated for a number of members (see `tensat_dl.rewrite.groups`).
    """

    name: str
    source: Side
    target: Side
    conditions: tuple[ex.Expr, ...]
    members: frozenset[str]  #: names that vary by member; empty unless this is a group or list rule
    index: str | None  #: the index name of the members
    doc: str
    span: Span
    declared: str  #: the name of the declared rule: ``f`` for ``f-back``, a ``<=>`` from right to left
    count: int | None = None  #: the number of members that this is an instance for

    def __repr__(self) -> str:
        return f"<RewriteRule {self.key}>"

    @property
    def kind(self) -> Literal["single", "multi", "group"]:
        if self.index is not None and not self.takes_lists:
            return "group"
        return "single" if len(self.source.outputs) == 1 else "multi"

    @property
    def takes_lists(self) -> bool:
        """Whether this is a list rule."""
        return any(is_every(a) for n in self.source.nodes for a in n.args)

    @property
    def key(self) -> str:
        """The name, with the number of members of an instance."""
        return self.name if self.count is None else member(self.name, self.count)

    @property
    def content(self) -> str:
        """The text of what the rule says: its name, its places and comments make no difference."""
        sides = [
            ([(n.result, n.op, n.args, n.attrs, n.each) for n in side.nodes], side.outputs, side.lets)
            for side in (self.source, self.target)
        ]
        return repr((sides, self.conditions, sorted(self.members), self.index, self.count))

    @property
    def nodes(self) -> tuple[PatternNode, ...]:
        """The nodes of both sides."""
        return (*self.source.nodes, *self.target.nodes)

    @property
    def member_outputs(self) -> list[str]:
        """The outputs that each member of a group has."""
        return [o for o in self.source.outputs if o in self.members]

    def tensor_variables(self) -> tuple[str, ...]:
        """Variables of the source that stand for tensors, in the order of their first use."""
        bound = {n.result for n in self.source.nodes}
        names = [base_of(a) if is_every(a) else a for n in self.source.nodes for a in n.args]
        names += list(self.source.outputs)
        return tuple(dict.fromkeys(a for a in names if a not in bound))
