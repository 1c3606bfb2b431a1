"""Types of operator applications: the declaration's constraints and shape rule, on concrete or symbolic types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tensat_dl.core import expression as ex
from tensat_dl.core.expression import names_of
from tensat_dl.core.graph import TensorType
from tensat_dl.ops import symbolic as sym
from tensat_dl.ops.attributes import environment
from tensat_dl.ops.compositions import compose
from tensat_dl.ops.evaluate import evaluate
from tensat_dl.ops.symbolic import Condition, EvaluationError, NotKnown, Opaque
from tensat_dl.ops.table import OpDecl, OpTable
from tensat_dl.ops.values import Absent, AnyType, Broadcast, Env, SymType, unknown_tensor


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
    """`infer` for one table, and whether tensors of some ranks may have a type at all."""

    def __init__(self, table: OpTable) -> None:
        self.table = table
        self._constraints: dict[str, list[tuple[ex.Expr, tuple[int, ...]]]] = {}
        self._possible: dict[tuple[str, int, int, tuple[int, ...]], bool] = {}

    def __call__(self, op: str, inputs: Sequence[AnyType], attrs: Mapping[str, Any]) -> Typing:
        return infer(self.table, op, inputs, attrs)

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
