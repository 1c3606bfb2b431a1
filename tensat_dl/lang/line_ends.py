"""Line ends: which of them separate statements.

The layout pass runs before Lark. It keeps the tokens that Lark reads, and of the line ends those that
separate statements; the text made from them has the source's length, so offsets stay those of the source.
"""

from __future__ import annotations

from collections.abc import Iterable

from tensat_dl.lang.tokens import Tok, words

#: No line end is significant after these ...
CONTINUES_AFTER = words(
    "{ ( [ , = => <=> + - * / % @ ++ == != <= >= < > | : -> and or not if where then else in .. ;"
)
#: ... and before these.
CONTINUES_BEFORE = words("} ; => <=> + - * / % @ ++ == != <= >= < > | -> and or where then else")
#: A ";" after or before these separates nothing.
_STARTS_BODY = words("; { => <=>")
_ENDS_BODY = words("} => <=> where")
_OPENING = ("{", "(", "[")
_CLOSING = ("}", ")", "]")


def layout(tokens: Iterable[Tok]) -> list[Tok]:
    """The significant tokens: no blanks, comments or empty statements, only line ends between statements."""
    out: list[Tok] = []
    inside: list[bool] = []  # for each open bracket: is it ( or [ ?
    pending: Tok | None = None  # a line end that is significant unless the next token continues
    previous = "{"  # as if a file were a body: leading line ends are not significant
    for token in tokens:
        text = token.text
        if token.kind in ("blank", "comment"):
            continue
        if token.kind == "line":
            pending = pending or token
            continue
        in_parens = bool(inside) and inside[-1]
        continues = in_parens or previous in CONTINUES_AFTER or text in CONTINUES_BEFORE
        if pending is not None and not continues:
            out.append(pending)
        pending = None
        if text == ";" and not in_parens and previous in _STARTS_BODY:
            continue  # an empty statement
        if text in _ENDS_BODY and previous == ";" and not in_parens:
            out.pop()
        if text in _OPENING:
            inside.append(text != "{")
        elif text in _CLOSING and inside:
            inside.pop()
        out.append(token)
        previous = "{" if token.kind == "doc" else text
    if previous == ";" and out and not inside:
        out.pop()
    return out


def blanked(tokens: Iterable[Tok], start: int, stop: int) -> str:
    """The text ``start..stop`` of a source with everything but these tokens turned into blanks."""
    parts: list[str] = []
    at = start
    for token in tokens:
        parts.append(" " * (token.start - at))
        parts.append(token.text)
        at = token.end
    parts.append(" " * (stop - at))
    return "".join(parts)
