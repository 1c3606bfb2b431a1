"""A file and what it imports, as one program: operators, rules, blocks, graphs and tests by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from tensat_dl import resources
from tensat_dl.ir.rule import RewriteRule
from tensat_dl.lang import ast
from tensat_dl.lang.diagnostics import Diagnostic, TsrError, did_you_mean
from tensat_dl.lang.load import read_source
from tensat_dl.lang.parser import parse
from tensat_dl.lang.rules import compositions, resolve_rule
from tensat_dl.lang.source import Source, Span
from tensat_dl.ops.table import OpDecl, OpTable, declare


@dataclass(frozen=True, slots=True)
class Program:
    """Everything that a file says, imports included. ``graphs`` and ``tests`` are the file's own."""

    path: str
    ops: OpTable
    rules: tuple[RewriteRule, ...]
    blocks: dict[str, ast.Block]
    graphs: dict[str, ast.GraphItem]
    tests: tuple[ast.Test, ...]
    own_rules: tuple[str, ...]  #: names of the rules that the file itself declares
    declared: dict[str, ast.Op]  #: operators that are not the library's
    warnings: tuple[Diagnostic, ...] = ()


Named = TypeVar("Named", ast.Op, ast.Rule, ast.Block, ast.GraphItem)


@dataclass
class _Loader:
    """Collects items over all imported files, each file once."""

    own: Path
    problems: list[Diagnostic] = field(default_factory=list)
    ops: dict[str, ast.Op] = field(default_factory=dict)
    rules: dict[str, ast.Rule] = field(default_factory=dict)
    blocks: dict[str, ast.Block] = field(default_factory=dict)
    graphs: dict[str, ast.GraphItem] = field(default_factory=dict)
    tests: list[ast.Test] = field(default_factory=list)
    own_rules: list[str] = field(default_factory=list)
    done: set[Path] = field(default_factory=set)
    open: list[Path] = field(default_factory=list)

    def file(self, source: Source, path: Path) -> None:
        """Adds a file's items, imported ones first. A file that does not parse adds its errors."""
        self.done.add(path)
        self.open.append(path)
        try:
            tree = parse(source)
        except TsrError as e:
            self.problems += e.diagnostics
            self.open.pop()
            return
        for item in tree.items:
            match item:
                case ast.Import(target):
                    self.imported(target, item.span, path)
                case ast.Op():
                    self.named(item, self.ops, "operator")
                case ast.Rule():
                    if self.named(item, self.rules, "rule") and path == self.own:
                        self.own_rules.append(item.name)
                case ast.Block():
                    self.named(item, self.blocks, "block")
                case ast.GraphItem():
                    if path == self.own:
                        self.named(item, self.graphs, "graph")
                case ast.Test():
                    if path == self.own:
                        self.tests.append(item)
        self.open.pop()

    def named(self, item: Named, known: dict[str, Named], what: str) -> bool:
        first = known.get(item.name)
        if first is None:
            known[item.name] = item
            return True
        where = first.name_span.source
        line, _ = where.position(first.name_span.start)
        hint = f"the first one is at {where.path}:{line}"
        self.problems.append(Diagnostic(f"{what} `{item.name}` is declared twice", item.name_span, hint))
        return False

    def imported(self, target: str, span: Span, importer: Path) -> None:
        path = find_pack(target, importer.parent)
        if path is None:
            packs = sorted(p.stem for p in resources.rules().glob("*.tsr") if p.stem != "ops")
            near = did_you_mean(target, packs)
            hint = near or (
                f'rule packs are {", ".join(packs)}; files are written "./name.tsr"' if packs else ""
            )
            self.problems.append(Diagnostic(f'nothing to import: "{target}"', span, hint))
        elif path in self.open:
            chain = " -> ".join(p.name for p in [*self.open[self.open.index(path) :], path])
            self.problems.append(Diagnostic(f"imports form a cycle: {chain}", span))
        elif path not in self.done:
            try:
                self.file(read_source(str(path)), path)
            except TsrError as e:
                self.problems += e.diagnostics


def find_pack(target: str, folder: Path) -> Path | None:
    """The file that an import means: a pack of the library, or a path ending in .tsr relative to the importer."""
    if target.endswith(".tsr"):
        path = (folder / target).resolve()
    else:
        path = (resources.rules() / f"{target}.tsr").resolve()
        if path.parent != resources.rules().resolve():
            return None
    return path if path.is_file() else None


def load_program(path: str, packs: tuple[str, ...] = ()) -> Program:
    """Reads and checks a file ("-": standard input), with further rule packs as if it imported them.

    Raises `TsrError` with every problem of operators, rules and names; graphs are checked when elaborated.
    """
    source = read_source(path)
    own = Path(path).resolve()
    loader = _Loader(own)
    table = (resources.rules() / "ops.tsr").resolve()
    if own != table:
        loader.file(read_source(str(table)), table)
    for pack in packs:
        found = find_pack(pack, Path.cwd())
        if found is None:
            known = sorted(p.stem for p in resources.rules().glob("*.tsr") if p.stem != "ops")
            near = did_you_mean(pack, known) or f"rule packs are {', '.join(known)}"
            raise TsrError([Diagnostic(f"no rule pack `{pack}`", None, near, path="--rules")])
        if found not in loader.done:
            loader.file(read_source(str(found)), found)
    if own not in loader.done:
        loader.file(source, own)
    ops = OpTable(_all(loader, loader.ops.values(), declare))
    loader.problems += _check_names(loader, ops)
    if loader.problems:
        raise TsrError(loader.problems)
    warnings: list[Diagnostic] = []
    rules: list[RewriteRule] = []
    for directions in _all(loader, loader.rules.values(), lambda r: resolve_rule(r, ops, warnings)):
        rules += directions
    for test in loader.tests:
        if test.rule not in loader.rules:
            near = did_you_mean(test.rule, loader.rules)
            loader.problems.append(Diagnostic(f"no rule `{test.rule}` to test", test.name_span, near))
    if loader.problems:
        raise TsrError(loader.problems)
    rules += compositions(ops)
    return Program(
        path,
        ops,
        tuple(rules),
        loader.blocks,
        loader.graphs,
        tuple(loader.tests),
        tuple(loader.own_rules),
        {name: op for name, op in loader.ops.items() if not _in_library(ops[name])},
        tuple(warnings),
    )


Item = TypeVar("Item")
Made = TypeVar("Made")


def _all(loader: _Loader, items: Iterable[Item], make: Callable[[Item], Made]) -> list[Made]:
    made = []
    for item in items:
        try:
            made.append(make(item))
        except TsrError as e:
            loader.problems += e.diagnostics
    return made


def _check_names(loader: _Loader, ops: OpTable) -> list[Diagnostic]:
    found = []
    for block in loader.blocks.values():
        if block.name in loader.ops:
            found.append(Diagnostic(f"`{block.name}` is already an operator", block.name_span))
    for decl in ops.values():
        if decl.composition is None and not decl.opaque and not _in_library(decl):
            found.append(
                Diagnostic(
                    f"nothing says what `{decl.name}` computes",
                    decl.span,
                    f"write `opaque op {decl.name}`, or give it a composition: `op {decl.name}(..) = ..`",
                )
            )
    return found


def _in_library(decl: OpDecl) -> bool:
    library = (resources.rules() / "ops.tsr").resolve()
    return Path(decl.span.source.path).resolve() == library
