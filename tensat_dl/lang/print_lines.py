"""Statements and bodies as lines, each of which knows the part of the source that it comes from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tensat_dl.lang.print_doc import INDENT, WIDTH, Doc, flat, render

Kind = Literal["import", "statement", "open", "close", "arrow"]


@dataclass(frozen=True, slots=True)
class Line:
    """One statement, or the beginning or end of a body. The text is indented and may go over several lines.

    ``start`` and ``end`` are its place in the source; both are -1 if there is no source.
    """

    text: str
    depth: int
    kind: Kind
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Leaf:
    """What always stands on lines of its own or whole on a line with others."""

    doc: Doc
    start: int
    end: int
    kind: Kind = "statement"
    before: str = "; "  # what separates it from the statement before, where a body stands on one line


@dataclass(frozen=True, slots=True)
class Body:
    """``header { entries }``; ``opened`` and ``closed`` are the places of the braces in the source."""

    header: Doc
    entries: Sequence[Leaf | Body]
    start: int
    opened: int
    closed: int
    compact: bool  # whether it is to stand on one line, if it fits
    about: str = ""  # the doc comment
    before: str = "; "


def laid_out(entry: Leaf | Body, depth: int) -> list[Line]:
    """The lines of a statement or an item, indented ``depth`` times."""
    indent = depth * INDENT
    pad = " " * indent
    if isinstance(entry, Leaf):
        return [Line(pad + render(entry.doc, indent), depth, entry.kind, entry.start, entry.end)]
    header = documented(entry.about) + pad + render((entry.header, " {"), indent)
    end = entry.closed if entry.closed < 0 else entry.closed + 1
    if entry.compact:
        rest = _inside(entry)
        if len(header) - header.rfind("\n") - 1 + len(rest) <= WIDTH:
            return [Line(header + rest, depth, "statement", entry.start, end)]
    opened = entry.opened if entry.opened < 0 else entry.opened + 1
    body = [line for e in entry.entries for line in laid_out(e, depth + 1)]
    return [
        Line(header, depth, "open", entry.start, opened),
        *body,
        Line(pad + "}", depth, "close", entry.closed, end),
    ]


def documented(about: str) -> str:
    """A doc comment's lines."""
    return "".join(f"/// {line}".rstrip() + "\n" for line in about.split("\n")) if about else ""


def _inside(body: Body) -> str:
    """What follows a body's opening brace if it stands on one line."""
    out = ""
    for entry in body.entries:
        text = flat(entry.doc) if isinstance(entry, Leaf) else flat((entry.header, " {")) + _inside(entry)
        # Nothing separates a statement from what is neither before nor after it.
        out += text if not out else (" " if out.endswith(("=>", " {")) else entry.before) + text
    return f" {out} }}" if out else "}"
