"""Symbolic integers and conditions as egglog text."""

from __future__ import annotations

from functools import reduce
from typing import Any

from tensat_dl.core.types import DTYPES, INTEGERS
from tensat_dl.ops.symbolic import Atom, Condition, Int, Opaque, Sym, add, elements, only_atom


def type_variable(tensor: str) -> str:
    """The egglog variable that holds the type of a tensor variable."""
    return f"{variable(tensor)}.type"


def variable(name: str) -> str:
    """A pattern's name as an egglog variable. Nothing else starts with "?": a rule may use any name."""
    return f"?{name}"


def value_variable(tensor: str) -> str:
    """The egglog variable that holds the value of a constant tensor variable."""
    return f"{variable(tensor)}.value"


def factors_variable(tensor: str) -> str:
    """The egglog variable that holds the number of factors of a tensor variable."""
    return f"{variable(tensor)}.factors"


def integer(p: Int) -> str:
    if isinstance(p, int):
        return str(p)
    positive = [(m, k) for m, k in p.terms if k > 0]
    negative = [(m, -k) for m, k in p.terms if k < 0]
    total = _sum([_product(m, k) for m, k in positive]) if positive else "0"
    return f"(- {total} {_sum([_product(m, k) for m, k in negative])})" if negative else total


def _sum(terms: list[str]) -> str:
    total = terms[0]
    for t in terms[1:]:
        total = f"(+ {total} {t})"
    return total


def _product(monomial: tuple[Atom, ...], k: int) -> str:
    factors = [str(k)] if k != 1 or not monomial else []
    factors += [atom(a) for a in monomial]
    total = factors[0]
    for f in factors[1:]:
        total = f"(* {total} {f})"
    return total


def atom(a: Atom) -> str:
    match a:
        case ("dim", tensor, i):
            return f"(vec-get {type_variable(tensor)} {i + 1})"
        case ("factors", tensor):
            return factors_variable(tensor)
        case ("attr", name):
            return variable(name)
        case ("attr", name, i):
            return f"{variable(name)}.{i}"
        case ("elem", name, i, _):
            return f"(vec-get {variable(name)} {i})"
        case ("div", p, q):
            if _natural(p) and _natural(q):
                return f"(/ {integer(p)} {integer(q)})"
            return f"(/ (- {integer(p)} {_floor_mod(p, q)}) {integer(q)})"
        case ("mod", p, q):
            return _floor_mod(p, q)
        case ("max" | "min", p, q):
            return f"({a[0]} {integer(p)} {integer(q)})"
        case ("select", items, index):
            return _select(items, index)
    raise AssertionError(a)


def _floor_mod(p: Int, q: Int) -> str:
    """The remainder of a division that rounds down; the engine's rounds toward zero."""
    above, below = integer(p), integer(q)
    if _natural(p) and _natural(q):
        return f"(% {above} {below})"
    return f"(% (+ (% {above} {below}) {below}) {below})"


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


def _select(items: tuple[Int, ...], index: Int) -> str:
    """``items[index]``; an index that may be negative counts from the end: in the list twice, from its middle."""
    whole = ints(items)
    if _natural(index):
        return f"(vec-get {whole} {integer(index)})"
    return f"(vec-get (vec-append {whole} {whole}) {integer(add(index, len(items)))})"


def ints(items: tuple[Int, ...]) -> str:
    """A list as a value of the sort Ints."""
    if not items:
        return "(vec-empty)"
    match only_atom(items[0]):
        case ("elem", name, 0, length) if items == elements(name, length):
            return variable(name)  # the list itself, not only the beginning of it
    return f"(vec-of {' '.join(map(integer, items))})"


def value(x: object) -> str:
    """Any attribute value: integer, float, text, list or an unknown."""
    match x:
        case bool():
            return str(int(x))
        case int() | Sym():
            return integer(x)
        case float():
            return repr(x)
        case str() if x in DTYPES:
            return str(DTYPES.index(x))
        case str():
            return '"' + x.replace("\\", "\\\\").replace('"', '\\"') + '"'
        case tuple():
            return ints(x)
        case Opaque(("dtype", tensor)):
            return f"(vec-get {type_variable(tensor)} 0)"
        case Opaque(("value", tensor)):
            return value_variable(tensor)
        case Opaque(("attr", name)):
            return variable(name)
    raise AssertionError(x)


def guard(c: Condition) -> str:
    """A condition as a fact of a rule body."""
    match c.kind, c.args:
        case "eq", (p,):
            left, right = _sides(p)
            return f"(= {left} {right})"
        case "ne", (p,):
            left, right = _sides(p)
            return f"(!= {left} {right})"
        case "le", (p,):
            left, right = _sides(p)
            return f"(<= {left} {right})"
        case "same", (a, b):
            return _same("=", a, b)
        case "not", (Condition("same", (a, b)),):
            return _same("!=", a, b)
        case "below", (a, b):
            return f"(< {_number(a)} {_number(b)})"
        case "not", (Condition("below", (a, b)),):
            return f"(>= {_number(a)} {_number(b)})"
        case "not", (Condition("weight", (tensor,)),):
            return f"(varying {variable(tensor)})"
        case "weight", (tensor,):
            return f"(weights_only {variable(tensor)})"
        case "start", (tensor,):
            return f"(start {variable(tensor)})"
    return f"(guard {boolean(c)})"


#: egglog compares floats in facts only. Where a truth value is needed, differences times this become integers.
_FINEST = "1000000000000000000.0"


def _held(dtype: str, number: str) -> str:
    """Whether an integer type, or `bool`, has a number: a whole one, in its range."""
    whole = f"(to-i64 {number})"
    rest = f"(to-i64 (* {_FINEST} (- {number} (to-f64 {whole}))))"
    ranges = [
        f"(and (bool-= {dtype} {value(t)}) (and (bool-<= {least} {whole}) (bool-<= {whole} {most})))"
        for t, (least, most) in {**INTEGERS, "bool": (0, 1)}.items()
    ]
    return f"(and (bool-= 0 {rest}) {reduce(lambda a, b: f'(or {a} {b})', ranges)})"


def _same(relation: str, a: object, b: object) -> str:
    if _known(a, b):
        a, b = _number(a), _number(b)
        return f"({relation} {a} {b})"
    return f"({relation} {value(a)} {value(b)})"


def _number(x: Any) -> str:
    """A number, a float or not, as a float."""
    return _float(x) if isinstance(x, int | Sym) else value(x)


def _float(p: Int) -> str:
    return repr(float(p)) if isinstance(p, int) else f"(to-f64 {integer(p)})"


def _known(*sides: object) -> bool:
    """Whether a comparison is about a known value of a tensor, which is a fact of its own."""
    return any(isinstance(x, Opaque) and x.atom[0] == "value" for x in sides)


def _is_dtype(x: object) -> bool:
    return x in DTYPES if isinstance(x, str) else isinstance(x, Opaque) and x.words == DTYPES


def boolean(c: Condition | bool) -> str:
    """A condition as a truth value, for use inside and / or / not."""
    if isinstance(c, bool):
        return str(c).lower()
    match c.kind, c.args:
        case "eq", (p,):
            left, right = _sides(p)
            return f"(bool-= {left} {right})"
        case "ne", (p,):
            left, right = _sides(p)
            return f"(not (bool-= {left} {right}))"
        case "le", (p,):
            left, right = _sides(p)
            return f"(bool-<= {left} {right})"
        case (("and" | "or"), args):
            text = boolean(args[0])
            for a in args[1:]:
                text = f"({c.kind} {text} {boolean(a)})"
            return text
        case "not", (inner,):
            return f"(not {boolean(inner)})"
        case "same", (a, b) if any(map(_is_dtype, (a, b))):
            return f"(bool-= {value(a)} {value(b)})"
        case "same", (a, b) if any(isinstance(x, str) for x in (a, b)):
            a, b = value(a), value(b)  # egglog compares texts in facts only: here each is found in the other
            return f"(and (bool-<= 1 (count-matches {a} {b})) (bool-<= 1 (count-matches {b} {a})))"
        case "same", (a, b) if any(isinstance(x, float) for x in (a, b)) and not _known(a, b):
            return f"(bool-= 0 (to-i64 (* {_FINEST} (- {_number(b)} {_number(a)}))))"
        case "below", (a, b) if not _known(a, b):
            return f"(bool-<= 1 (to-i64 (* {_FINEST} (- {_number(b)} {_number(a)}))))"
        case "holds", (dtype, number):
            return _held(value(dtype), value(number))
    raise NotCompilable(
        "weight(x), start(x) and value(x) stand alone, not inside `or`, and start(x) not inside `not`"
    )


class NotCompilable(Exception):
    """An expression that egglog can't compute; the message says what to avoid."""


def _sides(p: Int) -> tuple[str, str]:
    """p compared with 0 as two sides without subtraction where that reads better."""
    if isinstance(p, int):
        return str(p), "0"
    positive = [(m, k) for m, k in p.terms if k > 0]
    negative = [(m, -k) for m, k in p.terms if k < 0]

    def total(terms: list[tuple[tuple[Atom, ...], int]]) -> str:
        return _sum([_product(m, k) for m, k in terms]) if terms else "0"

    return total(positive), total(negative)
