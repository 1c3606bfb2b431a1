"""Where items begin in a text that does not parse, so that a mistake costs one item, not the rest."""

from __future__ import annotations

from itertools import pairwise

from tensat_dl.lang.line_ends import CONTINUES_AFTER
from tensat_dl.lang.tokens import ITEMS, RESERVED, Tok


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
        if token.text in ("{", "(", "["):
            depth += 1
        elif token.text in ("}", ")", "]"):
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
