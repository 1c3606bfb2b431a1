"""Operators that are defined by others: their values, by way of these."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tensat_dl.core import expression as ex
from tensat_dl.core.expression import is_number, number
from tensat_dl.core.rule import RewriteRule
from tensat_dl.ops.attributes import attributes, environment
from tensat_dl.ops.symbolic import EvaluationError, Opaque
from tensat_dl.ops.table import INFIX, NEGATION, OpDecl, OpTable
from tensat_dl.ops.values import AnyType, Env

T = TypeVar("T")


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


def is_definition(rule: RewriteRule, ops: OpTable) -> bool:
    """Whether a rule writes a composition for its definition, or the reverse. A rule of a file may be called the
    same."""
    decl = ops.get(rule.name.removeprefix("un").removeprefix("fuse-"))
    return decl is not None and decl.composition is not None and rule.span == decl.span


def neighbour(decl: OpDecl | None, tensors: Iterable[int]) -> int | None:
    """Which operand of an operator numbers among the others take their element type from: the first tensor, given the
    positions of all, that need not be truth values. In ``select(c, x, 0.5)`` that is x."""
    found = sorted(tensors)
    apart = frozenset[int]() if decl is None else decl.truth_values
    return next((i for i in found if i not in apart), found[0] if found else None)


def _scalar_value(expr: ex.Expr, env: Env) -> Any:
    """The value of an expression that stands for a scalar: a literal, or the name of a float attribute, whose value
    may be unknown. None for tensors."""
    if is_number(expr):
        return float(number(expr))
    known = env.get(expr.id) if isinstance(expr, ex.Name) else None
    return known if isinstance(known, float | Opaque) else None
