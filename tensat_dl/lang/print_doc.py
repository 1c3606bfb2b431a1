"""Text that may be broken into lines at chosen places (after Wadler's "A prettier printer").

A document is a string; a tuple of documents, one after the other; a `Break`, which is its flat text or a line
end; a `DocGroup`, whose breaks are all flat if that fits into the line; a `Nest`, whose line ends are indented;
or a `Fill`, which puts as many parts on each line as fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

WIDTH = 100
INDENT = 2


@dataclass(frozen=True, slots=True)
class Break:
    flat: str = " "


@dataclass(frozen=True, slots=True)
class DocGroup:
    doc: Doc


@dataclass(frozen=True, slots=True)
class Nest:
    doc: Doc


@dataclass(frozen=True, slots=True)
class Fill:
    """The parts from the one at ``start`` on, with ``", "`` or a comma and a line end between them."""

    parts: tuple[Doc, ...]
    start: int = 0

    @property
    def first(self) -> Doc:
        return self.parts[self.start]

    @property
    def rest(self) -> Fill | None:
        return Fill(self.parts, self.start + 1) if self.start + 1 < len(self.parts) else None


Doc: TypeAlias = "str | tuple[Doc, ...] | Break | DocGroup | Nest | Fill"
_Frame: TypeAlias = "tuple[int, bool, Doc]"  # indentation, whether breaks are flat, what is to be printed


def join(parts: list[Doc]) -> Doc:
    """The parts, separated by commas and breaks."""
    out: list[Doc] = []
    for part in parts:
        out += [",", Break()] if out else []
        out.append(part)
    return tuple(out)


def flat(doc: Doc) -> str:
    """The text without any line end."""
    return render(doc, width=None)


def render(doc: Doc, indent: int = 0, width: int | None = WIDTH) -> str:
    """The text, for a line that already has ``indent`` columns; later lines start with that indentation."""
    out: list[str] = []
    column = indent
    stack: list[_Frame] = [(indent, width is None, doc)]
    while stack:
        level, is_flat, part = stack.pop()
        if isinstance(part, str):
            out.append(part)
            column += len(part)
        elif isinstance(part, tuple):
            stack.extend((level, is_flat, p) for p in reversed(part))
        elif isinstance(part, Nest):
            stack.append((level + INDENT, is_flat, part.doc))
        elif isinstance(part, Break):
            out.append(part.flat if is_flat else "\n" + " " * level)
            column = column + len(part.flat) if is_flat else level
        elif isinstance(part, DocGroup):
            fits = width is None or is_flat or _fits((level, True, part.doc), stack, width - column)
            stack.append((level, fits, part.doc))
        elif is_flat or width is None:
            stack.append((level, True, join(list(part.parts[part.start :]))))
        elif part.parts:
            if (rest := part.rest) is not None:
                # Each break by itself: is there room for the next part and its comma?
                after: tuple[Doc, ...] = (rest.first, "," if rest.rest else "")
                room = width - column - len(flat(part.first)) - len(", ")
                stack.append((level, False, rest))
                stack.append((level, _fits((level, True, after), [], room), (",", Break())))
            stack.append((level, False, DocGroup(part.first)))
    return "".join(out)


def _fits(frame: _Frame, rest: list[_Frame], room: int) -> bool:
    """Whether a document, with what follows up to the next possible line end, fits into ``room`` columns."""
    stack, following = [frame], len(rest)
    while room >= 0:
        if not stack:
            if following == 0:
                return True
            following -= 1
            stack.append(rest[following])
            continue
        level, is_flat, part = stack.pop()
        if isinstance(part, str):
            room -= len(part)
        elif isinstance(part, tuple):
            stack.extend((level, is_flat, p) for p in reversed(part))
        elif isinstance(part, Break):
            if not is_flat:
                return True
            room -= len(part.flat)
        elif isinstance(part, DocGroup | Nest):
            stack.append((level, is_flat, part.doc))
        elif part.parts:
            if (after := part.rest) is not None:
                stack += [(level, is_flat, after), (level, is_flat, (",", Break()))]
            stack.append((level, is_flat, part.first))
    return False
