"""A file and everything that it imports, each file once: the items of all of them by name."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TypeVar

from tensat_dl.core.diagnostics import Diagnostic, Source, Span, collected
from tensat_dl.core.words import did_you_mean
from tensat_dl.files import real_path
from tensat_dl.lang import ast, library
from tensat_dl.lang.families import each_rule
from tensat_dl.lang.library import LibraryItem, LibraryRule, packs
from tensat_dl.lang.load import read_source
from tensat_dl.lang.parser import parse
from tensat_dl.ops.table import OpDecl

Named = TypeVar("Named", ast.Op | OpDecl, ast.Rule | LibraryRule, ast.Block, ast.GraphItem)


@dataclass
class Items:
    """Items over all imported files. Graphs and tests are those of the file ``own`` only."""

    own: Path
    problems: list[Diagnostic] = field(default_factory=list)
    ops: dict[str, ast.Op | OpDecl] = field(default_factory=dict)
    rules: dict[str, ast.Rule | LibraryRule] = field(default_factory=dict)
    blocks: dict[str, ast.Block] = field(default_factory=dict)
    graphs: dict[str, ast.GraphItem] = field(default_factory=dict)
    tests: list[ast.Test] = field(default_factory=list)
    own_rules: list[str] = field(default_factory=list)
    files: dict[Path, None] = field(default_factory=dict)  #: in the order in which they were met
    _open: list[Path] = field(default_factory=list)

    def add(self, path: Path, source: Source | None = None, shown: str = "") -> None:
        """Adds a file's items, imported ones first. A file that can't be read or parsed adds its errors.

        ``shown`` is what messages call the file.
        """
        if path in self.files:
            return
        self.files[path] = None
        self._open.append(path)
        with collected(self.problems):
            items: Iterable[ast.Item | LibraryItem]
            if source is None and path.parent == library.folder():
                items = library.items(path.name)
            else:
                items = each_rule(parse(source or read_source(str(path), shown)).items)
            for item in items:
                self._item(item, path)
        self._open.pop()

    def _item(self, item: ast.Item | LibraryItem, path: Path) -> None:
        match item:
            case ast.Import(target):
                self._import(target, item.span, path)
            case ast.Op() | OpDecl():
                self._named(item, self.ops, "operator")
            case ast.Rule() | LibraryRule():
                if self._named(item, self.rules, "rule") and path == self.own:
                    self.own_rules.append(item.name)
            case ast.Block():
                self._named(item, self.blocks, "block")
            case ast.GraphItem():
                if path == self.own:
                    self._named(item, self.graphs, "graph")
            case ast.Test():
                if path == self.own:
                    self.tests.append(item)

    def _named(self, item: Named, known: dict[str, Named], what: str) -> bool:
        first = known.setdefault(item.name, item)
        if first is item:
            return True
        hint = f"the first one is at {name_span(first).place}"
        self.problems.append(Diagnostic(f"{what} `{item.name}` is declared twice", name_span(item), hint))
        return False

    def _import(self, target: str, span: Span, importer: Path) -> None:
        path = find(target, importer.parent)
        if path is None:
            self.problems.append(Diagnostic(*_not_found(target, importer.parent, span)))
        elif path.suffix != ".tsr":  # messages show lines of the files that are imported
            message = f'"{target}" is a link to a file that does not end in .tsr'
            self.problems.append(Diagnostic(message, span, "import the file under its own name"))
        elif path in self._open:
            cycle = [*self._open[self._open.index(path) :], path]
            message = "imports form a cycle" if len(cycle) > 2 else "the file imports itself"
            notes = (" -> ".join(p.name for p in cycle),) if len(cycle) > 2 else ()
            self.problems.append(Diagnostic(message, span, "remove this import", notes=notes))
        else:
            before = len(self.problems)
            self.add(path, shown=os.path.normpath(os.path.join(os.path.dirname(span.source.path), target)))
            for i, d in enumerate(self.problems[before:], before):
                own = d.span is not None and d.span.source is span.source
                if not own and not any(note.startswith("imported at") for note in d.notes):
                    self.problems[i] = replace(d, notes=(*d.notes, f"imported at {span.place}"))


def files_of(path: str) -> tuple[Path, ...]:
    """A file and everything that it imports, as far as they can be read. Standard input is not read."""
    if path == "-":
        return ()
    items = Items(real_path(path))
    items.add(items.own)
    return tuple(items.files)


def name_span(item: ast.Op | ast.Rule | ast.Block | ast.GraphItem | OpDecl | LibraryRule) -> Span:
    """The place of an item's name."""
    return item.span if isinstance(item, OpDecl) else item.name_span


def find(target: str, folder: Path) -> Path | None:
    """The file that an import means: a pack of the library, or a path ending in .tsr relative to the importer."""
    try:
        if target.endswith(".tsr"):
            path = real_path(folder / target)
        else:
            path = real_path(library.folder() / f"{target}.tsr")
            if path.parent != library.folder():
                return None
        # A link to itself is found, so that reading it says what is wrong.
        return path if path.is_file() or path.is_symlink() else None
    except (OSError, ValueError):  # a name that no file system has
        return None


def rules_of(pack: str) -> frozenset[str]:
    """The names of the rules that a pack of the library declares, with all that it imports."""
    items = Items(library.folder() / f"{pack}.tsr")
    items.add(items.own)
    return frozenset(items.rules)


def _not_found(target: str, folder: Path, span: Span) -> tuple[str, Span, str]:
    """A message for an import that means no file."""
    message = f'nothing to import: "{target if len(target) <= 60 else target[:60] + "…"}"'
    try:
        files = [f"./{p.name}" for p in sorted(folder.glob("*.tsr"))]
        if target and (folder / target).is_dir():
            return f'"{target}" is a directory', span, "import the files in it one by one"
    except (OSError, ValueError):
        files = []
    plain = target.removesuffix(".tsr")
    if f"./{plain}.tsr" in files:
        return message, span, f'files are written with their ending: "./{plain}.tsr"'
    if plain in packs():
        return message, span, f'rule packs are written without an ending: "{plain}"'
    if target.endswith(".tsr"):
        near = get_close_matches(target.removeprefix("./"), [f[2:] for f in files], n=1, cutoff=0.8)
        hint = f"did you mean `./{near[0]}`?" if near else 'files are written "./name.tsr"'
        return message, span, f"there is no such file; {hint}"
    listed = f'rule packs are {", ".join(packs())}; files are written "./name.tsr"'
    return message, span, did_you_mean(target, [*packs(), *files]) or listed
