"""Integers in which names of sizes occur, as expressions of the language."""

from __future__ import annotations

from collections.abc import Iterable

from tensat_dl.lang import ast
from tensat_dl.ops.symbolic import Atom, Int, Monomial
from tensat_dl.sizes.named import NamedSize


def declared(sizes: Iterable[NamedSize]) -> tuple[ast.SizeParam, ...]:
    """The declarations of sizes."""
    return tuple(
        ast.SizeParam(s.name, integer(s.low), integer(s.high), integer(s.default), span=ast.NOWHERE)
        for s in sizes
    )


def integer(value: Int) -> ast.Expr:
    """An integer, such as ``n * 12 + 1``."""
    if isinstance(value, int):
        return ast.integer(value, ast.NOWHERE)
    # Constants come last, and what is subtracted comes after something that is not.
    terms = sorted(value.terms, key=lambda term: (term[1] < 0, not term[0]))
    (monomial, factor), *rest = terms
    found = _term(monomial, factor)
    for monomial, factor in rest:
        found = _binary("-" if factor < 0 else "+", found, _term(monomial, abs(factor)))
    return found


def _term(monomial: Monomial, factor: int) -> ast.Expr:
    if not monomial:
        return ast.integer(factor, ast.NOWHERE)
    first, *rest = monomial
    found = _atom(first)
    for a in rest:
        found = _binary("*", found, _atom(a))
    return found if factor == 1 else _binary("*", found, ast.integer(factor, ast.NOWHERE))


def _atom(a: Atom) -> ast.Expr:
    match a:
        case ("dim", str(name), 0):
            return ast.Name(name, span=ast.NOWHERE)
        case ("div", p, q):
            return _binary("/", integer(p), integer(q))
        case ("mod", p, q):
            return _binary("%", integer(p), integer(q))
        case ("max" | "min" as fn, p, q):
            return ast.call(fn, (integer(p), integer(q)), (), ast.NOWHERE)
    raise AssertionError(a)


def _binary(op: str, left: ast.Expr, right: ast.Expr) -> ast.Expr:
    return ast.Binary(op, left, right, span=ast.NOWHERE)
