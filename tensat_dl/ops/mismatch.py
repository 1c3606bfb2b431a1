"""Why an application does not type-check, in terms of what was written: operands, constraint, values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tensat_dl.core import expression as ex
from tensat_dl.core.diagnostics import Diagnostic, TsrError
from tensat_dl.core.expression import names_of
from tensat_dl.core.source import Span
from tensat_dl.core.types import TensorType
from tensat_dl.ops.calls import show
from tensat_dl.ops.evaluate import evaluate, range_values
from tensat_dl.ops.symbolic import EvaluationError
from tensat_dl.ops.table import OpDecl
from tensat_dl.ops.typing import IllTyped
from tensat_dl.ops.values import Absent, Env


def explain_ill_typed(
    decl: OpDecl,
    e: IllTyped,
    operands: Sequence[tuple[str, TensorType]],
    given: Sequence[ex.KeywordArg],
    span: Span,
) -> Diagnostic:
    """The message for an application at ``span``; ``operands`` are texts and types of its inputs.

    The caret stands under an attribute if that alone is to blame.
    """
    notes = []
    for i, (text, type) in enumerate(operands[:6]):
        name = parameter(decl, i)
        short = len(text) <= 40 and "\n" not in text and text != name
        notes.append(f"{name} is `{text}`, {type}" if short else f"{name} is {type}")
    if len(operands) > 6:
        notes.append(f"and {len(operands) - 6} more operands")
    hint = ""
    if e.condition is not None:
        failing, env = _failing(e.condition, e.env)
        blamed = {n.id for n in names_of(failing)}
        to_blame = [k for k in given if k.name in blamed]
        tensors = [p.name for p in decl.inputs if p.name in blamed]
        if len(to_blame) == 1:
            hint = _axis_hint(decl, to_blame[0].name, env)
            a = decl.attr(to_blame[0].name)
            if hint or not tensors or (a is not None and a.type != "axis"):
                span = to_blame[0].value.span
        notes += _facts(failing, env)
    return Diagnostic(f"`{decl.name}` requires that {e.message}", span, hint, notes=tuple(notes))


def parameter(decl: OpDecl, i: int) -> str:
    """What input i of an application is called."""
    param = decl.inputs[min(i, len(decl.inputs) - 1)]
    return f"{param.name}[{i - len(decl.inputs) + 1}]" if param.kind == "many" else param.name


def _axis_hint(decl: OpDecl, name: str, env: Env) -> str:
    a = decl.attr(name)
    tensor = env.get(decl.inputs[0].name) if decl.inputs else None
    if isinstance(tensor, tuple) and tensor:
        tensor = tensor[0]
    axis = env.get(name)
    if a is None or a.type != "axis" or not isinstance(tensor, TensorType) or not isinstance(axis, int):
        return ""
    if 0 <= axis < tensor.rank or not tensor.rank:
        return ""
    if -tensor.rank <= axis < 0:
        return f"dimensions are counted from the first: write {axis + tensor.rank}"
    return f"its dimensions are 0 to {tensor.rank - 1}" if tensor.rank > 1 else "its only dimension is 0"


def _failing(condition: ex.Expr, env: Env) -> tuple[ex.Expr, Env]:
    """The part of a constraint that does not hold, and what its names stand for there."""
    match condition:
        case ex.Binary("and", left, right):
            return _failing(left if _value(left, env) is False else right, env)
        case ex.Call("all", ex.EachIn(body, var, over)):
            for i in _try(lambda: range_values(over, env)) or ():
                inner = {**env, var: i}
                if _value(body, inner) is not True:
                    return _failing(body, inner)
    return condition, env


def _facts(expr: ex.Expr, env: Env) -> Iterator[str]:
    """The constraint as the operator table has it, and the values of what it speaks of."""
    if isinstance(expr, ex.Call) and expr.fn == "broadcast" and isinstance(expr.args, tuple):
        yield from _broadcast_fact(expr.args, env)
        return
    found: dict[str, Any] = {}
    for term in _terms(expr):
        text, value = " ".join(term.span.text.split()), _value(term, env)
        if value is not None and not isinstance(value, TensorType | bool):
            found.setdefault(text, value)
    values = ", ".join(f"{text} = {_shown(value)}" for text, value in found.items())
    values += "".join(
        f", {n.id} = {env[n.id]}"
        for n in {n.id: n for n in names_of(expr)}.values()
        if n.id not in found and isinstance(env.get(n.id), int)
    )
    text = " ".join(expr.span.text.split())
    yield f"`{text}` does not hold: {values}" if values else f"`{text}` does not hold"


def _broadcast_fact(args: tuple[ex.Expr, ...], env: Env) -> Iterator[str]:
    shapes = [_value(a, env) for a in args]
    if len(shapes) == 2 and all(isinstance(s, tuple) for s in shapes):
        pairs = list(zip(reversed(shapes[0]), reversed(shapes[1]), strict=False))
        for i, (x, y) in enumerate(pairs, 1):
            if x != y and 1 not in (x, y):
                at = "in the last dimension" if i == 1 else f"in dimension {i} from the last"
                yield f"shapes are aligned at their ends: {at}, {x} meets {y}"


def _terms(expr: ex.Expr) -> Iterator[ex.Expr]:
    """The parts of a comparison that are no arithmetic and no constants."""
    match expr:
        case ex.Binary(_, left, right):
            yield from _terms(left)
            yield from _terms(right)
        case ex.Unary(_, operand):
            yield from _terms(operand)
        case ex.Const():
            return
        case _:
            yield expr


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else show(value)


def _value(expr: ex.Expr, env: Env) -> Any:
    return _try(lambda: evaluate(expr, env))


def _try(make: Callable[[], Any]) -> Any:
    try:
        return make()
    except (EvaluationError, TsrError, Absent):
        return None
