"""Kinds of expressions, known before any tensor is: for operator declarations and rules.

Kinds are words of English, as messages show them: integer, float, condition, word (an element type, a choice or a
string), tensor, list of .., and anything where only the values will tell.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from tensat_dl.core import expression as ex
from tensat_dl.core.diagnostics import TsrError, error
from tensat_dl.core.graph import DTYPES
from tensat_dl.core.words import did_you_mean
from tensat_dl.ops.evaluate import Unresolved
from tensat_dl.ops.table import AttrDecl, OpDecl
from tensat_dl.ops.values import FUNCTIONS, check_call

ANYTHING = "anything"
#: Functions that ask what an e-graph knows about a tensor, which conditions of rules may do, and kinds of answers.
FACTS = {"weight": "condition", "value": "known value", "factors": "integer", "start": "condition"}

_LISTS = {
    "integer": "list of integers",
    "condition": "list of conditions",
    "tensor": "list of tensors",
    ANYTHING: "list",
}
_ELEMENTS = {kind: element for element, kind in _LISTS.items()}
_CONSTANTS = {"int": "integer", "float": "float", "string": "word", "bool": "condition"}
_NUMBERS = ("integer", "float")

#: Kinds by name.
Kinds = Mapping[str, str]


def attribute_kind(a: AttrDecl) -> str:
    """The kind of an attribute's value."""
    if a.length is not None or a.listed:
        return "list of integers"
    return {"int": "integer", "axis": "integer", "float": "float", "bool": "condition"}.get(a.type, "word")


def accepted(a: AttrDecl) -> tuple[str, ...]:
    """The kinds that may be written for an attribute."""
    kind = attribute_kind(a)
    if a.length is not None:
        return (kind, "integer")
    return (kind, "integer") if kind == "float" else (kind,)


def words(decl: OpDecl, a: AttrDecl) -> tuple[str, ...]:
    """The words that stand for values of an attribute: choices, presets, element types, truth values."""
    own = ("true", "false") if a.type == "bool" else a.words
    return (*own, *(preset for attr, preset, _ in decl.presets if attr == a.name))


def not_a_word(decl: OpDecl, a: AttrDecl, expr: ex.Expr) -> TsrError | None:
    """The message for a name that is none of an attribute's words, if it has any."""
    options = words(decl, a)
    if not isinstance(expr, ex.Name) or not options:
        return None
    hint = did_you_mean(expr.id, options) or f"it is one of {', '.join(options)}"
    what = "an element type" if a.type == "dtype" else f"a value of `{a.name}`"
    return error(expr.span, f"`{expr.id}` is not {what}", hint)


def article(kind: str) -> str:
    """``an integer``"""
    if kind == ANYTHING:
        return kind
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


def fits(kind: str, wanted: str) -> bool:
    """Whether a value of a kind may stand where another is wanted, as far as can be told."""
    if ANYTHING in (kind, wanted) or kind == wanted:
        return True
    return kind in _ELEMENTS and wanted in _ELEMENTS and "list" in (kind, wanted)


def want(expr: ex.Expr, names: Kinds, kinds: tuple[str, ...], facts: bool = False) -> str:
    """The kind of an expression, which must be one of some. Raises `TsrError`."""
    return _wanted(expr, kind_of(expr, names, facts), kinds)


def _wanted(expr: ex.Expr, kind: str, kinds: tuple[str, ...]) -> str:
    """The kind that an expression has, if it is one of some."""
    if any(fits(kind, k) for k in kinds):
        return kind
    raise error(expr.span, f"expected {article(kinds[0])}, found {article(kind)}")


def kind_of(expr: ex.Expr, names: Kinds, facts: bool = False) -> str:
    """The kind of an expression over names of known kinds. Raises `TsrError` for the first thing that is wrong.

    With ``facts`` an expression may ask for `FACTS`, at its top or joined by and, or, not and comparisons.
    """
    match expr:
        case ex.Const(_, kind):
            return _CONSTANTS[kind]
        case ex.Name(id):
            if id in names:
                return names[id]
            if id in DTYPES:
                return "word"
            raise Unresolved(expr, names)
        case ex.ListExpr(items):
            if isinstance(items, ex.EachIn):
                return _LISTS.get(_each(items, names), "list")
            return _LISTS.get(_common([kind_of(i, names) for i in items]), "list")
        case ex.If(condition, then, otherwise):
            want(condition, names, ("condition",))
            return _common([kind_of(then, names), kind_of(otherwise, names)])
        case ex.Unary(op, operand):
            if op == "not":
                return want(operand, names, ("condition",), facts)
            return want(operand, names, _NUMBERS)
        case ex.Binary():
            return _binary(expr, names, facts)
        case ex.Index(base, index):
            want(index, names, ("integer",))
            return _ELEMENTS.get(want(base, names, tuple(_ELEMENTS)), ANYTHING)
        case ex.Section(base, start, stop):
            for end in (start, stop):
                if end is not None:
                    want(end, names, ("integer",))
            return want(base, names, tuple(_ELEMENTS))
        case ex.Fact(function):
            return FACTS.get(function, "condition")
        case ex.Call(fn):
            if fn in FACTS:
                return _fact(expr, names, facts)
            return _call(expr, names)


def _each(each: ex.EachIn, names: Kinds) -> str:
    start, stop = each.range.start, each.range.stop
    if stop is None:
        element = _ELEMENTS.get(want(start, names, tuple(_ELEMENTS)), ANYTHING)
    else:
        element = "integer"
        want(start, names, ("integer",))
        want(stop, names, ("integer",))
    return kind_of(each.body, {**names, each.var: element})


def _call(expr: ex.Call, names: Kinds) -> str:
    function = FUNCTIONS.get(expr.fn)
    if function is None:
        raise Unresolved(expr, FUNCTIONS)
    check_call(expr)
    hint = f"its form is {function.form}"
    if isinstance(expr.args, ex.EachIn):
        found = _LISTS.get(_each(expr.args, names), "list")
        if not fits(found, function.kind(0, 1)):
            message = f"`{expr.fn}` expects {article(function.kind(0, 1))}, found {article(found)}"
            raise error(expr.args.span, message, hint)
        return function.result
    for i, a in enumerate(expr.args):
        wanted, found = function.kind(i, len(expr.args)), kind_of(a, names)
        if not fits(found, wanted):
            raise error(a.span, f"`{expr.fn}` expects {article(wanted)}, found {article(found)}", hint)
    return function.result


def _fact(expr: ex.Call, names: Kinds, allowed: bool) -> str:
    if not allowed:
        where = "in conditions of rules: joined by `and`, `or` and `not`, or compared"
        raise error(expr.span, f"`{expr.fn}` can't be asked for here", f"it stands only {where}")
    if expr.attrs or not isinstance(expr.args, tuple) or len(expr.args) != 1:
        raise error(expr.span, f"`{expr.fn}` takes one tensor", f"its form is {expr.fn}(x)")
    (tensor,) = expr.args
    want(tensor, names, ("tensor",))
    plain = tensor.base if isinstance(tensor, ex.Index) else tensor
    if not isinstance(plain, ex.Name):
        raise error(tensor.span, f"`{expr.fn}` takes a variable of the pattern")
    return FACTS[expr.fn]


_ORDER = ("<", "<=", ">", ">=")


def _binary(expr: ex.Binary, names: Kinds, facts: bool) -> str:
    op, sides = expr.op, (expr.left, expr.right)
    if op in ("and", "or"):
        for side in sides:
            want(side, names, ("condition",), facts)
        return "condition"
    if op in ("==", "!="):
        left, right = (kind_of(side, names, facts) for side in sides)
        if "tensor" in (left, right):
            raise error(expr.span, "tensors have no known values to compare", "compare shapes: `shape(x)`")
        if not _comparable(left, right):
            raise error(expr.span, f"{article(left)} never equals {article(right)}")
        return "condition"
    if op == "++":
        return _common([want(side, names, tuple(_ELEMENTS)) for side in sides])
    if op == "@":
        raise error(expr.span, "`@` multiplies tensors, not numbers")
    found = []
    for side in sides:
        kind = kind_of(side, names, facts)
        if kind == FACTS["value"] and op in _ORDER:
            continue
        if kind == FACTS["value"]:
            raise error(side.span, "a known value can only be compared, not computed with")
        if kind == "tensor":
            hint = "use its shape: `dim(x, 0)`, `rank(x)`, `shape(x)`"
            raise error(side.span, "expected a number, found a tensor", hint)
        found.append(_wanted(side, kind, _NUMBERS))
    if op in _ORDER:
        return "condition"
    return "float" if "float" in found else _common(found)


def _common(kinds: list[str]) -> str:
    """The kind of all of these; anything if they differ."""
    known = [k for k in kinds if k != ANYTHING]
    if not kinds:
        return "integer"
    if len(known) < len(kinds) or any(a != b for a, b in pairwise(known)):
        return ANYTHING
    return known[0]


def _comparable(a: str, b: str) -> bool:
    scalars = (*_NUMBERS, FACTS["value"])
    return fits(a, b) or (a in scalars and b in scalars) or (a in _ELEMENTS and b in _ELEMENTS)
