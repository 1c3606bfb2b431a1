"""Brackets that do not match, and expressions nested deeper than any pass should have to recurse.

Both are seen before Lark runs: a parser notices a missing bracket only where the text stops making sense,
often many lines later, while the opening bracket is what the author has to look at.
"""

from __future__ import annotations

from tensat_dl.core.diagnostics import Diagnostic
from tensat_dl.core.source import Source, Span
from tensat_dl.lang.tokens import Tok, words

#: Deeper nesting than this is refused: no person writes it, and later passes recurse.
MAX_NESTING = 64
#: Likewise the number of operators that can stand above one another in a syntax tree.
MAX_OPERATORS = 128

_CLOSING = {"}": "{", ")": "(", "]": "["}
_OPERATORS = words("+ - * / % @ ++ and or not if")


def nesting_errors(source: Source, tokens: list[Tok]) -> list[Diagnostic]:
    """At most one error about the brackets or the depth of these tokens (the output of the layout pass)."""
    opened: list[Tok] = []
    operators = [0]  # for each open bracket, those of the expression that is being read
    misindented: tuple[Tok, Tok] | None = None
    previous: Tok | None = None
    for token in tokens:
        text = token.text
        if token.kind == "line" or text in (",", ";"):
            operators[-1] = 0
        elif text in _OPERATORS or (text == "[" and _ends_operand(previous)):
            operators[-1] += 1
            if sum(operators) > MAX_OPERATORS:
                message = f"more than {MAX_OPERATORS} operators in one expression"
                return [_at(source, token, message, "give parts of the expression a name")]
        if text in ("{", "(", "["):
            opened.append(token)
            operators.append(0)
            if len(opened) > MAX_NESTING:
                return [_at(source, token, f"nested more than {MAX_NESTING} levels deep")]
        elif text in _CLOSING:
            if not opened:
                return [_nothing_to_close(source, token)]
            last = opened.pop()
            operators.pop()
            if last.text != _CLOSING[text]:
                return _mismatch(source, last, token)
            if text == "}":
                operators[-1] = 0
                if misindented is None and _indent(source, token) < _indent(source, last):
                    misindented = last, token
        previous = token
    if not opened:
        return []
    if misindented is not None and opened[-1].text == "{":
        # Some `}` is missing. The one that stands further left than the line it would close is the best clue.
        last, closer = misindented
        line, _ = source.position(closer.start)
        hint = f"by its indentation, line {line} closes something else"
        return [_at(source, last, "`{` is never closed", hint)]
    return [_at(source, opened[-1], f"`{opened[-1].text}` is never closed")]


def _nothing_to_close(source: Source, closer: Tok) -> Diagnostic:
    return _at(source, closer, f"`{closer.text}` closes nothing", "remove it, or open it before")


def _mismatch(source: Source, last: Tok, closer: Tok) -> list[Diagnostic]:
    line, column = source.position(closer.start)
    if last.text == "{":
        return [_nothing_to_close(source, closer)]
    opened_line, opened_column = source.position(last.start)
    if closer.text == "}":  # a brace closes a whole body: what is missing is the inner bracket
        where = f"column {column}" if line == opened_line else f"line {line}"
        hint = f"the `}}` in {where} already ends the body"
        return [_at(source, last, f"`{last.text}` is never closed", hint)]
    where = f"in column {opened_column}" if line == opened_line else f"in line {opened_line}"
    message = f"`{closer.text}` does not close `{last.text}`"
    return [_at(source, closer, message, f"the `{last.text}` that is open here is {where}")]


def _ends_operand(token: Tok | None) -> bool:
    return token is not None and (token.text in (")", "]") or token.kind in ("word", "number", "string"))


def _indent(source: Source, token: Tok) -> int:
    line, _ = source.position(token.start)
    text = source.line(line)
    return len(text) - len(text.lstrip())


def _at(source: Source, token: Tok, message: str, hint: str = "") -> Diagnostic:
    return Diagnostic(message, Span(source, token.start, token.end), hint)
