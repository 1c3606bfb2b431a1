"""Line ends: which of them separate statements, and which bracket closes which.

The layout pass runs before Lark. It returns a text of the same length in which line ends that do not separate
statements, and comments, are blanks, so offsets stay those of the source. It also reports brackets that do not
match, at the place where they were opened, which a parser sees too late.
"""

from __future__ import annotations

import re

from tensat_dl.lang import ast
from tensat_dl.lang.diagnostics import TsrError, error
from tensat_dl.lang.source import Source, Span

#: Deeper nesting than this is refused: no person writes it, and later passes recurse.
MAX_NESTING = 64
#: Likewise the number of infix operators in one statement.
MAX_OPERATORS = 128

_TOKEN = re.compile(
    r"""(?P<doc>///(?!/)[^\n]*\n?) | (?P<comment>//[^\n]*) | (?P<line>\n) | (?P<blank>[ \t\r]+)
      | (?P<string>"(?:[^"\\\n]|\\.)*"?) | (?P<word>[A-Za-z_0-9.]+) | (?P<op><=>|=>|->|==|!=|<=|>=|\+\+|.)""",
    re.VERBOSE,
)
#: No line end is significant after these ...
_CONTINUES_AFTER = frozenset(
    "{ ( [ , = => <=> + - * / % @ ++ == != <= >= < > | : -> and or not where then else in .. ;".split()
)
#: ... and before these.
_CONTINUES_BEFORE = frozenset(
    "} ; => <=> + - * / % @ ++ == != <= >= < > | -> and or where then else".split()
)
_CLOSING = {"}": "{", ")": "(", "]": "["}
_INFIX = frozenset("+ - * / % @ ++ and or not if".split())


def layout(source: Source) -> tuple[str, tuple[ast.Comment, ...]]:
    """The text for the parser, and the comments. Raises `TsrError` for brackets that do not match."""
    out = list(source.text)
    comments: list[ast.Comment] = []
    brackets: list[tuple[str, Span]] = []
    previous, previous_at = "{", 0  # as if a file were a body: leading line ends are not significant
    pending: int | None = None  # a line end that is significant unless the next token continues
    operators = 0
    for match in _TOKEN.finditer(source.text):
        kind, text, start = match.lastgroup, match[0], match.start()
        if kind == "blank":
            continue
        if kind == "comment":
            comments.append(ast.Comment(text.rstrip(), span=Span(source, start, match.end())))
            out[start : match.end()] = " " * len(text)
            continue
        if kind == "line":
            out[start] = " "
            pending = start if pending is None else pending
            continue
        span = Span(source, start, match.end())
        inside = bool(brackets) and brackets[-1][0] != "{"
        continues = previous in _CONTINUES_AFTER or text in _CONTINUES_BEFORE
        if pending is not None and not inside and not continues:
            out[pending] = "\n"
            operators = 0
        pending = None
        if text == ";" and not inside:
            operators = 0
            if previous in (";", "{"):
                out[start] = " "
                continue
        elif text == "}" and previous == ";":
            out[previous_at] = " "
        if text in ("{", "(", "["):
            brackets.append((text, span))
            if len(brackets) > MAX_NESTING:
                raise error(span, f"nested more than {MAX_NESTING} levels deep")
        elif text in _CLOSING:
            _close(text, span, brackets)
        elif text in _INFIX:
            operators += 1
            if operators > MAX_OPERATORS:
                raise error(
                    span,
                    f"more than {MAX_OPERATORS} operators in one statement",
                    "give parts of the expression a name",
                )
        previous, previous_at = ("{" if kind == "doc" else text), start
    if previous == ";":
        out[previous_at] = " "
    if brackets:
        raise error(brackets[-1][1], f"`{brackets[-1][0]}` is never closed")
    return "".join(out), tuple(comments)


def _close(text: str, span: Span, brackets: list[tuple[str, Span]]) -> None:
    if not brackets:
        raise error(span, f"`{text}` closes nothing", "remove it, or open it before")
    opened, where = brackets.pop()
    if opened != _CLOSING[text]:
        raise TsrError(
            [
                *error(span, f"`{text}` does not close `{opened}`").diagnostics,
                *error(where, f"`{opened}` is opened here").diagnostics,
            ]
        )
