"""A file and what it imports, as one program: operators, rules, blocks, graphs and tests by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tensat_dl.core.diagnostics import Diagnostic, Source, TsrError, collected
from tensat_dl.core.rule import RewriteRule
from tensat_dl.core.words import did_you_mean
from tensat_dl.files import real_path
from tensat_dl.lang import ast
from tensat_dl.lang.blocks import check_blocks, signature
from tensat_dl.lang.declare import Declared, check_declaration, compositions_cycle, declare
from tensat_dl.lang.imports import Items, find, name_span
from tensat_dl.lang.library import LibraryRule, library_compositions, library_operators, packs, table
from tensat_dl.lang.load import read_source
from tensat_dl.lang.rules import compositions, resolve_rule
from tensat_dl.ops.table import OpDecl, OpTable
from tensat_dl.ops.values import FUNCTIONS

#: Names that mean something by themselves in graphs.
BUILT_IN = (*FUNCTIONS, "split", "proj")


@dataclass(frozen=True, slots=True, repr=False)
class Program:
    """Everything that a file says, imports included. ``graphs`` and ``tests`` are the file's own."""

    path: str
    ops: OpTable
    rules: tuple[RewriteRule, ...]
    blocks: dict[str, ast.Block]
    graphs: dict[str, ast.GraphItem]
    tests: tuple[ast.Test, ...]
    own_rules: tuple[str, ...]  #: names of the rules that the file itself declares
    declared: dict[str, Declared]  #: operators that are not the library's
    files: tuple[Path, ...] = ()  #: that it was read from

    def __repr__(self) -> str:
        return f"<Program {self.path}: {len(self.graphs)} graphs, {len(self.rules)} rules>"


def load_program(
    path: str, rules: Sequence[str] = (), source: Source | None = None, option: str = "--rules"
) -> Program:
    """Reads and checks a file ("-": standard input), with further rule packs as if it imported them. ``source``, if
    given, is read in place of the file. ``option`` is the command-line option that names the packs.

    Raises `TsrError` with every problem of operators, rules and names; graphs are checked when elaborated.
    """
    items = _read(path, rules, source, option)
    problems = items.problems
    library = OpTable(()) if items.own == table() else library_operators()
    own: list[OpDecl] = []
    declared = {name: op for name, op in items.ops.items() if isinstance(op, ast.Op)}
    for op in declared.values():
        with collected(problems):
            own.append(declare(op))
    ops = OpTable((*library.values(), *own))
    problems += _names(items)
    problems += compositions_cycle(own)
    if not problems:
        problems += [d for decl in own for d in check_declaration(decl, ops)]
    for block in items.blocks.values():
        with collected(problems):
            signature(block)
    problems += check_blocks(items.blocks)
    for test in items.tests:
        if test.rule not in items.rules:
            near = did_you_mean(test.rule, items.rules) or "a test names the rule that it is about"
            problems.append(Diagnostic(f"no rule `{test.rule}` to test", test.name_span, near))
    resolved: list[RewriteRule] = []
    if len(ops) == len(items.ops):  # else rules would be blamed for operators that are wrong
        for rule in items.rules.values():
            with collected(problems):
                resolved += rule.rewrites if isinstance(rule, LibraryRule) else resolve_rule(rule, ops)
    if problems:
        raise TsrError(_in_order(problems))
    return Program(
        path,
        ops,
        (*resolved, *(library_compositions() if library else ()), *compositions(own, ops)),
        items.blocks,
        items.graphs,
        tuple(items.tests),
        tuple(items.own_rules),
        {name: Declared(ops[name], op) for name, op in declared.items()} if library else {},
        tuple(items.files),
    )


def _read(path: str, rules: Iterable[str], source: Source | None, option: str) -> Items:
    """All items. Raises `TsrError` for a file or pack that is not there."""
    source = source or read_source(path)
    items = Items(real_path(path))
    if items.own != table():
        items.add(table())
    for pack in rules:
        items.add(file_of_pack(pack, option), shown=pack)
    items.add(items.own, source)
    return items


def file_of_pack(pack: str, option: str) -> Path:
    """The file of a rule pack, or of a .tsr file that is named in its place by the ``option``. Raises `TsrError`."""
    found = find(pack, Path.cwd())
    if found is None:
        if pack.endswith(".tsr") or "/" in pack:
            read_source(pack)  # says what is wrong with the path
        near = did_you_mean(pack, packs()) or f"rule packs are {', '.join(packs())}"
        raise TsrError([Diagnostic(f"no rule pack `{pack}`", None, near, path=option)])
    return found


def _in_order(problems: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Problems by file, and within a file by place."""
    found = list(problems)
    files = {d.span.source: i for i, d in reversed([*enumerate(found)]) if d.span is not None}
    return sorted(found, key=lambda d: (files[d.span.source], d.span.start) if d.span else (len(found), 0))


def _names(items: Items) -> Iterator[Diagnostic]:
    """Names that collide across kinds of items, and operators without a meaning."""
    for what, named in (("an operator", items.ops), ("a block", items.blocks)):
        for name, item in named.items():
            if name in BUILT_IN:
                message = f"`{name}` is built in and can't be the name of {what}"
                yield Diagnostic(message, name_span(item))
    for block in items.blocks.values():
        if block.name in items.ops:
            hint = f"it is declared at {name_span(items.ops[block.name]).place}"
            yield Diagnostic(f"`{block.name}` is already an operator", block.name_span, hint)
    for rule in items.rules.values():
        taken = f"{rule.name}-back"
        if rule.both and taken in items.rules:
            other = items.rules[taken].name_span
            yield Diagnostic(f"`{taken}` is the name of `{rule.name}` read from right to left", other)
    for op in items.ops.values():
        of_library = isinstance(op, OpDecl) or items.own == table()
        if op.composition is None and not op.opaque and not of_library:
            hint = f"write `opaque op {op.name}`, or give it a composition: `op {op.name}(..) = ..`"
            yield Diagnostic(f"nothing says what `{op.name}` computes", name_span(op), hint)
