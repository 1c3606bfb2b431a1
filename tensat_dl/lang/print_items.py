"""The items of a file, and the statements in them, as bodies and lines."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from tensat_dl.core.source import Source, Span
from tensat_dl.lang import ast
from tensat_dl.lang.print_doc import INDENT, WIDTH, Doc, flat
from tensat_dl.lang.print_expr import (
    binding,
    expression,
    listed,
    lvalue,
    op_stmt,
    params,
    quoted,
    range_,
    rule_stmt,
    tensor_type,
)
from tensat_dl.lang.print_lines import Body, Leaf, Line, documented, laid_out
from tensat_dl.lang.tokens import Tok, scan


class Positions:
    """Where things stand in the source that a tree was parsed from. All places are -1 if there is none."""

    def __init__(self, source: Source | None) -> None:
        self._source = source
        tokens = list(scan(source)) if source else []
        self._braces = [t for t in tokens if t.text == "{"]
        self._arrows = [t for t in tokens if t.text in ("=>", "<=>")]
        self._unchanged = [t for t in tokens if t.text == "unchanged"]

    def of(self, span: Span) -> tuple[int, int]:
        return (span.start, span.end) if self._source else (-1, -1)

    def brace(self, start: int) -> int:
        """The first opening brace from a place on: that of the body, since expressions have none."""
        return _first(self._braces, start)[0]

    def arrow(self, start: int) -> tuple[int, int]:
        return _first(self._arrows, start)

    def unchanged(self, start: int) -> tuple[int, int]:
        return _first(self._unchanged, start)

    def on_one_line(self, start: int, end: int) -> bool | None:
        """Whether a part of the source has no line end; None if there is no source."""
        return "\n" not in self._source.text[start:end] if self._source else None


def _first(tokens: list[Tok], start: int) -> tuple[int, int]:
    i = bisect_left(tokens, start, key=lambda t: t.start)
    return (tokens[i].start, tokens[i].end) if start >= 0 and i < len(tokens) else (-1, -1)


def item_lines(item: ast.Item, at: Positions) -> list[Line]:
    """The lines of an item."""
    start, end = at.of(item.span)
    match item:
        case ast.Import():
            return laid_out(Leaf(f"import {quoted(item.target)}", start, end, "import"), 0)
        case ast.Op():
            return _op(item, at)
        case ast.Rule():
            left, right = _rule_side(item.left, at), _rule_side(item.right, at)
            entries = _sides(left, _arrow(item.both, at, start), right, at)
            short = len(entries) == 1
            return laid_out(_body(f"rule {item.name}", entries, item, at, short, item.doc), 0)
        case ast.Block():
            header: Doc = (f"block {item.name}", params(item.params))
            return laid_out(_body(header, _stmts(item.body, at), item, at, False, item.doc), 0)
        case ast.GraphItem():
            header = f"graph {item.name}"
            return laid_out(_body(header, _stmts(item.body, at), item, at, False, item.doc), 0)
        case ast.Test():
            header = f"test {item.rule}"
            return laid_out(_body(header, _test(item, at, start), item, at, False, item.doc), 0)


def _op(item: ast.Op, at: Positions) -> list[Line]:
    start, end = at.of(item.span)
    outputs = f" -> ({', '.join(item.outputs)})" if item.outputs else ""
    header: Doc = ("opaque op " if item.opaque else "op ", item.name, params(item.params), outputs)
    if item.composition is not None:
        (line,) = laid_out(Leaf((header, " = ", expression(item.composition)), start, end), 0)
        return [Line(documented(item.doc) + line.text, 0, line.kind, start, end)]
    entries = [Leaf(op_stmt(s), *at.of(s.span)) for s in item.body]
    return laid_out(_body(header, entries, item, at, len(entries) == 1, item.doc), 0)


def _body(
    header: Doc,
    entries: Sequence[Leaf | Body],
    node: ast.Item | ast.For,
    at: Positions,
    short: bool,
    about: str = "",
) -> Body:
    """A body, on one line if it was written so; if it was not written at all, if it is ``short``."""
    start, end = at.of(node.span)
    opened, closed = at.brace(start), max(end - 1, -1)
    written = at.on_one_line(opened, closed)
    return Body(header, entries, start, opened, closed, short if written is None else written, about)


def _rule_side(side: ast.RuleSide, at: Positions) -> list[Leaf]:
    leaves = [Leaf(rule_stmt(s), *at.of(s.span)) for s in side.stmts]
    if side.where:
        start, _ = at.of(side.where[0].span)
        _, end = at.of(side.span)
        leaves.append(Leaf(listed("where", [expression(w) for w in side.where]), start, end, before=" "))
    return leaves


def _arrow(both: bool, at: Positions, start: int) -> Leaf:
    return Leaf("<=>" if both else "=>", *at.arrow(start), "arrow", before=" ")


def _test(item: ast.Test, at: Positions, start: int) -> list[Leaf | Body]:
    arrow = _arrow(False, at, start)
    unchanged: list[Leaf | Body] = [Leaf("unchanged", *at.unchanged(arrow.end))]
    after = unchanged if item.after is None else _stmts(item.after, at)
    return _sides(_stmts(item.before, at), arrow, after, at)


def _sides(
    left: Sequence[Leaf | Body], arrow: Leaf, right: Sequence[Leaf | Body], at: Positions
) -> list[Leaf | Body]:
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


def _stmts(stmts: tuple[ast.Stmt, ...], at: Positions) -> list[Leaf | Body]:
    return [_stmt(s, at) for s in stmts]


def _stmt(s: ast.Stmt, at: Positions) -> Leaf | Body:
    if isinstance(s, ast.For):
        return _body((f"for {s.var} in ", range_(s.range)), _stmts(s.body, at), s, at, False)
    return Leaf(_simple(s), *at.of(s.span))


def _simple(s: ast.Bind | ast.Input | ast.Weight | ast.Output | ast.Return) -> Doc:
    match s:
        case ast.Bind():
            return binding(s.targets, s.value)
        case ast.Input():
            return ("input ", lvalue(s.target), " : ", tensor_type(s.type))
        case ast.Weight():
            value: Doc = "" if s.value is None else (" = ", expression(s.value))
            return ("weight ", lvalue(s.target), " : ", tensor_type(s.type), value)
        case ast.Output():
            return listed("output", [_output(i) for i in s.items])
        case ast.Return():
            return listed("return", [expression(v) for v in s.values])


def _output(item: ast.OutputItem) -> Doc:
    value = expression(item.value)
    return value if item.name is None else (item.name, " = ", value)
