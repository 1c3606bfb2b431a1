"""Syntax trees to text: the canonical formatting, which ``fmt`` writes.

Reading the text again gives the same tree, and printing that the same text. Comments are kept.
"""

from __future__ import annotations

from tensat_dl.lang import ast
from tensat_dl.lang.print_comments import weave
from tensat_dl.lang.print_doc import flat
from tensat_dl.lang.print_expr import expression
from tensat_dl.lang.print_items import Positions, item_lines


def print_file(file: ast.File) -> str:
    """The text of a file.

    A parsed tree keeps its comments, single blank lines, and which bodies stand on one line, all found
    by its nodes' spans. In a tree that a program made, whose items do not all come from
    ``file.span.source``, spans mean nothing: short rules and operators stand on one line, comments last.
    """
    source = file.span.source
    parsed = bool(file.items or file.comments) and all(
        _is_from(file, node) for node in (*file.items, *file.comments)
    )
    at = Positions(source if parsed else None)
    lines = [line for item in file.items for line in item_lines(item, at)]
    return weave(lines, file.comments, source.text if parsed else "")


def print_expr(expr: ast.Expr) -> str:
    """An expression on one line, with no more parentheses than the tree needs."""
    return flat(expression(expr))


def _is_from(file: ast.File, node: ast.Item | ast.Comment) -> bool:
    return node.span.source is file.span.source and node.span.start < node.span.end
