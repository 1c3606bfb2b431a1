"""Rules that may be meant by one with literals: the same with a variable in place of a literal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tensat_dl.core import expression as ex
from tensat_dl.core.rule import Attribute, Fixed, PatternNode, RewriteRule, Variable
from tensat_dl.ops.table import AttrDecl, OpTable


def loosened(rule: RewriteRule, ops: OpTable) -> Iterator[tuple[str, RewriteRule]]:
    """For each attribute of the source that is a literal, as in ``act = none``, the attribute as it is written and a
    more general rule that may be meant. A variable stands for the literal there alone, or wherever it is the value of
    an attribute of this name, on both sides; the last condition is that the variable is the literal."""
    done = set()
    for node in rule.source.nodes:
        for attribute in node.attrs:
            a = ops[node.op][attribute.name]
            # the shape of a number in a pattern is not written, and follows from what it is applied to
            if not isinstance(attribute.pattern, Fixed) or (node.op, a.name) == ("fill", "shape"):
                continue
            value = attribute.value
            name = ex.Name(f"any {a.name}", span=value.span)
            condition = ex.Binary("==", name, _whole(value, a), span=value.span)
            alone = replace(rule.source, nodes=_replaced(rule.source.nodes, (node,), attribute, name))
            general = [replace(rule, source=alone)]
            if (attribute.name, value) not in done:
                done.add((attribute.name, value))
                source, target = (
                    replace(side, nodes=_replaced(side.nodes, side.nodes, attribute, name))
                    for side in (rule.source, rule.target)
                )
                general.append(replace(rule, source=source, target=target))
            for version in general:
                text = f"{a.name} = {value.span.line}"
                yield text, replace(version, conditions=(*rule.conditions, condition))


def _replaced(
    nodes: Sequence[PatternNode], at: Sequence[PatternNode], old: Attribute, by: ex.Name
) -> tuple[PatternNode, ...]:
    """Nodes with a variable in place of an attribute's value in some of them."""
    new = replace(old, value=by, pattern=Variable(by.id))
    return tuple(
        replace(n, attrs=tuple(new if (k.name, k.value) == (old.name, old.value) else k for k in n.attrs))
        if any(n is m for m in at)
        else n
        for n in nodes
    )


def _whole(value: ex.Expr, a: AttrDecl) -> ex.Expr:
    """A literal as a condition writes it: a word as text, a list in full where one number is written for all."""
    if isinstance(value, ex.Name):
        return ex.Const(value.id, "string", value.id, span=value.span)
    if a.length is None or isinstance(value, ex.ListExpr):
        return value
    return ex.ListExpr((value,) * a.length, span=value.span)
