"""Syntax trees to text: the canonical formatting, which ``fmt`` writes.

Reading the text again gives the same tree, and printing that the same text.

Every line knows its place in the source, and so does every comment. A comment after a line's end, in the same
line of the source, stays at the line's end. Any other moves to a line of its own, before the first line that
begins after it or around it. Blank lines follow the source, at most one at a time, except that items are
always set apart.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from tensat_dl.core.diagnostics import Source, Span
from tensat_dl.lang import ast
from tensat_dl.lang.print_doc import INDENT, WIDTH, Doc, flat, render
from tensat_dl.lang.print_expr import (
    binding,
    expression,
    listed,
    op_stmt,
    params,
    quoted,
    range_,
    sizes,
    statement,
)
from tensat_dl.lang.tokens import scan


def print_file(file: ast.File) -> str:
    """The text of a file.

    A parsed tree keeps its comments, single blank lines, and which bodies stand on one line, all found
    by its nodes' spans. In a tree that a program made, whose items do not all come from
    ``file.span.source``, spans mean nothing: short rules and operators stand on one line, comments last.
    """
    source = file.span.source
    parsed = bool(file.items or file.comments) and all(
        _is_from(file, node) for node in (*file.items, *file.comments)
    )
    at = Positions(source if parsed else None)
    lines = [line for item in file.items for line in item_lines(item, at)]
    return weave(lines, file.comments, source.text if parsed else "")


def _is_from(file: ast.File, node: ast.Item | ast.Comment) -> bool:
    return node.span.source is file.span.source and node.span.start < node.span.end


def weave(lines: Sequence[Line], comments: Sequence[ast.Comment], text: str) -> str:
    """The printed lines with the comments of the source ``text`` among them."""
    rows = _Rows(text)
    left = list(reversed(comments))  # the next one last
    for k, line in enumerate(lines):
        if k > 0:
            rows.set_apart = _are_items(lines[k - 1], line)
        depth = line.depth + 1 if line.kind == "close" else line.depth
        while left and left[-1].span.start < line.end:
            comment = left.pop()
            inside = comment.span.start >= line.start
            start, end = (line.start, line.start) if inside else (comment.span.start, comment.span.end)
            rows.add(" " * (INDENT * depth) + comment.text, start, end)
        following = lines[k + 1].start if k + 1 < len(lines) else len(text)
        rows.add(line.text, line.start, line.end, line.kind)
        if left and left[-1].span.start < following and "\n" not in text[line.end : left[-1].span.start]:
            rows.append(left.pop())
    for comment in reversed(left):
        rows.add(comment.text, comment.span.start, comment.span.end)
    return "".join(f"{row}\n" for row in rows.rows)


def _are_items(a: Line, b: Line) -> bool:
    """Whether one item ends and another begins here, and they are not two imports."""
    between = a.depth == b.depth == 0 and a.kind != "open" and b.kind != "close"
    return between and not (a.kind == b.kind == "import")


class _Rows:
    """The text so far, and the place in the source where it ends."""

    def __init__(self, text: str) -> None:
        self.rows: list[str] = []
        self.set_apart = False  # whether a blank line must come next
        self._text = text
        self._end = 0
        self._kind: Kind = "open"

    def add(self, row: str, start: int, end: int, kind: Kind = "statement") -> None:
        """A comment or a line, which comes from ``start..end`` of the source."""
        tight = self._kind in ("open", "arrow") or kind in ("close", "arrow")
        if not tight and (self.set_apart or self._text.count("\n", max(self._end, 0), max(start, 0)) > 1):
            self.rows.append("")
        self.rows.append(row)
        self.set_apart, self._end, self._kind = False, end, kind

    def append(self, comment: ast.Comment) -> None:
        """A comment at the end of the last row."""
        self.rows[-1] += f"  {comment.text}"
        self._end = comment.span.end


Kind = Literal["import", "statement", "open", "close", "arrow"]


@dataclass(frozen=True, slots=True)
class Line:
    """One statement, or the beginning or end of a body. The text is indented and may go over several lines.

    ``start`` and ``end`` are its place in the source; both are -1 if there is no source.
    """

    text: str
    depth: int
    kind: Kind
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Leaf:
    """A part of a file that is laid out as a whole: on lines of its own, or on a line with others."""

    doc: Doc
    start: int
    end: int
    kind: Kind = "statement"
    before: str = "; "  # what separates it from the statement before, where a body stands on one line
    about: str = ""  # the doc comment


@dataclass(frozen=True, slots=True)
class Body:
    """``header { entries }``; ``opened`` and ``closed`` are the places of the braces in the source."""

    header: Doc
    entries: Sequence[Entry]
    start: int
    opened: int
    closed: int
    compact: bool  # whether it is to stand on one line, if it fits
    about: str = ""
    before: str = "; "


Entry = Leaf | Body


def laid_out(entry: Entry, depth: int) -> list[Line]:
    """The lines of a statement or an item, indented ``depth`` times."""
    indent = depth * INDENT
    pad = " " * indent
    first = "".join(f"/// {line}".rstrip() + "\n" for line in entry.about.split("\n") if entry.about) + pad
    if isinstance(entry, Leaf):
        return [Line(first + render(entry.doc, indent), depth, entry.kind, entry.start, entry.end)]
    header = first + render((entry.header, " {"), indent)
    end = entry.closed if entry.closed < 0 else entry.closed + 1
    if entry.compact:
        rest = _inside(entry)
        if len(header) - header.rfind("\n") - 1 + len(rest) <= WIDTH:
            return [Line(header + rest, depth, "statement", entry.start, end)]
    opened = entry.opened if entry.opened < 0 else entry.opened + 1
    body = [line for e in entry.entries for line in laid_out(e, depth + 1)]
    return [
        Line(header, depth, "open", entry.start, opened),
        *body,
        Line(pad + "}", depth, "close", entry.closed, end),
    ]


def _inside(body: Body) -> str:
    """The text after a body's opening brace if the body stands on one line."""
    out = ""
    for entry in body.entries:
        text = flat(entry.doc) if isinstance(entry, Leaf) else flat((entry.header, " {")) + _inside(entry)
        # Nothing separates a statement from what is neither before nor after it.
        out += text if not out else (" " if out.endswith(("=>", " {")) else entry.before) + text
    return f" {out} }}" if out else "}"


class Positions:
    """Where things stand in the source that a tree was parsed from. All places are -1 if there is none."""

    def __init__(self, source: Source | None) -> None:
        self._source = source
        marks = ("{", "=>", "<=>", "unchanged")
        self._marks = [t for t in scan(source) if t.text in marks] if source else []

    def of(self, span: Span) -> tuple[int, int]:
        return (span.start, span.end) if self._source else (-1, -1)

    def next(self, start: int, *texts: str) -> tuple[int, int]:
        """The place of the first of these tokens from a place on."""
        first = bisect_left(self._marks, start, key=lambda t: t.start)
        found = (t for t in islice(self._marks, first, None) if t.text in texts)
        token = next(found, None)
        return (token.start, token.end) if token else (-1, -1)

    def on_one_line(self, start: int, end: int) -> bool | None:
        """Whether a part of the source has no line end; None if there is no source."""
        return "\n" not in self._source.text[start:end] if self._source else None


def item_lines(item: ast.Item, at: Positions) -> list[Line]:
    """The lines of an item."""
    start, end = at.of(item.span)
    header: Doc
    short = False
    match item:
        case ast.Import():
            return laid_out(Leaf(f"import {quoted(item.target)}", start, end, "import"), 0)
        case ast.Op():
            outputs = f" -> ({', '.join(item.outputs)})" if item.outputs else ""
            header = ("opaque op " if item.opaque else "op ", item.name, params(item.params), outputs)
            if item.composition is not None:
                whole = (header, " = ", expression(item.composition))
                return laid_out(Leaf(whole, start, end, about=item.doc), 0)
            entries: list[Entry] = [Leaf(op_stmt(s), *at.of(s.span)) for s in item.body]
            short = len(entries) == 1
        case ast.Rule():
            header = f"rule {item.name}"
            if item.family is not None:
                words: list[Doc] = [w.id for w in item.family.words]
                header = (header, " ", listed(f"for {item.family.var} in", words))
            entries = _sides(_rule_side(item.left, at), _arrow(item, at), _rule_side(item.right, at), at)
            short = len(entries) == 1
        case ast.Block():
            header, entries = (f"block {item.name}", params(item.params)), _stmts(item.body, at)
        case ast.GraphItem():
            header, entries = ("graph ", item.name, sizes(item.sizes)), _stmts(item.body, at)
        case ast.Test():
            header, arrow = f"test {item.rule}", _arrow(item, at)
            unchanged: list[Entry] = [Leaf("unchanged", *at.next(arrow.end, "unchanged"))]
            after = unchanged if item.after is None else _stmts(item.after, at)
            entries = _sides(_stmts(item.before, at), arrow, after, at)
    return laid_out(_body(header, entries, item, at, short, item.doc), 0)


def _body(
    header: Doc,
    entries: Sequence[Entry],
    node: ast.Item | ast.For,
    at: Positions,
    short: bool,
    about: str = "",
) -> Body:
    """A body, on one line if it was written so; if it was not written at all, if it is ``short``."""
    start, end = at.of(node.span)
    opened, _ = at.next(start, "{")  # that of the body, since expressions have none
    closed = max(end - 1, -1)
    written = at.on_one_line(opened, closed)
    return Body(header, entries, start, opened, closed, short if written is None else written, about)


def _rule_side(side: ast.RuleSide, at: Positions) -> list[Leaf]:
    leaves = [Leaf(binding(s), *at.of(s.span)) for s in side.stmts]
    if side.where:
        start, _ = at.of(side.where[0].span)
        _, end = at.of(side.span)
        leaves.append(Leaf(listed("where", [expression(w) for w in side.where]), start, end, before=" "))
    return leaves


def _arrow(item: ast.Rule | ast.Test, at: Positions) -> Leaf:
    start, _ = at.of(item.span)
    both = isinstance(item, ast.Rule) and item.both
    return Leaf("<=>" if both else "=>", *at.next(start, "=>", "<=>"), "arrow", before=" ")


def _sides(left: Sequence[Entry], arrow: Leaf, right: Sequence[Entry], at: Positions) -> list[Entry]:
    """Both sides of an arrow. Single statements may share its line: ``before => after``, ``=> after``."""
    if len(right) != 1 or not isinstance(right[0], Leaf):
        return [*left, arrow, *right]
    first, last = left[0] if len(left) == 1 else None, right[0]
    if isinstance(first, Leaf) and at.on_one_line(first.start, last.start) is not False:
        whole: Doc = (first.doc, " ", arrow.doc, " ", last.doc)
        if len(flat(whole)) <= WIDTH - INDENT:
            return [Leaf(whole, first.start, last.end)]
    elif at.on_one_line(arrow.start, last.start):
        return [*left, Leaf((arrow.doc, " ", last.doc), arrow.start, last.end, "arrow", before=" ")]
    return [*left, arrow, *right]


def _stmts(stmts: Sequence[ast.Stmt], at: Positions) -> list[Entry]:
    entries: list[Entry] = []
    for s in stmts:
        if isinstance(s, ast.For):
            entries.append(_body((f"for {s.var} in ", range_(s.range)), _stmts(s.body, at), s, at, False))
        else:
            entries.append(Leaf(statement(s), *at.of(s.span)))
    return entries
