"""The operators and rules of the library, resolved once: they do not depend on the file that imports them."""

from __future__ import annotations

from functools import cache

from tensat_dl.core.rule import RewriteRule
from tensat_dl.lang import ast
from tensat_dl.lang.declare import declare
from tensat_dl.lang.imports import Items, table
from tensat_dl.lang.rules import compositions, resolve_rule
from tensat_dl.ops.table import OpTable

#: Rules of the library's files, which are parsed once, by identity. The rule is kept, so that its id stays its own.
_RESOLVED: dict[int, tuple[ast.Rule, list[RewriteRule]]] = {}


@cache
def library_operators() -> OpTable:
    """The operators of the library, without those of any file."""
    items = Items(table())
    items.add(table())
    return OpTable(map(declare, items.ops.values()))


@cache
def library_compositions() -> tuple[RewriteRule, ...]:
    """The rules that the compositions among them stand for."""
    ops = library_operators()
    return tuple(compositions(ops.values(), ops))


def library_rule(rule: ast.Rule) -> list[RewriteRule]:
    """The rewrites that a rule of a file of the library declares."""
    if id(rule) not in _RESOLVED:
        _RESOLVED[id(rule)] = rule, resolve_rule(rule, library_operators())
    return _RESOLVED[id(rule)][1]
