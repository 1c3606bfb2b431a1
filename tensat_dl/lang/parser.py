"""Text to syntax tree, with Lark. After a syntax error the next item is tried, so one run reports several."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from lark import Lark, Token
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken, VisitError

from tensat_dl import resources
from tensat_dl.lang import ast
from tensat_dl.lang.build import BuildTree
from tensat_dl.lang.diagnostics import Diagnostic, TsrError, did_you_mean
from tensat_dl.lang.layout import layout
from tensat_dl.lang.source import Source, Span

#: A line longer than this is not something that a person or our printer wrote.
MAX_LINE = 100_000
MAX_ERRORS = 20
KEYWORDS = ("import", "opaque", "op", "rule", "block", "graph", "test")
_STATEMENTS = ("input", "weight", "output", "return", "for", "each", "where", "require", "let", "shape")
_ITEM = re.compile(r"^(?:///|(?:" + "|".join(KEYWORDS) + r")\b)", re.MULTILINE)

#: How tokens are named in messages.
_NAMES = {
    "NAME": "a name",
    "DASHED": "a name",
    "INT": "a number",
    "FLOAT": "a number",
    "STRING": "a string",
    "DOC": "a doc comment",
    "_SEP": "the end of the line",
    "$END": "the end of the file",
}


@cache
def _lark() -> Lark:
    """The parser's tables, built once per process."""
    return Lark(
        resources.grammar().read_text(encoding="utf-8"),
        parser="lalr",
        propagate_positions=True,
        maybe_placeholders=True,
    )


def _tree(source: Source, text: str) -> tuple[ast.Item, ...]:
    try:
        items: tuple[ast.Item, ...] = BuildTree(source).transform(_lark().parse(text))
    except VisitError as e:
        raise e.orig_exc from None
    return items


def parse(source: Source) -> ast.File:
    """The syntax tree of a source. Raises `TsrError` with one diagnostic per item that does not parse."""
    for number, line in enumerate(source.text.split("\n"), 1):
        if len(line) > MAX_LINE:
            start = sum(len(x) + 1 for x in source.text.split("\n")[: number - 1])
            raise TsrError(
                [
                    Diagnostic(
                        f"line {number} has {len(line):,} characters; at most {MAX_LINE:,} are allowed",
                        Span(source, start, start + 1),
                        "break the line",
                    )
                ]
            )
    text, comments = layout(source)
    found: list[Diagnostic] = []
    while len(found) < MAX_ERRORS:
        try:
            items = _tree(source, text)
        except TsrError as e:
            found += e.diagnostics
        except UnexpectedInput as e:
            found.append(_explain(e, source))
        else:
            if found:
                break
            return ast.File(items, comments, span=Span(source, 0, len(source.text)))
        at = min(d.span.start for d in found[-1:] if d.span is not None)
        remaining = _without_item(text, at)
        if remaining is None:
            break
        text = remaining
    raise TsrError(found)


def _without_item(text: str, at: int) -> str | None:
    """The text with the item around ``at`` blanked out, offsets unchanged; None if nothing follows it."""
    starts = [m.start() for m in _ITEM.finditer(text)]
    begin = max((s for s in starts if s <= at), default=0)
    # An item keyword at the very position of the error may be what ended a broken item: keep that one.
    if begin == at and any(s < at for s in starts):
        begin = max(s for s in starts if s < at)
    end = min((s for s in starts if s > begin and s >= at), default=None)
    if end is None or end <= begin:
        return None
    return text[:begin] + re.sub(r"[^\n]", " ", text[begin:end]) + text[end:]


def _explain(e: UnexpectedInput, source: Source) -> Diagnostic:
    if isinstance(e, UnexpectedCharacters):
        start = e.pos_in_stream or 0
        char = source.text[start]
        span = Span(source, start, start + 1)
        if char == '"':
            return Diagnostic("the string is not closed", span, 'strings end with `"` on the same line')
        number = re.compile(r"[0-9][0-9A-Za-z_.]*").match(source.text, start)
        if number and len(number[0]) > 1:
            return Diagnostic(f"`{number[0]}` is not a number", Span(source, start, number.end()))
        name = re.compile(r"[A-Za-z_]\w*").match(source.text, start)
        word = name[0] if name else char
        if char in "'`":
            return Diagnostic(f"unexpected {char}", span, 'strings are written "like this"')
        expected = _expected(e.allowed or set())
        return Diagnostic(f"unexpected `{word}`{expected}", Span(source, start, start + len(word)))
    if isinstance(e, UnexpectedToken):
        token: Token = e.token
        expected = _expected(e.accepts or e.expected)
        if token.type == "$END" or isinstance(e, UnexpectedEOF):
            end = len(source.text.rstrip())
            return Diagnostic(f"unexpected end of file{expected}", Span(source, max(0, end - 1), end))
        start, end = token.start_pos or 0, token.end_pos or 0
        what = "end of line" if str(token) == "\n" else f"`{token}`"
        if str(token) == "\n":
            end = start + 1
        if token.type == "DOC":
            return Diagnostic(
                "a doc comment must stand before an op, rule, block, graph or test",
                Span(source, start, end),
                "write `//` for an ordinary comment",
            )
        hint = ""
        if token.type in ("NAME", "DASHED"):
            hint = did_you_mean(str(token), (*KEYWORDS, *_STATEMENTS))
        else:
            hint = _previous_word_hint(source, start)
        return Diagnostic(f"unexpected {what}{expected}", Span(source, start, end), hint)
    start = getattr(e, "pos_in_stream", 0) or 0
    return Diagnostic("syntax error", Span(source, start, start + 1))


def _previous_word_hint(source: Source, at: int) -> str:
    """A misspelt keyword is read as a name; the error shows only at the token after it."""
    word = re.compile(r"([A-Za-z_]+)\s*\Z").search(source.text[max(0, at - 40) : at])
    if word is None or word[1] in (*KEYWORDS, *_STATEMENTS):
        return ""
    return did_you_mean(word[1], (*KEYWORDS, *_STATEMENTS))


def _expected(terminals: set[str]) -> str:
    names: list[str] = []
    for t in sorted(terminals):
        name = _NAMES.get(t) or _literal(t)
        if name and name not in names:
            names.append(name)
    if "a name" in names and "a number" in names:
        return "; expected an expression"
    if not names or len(names) > 8:
        return ""
    return f"; expected {' or '.join([', '.join(names[:-1]), names[-1]] if len(names) > 1 else names)}"


def _literal(terminal: str) -> str:
    definition: Any = next((t for t in _lark().terminals if t.name == terminal), None)
    if definition is None or definition.pattern.type != "str":
        return ""
    return f"`{definition.pattern.value}`"
