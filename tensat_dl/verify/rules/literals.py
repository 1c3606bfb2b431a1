"""Conditions that are written as attributes: ``act = none`` in a source is ``act = f`` where f == none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tensat_dl.core import expression as ex
from tensat_dl.core.rule import Fixed, PatternNode, RewriteRule, Side, Variable
from tensat_dl.ops.table import AttrDecl, OpTable


@dataclass(frozen=True, slots=True)
class Loosened:
    """A rule in which a variable stands for a literal, with the condition that it is that literal as its last.
    ``text`` is the attribute as it is written."""

    text: str
    rule: RewriteRule


def loosened(rule: RewriteRule, ops: OpTable) -> Iterator[tuple[Loosened, ...]]:
    """For each attribute of the source that is a literal, the more general rules that may be meant: the literal is
    replaced there alone, or wherever it is the value of an attribute of this name, on both sides."""
    done = set()
    for i, node in enumerate(rule.source.nodes):
        for attribute in node.attrs:
            value = attribute.value
            a = ops[node.op].attr(attribute.name)
            assert a is not None
            # the shape of a number in a pattern is not written, and follows from what it is applied to
            if not isinstance(attribute.pattern, Fixed) or (node.op, a.name) == ("fill", "shape"):
                continue
            name = ex.Name(f"any {a.name}", span=value.span)
            condition = ex.Binary("==", name, _whole(value, a), span=value.span)
            text = f"{a.name} = {' '.join(value.span.text.split())}"
            alone = (
                *rule.source.nodes[:i],
                _replaced(node, attribute.name, value, name),
                *rule.source.nodes[i + 1 :],
            )
            versions = [(alone, rule.target.nodes)]
            if (attribute.name, value) not in done:
                both = [
                    tuple(_replaced(n, attribute.name, value, name) for n in side.nodes)
                    for side in (rule.source, rule.target)
                ]
                versions.append((both[0], both[1]))
            done.add((attribute.name, value))
            yield tuple(
                Loosened(
                    text,
                    replace(
                        rule,
                        source=_with(rule.source, source),
                        target=_with(rule.target, target),
                        conditions=(*rule.conditions, condition),
                    ),
                )
                for source, target in versions
            )


def _with(side: Side, nodes: tuple[PatternNode, ...]) -> Side:
    return replace(side, nodes=nodes)


def _replaced(node: PatternNode, attr: str, value: ex.Expr, by: ex.Name) -> PatternNode:
    variable = Variable(by.id)
    attrs = tuple(
        replace(k, value=by, pattern=variable) if (k.name, k.value) == (attr, value) else k
        for k in node.attrs
    )
    return replace(node, attrs=attrs)


def _whole(value: ex.Expr, a: AttrDecl) -> ex.Expr:
    """What a condition compares with: a word as text, a list in full where one number is written for all."""
    if isinstance(value, ex.Name):
        return ex.Const(value.id, "string", value.id, span=value.span)
    if a.length is None or isinstance(value, ex.ListExpr):
        return value
    return ex.ListExpr((value,) * a.length, span=value.span)
