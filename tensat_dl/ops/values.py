"""Values of expressions: the values of names besides numbers and lists, and the functions that expressions may
call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from tensat_dl.core import expression as ex
from tensat_dl.core.diagnostics import Span, error
from tensat_dl.core.graph import DTYPES, FLOATS, INTEGERS, TensorType
from tensat_dl.ops import symbolic as sym
from tensat_dl.ops.lists import AnyLength, Many
from tensat_dl.ops.symbolic import Condition, EvaluationError, Int, NotKnown, Of, Opaque, Sym

#: Larger integers have no meaning anywhere, and squaring one again and again must come to an end.
MAX_INTEGER = 10**100


@dataclass(frozen=True, slots=True)
class SymType:
    """A tensor type of known rank whose element type and dimensions may be unknown."""

    dtype: str | Opaque
    shape: tuple[Int, ...]

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


#: The type of an operand, or of all members of a list.
AnyType = TensorType | SymType | Many


def unknown_tensor(name: str | Of, rank: int) -> SymType:
    """The type of a tensor of which the rank alone is known. Members of lists have one element type."""
    own = name.name if isinstance(name, Of) else name
    return SymType(Opaque(("dtype", own), DTYPES), tuple(sym.atom("dim", name, i) for i in range(rank)))


class Absent(Exception):
    """An optional tensor that is not there was used."""

    def __init__(self, name: str, span: Span) -> None:
        super().__init__(name)
        self.name = name
        self.span = span


class Unknown:
    """The value of a name whose statement failed. Expressions that use it fail too, and stay silent about it."""


class AlreadyReported(Exception):
    """Something failed for a reason that is reported already."""


class Lazy:
    """A name whose expression is evaluated when it is first used."""

    def __init__(self, expr: ex.Expr) -> None:
        self.expr = expr


Env = dict[str, Any]


def describe(value: Any) -> str:
    """The kind of a value, with its article, for messages."""
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
            return f"`{value}`"
        case Opaque():
            return "an unknown value"
    return "something else"


def is_int(value: Any) -> bool:
    """Whether a value is an integer, known or not."""
    return isinstance(value, int | Sym) and not isinstance(value, bool)


# ---- functions ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Function:
    """``parameters`` are the kinds of its arguments, ``result`` that of what it gives (see `kinds`); with ``many``
    it also takes integers in any number in place of its list, with ``any_length`` lists of unknown length."""

    form: str
    parameters: tuple[str, ...]
    result: str
    apply: Callable[..., Any]
    many: bool = False
    any_length: bool = False

    def kind(self, i: int, count: int) -> str:
        """The kind that argument i of ``count`` must have."""
        return "integer" if self.many and count > 1 else self.parameters[i]


def check_call(expr: ex.Call) -> None:
    """Raises `TsrError` if a function is called with attributes or a wrong number of arguments."""
    function = FUNCTIONS[expr.fn]
    if expr.attrs:
        raise error(expr.attrs[0].span, f"`{expr.fn}` takes no attributes", f"its form is {function.form}")
    count = 1 if isinstance(expr.args, ex.EachIn) else len(expr.args)
    if count != len(function.parameters) and not (function.many and count):
        want = "1 or more" if function.many else str(len(function.parameters))
        plural = "s" if want != "1" else ""
        raise error(
            expr.span,
            f"`{expr.fn}` takes {want} argument{plural}, not {count}",
            f"its form is {function.form}",
        )


#: Types whose values are all of a kind.
_SURELY: Mapping[str, frozenset[type]] = {
    "tensor": frozenset({TensorType, SymType}),
    "integer": frozenset({int, Sym}),
    "list": frozenset({tuple, dict}),
    "word": frozenset({str}),
    "float": frozenset({float}),
}


def argument(function: Function, i: int, count: int, value: Any, at: Span) -> Any:
    """The value of argument i of ``count``, if it is of the kind that the function takes."""
    kind = function.kind(i, count)
    if type(value) in _SURELY.get(kind, ()):  # most often
        return value
    if isinstance(value, Many):
        if not function.any_length:
            raise AnyLength(f"`{function.form}` is applied to a list of any length")
        return value
    if isinstance(value, Opaque) or _is_of(kind, value):
        return value
    items = value if isinstance(value, tuple) else ()
    article = "an" if kind[0] in "aeiou" else "a"
    found = f"a list with {describe(_odd_one(kind, items))} in it" if items else describe(value)
    raise error(at, f"expected {article} {kind}, found {found}", f"its form is {function.form}")


def _is_of(kind: str, value: Any) -> bool:
    match kind:
        case "tensor":
            return isinstance(value, TensorType | SymType)
        case "integer":
            return is_int(value)
        case "list":
            return isinstance(value, tuple | dict)
        case "list of integers":
            return isinstance(value, tuple) and all(type(i) is int or is_int(i) for i in value)
        case "list of conditions":
            return isinstance(value, tuple) and all(isinstance(i, bool | Condition) for i in value)
        case "word":
            return isinstance(value, str)
        case "float":
            return isinstance(value, float)
    raise AssertionError(kind)


def _odd_one(kind: str, items: tuple[Any, ...]) -> Any:
    wanted = bool | Condition if kind == "list of conditions" else int | Sym
    return next((i for i in items if not isinstance(i, wanted) or isinstance(i, bool)), items[0])


def _dim(x: AnyType, i: Int) -> Int:
    shape = x.shape
    if isinstance(i, int) and not -len(shape) <= i < len(shape):
        raise EvaluationError(f"a tensor of rank {len(shape)} has no dimension {i}")
    return sym.select(shape, i)


def _set(items: tuple[Int, ...], index: Int, value: Int) -> tuple[Int, ...]:
    if not isinstance(index, int):
        raise NotKnown("the position is not known when rules are compiled")
    if not -len(items) <= index < len(items):
        raise EvaluationError(f"a list of {len(items)} has no element {index}")
    out = list(items)
    out[index] = value
    return tuple(out)


def broadcast(a: tuple[Int, ...], b: tuple[Int, ...]) -> tuple[Int, ...]:
    """NumPy broadcasting. Where two dimensions are unknown the result is their maximum, under the condition that
    they are equal or one of them is 1; `Broadcast` carries those conditions out."""
    rank = max(len(a), len(b))
    out: list[Int] = []
    conditions: list[sym.Bool] = [s.condition for s in (a, b) if isinstance(s, Broadcast)]
    for x, y in zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b, strict=True):
        if x == 1 or x == y:
            out.append(y)
        elif y == 1:
            out.append(x)
        else:
            # In one order for (a, b) and (b, a), which are one shape: so one condition follows from the other.
            ones = sorted((sym.equal(x, 1), sym.equal(y, 1)), key=repr)
            conditions.append(sym.any_of((sym.equal(x, y), *ones)))
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
        if isinstance(total, int) and abs(total) > MAX_INTEGER:
            raise EvaluationError("the product has more than 100 digits")
    return total


def _sum(items: tuple[Int, ...] | Many) -> Int:
    if isinstance(items, Many):
        return items.total()
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


def _len(items: tuple[Any, ...] | Mapping[int, Any] | Many) -> Int:
    return items.length if isinstance(items, Many) else len(items)


def _all(items: tuple[sym.Bool, ...] | Many) -> sym.Bool:
    return items.every() if isinstance(items, Many) else sym.all_of(items)


def _distinct(items: tuple[Int, ...]) -> sym.Bool:
    return sym.all_of(sym.negate(sym.equal(a, b)) for i, a in enumerate(items) for b in items[:i])


@cache
def _is_float(dtype: str | Opaque) -> sym.Bool:
    return sym.any_of(sym.equal(dtype, d) for d in FLOATS)


@cache
def _is_number(dtype: str | Opaque) -> sym.Bool:
    return sym.negate(sym.equal(dtype, "bool"))


def _holds(dtype: str | Opaque, value: float | Opaque) -> sym.Bool:
    """Floats hold every value, though rounded; integers whole ones in their range; truth values 0 and 1."""
    if isinstance(value, Opaque):
        return sym.any_of((_is_float(dtype), Condition("holds", (dtype, value))))
    if value in (0, 1):
        return True
    types = [t for t, (least, most) in INTEGERS.items() if value.is_integer() and least <= value <= most]
    if len(types) == len(INTEGERS):
        return _is_number(dtype)
    return sym.any_of((_is_float(dtype), *(sym.equal(dtype, t) for t in types)))


_INTS, _CONDITIONS = "list of integers", "list of conditions"
FUNCTIONS: Mapping[str, Function] = {
    "rank": Function("rank(x)", ("tensor",), "integer", lambda x: len(x.shape)),
    "dim": Function("dim(x, i)", ("tensor", "integer"), "integer", _dim),
    "shape": Function("shape(x)", ("tensor",), _INTS, lambda x: x.shape),
    "dtype": Function("dtype(x)", ("tensor",), "word", lambda x: x.dtype),
    "len": Function("len(list)", ("list",), "integer", _len, any_length=True),
    "prod": Function("prod(list)", (_INTS,), "integer", _prod),
    "sum": Function("sum(list)", (_INTS,), "integer", _sum, any_length=True),
    "max": Function("max(a, b, ..) or max(list)", (_INTS,), "integer", _extreme(sym.maximum), many=True),
    "min": Function("min(a, b, ..) or min(list)", (_INTS,), "integer", _extreme(sym.minimum), many=True),
    "all": Function("all(condition for i in 0..n)", (_CONDITIONS,), "condition", _all, any_length=True),
    "any": Function("any(condition for i in 0..n)", (_CONDITIONS,), "condition", sym.any_of),
    "set": Function("set(list, position, value)", (_INTS, "integer", "integer"), _INTS, _set),
    "broadcast": Function("broadcast(shape(x), shape(y))", (_INTS, _INTS), _INTS, broadcast),
    "is_float": Function("is_float(dtype(x))", ("word",), "condition", _is_float),
    "is_number": Function("is_number(dtype(x))", ("word",), "condition", _is_number),
    "holds": Function("holds(dtype(x), value)", ("word", "float"), "condition", _holds),
    "distinct": Function("distinct(list)", (_INTS,), "condition", _distinct),
}
