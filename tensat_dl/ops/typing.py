"""Types of operator applications: the declaration's constraints and shape rule, on concrete or symbolic types."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from tensat_dl.core import expression as ex
from tensat_dl.core.expression import names_of
from tensat_dl.core.graph import TensorType
from tensat_dl.ops import symbolic as sym
from tensat_dl.ops.evaluate import Unresolved, evaluate
from tensat_dl.ops.kinds import not_a_word, words
from tensat_dl.ops.lists import Many
from tensat_dl.ops.symbolic import Condition, EvaluationError, NotKnown, Of, Opaque, Sym
from tensat_dl.ops.table import INFIX, NEGATION, AttrDecl, OpDecl, OpTable
from tensat_dl.ops.values import Absent, AnyType, Broadcast, Env, Lazy, SymType, Unknown, unknown_tensor

T = TypeVar("T")


class IllTyped(Exception):
    """An application violates a constraint. ``message`` is the constraint's own text, and continues a sentence such
    as "matmul requires that ..". The constraint and the values of its names explain more. ``unknown``: it may be met,
    which is not known when rules are compiled."""

    def __init__(
        self,
        message: str,
        condition: ex.Expr | None = None,
        env: Env | None = None,
        unknown: bool = False,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.condition = condition
        self.env: Env = env or {}
        self.unknown = unknown

    def again(self) -> IllTyped:
        """The same, without the frames that it has come through."""
        return type(self)(self.message, self.condition, self.env, self.unknown)


class NotComputable(IllTyped):
    """A composition has an attribute without a value, for these operands or as long as they are unknown."""


@dataclass(frozen=True, slots=True)
class Typing:
    """The output types, and the conditions under which the application is well-typed (none if concrete)."""

    types: tuple[SymType, ...]
    conditions: tuple[Condition, ...]

    def concrete(self) -> tuple[TensorType, ...]:
        """The types of an application whose inputs and attributes were concrete."""
        out = []
        for t in self.types:
            shape = tuple(d for d in t.shape if isinstance(d, int))
            assert isinstance(t.dtype, str)
            assert len(shape) == len(t.shape), t
            out.append(TensorType(t.dtype, shape))
        return tuple(out)


def environment(decl: OpDecl, inputs: Sequence[AnyType], attrs: Mapping[str, Any]) -> Env:
    """Names that a declaration's expressions may use: tensors by their types, attributes, lets (lazily)."""
    env: Env = {}
    for i, param in enumerate(decl.inputs):
        if param.kind == "many":
            several = len(inputs) != i + 1 or not isinstance(inputs[i], Many)
            env[param.name] = tuple(inputs[i:]) if several else inputs[i]
        else:
            env[param.name] = inputs[i] if i < len(inputs) else None
    for a in decl.attrs:
        if a.name in attrs:
            env[a.name] = attrs[a.name]
        for choice in a.choices:
            env.setdefault(choice, choice)
    for name, expr in decl.lets:
        env[name] = Lazy(expr)
    return env


#: No operator has more operations than this.
MOST_FLOPS = 1e30
#: So many types are remembered at a time: graphs have the same layers many times.
REMEMBERED = 10_000


def infer(table: OpTable, op: str, inputs: Sequence[AnyType], attrs: Mapping[str, Any]) -> Typing:
    """The type of ``op(inputs; attrs)``. Raises `IllTyped` if it certainly violates a constraint."""
    key = (op, tuple(inputs), tuple((name, type(value), value) for name, value in attrs.items()))
    try:
        known: Typing | IllTyped | None = table.typings.get(key)
    except TypeError:  # a list of tensors
        return _infer(table, op, inputs, attrs)
    if known is None:
        try:
            known = _infer(table, op, inputs, attrs)
        except IllTyped as e:
            known = e.again()
        if len(table.typings) >= REMEMBERED:
            table.typings.clear()
        table.typings[key] = known
    if isinstance(known, IllTyped):
        raise known.again()
    return known


def _infer(table: OpTable, op: str, inputs: Sequence[AnyType], attrs: Mapping[str, Any]) -> Typing:
    decl = table[op]
    found = _words(decl, attrs)
    if decl.composition is not None:
        return _infer_composition(table, decl, inputs, attrs, found)
    env = environment(decl, inputs, attrs)

    def hold(condition: sym.Bool, message: str, expr: ex.Expr | None = None) -> None:
        if condition is False:
            raise IllTyped(message, expr, env)
        if isinstance(condition, Condition):
            found.extend(condition.args if condition.kind == "and" else (condition,))

    for stmt in decl.requires:
        assert stmt.value is not None
        message = stmt.message or f"`{stmt.value.span.line}`"
        try:
            hold(evaluate(stmt.value, env), message, stmt.value)
        except Absent:
            continue
        except EvaluationError as e:
            raise IllTyped(f"{message} ({e})", stmt.value, env, isinstance(e, NotKnown)) from None
    types = []
    try:
        for shape_expr, dtype_expr in zip(decl.shapes, decl.dtypes, strict=True):
            shape = evaluate(shape_expr, env)
            if isinstance(shape, Broadcast):
                hold(shape.condition, "the shapes broadcast: dimensions are equal or 1", shape_expr)
            dtype = evaluate(dtype_expr, env) if dtype_expr is not None else inputs[0].dtype
            for d in shape:
                if isinstance(d, int) and d <= 0:
                    shown = ", ".join(str(n) if isinstance(n, int) else "?" for n in shape)
                    raise IllTyped(f"every dimension of the result is positive, and its shape is [{shown}]")
            types.append(SymType(dtype, tuple(shape)))
    except EvaluationError as e:
        raise IllTyped(f"its shape can be computed ({e})", unknown=isinstance(e, NotKnown)) from None
    return Typing(tuple(types), tuple(dict.fromkeys(found)))


def _words(decl: OpDecl, attrs: Mapping[str, Any]) -> list[Condition]:
    """The conditions under which attributes that choose among words have one of these: a rule may put a variable
    there that stands for a value of an attribute with other words. Raises `IllTyped` if one certainly has another
    value."""
    out: list[sym.Bool] = []
    for a in decl.attrs:
        if not a.words or a.name not in attrs:
            continue
        value = attrs[a.name]
        if isinstance(value, Opaque) and value.words:
            possible = not set(value.words).isdisjoint(a.words)
            out += [sym.negate(sym.equal(value, w)) for w in value.words if w not in a.words]
        else:
            one = sym.any_of(sym.equal(value, w) for w in a.words)
            possible = one is not False
            out.append(one)
        if not possible:
            raise IllTyped(f"`{a.name}` is one of {', '.join(a.words)}")
    return [c for c in out if isinstance(c, Condition)]


class Inference:
    """`infer` for one table that remembers its answers: rules ask the same for every rank of another operand."""

    def __init__(self, table: OpTable) -> None:
        self.table = table
        self._known: dict[tuple[Any, ...], Typing | tuple[str, bool]] = {}
        self._constraints: dict[str, list[tuple[ex.Expr, tuple[int, ...]]]] = {}
        self._possible: dict[tuple[str, int, int, tuple[int, ...]], bool] = {}

    def __call__(self, op: str, inputs: Sequence[AnyType], attrs: Mapping[str, Any]) -> Typing:
        key = (op, tuple(inputs), tuple((name, type(value), value) for name, value in attrs.items()))
        known = self._known.get(key)
        if known is None:
            try:
                known = infer(self.table, op, inputs, attrs)
            except IllTyped as e:
                known = e.message, e.unknown
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[key] = known
        if isinstance(known, tuple):
            message, unknown = known
            raise IllTyped(message, unknown=unknown)
        return known

    def possible(self, op: str, ranks: tuple[int, ...]) -> bool:
        """Whether tensors of these ranks meet the operator's constraints on tensors alone, for some dimensions and
        element types. (Constraints that mention attributes are not looked at.)"""
        if op not in self._constraints:
            self._constraints[op] = _tensor_constraints(self.table[op])
        last = len(self.table[op].inputs) - 1  # it may stand for many operands
        for i, (expr, inputs) in enumerate(self._constraints[op]):
            named = tuple(rank for k, rank in enumerate(ranks) if min(k, last) in inputs)
            key = (op, i, len(ranks), named)
            if key not in self._possible:
                self._possible[key] = self._may_hold(self.table[op], expr, ranks)
            if not self._possible[key]:
                return False
        return True

    @staticmethod
    def _may_hold(decl: OpDecl, expr: ex.Expr, ranks: tuple[int, ...]) -> bool:
        types = [unknown_tensor(str(i), rank) for i, rank in enumerate(ranks)]
        try:
            return evaluate(expr, environment(decl, types, {})) is not False
        except Absent:
            return True
        except EvaluationError as e:
            return isinstance(e, NotKnown)


def _tensor_constraints(decl: OpDecl) -> list[tuple[ex.Expr, tuple[int, ...]]]:
    """The constraints that mention no attribute, each with the positions of the inputs that it mentions."""
    mentioned = {name: {n.id for n in names_of(expr)} for name, expr in decl.lets}

    def names(expr: ex.Expr) -> set[str]:
        found = {n.id for n in names_of(expr)}
        for _ in decl.lets:
            found |= {n for name in found & mentioned.keys() for n in mentioned[name]}
        return found

    attrs = {a.name for a in decl.attrs}
    exprs = [stmt.value for stmt in decl.requires if stmt.value is not None]
    return [
        (expr, tuple(k for k, p in enumerate(decl.inputs) if p.name in found))
        for expr in exprs
        if attrs.isdisjoint(found := names(expr))
    ]


def _infer_composition(
    table: OpTable,
    decl: OpDecl,
    inputs: Sequence[AnyType],
    attrs: Mapping[str, Any],
    conditions: list[Condition],
) -> Typing:
    def apply(op: str, operands: Sequence[AnyType], values: Mapping[str, Any]) -> AnyType:
        typing = infer(table, op, operands, values)
        conditions.extend(typing.conditions)
        return typing.types[0]

    def scalar(value: float, like: AnyType) -> AnyType:
        return apply("fill", (), {"value": value, "dtype": like.dtype, "shape": ()})

    try:
        result = compose(decl, table, inputs, attrs, lambda t: t, scalar, apply)
    except EvaluationError as e:
        unknown = isinstance(e, NotKnown)
        raise NotComputable(f"its definition can be computed ({e})", unknown=unknown) from None
    return Typing((SymType(result.dtype, result.shape),), tuple(dict.fromkeys(conditions)))


@dataclass(frozen=True, slots=True)
class CompositionStep:
    """An application in a composition: of an operator to the values at these places, or a ``number`` beside one."""

    op: str
    operands: tuple[int, ...]
    attrs: Mapping[str, Any]
    number: Any = None


def compose(
    decl: OpDecl,
    ops: OpTable,
    operands: Sequence[T],
    attrs: Mapping[str, Any],
    type_of: Callable[[T], AnyType],
    scalar: Callable[[float, T], T],
    apply: Callable[[str, Sequence[T], Mapping[str, Any]], T],
    remembered: dict[Any, tuple[CompositionStep, ...]] | None = None,
) -> T:
    """The value of a composition, by way of the operators that its definition applies to each other.

    Values may be anything that has a type, which stands in for it where attributes are computed: arrays, nodes, types
    themselves. ``scalar`` gives the value of a number in the definition, given the value beside it, whose element
    type it takes; ``apply`` gives the value of an operator, which may be a composition again. Steps can be
    ``remembered`` where the types of operands decide those of all values. Raises `EvaluationError` if a part of the
    definition is no tensor.
    """
    made = list(operands)
    types = tuple(map(type_of, operands))
    key = (decl.name, types, tuple((name, type(value), value) for name, value in attrs.items()))
    known = None if remembered is None else remembered.get(key)
    if known is not None:
        for step in known:
            if step.op:
                made.append(apply(step.op, [made[i] for i in step.operands], step.attrs))
            else:
                made.append(scalar(step.number, made[step.operands[0]]))
        return made[-1]
    steps: list[CompositionStep] = []
    places = {p.name: i for i, p in enumerate(decl.inputs) if p.kind != "many" and i < len(operands)}
    env = environment(decl, types, attrs)

    def value(expr: ex.Expr) -> int:
        """The place of a value among those that are made."""
        match expr:
            case ex.Name(id) if id in places:
                return places[id]
            case ex.Binary(op, left, right) if op in INFIX:
                return operator(INFIX[op], (left, right), ())
            case ex.Unary("-", operand):
                return operator(NEGATION, (operand,), ())
            case ex.Call(fn, args, given) if fn in ops and isinstance(args, tuple):
                return operator(fn, args, given)
        raise EvaluationError(f"`{expr.span.text}` is not a tensor")

    def operator(op: str, args: Sequence[ex.Expr], given: Sequence[ex.KeywordArg]) -> int:
        numbers = [_scalar_value(a, env) for a in args]
        tensors = {i: value(a) for i, (a, n) in enumerate(zip(args, numbers, strict=True)) if n is None}
        like = neighbour(ops[op], tensors)
        values = [
            tensors[i] if n is None or like is None else scaled(n, tensors[like])
            for i, n in enumerate(numbers)
        ]
        attrs = attributes(ops[op], given, env, [type_of(made[i]) for i in values])
        made.append(apply(op, [made[i] for i in values], attrs))
        steps.append(CompositionStep(op, tuple(values), attrs))
        return len(made) - 1

    def scaled(n: Any, like: int) -> int:
        made.append(scalar(n, made[like]))
        steps.append(CompositionStep("", (like,), {}, n))
        return len(made) - 1

    assert decl.composition is not None
    result = value(decl.composition)
    if remembered is not None and steps:  # the last of them gives the result
        remembered[key] = tuple(steps)
    return made[result]


def neighbour(decl: OpDecl | None, tensors: Iterable[int]) -> int | None:
    """Which operand of an operator numbers among the others take their element type from: the first tensor, given the
    positions of all, that need not be truth values. In ``select(c, x, 0.5)`` that is x."""
    found = sorted(tensors)
    apart = frozenset[int]() if decl is None else decl.truth_values
    return next((i for i in found if i not in apart), found[0] if found else None)


def is_number(expr: ex.Expr) -> bool:
    """Whether an expression in tensor position is a numeric literal."""
    match expr:
        case ex.Const(_, "int" | "float"):
            return True
        case ex.Unary("-", ex.Const(_, "int" | "float")):
            return True
    return False


def number(expr: ex.Expr) -> int | float:
    """The value of a numeric literal."""
    if isinstance(expr, ex.Unary):
        return -number(expr.operand)
    assert isinstance(expr, ex.Const)
    assert isinstance(expr.value, int | float)
    return expr.value


def _scalar_value(expr: ex.Expr, env: Env) -> Any:
    """The value of an expression that stands for a scalar: a literal, or the name of a float attribute, whose value
    may be unknown. None for tensors."""
    if is_number(expr):
        return float(number(expr))
    known = env.get(expr.id) if isinstance(expr, ex.Name) else None
    return known if isinstance(known, float | Opaque) else None


def defaults(decl: OpDecl) -> dict[str, Any]:
    """The attributes that have a default, with it."""
    return {a.name: a.default for a in decl.attrs if a.default is not None}


def unknown_attribute(a: AttrDecl, name: str | Of) -> Any:
    """An attribute's value that is not known, except for its length if the declaration says one."""
    if a.length is not None:
        return tuple(sym.atom("attr", name, i) for i in range(a.length))
    return sym.atom("attr", name) if a.type in ("int", "axis") else Opaque(("attr", name), a.words)


#: Values of names that are still read as words in attribute position.
_NO_ATTRIBUTE = (TensorType, SymType, Unknown, dict)


class Given(Protocol):
    """An attribute of an application, as an expression."""

    @property
    def name(self) -> str: ...
    @property
    def value(self) -> ex.Expr: ...


def attributes(
    decl: OpDecl, given: Sequence[Given], env: Env, inputs: Sequence[AnyType], known: bool = False
) -> dict[str, Any]:
    """The attributes of an application: those given, evaluated in ``env``, and defaults for the others.

    A name that ``env`` does not know, or knows as a tensor, may be a choice (``act = relu``) or a preset (``pads =
    same``); a value that is the word of a preset, such as a block's attribute, stands for it too. int[n] attributes
    become tuples; a float attribute given an integer becomes a float; axes are counted from the first. Presets come
    last because they use the other attributes.

    A negative axis is counted from the end if it is written as a number, or if all values are ``known``, as in a
    graph. What a rule or a composition computes may be negative for some sizes alone, where it is no axis.
    """
    values = defaults(decl)
    computed = set()
    presets: list[tuple[str, ex.Expr]] = []
    for keyword in given:
        expr = keyword.value
        a = decl[keyword.name]
        if isinstance(expr, ex.Name) and (expr.id not in env or isinstance(env[expr.id], _NO_ATTRIBUTE)):
            preset = decl.preset(a.name, expr.id)
            if preset is not None:
                presets.append((a.name, preset))
                continue
            if expr.id in words(decl, a):
                values[a.name] = expr.id
                continue
        try:
            value = evaluate(expr, env)
        except Unresolved as e:
            raise (not_a_word(decl, a, expr) if e.expr is expr else None) or e from None
        if isinstance(value, str) and (preset := decl.preset(a.name, value)) is not None:
            presets.append((a.name, preset))
            continue
        if a.length is not None and not isinstance(value, tuple):
            value = (value,) * a.length
        if a.type == "float" and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if a.type == "float" and isinstance(value, Sym):
            raise NotKnown(f"`{expr.span.text}`, a float, is not known when rules are compiled")
        if a.type == "bool" and isinstance(value, Condition):
            raise NotKnown(f"whether `{expr.span.text}` is not known when rules are compiled")
        values[a.name] = value
        if not known and not _is_literal(expr):
            computed.add(a.name)
    rank = len(inputs[0].shape) if inputs else len(values.get("shape", ()))
    for a in decl.attrs:
        if a.name in computed:
            continue
        if a.type == "axis" and a.name in values:
            values[a.name] = from_first(values[a.name], rank)
        elif a.type == "axes" and isinstance(values.get(a.name), tuple):
            values[a.name] = tuple(from_first(axis, rank) for axis in values[a.name])
    for name, preset in presets:
        values[name] = evaluate(preset, environment(decl, inputs, values))
    return values


def _is_literal(expr: ex.Expr) -> bool:
    """Whether an expression is a number, or a list of numbers, as written."""
    if isinstance(expr, ex.ListExpr) and isinstance(expr.items, tuple):
        return all(map(is_number, expr.items))
    return is_number(expr)


def from_first(axis: Any, rank: int) -> Any:
    """A dimension of a tensor of this rank, counted from the first: a negative one is counted from the end. Anything
    that is no dimension stays as it is."""
    return axis + rank if isinstance(axis, int) and -rank <= axis < 0 else axis


def check_flops(decl: OpDecl, inputs: Sequence[TensorType], attrs: Mapping[str, Any], typing: Typing) -> None:
    """Raises `IllTyped` for an application of an opaque operator whose number of operations has no value, or no
    possible one. In a file there is a place to point at; for what rules make of it, `flops` is 0 then."""
    if not decl.opaque or decl.flops is None:
        return
    what = f"its number of operations, `{decl.flops.span.line}`,"
    try:
        value = evaluate(decl.flops, {**environment(decl, inputs, attrs), "out": typing.types[0].shape})
    except EvaluationError as e:
        raise IllTyped(f"{what} can be computed ({e})") from None
    if not 0 <= value <= MOST_FLOPS:
        raise IllTyped(f"{what} is from 0 to {MOST_FLOPS:.0e} (it is {value:g})")


def flops(table: OpTable, op: str, inputs: Sequence[TensorType], attrs: Mapping[str, Any]) -> float:
    """Floating-point operations of one application; 0 where the declaration says nothing, or nothing possible."""
    decl = table[op]
    if decl.composition is not None:
        total = 0.0

        def apply(inner: str, operands: Sequence[TensorType], values: Mapping[str, Any]) -> TensorType:
            nonlocal total
            total += flops(table, inner, operands, values)
            return infer(table, inner, operands, values).concrete()[0]

        def scalar(_: float, like: TensorType) -> TensorType:
            return TensorType(like.dtype, ())

        compose(decl, table, inputs, attrs, lambda t: t, scalar, apply)
        return total
    if decl.flops is None:
        return 0.0
    env = environment(decl, inputs, attrs)
    env["out"] = infer(table, op, inputs, attrs).types[0].shape
    try:
        found = float(evaluate(decl.flops, env))
    except EvaluationError:
        return 0.0
    return found if 0 <= found <= MOST_FLOPS else 0.0
