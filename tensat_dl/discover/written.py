"""Equations as rules in the language, with variables in the place of attributes, and as people write them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from tensat_dl.core.diagnostics import Source
from tensat_dl.core.graph import AttrValue, attr_text
from tensat_dl.core.rule import RewriteRule
from tensat_dl.discover.candidates import VARIABLES, Equation, Tree
from tensat_dl.lang.families import each_rule
from tensat_dl.lang.parser import parse
from tensat_dl.lang.printer import print_file
from tensat_dl.lang.rules import resolve_rule
from tensat_dl.ops.table import SIGNS, OpTable

#: How an equation is a rule: in both directions or in one; or, if its left side is a concatenation of two terms, as
#: one with two results, which are parts of the right side.
Arrow = Literal["<=>", "=>", "<=", "merge"]
#: The text of an attribute of a node, which may be the root; None where it is left out.
AttrText = Callable[[Tree, bool, str, AttrValue], str | None]


def pattern(t: Tree, text: AttrText, root: bool = True) -> str:
    """A term as a pattern."""
    if t.variable >= 0:
        return VARIABLES[t.variable]
    if not t.args:
        return literal(dict(t.attrs)["value"])
    given = ((name, text(t, root, name, value)) for name, value in t.attrs)
    attrs = ", ".join(f"{name} = {value}" for name, value in given if value is not None)
    args = ", ".join(pattern(a, text, False) for a in t.args)
    return f"{t.op}({args}; {attrs})" if attrs else f"{t.op}({args})"


def rule_text(
    name: str, c: Equation, arrow: Arrow, text: AttrText, where: Sequence[str], doc: str = ""
) -> str:
    """An equation as a rule. "<=" is the equation from right to left."""
    conditions = f" where {', '.join(where)}" if where else ""
    comment = f"/// {doc}\n" if doc else ""
    if arrow == "merge":
        one, two = (pattern(t, text) for t in c.left.args)
        axis = text(c.left, True, "axis", dict(c.left.attrs)["axis"])
        sizes = f"dim(left, {axis}), dim(right, {axis})"
        source = f"left = {one}\nright = {two}\n{conditions}"
        target = f"whole = {pattern(c.right, text)}\n(left, right) = split(whole; axis = {axis}, sizes = [{sizes}])"
        return f"{comment}rule {name} {{\n{source}\n=>\n{target}\n}}\n"
    left, right = pattern(c.left, text), pattern(c.right, text)
    if arrow == "<=>":
        return f"{comment}rule {name} {{ {left} <=> {right}{conditions} }}\n"
    if arrow == "<=":
        left, right = right, left
    return f"{comment}rule {name} {{ {left}{conditions} => {right} }}\n"


def literal(value: AttrValue) -> str:
    """An attribute's value as it is written in a rule."""
    return f'"{value}"' if isinstance(value, str) and not value.isidentifier() else attr_text(value)


def rewrites(text: str, ops: OpTable) -> list[RewriteRule]:
    """The rewrites of the rules of a text: both directions of a ``<=>``. Raises `TsrError`."""
    items = each_rule(parse(Source("discovered", text)).items)
    return [r for item in items for r in resolve_rule(item, ops)]  # type: ignore[arg-type]


def formatted(text: str) -> str:
    """A file in the canonical format."""
    return print_file(parse(Source("discovered", text)))


def equation(c: Equation, arrow: Arrow = "<=>") -> str:
    """An equation as people write it, without attributes, such as ``x @ y + x @ z = x @ (y + z).``"""
    if arrow == "merge":
        one, two = map(_term, c.left.args)
        return f"{one} and {two} are the two parts of {_term(c.right)}."
    return f"{_term(c.left)} = {_term(c.right)}."


def _term(t: Tree, inside: bool = False) -> str:
    """Sums and products by their signs, concatenations in brackets, activations as functions."""
    if t.variable >= 0:
        return VARIABLES[t.variable]
    if not t.args:
        return f"{dict(t.attrs)['value']:g}"
    act = dict(t.attrs).get("act", "none")
    if act == "none" and t.op in SIGNS and len(t.args) == 2:
        text = f" {SIGNS[t.op]} ".join(_term(a, True) for a in t.args)
        return f"({text})" if inside else text
    args = ", ".join(_term(a) for a in t.args)
    if t.op == "concat":
        return f"[{args}]"
    return f"{t.op}({args})" if act == "none" else f"{t.op}({args}; act = {act})"
