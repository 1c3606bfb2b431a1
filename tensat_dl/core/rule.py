"""Rewrite rules in the form that the compiler uses: both sides flattened to one operator per node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tensat_dl.core import expression as ex
from tensat_dl.core.source import Span


@dataclass(frozen=True, slots=True)
class PatternNode:
    """``result = op(args; attrs)``. Arguments and results are names; an argument is a variable unless it is the
    result of another node of the same side (or, on the right, a name of the left).

    In a group rule ``each`` is the index name of a node that exists once per member; a name that varies by
    member is in `RewriteRule.members`, and an argument ``w[..]`` stands for all members' ``w``.
    """

    result: str
    op: str
    args: tuple[str, ...]
    attrs: tuple[ex.KeywordArg, ...]
    each: str | None
    span: Span


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a rule. ``lets`` are names of integers and lists, in order; ``outputs`` the matched outputs'
    names on this side, in the order of the rule's outputs."""

    nodes: tuple[PatternNode, ...]
    outputs: tuple[str, ...]
    lets: tuple[tuple[str, ex.Expr], ...] = ()


@dataclass(frozen=True, slots=True)
class RewriteRule:
    """source => target, for values of the variables that meet ``conditions``."""

    name: str
    source: Side
    target: Side
    conditions: tuple[ex.Expr, ...]
    members: frozenset[str]  #: names that vary by member; empty unless this is a group rule
    index: str | None  #: the group's index name
    doc: str
    span: Span
    declared: (
        str  #: the name of the rule that says so: ``f`` for ``f-back``, which is a ``<=>`` from right to left
    )

    @property
    def kind(self) -> Literal["single", "multi", "group"]:
        if self.index is not None:
            return "group"
        return "single" if len(self.source.outputs) == 1 else "multi"

    def tensor_variables(self) -> tuple[str, ...]:
        """Variables of the source that stand for tensors, in the order of their first use."""
        bound = {n.result for n in self.source.nodes}
        names = [a for n in self.source.nodes for a in n.args]
        names += list(self.source.outputs)
        return tuple(dict.fromkeys(a for a in names if a not in bound))
