"""Whether an application fits its operator's declaration, as far as it can be told without types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tensat_dl.core import expression as ex
from tensat_dl.core.diagnostics import Diagnostic, TsrError, did_you_mean, error
from tensat_dl.core.graph import Attrs
from tensat_dl.core.source import Span
from tensat_dl.core.types import DTYPES
from tensat_dl.ops.evaluate import Unresolved
from tensat_dl.ops.kinds import Kinds, accepted, article, fits, kind_of
from tensat_dl.ops.table import AttrDecl, OpDecl, coerce, constant, wanted

#: Attributes are 64-bit in the engine.
MAX_VALUE = 2**63 - 1


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
            has = f"it has {', '.join(names)}" if names else "it has no attributes"
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
    """What is wrong with the attributes of an application whose names stand for values of known kinds."""
    problems: list[Diagnostic] = []
    for keyword in given:
        a = decl.attr(keyword.name)
        if a is not None:
            try:
                _check_kind(decl, a, keyword.value, names)
            except TsrError as e:
                problems += e.diagnostics
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


def words(decl: OpDecl, a: AttrDecl) -> tuple[str, ...]:
    """The words that stand for values of an attribute: choices, presets, element types."""
    kinds = ("true", "false") if a.type == "bool" else a.words
    return (*kinds, *(preset for attr, preset, _ in decl.presets if attr == a.name))


def not_a_word(decl: OpDecl, a: AttrDecl, expr: ex.Expr) -> TsrError | None:
    """The message for a name that is none of an attribute's words, if it has any."""
    options = words(decl, a)
    if not isinstance(expr, ex.Name) or not options:
        return None
    hint = did_you_mean(expr.id, options) or f"it is one of {', '.join(options)}"
    what = "an element type" if a.type == "dtype" else f"a value of `{a.name}`"
    return error(expr.span, f"`{expr.id}` is not {what}", hint)


def _misfit(decl: OpDecl, a: AttrDecl, value: Any, span: Span) -> TsrError:
    hint = did_you_mean(value, words(decl, a)) if isinstance(value, str) else ""
    return error(span, f"`{a.name}` of `{decl.name}` is {wanted(a)}, not {show(value)}", hint)


def show(value: Any) -> str:
    """A value as it is written."""
    if isinstance(value, tuple):
        items = [show(v) for v in value[:12]]
        return f"[{', '.join(items)}{', ..' if len(value) > 12 else ''}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a list of tensors"
    return f'"{value}"' if isinstance(value, str) else str(value)
