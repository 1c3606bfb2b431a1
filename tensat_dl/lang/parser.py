"""Text to syntax tree, with Lark. After a mistake the other items are tried: one run reports several."""

from __future__ import annotations

from functools import cache
from io import BytesIO
from pathlib import Path

import lark
from lark import Lark
from lark.exceptions import UnexpectedInput, UnexpectedToken
from lark.lexer import PatternRE, PatternStr, TerminalDef

from tensat_dl import resources
from tensat_dl.core.diagnostics import Diagnostic, Source, Span, TsrError, collected, error
from tensat_dl.kept import digest_of, kept
from tensat_dl.lang import ast
from tensat_dl.lang.build import BuildTree
from tensat_dl.lang.layout import blanked, check_nesting, layout, pieces
from tensat_dl.lang.syntax_errors import explain
from tensat_dl.lang.tokens import Tok, scan, token_errors
from tensat_dl.lang.unexpected import Place

#: A line longer than this is not something that a person or our printer wrote.
MAX_LINE = 100_000
MAX_ERRORS = 20


def parse(source: Source) -> ast.File:
    """The syntax tree of a source. Raises `TsrError` with the mistakes of every item that does not parse."""
    _refuse_long_lines(source)
    tokens = list(scan(source))
    end = len(source.text)
    try:
        items = _piece(source, tokens, 0, end)
    except TsrError as e:
        raise TsrError(_errors_by_item(source, tokens) or e.diagnostics) from None
    comments = tuple(ast.Comment(t.text.rstrip(), span=t.span) for t in tokens if t.kind == "comment")
    return ast.File(items, comments, span=Span(source, 0, end))


def _piece(source: Source, tokens: list[Tok], start: int, stop: int) -> tuple[ast.Item, ...]:
    """The items of a part of a source. Raises `TsrError` with what is wrong with it.

    Each stage is asked only if the one before is content: an open string, say, spoils the brackets too.
    """
    if found := token_errors(source, tokens):
        raise TsrError(found)
    significant = layout(tokens)
    check_nesting(significant)
    text = blanked(significant, start, stop)
    try:
        tree = _lark().parse(text)
    except UnexpectedInput as e:
        raise TsrError([_explain(e, text, source, significant, start, stop)]) from None
    items: tuple[ast.Item, ...] = BuildTree(source).transform(tree)
    return items


def _explain(
    e: UnexpectedInput, text: str, source: Source, tokens: list[Tok], start: int, stop: int
) -> Diagnostic:
    offset = e.pos_in_stream
    if isinstance(e, UnexpectedToken):
        offset = None if e.token.type == "$END" else e.token.start_pos
    offset = len(text) if offset is None else offset
    at = next((i for i, t in enumerate(tokens) if t.end > start + offset), len(tokens))
    # The error's own list of what was expected lacks what the parser gave up on seeing the unexpected token.
    parser = _lark().parse_interactive(text[:offset])
    parser.exhaust_lexer()
    accepts = frozenset(parser.accepts())  # type: ignore[no-untyped-call]
    return explain(Place(source, tokens, at, accepts, last_piece=stop >= len(source.text.rstrip())))


def _errors_by_item(source: Source, tokens: list[Tok]) -> list[Diagnostic]:
    found: list[Diagnostic] = []
    first = 0
    for start, stop in pieces(tokens, len(source.text)):
        last = first
        while last < len(tokens) and tokens[last].start < stop:
            last += 1
        with collected(found):
            _piece(source, tokens[first:last], start, stop)
        first = last
        if len(found) > MAX_ERRORS:
            more = f"more than {MAX_ERRORS} errors; the others are not shown"
            return [*found[:MAX_ERRORS], Diagnostic(more, None, path=source.path)]
    return found


def _refuse_long_lines(source: Source) -> None:
    start, number = 0, 1
    while start <= len(source.text):
        end = source.text.find("\n", start)
        end = len(source.text) if end < 0 else end
        if end - start > MAX_LINE:
            message = f"line {number} has {end - start:,} characters; at most {MAX_LINE:,} are allowed"
            hint = "break the line inside brackets or after an operator"
            raise error(Span(source, start, start + 1), message, hint)
        start, number = end + 1, number + 1


@cache
def _lark() -> Lark:
    """The parser, with the tables that are kept of it."""
    key = f"{digest_of([resources.grammar(), Path(__file__)])[:16]}-{lark.__version__}"
    return Lark.load(BytesIO(kept("grammar", key, _tables)))


def _tables() -> bytes:
    """The parser's tables. It takes longer to make them than to read most files."""
    parser = Lark(
        resources.grammar().read_text(encoding="utf-8"),
        parser="lalr",
        propagate_positions=True,
        maybe_placeholders=True,
        edit_terminals=_whole_words,
    )
    tables = BytesIO()
    parser.save(tables)
    return tables.getvalue()


def _whole_words(terminal: TerminalDef) -> None:
    """Makes a keyword match whole words only: where no name may stand, Lark would read ``andy`` as ``and y``.

    And ``=`` a whole sign: where only ``=`` may stand, ``==`` would be read as two of them.
    """
    if not isinstance(terminal.pattern, PatternStr):
        return
    value = terminal.pattern.value
    if value.isalpha():
        terminal.pattern = PatternRE(value + r"(?![A-Za-z0-9_])")
        terminal.priority = 1  # before NAME, which matches the same words
    elif value == "=":
        terminal.pattern = PatternRE(r"=(?![=>])")
