"""Families of rules: ``rule matmul-f for f in relu, tanh { .. }`` is a rule for each word, as if written out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

from tensat_dl.core.diagnostics import Diagnostic, Span, TsrError, written_for
from tensat_dl.core.expression import calls_of, names_of
from tensat_dl.lang import ast


def each_rule(items: Iterable[ast.Item]) -> tuple[ast.Item, ...]:
    """The items with the rules of each family in the family's place. Raises `TsrError`."""
    found: list[ast.Item] = []
    problems: list[Diagnostic] = []
    for item in items:
        if isinstance(item, ast.Rule) and item.family is not None:
            problems += _problems(item, item.family)
            found += (_member(item, item.family, word) for word in item.family.words)
        else:
            found.append(item)
    if problems:
        raise TsrError(problems)
    return tuple(found)


def _problems(rule: ast.Rule, family: ast.Family) -> Iterator[Diagnostic]:
    var, sides = family.var, (rule.left, rule.right)
    if var not in rule.name.split("-"):
        message = f"the rules of the family `{rule.name}` would all have this name"
        yield Diagnostic(message, rule.name_span, f"write `{var}` as a part of it: `{rule.name}-{var}`")
    used = {n.id for n in names_of(sides)} | {c.fn for c in calls_of(sides)}
    if var not in used:
        yield Diagnostic(f"`{var}` does not occur in the rule", family.span, "remove it, or use it")
    for statement in (*rule.left.stmts, *rule.right.stmts):
        for target in statement.targets:
            if target.name == var:
                message = f"`{var}` stands for {', '.join(w.id for w in family.words)} here, and can't name a result"
                yield Diagnostic(message, target.span, "rename one of the two")
    for i, word in enumerate(family.words):
        if word in family.words[:i]:
            yield Diagnostic(f"`{word.id}` is listed twice", word.span)


def _member(rule: ast.Rule, family: ast.Family, word: ast.Name) -> ast.Rule:
    """The rule with ``word`` in the place of the family's variable. Messages about the word point at it."""
    doc = written_for(rule.doc, family.var, word.id)
    member: ast.Rule = _written(rule, family.var, word)
    return replace(member, name=member.name_span.text, doc=doc)


def _written(tree: Any, var: str, word: ast.Name) -> Any:
    match tree:
        case Span():
            return replace(tree, word=(var, word.id))
        case ast.Name(id) if id == var:
            return word
        case ast.Call(fn) if fn == var:
            args, attrs, span = (_written(part, var, word) for part in (tree.args, tree.attrs, tree.span))
            return ast.Call(word.id, args, attrs, word.span, span=span)
        case tuple():
            return tuple(_written(part, var, word) for part in tree)
    if not is_dataclass(tree) or isinstance(tree, type | ast.Family):
        return tree
    return replace(tree, **{f.name: _written(getattr(tree, f.name), var, word) for f in fields(tree)})
