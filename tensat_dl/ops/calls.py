"""Checks an application against its operator's declaration without types, and explains an ill-typed application: its
operands, the constraint, the values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tensat_dl.core import expression as ex
from tensat_dl.core.diagnostics import Diagnostic, Span, TsrError, collected, error
from tensat_dl.core.expression import names_of
from tensat_dl.core.graph import DTYPES, Attrs, TensorType, attr_text
from tensat_dl.core.words import did_you_mean
from tensat_dl.ops.evaluate import Unresolved, evaluate, range_values
from tensat_dl.ops.kinds import Kinds, accepted, article, fits, kind_of, not_a_word, words
from tensat_dl.ops.symbolic import EvaluationError
from tensat_dl.ops.table import AttrDecl, OpDecl, coerce, constant, wanted
from tensat_dl.ops.typing import IllTyped
from tensat_dl.ops.values import Absent, Env

#: Attributes are 64-bit in the engine.
MAX_VALUE = 2**63 - 1
#: Longer texts of operands are left out of messages.
MOST_WRITTEN = 40


def check_arity(decl: OpDecl, count: int, span: Span) -> None:
    """Raises `TsrError` if an application has the wrong number of inputs."""
    low, high = decl.min_inputs, decl.max_inputs
    if low <= count and (high is None or count <= high):
        return
    if high is None:
        wanted = f"{low} or more"
    elif high == low:
        wanted = str(low) if low else "no"
    else:
        wanted = f"{low} {'or' if high == low + 1 else 'to'} {high}"
    message = f"`{decl.name}` takes {wanted} tensor{'s' if wanted != '1' else ''}, not {count}"
    raise error(span, message, f"its form is {decl.signature}")


def check_attrs(decl: OpDecl, given: Sequence[ex.KeywordArg], span: Span) -> None:
    """Raises `TsrError` for unknown, repeated and missing attributes."""
    problems = []
    seen: dict[str, Span] = {}
    names = [a.name for a in decl.attrs]
    for keyword in given:
        if keyword.name not in names:
            has = f"its attributes are {', '.join(names)}" if len(names) > 1 else "it has no attributes"
            has = f"its attribute is `{names[0]}`" if len(names) == 1 else has
            message = f"`{decl.name}` has no attribute `{keyword.name}`"
            problems.append(Diagnostic(message, keyword.span, did_you_mean(keyword.name, names) or has))
        elif keyword.name in seen:
            message = f"attribute `{keyword.name}` is given twice"
            hint = f"the first time as `{seen[keyword.name].text}`"
            problems.append(Diagnostic(message, keyword.span, hint))
        seen.setdefault(keyword.name, keyword.span)
    missing = [a for a in decl.attrs if a.default is None and a.name not in seen]
    if missing and not problems:
        listed = ", ".join(f"`{a.name}` ({wanted(a)})" for a in missing)
        hint = f"its form is {decl.signature}"
        problems.append(Diagnostic(f"`{decl.name}` needs {listed}", span, hint))
    if problems:
        raise TsrError(problems)


def checked_attrs(decl: OpDecl, values: Mapping[str, Any], given: Sequence[ex.KeywordArg]) -> Attrs:
    """Attributes of the declared types, in declared order. Raises `TsrError` for a value of a wrong type."""
    spans = {k.name: k.value.span for k in given}
    out = []
    for a in decl.attrs:
        value = coerce(a, values[a.name])
        span = spans.get(a.name, decl.span)
        if value is None:
            raise _misfit(decl, a, values[a.name], span)
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, int) and abs(number) > MAX_VALUE:
                raise error(span, f"`{a.name}` of `{decl.name}` can't be {number}: integers have 64 bits")
        out.append((a.name, value))
    return tuple(out)


def check_attr_kinds(decl: OpDecl, given: Sequence[ex.KeywordArg], names: Kinds) -> list[Diagnostic]:
    """Messages about the attributes of an application whose names stand for values of known kinds."""
    problems: list[Diagnostic] = []
    for keyword in given:
        a = decl.attr(keyword.name)
        if a is not None:
            with collected(problems):
                _check_kind(decl, a, keyword.value, names)
    return problems


def _check_kind(decl: OpDecl, a: AttrDecl, expr: ex.Expr, names: Kinds) -> None:
    if isinstance(expr, ex.Name) and expr.id in words(decl, a) and names.get(expr.id) in (None, "tensor"):
        return
    if isinstance(expr, ex.Name) and expr.id in DTYPES and expr.id not in names:
        wrong = not_a_word(decl, a, expr)
        if wrong is not None:
            raise wrong
    value = None if isinstance(expr, ex.Name) else constant(expr)
    if value is not None and coerce(a, value) is None:
        raise _misfit(decl, a, value, expr.span)
    try:
        kind = kind_of(expr, names)
    except Unresolved as e:
        raise (not_a_word(decl, a, expr) if e.expr is expr else None) or e from None
    if not any(fits(kind, k) for k in accepted(a)):
        raise error(expr.span, f"`{a.name}` of `{decl.name}` is {wanted(a)}, not {article(kind)}")
    if isinstance(expr, ex.ListExpr) and isinstance(expr.items, tuple) and a.length is not None:
        count = len(expr.items)
        if count != a.length:
            raise error(expr.span, f"`{a.name}` of `{decl.name}` is {wanted(a)}, not a list of {count}")


def _misfit(decl: OpDecl, a: AttrDecl, value: Any, span: Span) -> TsrError:
    hint = did_you_mean(value, words(decl, a)) if isinstance(value, str) else ""
    return error(span, f"`{a.name}` of `{decl.name}` is {wanted(a)}, not {show(value)}", hint)


def show(value: Any) -> str:
    """A value as it is written."""
    if isinstance(value, tuple):
        items = [show(v) for v in value[:12]]
        return f"[{', '.join(items)}{', ..' if len(value) > 12 else ''}]"
    if isinstance(value, dict):
        return "a list of tensors"
    return f'"{value}"' if isinstance(value, str) else attr_text(value)


# ---- types ----------------------------------------------------------------------------------------------------


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
        short = is_short(text) and text != name
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
        hint = hint or _float_hint(failing, decl, operands)
        notes += _facts(failing, env)
    return Diagnostic(f"`{decl.name}` requires that {e.message}", span, hint, notes=tuple(notes))


def parameter(decl: OpDecl, i: int) -> str:
    """The name of input i of an application."""
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
    if tensor.rank == 1:
        return "its only dimension is 0, or -1 counted from the end"
    return f"its dimensions are 0 to {tensor.rank - 1}, or -{tensor.rank} to -1 counted from the end"


def _float_hint(failing: ex.Expr, decl: OpDecl, operands: Sequence[tuple[str, TensorType]]) -> str:
    """The cast that an operator of floats asks for, of an operand that has none."""
    match failing:
        case ex.Call("is_float", (ex.Call("dtype", (ex.Name(tensor),)),)):
            places = [i for i, p in enumerate(decl.inputs) if p.name == tensor]
            return in_floats(operands[places[0]][0]) if places else ""
    return ""


def in_floats(text: str) -> str:
    """A hint at the floats of an operand."""
    return f"`cast({text}; to = f32)` has floats" if is_short(text) else "a cast to f32 has floats"


def is_short(text: str) -> bool:
    """Whether an operand is written in a message."""
    return len(text) <= MOST_WRITTEN and "\n" not in text


def _failing(condition: ex.Expr, env: Env) -> tuple[ex.Expr, Env]:
    """The part of a constraint that does not hold, and the values of its names there."""
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
    """The constraint as the operator table has it, and the values of its names."""
    if isinstance(expr, ex.Call) and expr.fn == "broadcast" and isinstance(expr.args, tuple):
        yield from _broadcast_fact(expr.args, env)
        return
    found: dict[str, Any] = {}
    for term in _terms(expr):
        text, value = term.span.line, _value(term, env)
        if value is not None and not isinstance(value, TensorType | bool):
            found.setdefault(text, value)
    values = ", ".join(f"{text} = {_shown(value)}" for text, value in found.items())
    values += "".join(
        f", {n.id} = {env[n.id]}"
        for n in {n.id: n for n in names_of(expr)}.values()
        if n.id not in found and isinstance(env.get(n.id), int)
    )
    text = expr.span.line
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
