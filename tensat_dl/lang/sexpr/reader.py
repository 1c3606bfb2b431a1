"""S-expression rules: text to trees. One rule is a line ``source=>target``; trees know their place in the file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tensat_dl.core.diagnostics import Diagnostic, Source, Span, TsrError, collected, error

#: Rules are small. What nests deeper than this is no rule.
MAX_DEPTH = 100
#: Lines that start with one of these are comments.
COMMENTS = (";", "#", "//")

_TOKEN = re.compile(r"(?P<paren>[()])|(?P<arrow>=>)|(?P<atom>(?:(?!=>)[^\s()])+)|(?P<blank>\s+)")


@dataclass(frozen=True, slots=True)
class Atom:
    """A number, a variable ``?x``, or a word."""

    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class SForm:
    """``(head item item ..)``"""

    head: Atom
    items: tuple[SExpr, ...]
    span: Span


SExpr = Atom | SForm


@dataclass(frozen=True, slots=True)
class SLine:
    """One rewrite. ``number`` is its line in the file, from 1; ``text`` is the line with single blanks."""

    number: int
    text: str
    left: SExpr
    right: SExpr
    span: Span


def read_lines(source: Source) -> tuple[list[SLine | None], list[Diagnostic]]:
    """The rewrites of a file in order, None for one that can't be read, and the problems of those."""
    lines: list[SLine | None] = []
    problems: list[Diagnostic] = []
    start = 0
    for number, text in enumerate(source.text.split("\n"), 1):
        stripped = text.strip()
        if stripped and not stripped.startswith(COMMENTS):
            first = start + len(text) - len(text.lstrip())
            lines.append(None)
            with collected(problems):
                lines[-1] = _line(number, Span(source, first, first + len(stripped)))
        start += len(text) + 1
    return lines, problems


def _line(number: int, span: Span) -> SLine:
    tokens = list(_tokens(span))
    arrows = [token for kind, token in tokens if kind == "arrow"]
    form = "a rule is written `(..)=>(..)`"
    if not arrows:
        raise error(span, "the line has no `=>`", form)
    if len(arrows) > 1:
        raise error(arrows[1].span, "a second `=>` in one line", "write each rule on a line of its own")
    at = next(i for i, (kind, _) in enumerate(tokens) if kind == "arrow")
    left, right = tokens[:at], tokens[at + 1 :]
    for side, name in ((left, "left"), (right, "right")):
        if not side:
            raise error(arrows[0].span, f"nothing stands to the {name} of `=>`", form)
    problems: list[Diagnostic] = []
    sides: list[SExpr] = []
    for side in (left, right):
        with collected(problems):
            sides.append(_tree([token for _, token in side]))
    if problems:
        raise TsrError(problems)
    return SLine(number, span.line, sides[0], sides[1], span)


def _tokens(span: Span) -> Iterator[tuple[str, Atom]]:
    """Everything but blanks, each with its kind. The pattern matches any text."""
    for match in _TOKEN.finditer(span.source.text, span.start, span.end):
        if match.lastgroup and match.lastgroup != "blank":
            yield match.lastgroup, Atom(match.group(), Span(span.source, match.start(), match.end()))


def _tree(tokens: list[Atom]) -> SExpr:
    """The one expression that the tokens of a side make."""
    open_: list[tuple[Atom, list[SExpr]]] = []
    done: SExpr | None = None
    for token in tokens:
        if done is not None:
            hint = "parentheses do not match" if token.text == ")" else "a side is one expression"
            raise error(token.span, "the expression ends before this", hint)
        if token.text == "(":
            if len(open_) == MAX_DEPTH:
                raise error(token.span, f"expressions nest at most {MAX_DEPTH} deep")
            open_.append((token, []))
            continue
        item: SExpr = token
        if token.text == ")":
            if not open_:
                raise error(token.span, "this parenthesis closes nothing")
            item = _form(*open_.pop(), token)
        if open_:
            open_[-1][1].append(item)
        else:
            done = item
    if done is None:
        opened = open_[-1][0]
        raise error(opened.span, "this parenthesis is not closed", "each side of a rule stands on one line")
    return done


def _form(opened: Atom, items: list[SExpr], closed: Atom) -> SForm:
    span = opened.span.to(closed.span)
    if not items:
        raise error(span, "an operator is missing", "an expression is `(operator argument ..)`")
    head = items[0]
    if isinstance(head, SForm):
        raise error(head.span, "an operator's name comes first", "remove the parentheses around it")
    return SForm(head, tuple(items[1:]), span)
