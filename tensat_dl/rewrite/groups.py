"""Group and list rules for a given number of members, as ordinary rules.

The elements of a list are its members: a list rule for n elements is instantiated as a group rule for n members is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tensat_dl.core import expression as ex
from tensat_dl.core.diagnostics import Span
from tensat_dl.core.expression import base_of, index_of, is_every, member, names_of, with_name
from tensat_dl.core.rule import AttrPattern, Computed, PatternNode, RewriteRule, Side, Variable
from tensat_dl.rewrite.conditions import is_about_ranks


@dataclass(frozen=True, slots=True)
class Member:
    """Handles, by name, of the tensors that vary by member, outputs included."""

    tensors: tuple[tuple[str, int], ...]

    def __getitem__(self, name: str) -> int:
        for own, handle in self.tensors:  # a dictionary takes longer to make than these few to compare
            if own == name:
                return handle
        raise KeyError(name)


@dataclass
class Group:
    """Members that share ``shared`` (handles by name) and ``attrs`` (values by variable)."""

    shared: dict[str, int]
    attrs: dict[str, Any]
    members: list[Member] = field(default_factory=list)

    def of(self, members: Sequence[Member]) -> Group:
        """The group of these members alone."""
        return Group(self.shared, self.attrs, list(members))

    @property
    def names(self) -> dict[str, int]:
        """The handles by the names that the rule for so many members has: ``w[0]``, ``w[1]`` and so on."""
        varying = ((member(n, k), h) for k, m in enumerate(self.members) for n, h in m.tensors)
        return {**self.shared, **dict(varying)}


def instantiate(rule: RewriteRule, n: int) -> RewriteRule:
    """A group or list rule as the rule for exactly ``n`` members. A condition that names the index holds for each."""
    assert rule.index is not None
    index = rule.index

    def nodes(side: Side) -> Iterable[PatternNode]:
        # A per-member statement stands for n nodes; they follow one another.
        for node in side.nodes:
            for k in range(n) if node.each is not None else (None,):
                yield _for_member(node, rule, k, n)

    def outputs(side: Side) -> tuple[str, ...]:
        return tuple(
            x for o in side.outputs for x in ([member(o, k) for k in range(n)] if o in rule.members else [o])
        )

    conditions: list[ex.Expr] = []
    for c in rule.conditions:
        per_member = any(name.id == index for name in names_of(c))
        conditions += [with_index(c, index, k) for k in range(n)] if per_member else [c]
    return replace(
        rule,
        source=Side(tuple(nodes(rule.source)), outputs(rule.source)),
        target=Side(tuple(nodes(rule.target)), outputs(rule.target), rule.target.lets),
        conditions=tuple(conditions),
        members=frozenset(),
        index=None,
        count=n,
    )


def lengths(rule: RewriteRule, arities: Collection[tuple[str, int]]) -> list[int]:
    """The lengths of lists for which a list rule can match nodes of these operators and numbers of operands."""
    taken = [(n.op, sum(map(is_every, n.args)), len(n.args)) for n in rule.source.nodes]
    possible = {
        (arity - written + lists) // lists
        for op, lists, written in taken
        for other, arity in arities
        if lists and op == other
    }
    return sorted(
        n
        for n in possible
        if n > 0 and all((op, written - lists + n * lists) in arities for op, lists, written in taken)
    )


def instances(rule: RewriteRule, arities: Collection[tuple[str, int]]) -> list[RewriteRule]:
    """The instances of a list rule that can match nodes of these operators and numbers of operands; any other rule as
    it is."""
    return [listed(rule, n) for n in lengths(rule, arities)] if rule.takes_lists else [rule]


def listed(rule: RewriteRule, n: int) -> RewriteRule:
    """A list rule for lists of length ``n``."""
    return instantiate(replace(rule, conditions=(*rule.conditions, *alike(rule))), n)


def alike(rule: RewriteRule) -> tuple[ex.Expr, ...]:
    """The conditions that the elements of each list of a list rule have one rank; none for other rules."""
    if rule.index is None or not rule.takes_lists:
        return ()

    def rank(of: str, k: ex.Expr, span: Span) -> ex.Expr:
        element = ex.Index(ex.Name(of, span=span), k, span=span)
        return ex.Call("rank", (element,), (), span, span=span)

    found = []
    for name in rule.tensor_variables():
        if name in rule.members:
            span = next(n.span for n in rule.source.nodes if name in map(base_of, n.args))
            first = rank(name, ex.Const(0, "int", "0", span=span), span)
            found.append(ex.Binary("==", rank(name, ex.Name(rule.index, span=span), span), first, span=span))
    return tuple(found)


def lists_apart(rule: RewriteRule) -> RewriteRule:
    """A group or list rule in which a list is the only operand of its operator: [a [b1 b2 ..]] for [a b1 b2 ..]."""

    def nodes(side: Side) -> Iterable[PatternNode]:
        for node in side.nodes:
            args = list(node.args)
            for k, a in enumerate(args):
                if is_every(a) and len(args) > 1:
                    args[k] = f"{node.result}.{k}"
                    yield replace(node, result=args[k], args=(a,))
            yield replace(node, args=tuple(args))

    source, target = (replace(side, nodes=tuple(nodes(side))) for side in (rule.source, rule.target))
    return replace(rule, source=source, target=target)


def one_member(rule: RewriteRule) -> RewriteRule:
    """A group or list rule for a single member, without conditions that ask for more than ranks: it builds what the
    rule builds, of the same ranks. Any other rule as it is."""
    if rule.index is None:
        return rule
    alone = instantiate(rule, 1)
    return replace(alone, conditions=tuple(c for c in alone.conditions if is_about_ranks(c)))


def _for_member(node: PatternNode, rule: RewriteRule, k: int | None, n: int) -> PatternNode:
    args: list[str] = []
    for a in node.args:
        if is_every(a):
            args += [member(base_of(a), j) for j in range(n)]
        elif a in rule.members and k is not None:
            args.append(member(a, k))
        else:
            args.append(a)
    if k is None:
        return replace(node, args=tuple(args), each=None)
    assert rule.index is not None
    index = rule.index

    def pattern(of: AttrPattern) -> AttrPattern:
        if isinstance(of, Variable) and index_of(of.name) == index:
            return Variable(member(base_of(of.name), k))
        return Computed() if of == Variable(index) else of

    attrs = tuple(
        replace(a, value=with_index(a.value, index, k), pattern=pattern(a.pattern)) for a in node.attrs
    )
    return PatternNode(member(node.result, k), node.op, tuple(args), attrs, None, node.span)


def with_index(tree: Any, index: str, k: int) -> Any:
    """An expression with the name ``index`` replaced by k, except where an inner ``for`` rebinds it."""
    return with_name(tree, index, lambda span: ex.Const(k, "int", str(k), span=span))
