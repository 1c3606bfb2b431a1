"""The unexpected token and its surroundings, by which messages about syntax errors are chosen."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tensat_dl.core.diagnostics import Source, Span
from tensat_dl.lang.tokens import ITEMS, Tok, words

#: What a line does not end with, and what another statement than the one before begins with.
LEAVES_OPEN = words("= + - * / % @ ++")
STARTS_STATEMENT = words("input weight output return for each")
COMPARISONS = words("== != <= >= < >")


def clipped(text: str) -> str:
    """A word of the source as a message shows it."""
    return f"`{text if len(text) <= 60 else text[:60] + '…'}`"


@dataclass(frozen=True)
class Place:
    """``tokens[at]`` is unexpected; at the end of the text ``at`` is one past the last token."""

    source: Source
    tokens: list[Tok]
    at: int
    accepts: frozenset[str]  # the terminals that the parser would take here
    last_piece: bool  # whether the end of the tokens is the end of the file

    @property
    def token(self) -> Tok | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    @property
    def text(self) -> str:
        """The unexpected token's text; empty at the end."""
        return self.token.text if self.token else ""

    @property
    def kind(self) -> str:
        return self.token.kind if self.token else ""

    def near(self, distance: int) -> str:
        """The text of the token so many places after (or, negative, before) the unexpected one."""
        i = self.at + distance
        return self.tokens[i].text if 0 <= i < len(self.tokens) else ""

    @property
    def operand_expected(self) -> bool:
        return {"NAME", "INT"} <= self.accepts

    @property
    def operator_expected(self) -> bool:
        return {"PLUS", "TIMES"} <= self.accepts

    @cached_property
    def item(self) -> str:
        """The keyword of the item."""
        for token in self.tokens[: self.at]:
            word = token.text.split()[0] if token.kind in ("word", "dashed") else ""
            if word in ITEMS and word != "opaque":
                return word
        return ""

    @cached_property
    def opener(self) -> int | None:
        """The index of the innermost bracket that is open here."""
        depth = 0
        for i in range(min(self.at, len(self.tokens)) - 1, -1, -1):
            if self.tokens[i].text in (")", "]", "}"):
                depth += 1
            elif self.tokens[i].text in ("(", "[", "{"):
                if depth == 0:
                    return i
                depth -= 1
        return None

    @property
    def in_parens(self) -> bool:
        return self.opener is not None and self.tokens[self.opener].text != "{"

    @property
    def in_call(self) -> bool:
        """Directly inside the parentheses of ``f(...)``. The parameters of an ``op f(...)`` are not meant."""
        i = self.opener
        if not i or self.tokens[i].text != "(" or self.tokens[i - 1].kind != "word":
            return False
        return i < 2 or self.tokens[i - 2].text not in ITEMS

    @property
    def in_sizes(self) -> bool:
        """In the parentheses of ``graph g(..)``, or before them."""
        i = self.at if self.opener is None else self.opener
        if not 1 < i < len(self.tokens) or self.tokens[i - 2].text != "graph":
            return False
        return self.tokens[i].text in ("(", "[")

    @property
    def after_semicolon(self) -> bool:
        """Whether the bracket that is open here has had its ``;``."""
        return self.opener is not None and any(t.text == ";" for t in self.tokens[self.opener : self.at])

    @property
    def second_in_statement(self) -> bool:
        """Whether the token before the unexpected one is the first of a body's statement."""
        if self.at < 2 or self.opener is None or self.in_parens:
            return False
        previous = self.tokens[self.at - 2]
        return previous.kind == "line" or previous.text in ("{", ";", "=>", "<=>")

    @cached_property
    def statement(self) -> int:
        """The index of the first token of the statement that the unexpected one stands in."""
        first = 0
        depth = 0
        for i, token in enumerate(self.tokens[: self.at]):
            if token.text in ("(", "["):
                depth += 1
            elif token.text in (")", "]"):
                depth -= 1
            elif depth == 0 and (token.kind == "line" or token.text in ("{", "}", ";", "=>", "<=>")):
                first = i + 1
        return min(first, max(len(self.tokens) - 1, 0))

    @property
    def statement_tokens(self) -> list[Tok]:
        """The statement's tokens before the unexpected one; none outside of a body."""
        return self.tokens[self.statement : self.at] if self.opener is not None else []

    @property
    def statement_end(self) -> int:
        """The index after the last token of the statement that the unexpected one stands in."""
        rest = range(self.at, len(self.tokens))
        ends = (i for i in rest if self.tokens[i].kind == "line" or self.tokens[i].text == "}")
        return next(ends, len(self.tokens))

    @property
    def is_cut_short(self) -> bool:
        """Whether the line before the unexpected one ends in the middle of something, and then a body ends."""
        if self.text != "}" or self.at == 0 or "_SEP" in self.accepts:
            return False
        before = self.tokens[self.at - 1]
        return (
            before.text not in ("{", "=>", "<=>") and "\n" in self.source.text[before.end : self.span().start]
        )

    @property
    def line_left_open(self) -> int | None:
        """How many tokens before the unexpected one stands the ``=`` or operator that ends a line, if what follows
        on the next line is another statement."""
        if self.opener is None or self.in_parens or self.token is None:
            return None
        first = self.at
        while first > 0 and "\n" not in self.source.text[self.tokens[first - 1].end : self.token.start]:
            first -= 1
        left_open = first > 0 and self.tokens[first - 1].text in LEAVES_OPEN
        begins = self.tokens[first].text in STARTS_STATEMENT or self.text in ("=", ":")
        return self.at - first + 1 if left_open and begins else None

    def after_previous(self) -> Span:
        """The place right after the token before the unexpected one."""
        end = self.tokens[self.at - 1].end
        return Span(self.source, end, end + 1)

    def span(self, distance: int = 0) -> Span:
        """The place of the token so many places before the unexpected one; at the end, of the last one."""
        i = min(self.at - distance, len(self.tokens) - 1)
        if i < 0:
            return Span(self.source, 0, 0)
        return self.tokens[i].span
