"""Looking through syntax trees."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from tensat_dl.core.source import Span
from tensat_dl.lang import ast


def names_of(tree: Any) -> Iterator[ast.Name]:
    """Every name in an expression, those bound by an inner ``for`` excepted."""
    if isinstance(tree, ast.Name):
        yield tree
    elif isinstance(tree, ast.EachIn):
        yield from names_of(tree.range)
        yield from (n for n in names_of(tree.body) if n.id != tree.var)
    else:
        for child in children(tree):
            yield from names_of(child)


def calls_of(tree: Any) -> Iterator[ast.Call]:
    """Every call in a tree."""
    if isinstance(tree, ast.Call):
        yield tree
    for child in children(tree):
        yield from calls_of(child)


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


def children(tree: Any) -> Iterator[Any]:
    """The trees that a tree is made of, one level down."""
    if isinstance(tree, tuple):
        yield from tree
    elif is_dataclass(tree):
        for f in fields(tree):
            value = getattr(tree, f.name)
            if isinstance(value, tuple) or (is_dataclass(value) and not isinstance(value, Span)):
                yield value
