"""Why a condition of a rule does not hold, and why a target would be ill-typed, in words and values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tensat_dl.core import expression as ex
from tensat_dl.core.diagnostics import TsrError
from tensat_dl.core.rule import RewriteRule
from tensat_dl.core.types import TensorType
from tensat_dl.ops.evaluate import evaluate, knowing
from tensat_dl.ops.symbolic import EvaluationError
from tensat_dl.ops.table import OpTable
from tensat_dl.ops.typing import IllTyped, Inference
from tensat_dl.ops.values import Absent, SymType
from tensat_dl.rewrite.source import Variant
from tensat_dl.rewrite.target import type_target
from tensat_dl.why.instances import lists

_OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}

#: What ``weight(x)`` and the like say of a tensor, by function and name.
Fact = Callable[[str, str], Any]


@dataclass(frozen=True, slots=True)
class Failure:
    """What fails, as it is written in the rule, and the values for which it does. ``passed`` counts the conditions
    before it that hold."""

    what: str
    values: str
    passed: int


def failure(
    rule: RewriteRule, ops: OpTable, types: Mapping[str, TensorType], attrs: Mapping[str, Any], known: Fact
) -> Failure | None:
    """Why a rule does not apply to tensors that its source matches; None if it does.

    Members of groups are called ``w[0]``, ``w[1]``, and ``rule`` is the rule for that many.
    """
    env = {**types, **lists(types), **attrs}
    for passed, condition in enumerate(rule.conditions):
        scope = knowing(env, known)
        if not _holds(condition, scope):
            return Failure(f"`{written(condition)}`", _values(condition, scope), passed)
    symbolic = {name: SymType(t.dtype, t.shape) for name, t in types.items()}
    listed = {n: tuple(SymType(t.dtype, t.shape) for t in ts) for n, ts in lists(types).items()}
    variant = Variant(dict(symbolic), {**symbolic, **listed, **attrs}, {})
    try:
        type_target(rule, Inference(ops), variant)
    except (IllTyped, EvaluationError, Absent) as e:
        done = len(variant.target_attrs)
        message = e.message if isinstance(e, IllTyped) else str(e)
        if done == len(rule.target.nodes):
            return Failure("the type of what is replaced", message, len(rule.conditions) + 1)
        node = rule.target.nodes[done]
        operands = ", ".join(f"{a}: {_type(variant.types[a])}" for a in dict.fromkeys(node.args))
        what = f"the target's `{' '.join(node.span.text.split())}`"
        requires = f"{node.op} requires that {message}" if isinstance(e, IllTyped) else message
        return Failure(what, f"{requires} ({operands})" if operands else requires, len(rule.conditions))
    return None


def written(expr: ex.Expr) -> str:
    """An expression as it stands in the source, in one line."""
    return " ".join(expr.span.text.split())


def _type(t: SymType) -> str:
    return f"{t.dtype}[{', '.join(map(str, t.shape))}]"


def _holds(expr: ex.Expr, scope: dict[str, Any]) -> bool:
    try:
        return evaluate(expr, scope) is True
    except (EvaluationError, Absent, TsrError):
        return False


def _values(expr: ex.Expr, scope: dict[str, Any]) -> str:
    """Why an expression does not hold."""
    match expr:
        case ex.Binary("and", left, right):
            return _values(right if _holds(left, scope) else left, scope)
        case ex.Binary("or", left, right):
            return f"{_values(left, scope)}, and {_values(right, scope)}"
        case ex.Binary(op, left, right) if op in _OPPOSITE:
            absent = [name for side in (left, right) if (name := _no_constant(side, scope))]
            if absent:
                return f"{absent[0]} is no constant with one value"
            try:
                a, b = (_shown(evaluate(side, scope)) for side in (left, right))
            except (EvaluationError, TsrError) as e:
                return str(e)
            return f"{a} {_OPPOSITE[op]} {b}"
        case ex.Unary("not", operand):
            return f"`{written(operand)}` holds"
        case ex.Fact("varying", tensor):
            return f"`weight({written(tensor)})` holds"
        case ex.Fact("weight", tensor):
            return f"{written(tensor)} is computed from an input"
        case ex.Fact(_, tensor):
            return f"{written(tensor)} is not where a chain of products starts"
        case ex.Call("all", ex.EachIn(body, var, over)):
            return f"`{written(body)}` does not hold for every {var} in {' '.join(over.span.text.split())}"
    return "it is false"


def _no_constant(expr: ex.Expr, scope: dict[str, Any]) -> str:
    """The tensor whose value is asked for and is not known, or ""."""
    if isinstance(expr, ex.Fact) and expr.function == "value":
        try:
            evaluate(expr, scope)
        except Absent:
            return written(expr.tensor)
    return ""


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_shown, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)
