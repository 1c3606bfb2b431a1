"""Tokens before Lark reads them: which line ends separate statements, whether brackets match, where items begin."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from tensat_dl.core.diagnostics import TsrError, error
from tensat_dl.lang.tokens import ITEMS, RESERVED, Tok, words

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
#: Closing brackets, and what each closes.
_CLOSING = {"}": "{", ")": "(", "]": "["}


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


#: Deeper nesting than this is refused: no person writes it, and later passes recurse.
MAX_NESTING = 64
#: Likewise the number of operators that can stand above one another in a syntax tree.
MAX_OPERATORS = 128

_OPERATORS = words("+ - * / % @ ++ and or not if")


def check_nesting(tokens: list[Tok]) -> None:
    """Raises `TsrError` for the first bracket without a counterpart, or for too deep nesting, in the output of
    `layout`."""
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
                raise error(token.span, message, "give parts of the expression a name")
        if text in _OPENING:
            opened.append(token)
            operators.append(0)
            if len(opened) > MAX_NESTING:
                raise error(token.span, f"nested more than {MAX_NESTING} levels deep")
        elif text in _CLOSING:
            last = opened.pop() if opened else None
            if last is None or last.text != _CLOSING[text]:
                raise _mismatch(last, token)
            operators.pop()
            if text == "}":
                operators[-1] = 0
                if misindented is None and _indent(token) < _indent(last):
                    misindented = last, token
        previous = token
    if misindented is not None and opened and opened[-1].text == "{":
        # Some `}` is missing. The one that stands further left than the line it would close is the best clue.
        last, closer = misindented
        line, _ = closer.source.position(closer.start)
        raise error(
            last.span, "`{` is never closed", f"by its indentation, line {line} closes something else"
        )
    if opened:
        raise error(opened[-1].span, f"`{opened[-1].text}` is never closed")


def _mismatch(last: Tok | None, closer: Tok) -> TsrError:
    """The message for a closing bracket where another one, or none, is open."""
    if last is None or last.text == "{":
        return error(closer.span, f"`{closer.text}` closes nothing", "remove it, or open it before")
    line, column = closer.source.position(closer.start)
    opened_line, opened_column = last.source.position(last.start)
    if closer.text == "}":  # a brace closes a whole body: what is missing is the inner bracket
        where = f"column {column}" if line == opened_line else f"line {line}"
        return error(
            last.span, f"`{last.text}` is never closed", f"the `}}` in {where} already ends the body"
        )
    where = f"in column {opened_column}" if line == opened_line else f"in line {opened_line}"
    message = f"`{closer.text}` does not close `{last.text}`"
    return error(closer.span, message, f"the `{last.text}` that is open here is {where}")


def _ends_operand(token: Tok | None) -> bool:
    return token is not None and (token.text in (")", "]") or token.kind in ("word", "number", "string"))


def _indent(token: Tok) -> int:
    line, _ = token.source.position(token.start)
    text = token.source.line(line)
    return len(text) - len(text.lstrip())


def pieces(tokens: list[Tok], length: int) -> list[tuple[int, int]]:
    """The stretches of a text that hold one item each, as far as can be told. Together they are all of it.

    An item is taken to begin at a line that starts with an item's keyword and a name. In the middle of a body
    that counts only without indentation, where it means that the body's end is missing. Between items any
    unindented word counts, since it may be a misspelt keyword.
    """
    starts: list[int] = []
    depth = 0
    docs: int | None = None  # where the doc comments that stand right before this token begin
    previous = "{"
    for i, token in enumerate(tokens):
        if token.kind == "doc":
            docs = token.start if docs is None else docs
        if token.kind in ("doc", "blank", "comment", "line"):
            continue
        indented = i > 0 and tokens[i - 1].kind == "blank"
        fresh = i - indented == 0 or tokens[i - indented - 1].kind in ("line", "doc")
        begins = _opens_item(tokens, i) if depth == 0 or not indented else False
        unknown = depth == 0 and not indented and token.kind in ("word", "foreign")
        if fresh and (begins or (unknown and previous not in CONTINUES_AFTER)):
            starts.append(token.start if docs is None else docs)
            depth = 0
        docs = None
        if token.text in _OPENING:
            depth += 1
        elif token.text in _CLOSING:
            depth = max(0, depth - 1)
        previous = token.text
    bounds = [0, *starts[1:], length]
    return [(a, b) for a, b in pairwise(bounds) if a < b]


def _opens_item(tokens: list[Tok], i: int) -> bool:
    """Whether an item's keyword and then a name, or an import's string, stand here."""
    if tokens[i].kind == "dashed":
        return True
    if tokens[i].text not in ITEMS or i + 2 >= len(tokens) or tokens[i + 1].kind != "blank":
        return False
    after = tokens[i + 2]
    if after.kind == "word":
        return after.text not in RESERVED
    return after.kind == "foreign" or (after.kind == "string" and tokens[i].text == "import")
