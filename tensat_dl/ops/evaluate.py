"""Evaluates the expressions of the language, in the concrete and in the symbolic domain (see `symbolic`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tensat_dl.ir.types import DTYPES, TensorType
from tensat_dl.lang import ast
from tensat_dl.lang.diagnostics import did_you_mean, error
from tensat_dl.lang.source import Span
from tensat_dl.ops import symbolic as sym
from tensat_dl.ops.symbolic import Condition, EvaluationError, Int, Opaque, Sym


@dataclass(frozen=True, slots=True)
class SymType:
    """A tensor type of known rank whose element type and dimensions may be unknown."""

    dtype: str | Opaque
    shape: tuple[Int, ...]


AnyType = TensorType | SymType


class Absent(Exception):
    """An optional tensor that is not there was used. Its argument is the name."""


class Unknown:
    """The value of a name whose statement failed. Whatever uses it fails too, and stays silent about it."""


class Failed(Exception):
    """Something failed for a reason that is reported already."""


class Lazy:
    """A name whose expression is evaluated when it is first used."""

    def __init__(self, expr: ast.Expr) -> None:
        self.expr = expr


Env = dict[str, Any]


def evaluate(expr: ast.Expr, env: Env) -> Any:
    """The value of an expression: int, float, bool, str, tuple, a tensor type, or their symbolic counterparts.

    Raises `TsrError` for an unknown name or a misuse, `EvaluationError` if there is no value.
    """
    try:
        return _EVALUATE[type(expr)](expr, env)
    except EvaluationError as e:
        if e.span is None:  # the innermost expression that has no value
            e.span = expr.span
        raise


def _list_expr(expr: ast.ListExpr, env: Env) -> tuple[Any, ...]:
    if isinstance(expr.items, ast.EachIn):
        return tuple(_each(expr.items, env))
    return tuple(evaluate(i, env) for i in expr.items)


def _if(expr: ast.If, env: Env) -> Any:
    condition = evaluate(expr.condition, env)
    if not isinstance(condition, bool):
        raise error(expr.condition.span, "this condition is not known when rules are compiled")
    return evaluate(expr.then if condition else expr.otherwise, env)


def _unary(expr: ast.Unary, env: Env) -> Any:
    value = evaluate(expr.operand, env)
    if expr.op == "not":
        return sym.negate(_bool(value, expr.operand))
    return -value if isinstance(value, float) else sym.neg(_int(value, expr.operand))


def _index(expr: ast.Index, env: Env) -> Any:
    items = evaluate(expr.base, env)
    if isinstance(items, dict):
        return member(expr, items, _known_int(evaluate(expr.index, env), expr.index))
    items = _list(items, expr.base)
    i = _int(evaluate(expr.index, env), expr.index)
    if isinstance(i, Sym):
        return sym.select(items, i)
    if not -len(items) <= i < len(items):
        raise EvaluationError(f"a list of {len(items)} has no element {i}")
    return items[i]


def member(expr: ast.Index, items: Mapping[int, Any], i: int) -> Any:
    """Element i of a list of tensors."""
    if i not in items:
        keys = sorted(items)
        if not keys:
            hint = "it is empty"
        elif keys == list(range(len(keys))):
            hint = f"it has elements 0 to {len(keys) - 1}" if len(keys) > 1 else "it has one element, 0"
        else:
            hint = f"it has {', '.join(map(str, keys[:8]))}{', ..' if len(keys) > 8 else ''}"
        raise error(expr.span, f"`{expr.base.span.text}` has no element {i}", hint)
    if isinstance(items[i], Unknown):
        raise Failed
    return items[i]


def _section(expr: ast.Section, env: Env) -> tuple[Any, ...]:
    items = _list(evaluate(expr.base, env), expr.base)
    low = None if expr.start is None else _known_int(evaluate(expr.start, env), expr.start)
    high = None if expr.stop is None else _known_int(evaluate(expr.stop, env), expr.stop)
    return items[low:high]


def _call(expr: ast.Call, env: Env) -> Any:
    fn = expr.fn
    function = FUNCTIONS.get(fn)
    if function is None:
        raise error(expr.fn_span, f"unknown function `{fn}`", did_you_mean(fn, FUNCTIONS))
    check_call(expr)
    if isinstance(expr.args, ast.EachIn):
        return function.apply(_argument(function.kind(0, 1), tuple(_each(expr.args, env)), expr.args.span))
    n = len(expr.args)
    return function.apply(
        *(_argument(function.kind(i, n), evaluate(a, env), a.span) for i, a in enumerate(expr.args))
    )


def check_call(expr: ast.Call) -> None:
    """Raises `TsrError` if a function is called with attributes or a wrong number of arguments."""
    function = FUNCTIONS[expr.fn]
    if expr.attrs:
        raise error(expr.attrs[0].span, f"`{expr.fn}` takes no attributes", f"its form is {function.form}")
    count = 1 if isinstance(expr.args, ast.EachIn) else len(expr.args)
    if count != len(function.parameters) and not (function.many and count):
        want = "1 or more" if function.many else str(len(function.parameters))
        plural = "s" if want != "1" else ""
        raise error(
            expr.span,
            f"`{expr.fn}` takes {want} argument{plural}, not {count}",
            f"its form is {function.form}",
        )


def _lookup(expr: ast.Name, env: Env) -> Any:
    name = expr.id
    if name not in env:
        if name in DTYPES:
            return name
        raise error(expr.span, f"unknown name `{name}`", did_you_mean(name, [*env, *DTYPES]))
    value = env[name]
    if value is None:
        raise Absent(name)
    if isinstance(value, Unknown):
        raise Failed
    if isinstance(value, Lazy):
        env[name] = value = evaluate(value.expr, env)
    return value


def _each(each: ast.EachIn, env: Env) -> list[Any]:
    inner = dict(env)
    out = []
    for i in range_values(each.range, env):
        inner[each.var] = i
        out.append(evaluate(each.body, inner))
    return out


def range_values(over: ast.Range, env: Env) -> list[Any]:
    """The elements of ``a..b`` or of a list."""
    if over.stop is None:
        return list(_list(evaluate(over.start, env), over.start))
    start = _known_int(evaluate(over.start, env), over.start)
    stop = _known_int(evaluate(over.stop, env), over.stop)
    if stop - start > 100_000:
        raise error(over.span, f"the range has {stop - start:,} elements", "at most 100,000 are allowed")
    return list(range(start, stop))


def _binary(expr: ast.Binary, env: Env) -> Any:
    op = expr.op
    if op in ("and", "or"):
        left = _bool(evaluate(expr.left, env), expr.left)
        if left is (op == "or"):  # the other side may not even be defined: short-circuit
            return left
        right = _bool(evaluate(expr.right, env), expr.right)
        return sym.all_of((left, right)) if op == "and" else sym.any_of((left, right))
    left, right = evaluate(expr.left, env), evaluate(expr.right, env)
    if op in ("==", "!="):
        same = sym.equal(left, right)
        return same if op == "==" else sym.negate(same)
    if op == "++":
        return _list(left, expr.left) + _list(right, expr.right)
    if isinstance(left, float) or isinstance(right, float):
        return _float_binary(expr, left, right)
    a, b = _int(left, expr.left), _int(right, expr.right)
    match op:
        case "<=":
            return sym.at_most(a, b)
        case "<":
            return sym.at_most(sym.add(a, 1), b)
        case ">=":
            return sym.at_most(b, a)
        case ">":
            return sym.at_most(sym.add(b, 1), a)
        case "+":
            return sym.add(a, b)
        case "-":
            return sym.sub(a, b)
        case "*":
            return sym.mul(a, b)
        case "/":
            return sym.floordiv(a, b)
        case "%":
            return sym.mod(a, b)
    raise error(expr.span, f"`{op}` works on tensors, not on numbers")


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


def _float_binary(expr: ast.Binary, left: Any, right: Any) -> Any:
    for value, side in ((left, expr.left), (right, expr.right)):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise error(side.span, f"expected a number, found {describe(value)}")
    if expr.op not in _FLOAT:
        raise error(expr.span, f"`{expr.op}` works on integers")
    try:
        return _FLOAT[expr.op](left, right)
    except ZeroDivisionError:
        raise EvaluationError("division by zero") from None


def describe(value: Any) -> str:
    """What kind of thing a value is, for messages."""
    match value:
        case TensorType() | SymType():
            return "a tensor"
        case dict():
            return "a list of tensors"
        case tuple():
            return "a list"
        case bool() | Condition():
            return "a truth value"
        case int() | Sym():
            return "an integer"
        case float():
            return "a float"
        case str():
            return f'"{value}"'
    return "something else"


def _int(value: Any, at: ast.Expr) -> Int:
    if not _is_int(value):
        raise error(at.span, f"expected an integer, found {describe(value)}")
    return value  # type: ignore[no-any-return]


def _known_int(value: Any, at: ast.Expr) -> int:
    if isinstance(value, Sym):
        raise error(at.span, "this integer is not known when rules are compiled")
    known = _int(value, at)
    assert isinstance(known, int)
    return known


def _bool(value: Any, at: ast.Expr) -> bool | Condition:
    if not isinstance(value, bool | Condition):
        raise error(at.span, f"expected a condition, found {describe(value)}")
    return value


def _list(value: Any, at: ast.Expr) -> tuple[Any, ...]:
    if not isinstance(value, tuple):
        raise error(at.span, f"expected a list, found {describe(value)}")
    return value


_EVALUATE: Mapping[type, Callable[[Any, Env], Any]] = {
    ast.Const: lambda expr, env: expr.value,
    ast.Name: _lookup,
    ast.ListExpr: _list_expr,
    ast.If: _if,
    ast.Unary: _unary,
    ast.Binary: _binary,
    ast.Index: _index,
    ast.Section: _section,
    ast.Call: _call,
}


# ---- functions ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Function:
    """``parameters`` are what its arguments must be, see `_argument`; with ``many`` it also takes integers in any
    number in place of its list."""

    form: str
    parameters: tuple[str, ...]
    apply: Callable[..., Any]
    many: bool = False

    def kind(self, i: int, count: int) -> str:
        """What argument i of ``count`` must be."""
        return "integer" if self.many and count > 1 else self.parameters[i]


def _argument(kind: str, value: Any, at: Span) -> Any:
    """The value if it is of the kind that a function takes."""
    if isinstance(value, Opaque):
        return value
    items = value if isinstance(value, tuple) else ()
    ok = False
    match kind:
        case "tensor":
            ok = isinstance(value, TensorType | SymType)
        case "integer":
            ok = _is_int(value)
        case "list":
            ok = isinstance(value, tuple | dict)
        case "list of integers":
            ok = isinstance(value, tuple) and all(_is_int(i) for i in items)
        case "list of conditions":
            ok = isinstance(value, tuple) and all(isinstance(i, bool | Condition) for i in items)
    if not ok:
        article = "an" if kind[0] in "aeiou" else "a"
        found = f"a list with {describe(_odd_one(kind, items))} in it" if items else describe(value)
        raise error(at, f"expected {article} {kind}, found {found}")
    return value


def _odd_one(kind: str, items: tuple[Any, ...]) -> Any:
    wanted = bool | Condition if kind == "list of conditions" else int | Sym
    return next((i for i in items if not isinstance(i, wanted) or isinstance(i, bool)), items[0])


def _is_int(value: Any) -> bool:
    return isinstance(value, int | Sym) and not isinstance(value, bool)


def _dim(x: AnyType, i: Int) -> Int:
    shape = x.shape
    if isinstance(i, int) and not -len(shape) <= i < len(shape):
        raise EvaluationError(f"a tensor of rank {len(shape)} has no dimension {i}")
    return sym.select(shape, i)


def _set(items: tuple[Int, ...], index: Int, value: Int) -> tuple[Int, ...]:
    if not isinstance(index, int):
        raise EvaluationError("the position is not known when rules are compiled")
    if not -len(items) <= index < len(items):
        raise EvaluationError(f"a list of {len(items)} has no element {index}")
    out = list(items)
    out[index] = value
    return tuple(out)


def _broadcast(a: tuple[Int, ...], b: tuple[Int, ...]) -> tuple[Int, ...]:
    """NumPy broadcasting. Where two dimensions are unknown the result is their maximum, under the condition that
    they are equal or one of them is 1; `Broadcast` carries those conditions out."""
    rank = max(len(a), len(b))
    out: list[Int] = []
    conditions: list[sym.Bool] = []
    for x, y in zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b, strict=True):
        if x == 1 or x == y:
            out.append(y)
        elif y == 1:
            out.append(x)
        else:
            conditions.append(sym.any_of((sym.equal(x, y), sym.equal(x, 1), sym.equal(y, 1))))
            out.append(sym.maximum(x, y))
    return Broadcast(tuple(out), sym.all_of(conditions))


class Broadcast(tuple[Int, ...]):
    """A shape that exists only if ``condition`` holds."""

    condition: sym.Bool

    def __new__(cls, shape: tuple[Int, ...], condition: sym.Bool) -> Broadcast:
        self = super().__new__(cls, shape)
        self.condition = condition
        return self


def _prod(items: tuple[Int, ...]) -> Int:
    total: Int = 1
    for i in items:
        total = sym.mul(total, i)
    return total


def _sum(items: tuple[Int, ...]) -> Int:
    total: Int = 0
    for i in items:
        total = sym.add(total, i)
    return total


def _extreme(fold: Callable[[Int, Int], Int]) -> Callable[..., Int]:
    def apply(*items: Any) -> Int:
        values = items[0] if len(items) == 1 and isinstance(items[0], tuple) else items
        if not values:
            raise EvaluationError("the list is empty")
        result: Int = values[0]
        for v in values[1:]:
            result = fold(result, v)
        return result

    return apply


def _distinct(items: tuple[Int, ...]) -> sym.Bool:
    return sym.all_of(sym.negate(sym.equal(a, b)) for i, a in enumerate(items) for b in items[:i])


_INTS, _CONDITIONS = "list of integers", "list of conditions"
FUNCTIONS: Mapping[str, Function] = {
    "rank": Function("rank(x)", ("tensor",), lambda x: len(x.shape)),
    "dim": Function("dim(x, i)", ("tensor", "integer"), _dim),
    "shape": Function("shape(x)", ("tensor",), lambda x: x.shape),
    "dtype": Function("dtype(x)", ("tensor",), lambda x: x.dtype),
    "len": Function("len(list)", ("list",), len),
    "prod": Function("prod(list)", (_INTS,), _prod),
    "sum": Function("sum(list)", (_INTS,), _sum),
    "max": Function("max(a, b, ..) or max(list)", (_INTS,), _extreme(sym.maximum), many=True),
    "min": Function("min(a, b, ..) or min(list)", (_INTS,), _extreme(sym.minimum), many=True),
    "all": Function("all(condition for i in 0..n)", (_CONDITIONS,), sym.all_of),
    "any": Function("any(condition for i in 0..n)", (_CONDITIONS,), sym.any_of),
    "set": Function("set(list, position, value)", (_INTS, "integer", "integer"), _set),
    "broadcast": Function("broadcast(shape(x), shape(y))", (_INTS, _INTS), _broadcast),
    "distinct": Function("distinct(list)", (_INTS,), _distinct),
}
