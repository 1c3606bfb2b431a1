"""Names that statements bind."""

from __future__ import annotations

from collections.abc import Iterator

from tensat_dl.lang import ast


def bound_in(body: tuple[ast.Stmt, ...]) -> Iterator[ast.LValue]:
    """Every name that statements bind, loops included."""
    for stmt in body:
        match stmt:
            case ast.Bind(targets):
                yield from targets
            case ast.Input(target) | ast.Weight(target):
                yield target
            case ast.For(_, _, inner):
                yield from bound_in(inner)
