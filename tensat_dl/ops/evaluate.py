"""Evaluates the expressions of the language, in the concrete and in the symbolic domain (see `symbolic`)."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tensat_dl.core import expression as ex
from tensat_dl.core.diagnostics import Diagnostic, TsrError, error
from tensat_dl.core.graph import DTYPES, TensorType
from tensat_dl.core.words import did_you_mean
from tensat_dl.ops import symbolic as sym
from tensat_dl.ops.lists import AnyLength, Many, mentioned
from tensat_dl.ops.symbolic import EACH, MEMBER, Condition, EvaluationError, Int, NotKnown, Opaque, Sym
from tensat_dl.ops.values import (
    FUNCTIONS,
    MAX_INTEGER,
    Absent,
    AlreadyReported,
    Env,
    Lazy,
    SymType,
    Unknown,
    argument,
    check_call,
    describe,
    is_int,
)

#: The most elements of a range, of nested ranges together, and of a list that is put together.
MAX_ELEMENTS = 100_000
#: Types of values that names stand for as they are.
_PLAIN = frozenset({int, TensorType, SymType, tuple, dict, str, bool, Sym})
#: Under this name an environment has the number of rounds that the comprehensions around make together.
_ROUNDS = ""
#: Under this name it may have a function that answers facts about tensors; without it they are unknowns.
_KNOWN = "?"


class Unresolved(TsrError):
    """A name, or the function of a call, is unknown where it stands. Callers may add to the message."""

    def __init__(self, expr: ex.Name | ex.Call, known: Mapping[str, Any]) -> None:
        self.expr = expr
        if isinstance(expr, ex.Name):
            hint = did_you_mean(expr.id, [*known, *DTYPES])
            found = Diagnostic(f"unknown name `{expr.id}`", expr.span, hint)
        else:
            found = Diagnostic(f"unknown function `{expr.fn}`", expr.fn_span, did_you_mean(expr.fn, known))
        super().__init__([found])


def evaluate(expr: ex.Expr, env: Env) -> Any:
    """The value of an expression: int, float, bool, str, tuple, a tensor type, or their symbolic counterparts.

    Raises `TsrError` for an unknown name or a misuse, `EvaluationError` if there is no value.
    """
    if isinstance(expr, ex.Const):
        return expr.value
    if isinstance(expr, ex.Name) and type(value := env.get(expr.id)) in _PLAIN:
        return value
    try:
        return _EVALUATE[type(expr)](expr, env)
    except EvaluationError as e:
        if e.span is None:  # the innermost expression that has no value
            e.span = expr.span
        raise


def _list_expr(expr: ex.ListExpr, env: Env) -> tuple[Any, ...] | Many:
    if isinstance(expr.items, ex.EachIn):
        return _each(expr.items, env)
    return tuple(evaluate(i, env) for i in expr.items)


def _if(expr: ex.If, env: Env) -> Any:
    condition = evaluate(expr.condition, env)
    if not isinstance(condition, bool):
        found = "is not known when rules are compiled" if isinstance(condition, Condition | Opaque) else ""
        message = f"this condition {found}" if found else f"expected a condition, found {describe(condition)}"
        raise error(expr.condition.span, message)
    return evaluate(expr.then if condition else expr.otherwise, env)


def _unary(expr: ex.Unary, env: Env) -> Any:
    value = evaluate(expr.operand, env)
    if expr.op == "not":
        return sym.negate(_bool(value, expr.operand))
    if _are_floats(value, -1.0):
        return Opaque(("float", "*", value, -1.0))
    return -value if isinstance(value, float) else sym.neg(_int(value, expr.operand))


def _index(expr: ex.Index, env: Env) -> Any:
    items = evaluate(expr.base, env)
    if isinstance(items, dict):
        return member(expr, items, _known_int(evaluate(expr.index, env), expr.index))
    i = evaluate(expr.index, env)
    if type(items) is tuple and type(i) is int and -len(items) <= i < len(items):  # most often
        return items[i]
    i = _int(i, expr.index)
    if isinstance(items, Many):
        return items.at(i)
    items = _list(items, expr.base)
    if isinstance(i, Sym):
        if others := [x for x in items if not is_int(x)]:
            found = describe(others[0])
            message = f"this element of a list is not known when rules are compiled, and may be {found}"
            raise error(expr.span, message, "elements that depend on sizes are integers")
        return sym.select(items, i)
    if not -len(items) <= i < len(items):
        raise EvaluationError(f"a list of {len(items)} has no element {i}")
    return items[i]


def member(expr: ex.Index, items: Mapping[int, Any], i: int) -> Any:
    """Element i of a list of tensors; a negative one is counted from the end."""
    k = i + max(items) + 1 if i < 0 and items else i
    if k not in items:
        raise error(expr.span, f"`{expr.base.span.text}` has no element {i}", which_elements(items))
    if isinstance(items[k], Unknown):
        raise AlreadyReported
    return items[k]


def which_elements(items: Mapping[int, Any]) -> str:
    """The indices of a list of tensors, as a hint."""
    keys = sorted(items)
    if not keys:
        return "it is empty"
    if len(keys) > 1 and keys == list(range(keys[0], keys[-1] + 1)):
        return f"it has elements {keys[0]} to {keys[-1]}"
    if keys == [0]:
        return "it has one element, 0"
    return f"it has {', '.join(map(str, keys[:8]))}{', ..' if len(keys) > 8 else ''}"


def _section(expr: ex.Section, env: Env) -> tuple[Any, ...] | Many:
    items = evaluate(expr.base, env)
    if isinstance(items, Many) and expr.start is None and expr.stop is not None:
        return items.first(_int(evaluate(expr.stop, env), expr.stop))
    items = _list(items, expr.base)
    low = None if expr.start is None else _known_int(evaluate(expr.start, env), expr.start)
    high = None if expr.stop is None else _known_int(evaluate(expr.stop, env), expr.stop)
    return items[low:high]


def _call(expr: ex.Call, env: Env) -> Any:
    fn = expr.fn
    function = FUNCTIONS.get(fn)
    if function is None:
        raise Unresolved(expr, FUNCTIONS)
    check_call(expr)
    if isinstance(expr.args, ex.EachIn):
        return function.apply(argument(function, 0, 1, _each(expr.args, env), expr.args.span))
    n = len(expr.args)
    return function.apply(
        *[argument(function, i, n, evaluate(a, env), a.span) for i, a in enumerate(expr.args)]
    )


def _lookup(expr: ex.Name, env: Env) -> Any:
    name = expr.id
    if name not in env:
        if name in DTYPES:
            return name
        raise Unresolved(expr, env)
    value = env[name]
    if value is None:
        raise Absent(name, expr.span)
    if isinstance(value, Unknown):
        raise AlreadyReported
    if isinstance(value, Lazy):
        env[name] = value = evaluate(value.expr, env)
    return value


def knowing(env: Mapping[str, Any], known: Callable[[str, str], Any]) -> Env:
    """An environment in which ``known(function, tensor)`` answers facts about tensors."""
    return {**env, _KNOWN: known}


def _fact(expr: ex.Fact, env: Env) -> Any:
    value = env.get(_KNOWN, sym.fact)(expr.function, expr.name)
    if value is None:
        raise Absent(expr.name, expr.span)
    return value


def _each(each: ex.EachIn, env: Env) -> tuple[Any, ...] | Many:
    values = _values(each.range, env)
    if isinstance(values, Many):
        if any(not isinstance(v, Many) and EACH in mentioned(v) for v in env.values()):
            raise AnyLength("lists of any length are nested")
        return Many(evaluate(each.body, {**env, each.var: values.item}), values.length)
    rounds = env.get(_ROUNDS, 1) * len(values)
    if rounds > MAX_ELEMENTS:
        raise error(each.span, f"this makes {rounds:,} rounds", f"at most {MAX_ELEMENTS:,} are allowed")
    inner = {**env, _ROUNDS: rounds}
    out = []
    for i in values:
        inner[each.var] = i
        out.append(evaluate(each.body, inner))
    return tuple(out)


def range_values(over: ex.Range, env: Env) -> Sequence[Any]:
    """The elements of ``a..b`` or of a list, of which there are as many as is known."""
    values = _values(over, env)
    assert not isinstance(values, Many)
    return values


def _values(over: ex.Range, env: Env) -> Sequence[Any] | Many:
    if over.stop is None:
        values = evaluate(over.start, env)
        if isinstance(values, Many):
            return values
        if is_int(values):
            text = over.start.span.text
            raise error(over.span, "expected a range or a list, found an integer", f"write `0..{text}`")
        return _list(values, over.start)
    start = _known_int(evaluate(over.start, env), over.start)
    last = evaluate(over.stop, env)
    if isinstance(last, Sym) and not last.mentioned.isdisjoint((MEMBER, sym.LENGTH)):
        if start != 0:
            raise AnyLength("a range does not begin with the first member")
        return Many(sym.atom(*EACH)).first(last)
    stop = _known_int(last, over.stop)
    if stop - start > MAX_ELEMENTS:
        count = f"{stop - start:,}"
        raise error(over.span, f"the range has {count} elements", f"at most {MAX_ELEMENTS:,} are allowed")
    return range(start, stop)


def _binary(expr: ex.Binary, env: Env) -> Any:
    op = expr.op
    if op in ("and", "or"):
        left = _bool(evaluate(expr.left, env), expr.left)
        if left is (op == "or"):  # the other side may not even be defined: short-circuit
            return left
        try:
            right = _bool(evaluate(expr.right, env), expr.right)
        except EvaluationError as e:
            if isinstance(left, Condition):  # which may leave no need for the other side
                raise NotKnown(str(e)) from None
            raise
        return sym.all_of((left, right)) if op == "and" else sym.any_of((left, right))
    left, right = evaluate(expr.left, env), evaluate(expr.right, env)
    if type(left) is int and type(right) is int and op in _ON_INTEGERS:  # most often
        found = _ON_INTEGERS[op](left, right)
        if -MAX_INTEGER <= found <= MAX_INTEGER:
            return found
    if op in ("==", "!="):
        if isinstance(left, Many) or isinstance(right, Many):
            raise AnyLength("lists of any length are compared")
        same = sym.equal(_as_float(left, right), _as_float(right, left))
        return same if op == "==" else sym.negate(same)
    if op == "++":
        joined = _list(left, expr.left) + _list(right, expr.right)
        if len(joined) > MAX_ELEMENTS:
            raise EvaluationError(f"the list has more than {MAX_ELEMENTS:,} elements")
        return joined
    if op in _ORDER and (isinstance(left, Opaque) or isinstance(right, Opaque)):
        return _ORDER[op](left, right)
    if op in _ARITHMETIC and _are_floats(left, right):
        return Opaque(("float", op, left, right))
    if isinstance(left, float) or isinstance(right, float):
        return _float_binary(expr, left, right)
    a, b = _int(left, expr.left), _int(right, expr.right)
    if op not in _INT:
        raise error(expr.span, f"`{op}` multiplies tensors, not integers")
    result = _INT[op](a, b)
    if isinstance(result, int) and abs(result) > MAX_INTEGER:
        raise EvaluationError("the integer has more than 100 digits")
    return result


#: Operators on known integers, unless the result is too large.
_ON_INTEGERS: Mapping[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
    ">": operator.gt,
}
#: Operators on floats.
_ARITHMETIC = frozenset("+-*/")


def _are_floats(left: Any, right: Any) -> bool:
    """Whether two operands are unknown floats, or an unknown float and a number."""
    unknown = [x for x in (left, right) if isinstance(x, Opaque) and x.atom[0] in ("attr", "value", "float")]
    known = [x for x in (left, right) if isinstance(x, float | int) and not isinstance(x, bool)]
    return bool(unknown) and len(unknown) + len(known) == 2


def _as_float(value: Any, other: Any) -> Any:
    """A number that is compared with an unknown float, as a float."""
    return float(value) if type(value) is int and isinstance(other, Opaque) else value


_INT: dict[str, Callable[[Int, Int], Any]] = {
    "<=": sym.at_most,
    "<": lambda a, b: sym.at_most(sym.add(a, 1), b),
    ">=": lambda a, b: sym.at_most(b, a),
    ">": lambda a, b: sym.at_most(sym.add(b, 1), a),
    "+": sym.add,
    "-": sym.sub,
    "*": sym.mul,
    "/": sym.floordiv,
    "%": sym.mod,
}
_ORDER: dict[str, Callable[[Any, Any], sym.Bool]] = {
    "<=": lambda a, b: sym.negate(sym.below(b, a)),
    "<": sym.below,
    ">=": lambda a, b: sym.negate(sym.below(a, b)),
    ">": lambda a, b: sym.below(b, a),
}
_FLOAT: dict[str, Callable[[float, float], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def _float_binary(expr: ex.Binary, left: Any, right: Any) -> Any:
    for value, side in ((left, expr.left), (right, expr.right)):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise error(side.span, f"expected a number, found {describe(value)}")
    if expr.op not in _FLOAT:
        raise error(expr.span, f"`{expr.op}` works on integers, not on floats")
    try:
        return _FLOAT[expr.op](left, right)  # infinities and nan are values like others
    except ZeroDivisionError:
        raise EvaluationError("division by zero") from None
    except OverflowError:
        raise EvaluationError("the integer is too large for a float") from None


def _int(value: Any, at: ex.Expr) -> Int:
    if not is_int(value):
        raise error(at.span, f"expected an integer, found {describe(value)}")
    return value  # type: ignore[no-any-return]


def _known_int(value: Any, at: ex.Expr) -> int:
    if isinstance(value, Sym):
        raise error(at.span, "this integer is not known when rules are compiled")
    known = _int(value, at)
    assert isinstance(known, int)
    return known


def _bool(value: Any, at: ex.Expr) -> bool | Condition:
    if isinstance(value, Opaque):  # an attribute that is a truth value
        value = sym.equal(value, True)
    if not isinstance(value, bool | Condition):
        raise error(at.span, f"expected a condition, found {describe(value)}")
    return value


def _list(value: Any, at: ex.Expr) -> tuple[Any, ...]:
    if isinstance(value, Many):
        raise AnyLength("a list of any length stands where one of known length is needed")
    if not isinstance(value, tuple):
        raise error(at.span, f"expected a list, found {describe(value)}")
    return value


_EVALUATE: Mapping[type, Callable[[Any, Env], Any]] = {
    ex.Const: lambda expr, env: expr.value,
    ex.Fact: _fact,
    ex.Name: _lookup,
    ex.ListExpr: _list_expr,
    ex.If: _if,
    ex.Unary: _unary,
    ex.Binary: _binary,
    ex.Index: _index,
    ex.Section: _section,
    ex.Call: _call,
}
