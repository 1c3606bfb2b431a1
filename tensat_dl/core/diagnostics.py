"""Places in source texts, and located messages: a mistake, its place, and a hint at the right form."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

#: More messages than this are only counted.
MAX_SHOWN = 30
#: Longer source lines are cut around the caret.
WIDTH = 100


@dataclass(frozen=True, eq=False)
class Source:
    """One file's text. ``path`` is what messages show."""

    path: str
    text: str

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(m.end() for m in re.finditer("\n", self.text))]

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, both from 1."""
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def line(self, number: int) -> str:
        """The text of line ``number`` (from 1), without its line end."""
        start = self._line_starts[number - 1]
        end = self.text.find("\n", start)
        return self.text[start : end if end >= 0 else len(self.text)].rstrip("\r")


@dataclass(frozen=True, slots=True)
class Span:
    """The characters ``start..end`` of a source. Spans never take part in comparing syntax trees."""

    source: Source = field(repr=False)
    start: int
    end: int
    #: A variable and the word that stands in its place, in a rule of a family.
    word: tuple[str, str] | None = field(default=None, repr=False)

    def to(self, other: Span) -> Span:
        return Span(self.source, self.start, max(self.end, other.end))

    @property
    def text(self) -> str:
        text = self.source.text[self.start : self.end]
        return text if self.word is None else written_for(text, *self.word)

    @property
    def line(self) -> str:
        """The text on one line, each run of blanks and line ends being one blank."""
        return " ".join(self.text.split())

    @property
    def place(self) -> str:
        """``file:line:column`` of its first character."""
        line, column = self.source.position(self.start)
        return f"{self.source.path}:{line}:{column}"


def written_for(text: str, variable: str, word: str) -> str:
    """The text with ``word`` in place of each whole word ``variable``."""
    return re.sub(rf"\b{re.escape(variable)}\b", word, text)


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One message. ``span`` is None for a file that could not be read at all; ``notes`` are facts that explain it,
    ``hint`` is what to do."""

    message: str
    span: Span | None
    hint: str = ""
    severity: Literal["error", "warning"] = "error"
    path: str = ""
    notes: tuple[str, ...] = ()

    def render(self) -> str:
        """``file:line:col: error: message``, the source line, a caret line, and the hint."""
        if self.span is None:
            where = f"{self.path}: " if self.path else ""
            lines = [f"{where}{self.severity}: {_clipped(self.message)}"]
        else:
            source = self.span.source
            number, column = source.position(self.span.start)
            lines = [f"{source.path}:{number}:{column}: {self.severity}: {_clipped(self.message)}"]
            lines += _excerpt(source.line(number), number, column, self.span.end - self.span.start)
        lines += [f"  = note: {_clipped(note)}" for note in self.notes]
        if self.hint:
            lines.append(f"  = hint: {_clipped(self.hint)}")
        return "\n".join(lines)


def _clipped(text: str) -> str:
    """A message with overlong words of the source cut off, and without characters that a terminal acts on."""
    clipped = re.sub(r"[A-Za-z0-9_]{80,}", lambda word: word[0][:60] + "…", text)
    return "\n".join(map(_printable, clipped.split("\n")))


def _excerpt(text: str, number: int, column: int, length: int) -> list[str]:
    start = 0 if column <= WIDTH - 20 else column - WIDTH // 2
    shown = _printable(text[start : start + WIDTH])
    at = column - 1 - start
    indent = " " * _columns(shown[:at])
    carets = "^" * max(1, _columns(shown[at : at + length]))
    if start:
        shown, indent = "…" + shown, " " + indent
    if start + WIDTH < len(text):
        shown += "…"
    gutter = str(number)
    return [f"  {gutter} | {shown}".rstrip(), f"  {' ' * len(gutter)} | {indent}{carets}"]


def _printable(text: str) -> str:
    text = text.replace("\t", " ")
    return "".join(c if c.isprintable() or unicodedata.category(c) == "Zs" else "�" for c in text)


def _columns(text: str) -> int:
    """How many terminal columns a text takes: wide characters two, combining ones none."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )


class TsrError(Exception):
    """Bad input. Carries every diagnostic that was found before giving up."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = _distinct(diagnostics)
        super().__init__(self.render())

    def __reduce__(self) -> tuple[type[TsrError], tuple[tuple[Diagnostic, ...]], dict[str, object]]:
        return type(self), (self.diagnostics,), vars(self)  # or pickle would make it of its text

    def render(self) -> str:
        shown = [d.render() for d in self.diagnostics[:MAX_SHOWN]]
        if len(self.diagnostics) > MAX_SHOWN:
            shown.append(f"and {len(self.diagnostics) - MAX_SHOWN} more")
        return "\n\n".join(shown)


def _distinct(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Each message once at each place."""
    found: dict[tuple[str, int, int, str], Diagnostic] = {}
    for d in diagnostics:
        place = (d.span.source.path, d.span.start, d.span.end) if d.span else (d.path, 0, 0)
        found.setdefault((*place, d.message), d)
    return tuple(found.values())


def error(span: Span, message: str, hint: str = "", notes: Iterable[str] = ()) -> TsrError:
    """One located error, ready to raise."""
    return TsrError([Diagnostic(message, span, hint, notes=tuple(notes))])


@contextmanager
def collected(problems: list[Diagnostic]) -> Iterator[None]:
    """A `TsrError` that is raised within ends the block, and its messages are added to a list."""
    try:
        yield
    except TsrError as e:
        problems += e.diagnostics
