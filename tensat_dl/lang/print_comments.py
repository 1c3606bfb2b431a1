"""Puts comments and blank lines between the printed lines.

Every line knows its place in the source, and so does every comment. A comment after a line's end, in the same
line of the source, stays at the line's end. Any other moves to a line of its own, before the first line that
begins after it or around it. Blank lines follow the source, at most one at a time, except that items are
always set apart.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensat_dl.lang.ast import Comment
from tensat_dl.lang.print_doc import INDENT
from tensat_dl.lang.print_lines import Kind, Line


def weave(lines: Sequence[Line], comments: Sequence[Comment], text: str) -> str:
    """The printed lines with the comments of the source ``text`` among them."""
    rows = _Rows(text)
    left = list(reversed(comments))  # the next one last
    for k, line in enumerate(lines):
        if k > 0:
            rows.set_apart = _are_items(lines[k - 1], line)
        depth = line.depth + 1 if line.kind == "close" else line.depth
        while left and left[-1].span.start < line.end:
            comment = left.pop()
            inside = comment.span.start >= line.start
            start, end = (line.start, line.start) if inside else (comment.span.start, comment.span.end)
            rows.add(" " * (INDENT * depth) + comment.text, start, end)
        following = lines[k + 1].start if k + 1 < len(lines) else len(text)
        rows.add(line.text, line.start, line.end, line.kind)
        if left and left[-1].span.start < following and "\n" not in text[line.end : left[-1].span.start]:
            rows.append(left.pop())
    for comment in reversed(left):
        rows.add(comment.text, comment.span.start, comment.span.end)
    return "".join(f"{row}\n" for row in rows.rows)


def _are_items(a: Line, b: Line) -> bool:
    """Whether one item ends and another begins here, and they are not two imports."""
    between = a.depth == b.depth == 0 and a.kind != "open" and b.kind != "close"
    return between and not (a.kind == b.kind == "import")


class _Rows:
    """The text so far, and the place in the source where it ends."""

    def __init__(self, text: str) -> None:
        self.rows: list[str] = []
        self.set_apart = False  # whether a blank line must come next
        self._text = text
        self._end = 0
        self._kind: Kind = "open"

    def add(self, row: str, start: int, end: int, kind: Kind = "statement") -> None:
        """A comment or a line, which comes from ``start..end`` of the source."""
        tight = self._kind in ("open", "arrow") or kind in ("close", "arrow")
        if not tight and (self.set_apart or self._text.count("\n", max(self._end, 0), max(start, 0)) > 1):
            self.rows.append("")
        self.rows.append(row)
        self.set_apart, self._end, self._kind = False, end, kind

    def append(self, comment: Comment) -> None:
        """A comment at the end of the last row."""
        self.rows[-1] += f"  {comment.text}"
        self._end = comment.span.end
