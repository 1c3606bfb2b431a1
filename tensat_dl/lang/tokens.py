"""Cuts a text into tokens, and finds the problems of single tokens.

Lark reads the text too, but only to the first mistake. This scan never fails, so every malformed number,
string or character of a file can be reported at once, and brackets and line ends be judged before Lark runs.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

from tensat_dl.core.diagnostics import Diagnostic, Source, Span


def words(text: str) -> frozenset[str]:
    """The words of a text, as a set: tables of words and signs read better so."""
    return frozenset(text.split())


#: Words that are never names, wherever they stand (the grammar's NAME excludes the same ones).
RESERVED = words("if then else and or not for in where true false inf")
#: What an item starts with.
ITEMS = ("import", "opaque", "op", "rule", "block", "graph", "test")
_GRAPH_WORDS = ("input", "weight", "output", "return", "for")
#: The words that start a statement, for each kind of item.
STATEMENTS = {
    "op": ("require", "let", "shape", "dtype", "flops", "preset", "view", "commutative"),
    "rule": ("each", "where"),
    "graph": _GRAPH_WORDS,
    "block": _GRAPH_WORDS,
    "test": (*_GRAPH_WORDS, "unchanged"),
}

#: Integers are 64-bit in the engine; 18 digits always fit.
MAX_DIGITS = 18

_TOKEN = re.compile(
    r"""(?P<doc>///(?!/)[^\n]*\n?)
      | (?P<comment>//[^\n]*)
      | (?P<block>/\*)
      | (?P<line>\n)
      | (?P<blank>[ \t\r]+)
      | (?P<string>"(?:[^"\\\n]|\\.)*(?:"|\\?))
      | (?P<dashed>(?:rule|test)[ \t]+[A-Za-z_][A-Za-z0-9_]*(?:-[A-Za-z0-9_]+)+)
      | (?P<number>[0-9](?:\.(?!\.)|[eE][+-](?=[0-9])|[0-9A-Za-z_])*)
      | (?P<foreign>[A-Za-z0-9_]*+[^\W\x00-\x7f]\w*)
      | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<op><=>|=>|->|==|!=|<=|>=|\+\+|\.\.|[(){}\[\],;:=+\-*/%@<>|?])
      | (?P<bad>.)""",
    re.VERBOSE,
)
_INTEGER = re.compile(r"[0-9]+")
_FLOAT = re.compile(r"[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+")
_CLOSED = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_ESCAPE = re.compile(r"\\(.)")

#: Characters that other languages, word processors or formulas use, and what is written here.
_INSTEAD = {
    **dict.fromkeys("'‘’‚‹›", 'strings are written "like this"'),
    **dict.fromkeys("“”„«»", 'strings are written with straight quotes: "like this"'),
    "`": 'strings are written "like this", names without quotes',
    "#": "comments start with `//`",
    "!": "negation is written `not`, inequality `!=`",
    "&": "conjunction is written `and`",
    "^": "there is no power operator; write a product, or `power(x; exponent = 2.0)`",
    "~": "negation is written `not`",
    "−": "write the minus sign `-`",
    "–": "write the minus sign `-`",
    "—": "write the minus sign `-`",
    "×": "write `*`",
    "·": "write `*`",
    "÷": "write `/`",
    "≤": "write `<=`",
    "≥": "write `>=`",
    "≠": "write `!=`",
    "→": "write `=>` between the sides of a rule, `->` before an operator's outputs",
    "⇒": "write `=>`",
    "⇔": "write `<=>`",
    "↔": "write `<=>`",
    "…": "write `..`",
    "\\": "a line continues by itself after an operator and inside brackets",
    ".": "functions of tensors are written like calls: `shape(x)`",
    "$": "names start with a letter or `_`",
    "\ufeff": "delete it; a byte order mark may only be a file's first character",
}


class Tok(NamedTuple):
    """One token: its kind, its text, and its place in the source."""

    kind: str
    text: str
    start: int
    end: int
    source: Source

    @property
    def span(self) -> Span:
        """Its place; a doc comment's ends before the end of the line."""
        end = self.start + len(self.text.rstrip()) if self.kind == "doc" else self.end
        return Span(self.source, self.start, end)


def scan(source: Source) -> Iterator[Tok]:
    """The tokens of a source, blanks, comments and line ends included: together they are the whole text."""
    begin = 0
    if source.text.startswith("\ufeff"):
        yield Tok("blank", "\ufeff", 0, 1, source)
        begin = 1
    for match in _TOKEN.finditer(source.text, begin):
        yield Tok(match.lastgroup or "bad", match[0], match.start(), match.end(), source)


def token_errors(source: Source, tokens: list[Tok]) -> list[Diagnostic]:
    """The problems of single tokens: at most one message a line, since one slip often spoils several."""
    found: list[Diagnostic] = []
    last_line = -1
    for i, token in enumerate(tokens):
        problem = _PROBLEMS[token.kind](tokens, i) if token.kind in _PROBLEMS else None
        if problem is None or problem.span is None:
            continue
        line, _ = source.position(problem.span.start)
        if line != last_line:
            found.append(problem)
        last_line = line
    return found


def _string(tokens: list[Tok], i: int) -> Diagnostic | None:
    token = tokens[i]
    if not _CLOSED.fullmatch(token.text):
        return Diagnostic("the string is not closed", token.span, 'strings end with `"` on the same line')
    for escape in _ESCAPE.finditer(token.text):
        if escape[1] not in 'nt"\\':
            at = token.start + escape.start()
            hint = r"known escapes are \n, \t, \" and \\; a backslash itself is written \\"
            message = f"unknown escape `{printable(escape[0])}` in a string"
            return Diagnostic(message, Span(token.source, at, at + 2), hint)
    return None


def _number(tokens: list[Tok], i: int) -> Diagnostic | None:
    at, text = tokens[i].span, tokens[i].text
    if _INTEGER.fullmatch(text):
        if len(text) <= MAX_DIGITS:
            return None
        approximately = f"{float(text):.4g}".replace("e+", "e")
        hint = f"integers have at most {MAX_DIGITS} digits; a float is written {approximately}"
        return Diagnostic("the integer is too large", at, hint if len(text) < 300 else "")
    if _FLOAT.fullmatch(text):
        if float(text) == 0 and re.search("[1-9]", re.split("[eE]", text)[0]):
            hint = "the smallest is about 4.9e-324; zero is written 0.0"
            return Diagnostic("the number is too small for a float", at, hint)
        if float(text) == float("inf"):
            return Diagnostic("the number is too large for a float", at, "the largest is about 1.8e308")
        return None
    shown = text if len(text) <= 40 else text[:40] + "…"
    return Diagnostic(f"`{shown}` is not a number", at, _number_hint(text))


def _number_hint(text: str) -> str:
    plain = text.replace("_", "")
    if plain != text and (_INTEGER.fullmatch(plain) or _FLOAT.fullmatch(plain)) and len(plain) < 40:
        return f"digits are written without `_`: {plain}"
    if re.fullmatch(r"0[xX][0-9a-fA-F]{1,15}|0[bB][01]{1,60}|0[oO][0-7]{1,20}", text):
        return f"numbers are decimal: {int(text, 0)}"
    if re.fullmatch(r"[0-9]{1,40}\.", text):
        return f"digits follow the point: {text}0"
    if text.count(".") > 1:
        return "a number has one decimal point; a range is written `start..stop`"
    if re.fullmatch(r"[0-9.]{1,40}[eE]", text):
        return f"digits follow the `{text[-1]}`: {text}6"
    name = re.fullmatch(r"([0-9]+)\.?([A-Za-z_][A-Za-z0-9_]{0,30})", text)
    if name:
        return f"a product is written `{name[1][:20]} * {name[2]}`, and a name does not start with a digit"
    return ""


def _foreign(tokens: list[Tok], i: int) -> Diagnostic:
    token = tokens[i]
    at, char = next((k, c) for k, c in enumerate(token.text) if not c.isascii())
    start = token.start + at
    message = f"{_character(char)} cannot be part of a name"
    return Diagnostic(
        message, Span(token.source, start, start + 1), "names are written with a-z, A-Z, 0-9 and `_`"
    )


def _block(tokens: list[Tok], i: int) -> Diagnostic:
    return Diagnostic("unexpected `/*`", tokens[i].span, "comments start with `//` and end with the line")


def _bad(tokens: list[Tok], i: int) -> Diagnostic:
    char = tokens[i].text
    hint = _INSTEAD.get(char, "")
    after = tokens[i + 1] if i + 1 < len(tokens) else None
    if char == "." and after is not None and after.kind == "number":
        hint = f"a number starts with a digit: 0.{after.text[:20]}"
    elif char == "." and after is not None and after.kind == "word":
        hint = _member(tokens[i - 1] if i else None, [t.text for t in tokens[i + 1 : i + 6]]) or hint
    elif not hint and unicodedata.category(char) == "Zs":
        hint = "write an ordinary space"
    elif not hint and unicodedata.category(char) in ("Cf", "Cc"):
        hint = "delete it"
    elif not hint:
        plain = unicodedata.normalize("NFKC", char)
        if plain != char and plain.isascii() and plain.isprintable() and plain.strip():
            hint = f"write `{plain}`"
    return Diagnostic(f"unexpected {_character(char)}", tokens[i].span, hint)


_LIBRARIES = words("torch np numpy jnp jax tf nn F math")


def _member(base: Tok | None, after: list[str]) -> str:
    """How to write ``x.T``, ``x.relu()`` and the like; ``after`` is what follows the point."""
    x = base.text if base is not None and base.kind == "word" else "x"
    name, *rest = after
    if x in _LIBRARIES:
        return f"operators have no prefix: `{name}(..)`"
    if name in ("T", "t"):
        return f"write `transpose({x}; perm = [1, 0])`"
    if name in ("shape", "size"):
        index = re.match(r"[\[(](-?\w+)[\])]", "".join(rest))
        return f"write `dim({x}, {index[1]})`" if index else f"write `shape({x})`"
    if name in ("dtype", "rank", "ndim") and rest[:1] != ["("]:
        return f"write `{'rank' if name == 'ndim' else name}({x})`"
    if base is None or base.kind != "word":
        return f"operators are called: `{name}(..)`"
    if name in ("sum", "mean", "max"):
        return f"operators are called: `reduce_{name}({x}; axis = 0)`"
    operands = "" if rest[:2] == ["(", ")"] or rest[:1] != ["("] else ", .." if name == "matmul" else "; .."
    return f"operators are called: `{name}({x}{operands})`"


def _doc(tokens: list[Tok], i: int) -> Diagnostic | None:
    token = tokens[i]
    after = i + 1
    while after < len(tokens) and tokens[after].kind in ("comment", "line", "blank"):
        after += 1
    item = tokens[after] if after < len(tokens) else None
    if item is not None and (item.kind == "doc" or item.text != "import"):
        return None  # what else may follow is the grammar's business
    before = "" if item is None else ", not an import"
    return Diagnostic(f"{DOC_ERROR}{before}", token.span, DOC_HINT)


DOC_ERROR = "a doc comment must stand before an op, rule, block, graph or test"
DOC_HINT = "write `//` for an ordinary comment"

_PROBLEMS = {
    "string": _string,
    "number": _number,
    "foreign": _foreign,
    "block": _block,
    "bad": _bad,
    "doc": _doc,
}


def printable(text: str) -> str:
    """Text with a mark in the place of each character that does not show."""
    return "".join(c if c.isprintable() else "�" for c in text)


def _character(char: str) -> str:
    """How a message calls a character: itself if it can be seen, and its Unicode name if it is not ASCII."""
    if char.isascii() and char.isprintable():
        return "backquote" if char == "`" else f"`{char}`"
    name = unicodedata.name(char, "").lower()
    code = f"U+{ord(char):04X}"
    described = f"{code}, {name}" if name else code
    return f"`{char}` ({described})" if char.isprintable() else f"invisible character {described}"
