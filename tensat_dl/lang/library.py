"""The library: the operator table and the rule packs, as operators and rewrites.

Reading its text takes longer than most runs, so what comes of it is kept for each user (`tensat_dl.kept`). Every file
is a pickle of its own: a run takes the packs that it needs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import lark

from tensat_dl import resources
from tensat_dl.core.diagnostics import Diagnostic, Span, TsrError, collected
from tensat_dl.core.rule import RewriteRule
from tensat_dl.kept import code_digest, digest_of, kept
from tensat_dl.lang import ast
from tensat_dl.lang.declare import declare
from tensat_dl.lang.families import each_rule
from tensat_dl.lang.load import read_source
from tensat_dl.lang.parser import parse
from tensat_dl.lang.rules import compositions, resolve_rule
from tensat_dl.ops.table import OpDecl, OpTable
from tensat_dl.pickles import pickled, unpickled

#: The name of the operator table among the kept files, with the rules that its compositions stand for.
_OPERATORS = ""


@dataclass(frozen=True, slots=True)
class LibraryRule:
    """A rule of a pack, as the rewrites that it declares."""

    name: str
    both: bool
    name_span: Span
    rewrites: tuple[RewriteRule, ...]


#: An item of a file of the library that files which import it can use.
LibraryItem = ast.Import | OpDecl | LibraryRule


def folder() -> Path:
    """The folder of the operator table and the rule packs."""
    return resources.rules().resolve()


def table() -> Path:
    """The operator table."""
    return folder() / "ops.tsr"


def packs() -> list[str]:
    """The names of the library's rule packs."""
    return sorted(p.stem for p in _files() if p != table())


def packs_with(rule: str) -> list[str]:
    """The packs of the library that declare a rule, in whichever direction."""
    return [
        name
        for name in packs()
        if any(rule == r.name for i in items(f"{name}.tsr") if isinstance(i, LibraryRule) for r in i.rewrites)
    ]


@cache
def library_operators() -> OpTable:
    """The operators of the library, without those of any file."""
    return _operators()[0]


def library_compositions() -> tuple[RewriteRule, ...]:
    """The rules that the compositions among them stand for."""
    return _operators()[1]


@cache
def items(name: str) -> tuple[LibraryItem, ...]:
    """The items of a file of the library, by its name."""
    found: tuple[LibraryItem, ...] = unpickled(_library()[name])
    return found


@cache
def _operators() -> tuple[OpTable, tuple[RewriteRule, ...]]:
    found: tuple[OpTable, tuple[RewriteRule, ...]] = unpickled(_library()[_OPERATORS])
    return found


@cache
def _library() -> dict[str, bytes]:
    """The pickle of every file by its name. Raises `TsrError` with all errors of the library."""
    code = code_digest("core", "lang", "ops")
    text = digest_of([*_files(), resources.grammar()])
    return kept("library", f"{code[:16]}-{text[:16]}-{lark.__version__}", _read)


def _files() -> list[Path]:
    return sorted(folder().glob("*.tsr"))


def _read() -> dict[str, bytes]:
    problems: list[Diagnostic] = []
    declared: list[OpDecl] = []
    parsed: dict[str, list[ast.Import | ast.Rule | OpDecl]] = {}
    for path in _files():
        with collected(problems):
            found = parsed[path.name] = []
            for item in each_rule(parse(read_source(str(path), f"rules/{path.name}")).items):
                if isinstance(item, ast.Import | ast.Rule):
                    found.append(item)
                elif isinstance(item, ast.Op):
                    found.append(declare(item))
            declared += (i for i in found if isinstance(i, OpDecl))
    ops = OpTable(declared)
    out: dict[str, Iterable[LibraryItem] | tuple[OpTable, tuple[RewriteRule, ...]]] = {}
    with collected(problems):
        out[_OPERATORS] = ops, tuple(compositions(declared, ops))
    for name, its_items in parsed.items():
        resolved: list[LibraryItem] = []
        for one in its_items:
            with collected(problems):
                resolved.append(_resolved(one, ops) if isinstance(one, ast.Rule) else one)
        out[name] = tuple(resolved)
    if problems:
        raise TsrError(problems)
    return {name: pickled(value) for name, value in out.items()}


def _resolved(rule: ast.Rule, ops: OpTable) -> LibraryRule:
    return LibraryRule(rule.name, rule.both, rule.name_span, tuple(resolve_rule(rule, ops)))
