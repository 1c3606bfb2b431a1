"""Symbolic integers and conditions as egglog terms."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import Any

from tensat_dl.core.graph import DTYPES, INTEGERS
from tensat_dl.engine.syntax import App, Lit, Term, Var, app
from tensat_dl.ops.symbolic import Atom, Condition, Int, Opaque, Sym, add, elements, only_atom


def variable(name: str, part: str = "") -> Var:
    """A pattern's name as an egglog variable, or with a ``part`` the variable that holds a tensor's type, value or
    number of factors, or an element of a list. Nothing else starts with "?": a rule may use any name."""
    return Var(f"?{name}", part)


def integer(p: Int) -> Term:
    left, right = _sides(p)
    return left if right == Lit(0) else app("-", left, right)


def _sides(p: Int) -> tuple[Term, Term]:
    """p as a difference: what it adds and what it subtracts."""
    if isinstance(p, int):
        return Lit(p), Lit(0)
    positive = [_product(m, k) for m, k in p.terms if k > 0]
    negative = [_product(m, -k) for m, k in p.terms if k < 0]
    return _folded("+", positive or [Lit(0)]), _folded("+", negative or [Lit(0)])


def _product(monomial: tuple[Atom, ...], k: int) -> Term:
    factors: list[Term] = [Lit(k)] if k != 1 or not monomial else []
    return _folded("*", [*factors, *map(atom, monomial)])


def _folded(function: str, terms: Iterable[Term]) -> Term:
    """Terms put together two at a time, from the left."""
    return reduce(lambda a, b: app(function, a, b), terms)


def atom(a: Atom) -> Term:
    match a:
        case ("dim", tensor, i):
            return app("vec-get", variable(tensor, "type"), Lit(i + 1))
        case ("factors", tensor):
            return variable(tensor, "factors")
        case ("attr", name):
            return variable(name)
        case ("attr", name, i):
            return variable(name, str(i))
        case ("elem", name, i, _):
            return app("vec-get", variable(name), Lit(i))
        case ("div", p, q):
            if _natural(p) and _natural(q):
                return app("/", integer(p), integer(q))
            return app("/", app("-", integer(p), _floor_mod(p, q)), integer(q))
        case ("mod", p, q):
            return _floor_mod(p, q)
        case ("max" | "min", p, q):
            return app(str(a[0]), integer(p), integer(q))
        case ("select", items, index):
            return _select(items, index)
    raise AssertionError(a)


def _floor_mod(p: Int, q: Int) -> Term:
    """The remainder of a division that rounds down; the engine's rounds toward zero."""
    above, below = integer(p), integer(q)
    if _natural(p) and _natural(q):
        return app("%", above, below)
    return app("%", app("+", app("%", above, below), below), below)


def _natural(p: Int) -> bool:
    """Whether an integer is plainly not negative: dimensions are 1 or more, and nothing else is subtracted."""
    if isinstance(p, int):
        return p >= 0
    least = 0
    for monomial, k in p.terms:
        if (k < 0 and monomial) or not all(map(_natural_atom, monomial)):
            return False
        least += k if all(a[0] == "dim" for a in monomial) else 0
    return least >= 0


def _natural_atom(a: Atom) -> bool:
    match a:
        case ("dim", *_):
            return True
        case (("div" | "mod" | "min"), p, q):
            return _natural(p) and _natural(q)
        case ("max", p, q):
            return _natural(p) or _natural(q)
    return False


def _select(items: tuple[Int, ...], index: Int) -> Term:
    """``items[index]``; an index that may be negative counts from the end: in the list twice, from its middle."""
    whole = ints(items)
    if _natural(index):
        return app("vec-get", whole, integer(index))
    return app("vec-get", app("vec-append", whole, whole), integer(add(index, len(items))))


def ints(items: tuple[Int, ...]) -> Term:
    """A list as a value of the sort Ints."""
    if not items:
        return app("vec-empty")
    match only_atom(items[0]):
        case ("elem", name, 0, length) if items == elements(name, length):
            return variable(name)  # the list itself, not only the beginning of it
    return app("vec-of", *map(integer, items))


def value(x: object) -> Term:
    """Any attribute value: integer, float, text, list or an unknown."""
    match x:
        case bool():
            return Lit(int(x))
        case int() | Sym():
            return integer(x)
        case float():
            return Lit(x)
        case str():
            return Lit(DTYPES.index(x) if x in DTYPES else x)
        case tuple():
            return ints(x)
        case Opaque(("dtype", tensor)):
            return app("vec-get", variable(tensor, "type"), Lit(0))
        case Opaque(("value", tensor)):
            return variable(tensor, "value")
        case Opaque(("attr", name)):
            return variable(name)
        case Opaque(("float", op, a, b)):
            return app(op, _number(a), _number(b))
    raise AssertionError(x)


def guard(c: Condition) -> App:
    """A condition as a fact of a rule body."""
    match c.kind, c.args:
        case (("eq" | "ne" | "le"), (p,)):
            return app({"eq": "=", "ne": "!=", "le": "<="}[c.kind], *_sides(p))
        case "same", (a, b):
            return _same("=", a, b)
        case "not", (Condition("same", (a, b)),):
            return _same("!=", a, b)
        case "below", (a, b):
            return app("<", _number(a), _number(b))
        case "not", (Condition("below", (a, b)),):
            return app(">=", _number(a), _number(b))
        case "not", (Condition("weight", (tensor,)),):
            return app("varying", variable(tensor))
        case "weight", (tensor,):
            return app("weights_only", variable(tensor))
        case "start", (tensor,):
            return app("start", variable(tensor))
    return app("guard", boolean(c))


#: egglog compares floats in facts only. Where a truth value is needed, differences times this become integers.
_FINEST = Lit(1e18)


def _scaled(difference: Term) -> Term:
    return app("to-i64", app("*", _FINEST, difference))


def _held(dtype: Term, number: Term) -> Term:
    """Whether an integer type, or `bool`, has a number: a whole one, in its range."""
    whole = app("to-i64", number)
    rest = _scaled(app("-", number, app("to-f64", whole)))
    ranges = [
        app(
            "and",
            app("bool-=", dtype, value(t)),
            app("and", app("bool-<=", Lit(least), whole), app("bool-<=", whole, Lit(most))),
        )
        for t, (least, most) in {**INTEGERS, "bool": (0, 1)}.items()
    ]
    return app("and", app("bool-=", Lit(0), rest), _folded("or", ranges))


def _same(relation: str, a: object, b: object) -> App:
    as_term = _number if _known(a, b) else value
    return app(relation, as_term(a), as_term(b))


def _number(x: Any) -> Term:
    """A number, a float or not, as a float."""
    if isinstance(x, int):
        return Lit(float(x))
    return app("to-f64", integer(x)) if isinstance(x, Sym) else value(x)


def _known(*sides: object) -> bool:
    """Whether a comparison is about the known value of a tensor; such a comparison is a fact of its own."""
    return any(isinstance(x, Opaque) and x.atom[0] == "value" for x in sides)


def _is_dtype(x: object) -> bool:
    return x in DTYPES if isinstance(x, str) else isinstance(x, Opaque) and x.words == DTYPES


def boolean(c: Condition | bool) -> Term:
    """A condition as a truth value, for use inside and / or / not."""
    if isinstance(c, bool):
        return Lit(c)
    match c.kind, c.args:
        case "eq", (p,):
            return app("bool-=", *_sides(p))
        case "ne", (p,):
            return app("not", app("bool-=", *_sides(p)))
        case "le", (p,):
            return app("bool-<=", *_sides(p))
        case (("and" | "or"), args):
            return _folded(c.kind, map(boolean, args))
        case "not", (inner,):
            return app("not", boolean(inner))
        case "same", (a, b) if any(map(_is_dtype, (a, b))):
            return app("bool-=", value(a), value(b))
        case "same", (a, b) if any(isinstance(x, str) for x in (a, b)):
            # egglog compares texts in facts only: here each is found in the other
            one, other = value(a), value(b)
            found = app("count-matches", one, other), app("count-matches", other, one)
            return app("and", *(app("bool-<=", Lit(1), count) for count in found))
        case "same", (a, b) if any(isinstance(x, float) for x in (a, b)) and not _known(a, b):
            return app("bool-=", Lit(0), _scaled(app("-", _number(b), _number(a))))
        case "below", (a, b) if not _known(a, b):
            return app("bool-<=", Lit(1), _scaled(app("-", _number(b), _number(a))))
        case "holds", (dtype, number):
            return _held(value(dtype), value(number))
    raise NotCompilable(
        "weight(x), start(x) and value(x) stand alone, not inside `or`, and start(x) not inside `not`"
    )


class NotCompilable(Exception):
    """An expression that egglog can't compute; the message says what to avoid."""
