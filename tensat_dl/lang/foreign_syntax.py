"""What other languages write, and how it is written here: hints for code that was meant well."""

from __future__ import annotations

import re
from collections.abc import Callable

from tensat_dl.core.types import DTYPES
from tensat_dl.lang.unexpected import Place

_SLICE = "a part of a tensor is written `slice(x; axis = 0, start = 0, stop = 4)`"
_OPERATORS = ("+", "-", "*", "/", "%", "@")


def habit(here: Place) -> str:
    """How to write here what stands there; empty if it is nothing that is known."""
    return next((text for known in _HABITS if (text := known(here))), "")


def _augmented(here: Place) -> str:
    """``y += x``"""
    if here.text not in _OPERATORS or here.near(1) != "=" or not here.statement_tokens:
        return ""
    name = _text(here, here.statement, here.at)
    end = here.statement_end
    value = _text(here, here.at + 2, end)
    compound = here.text != "+" and any(t.text in _OPERATORS for t in here.tokens[here.at + 2 : end])
    return f"write `{name} = {name} {here.text} {f'({value})' if compound else value}`" if value else ""


def _function(here: Place) -> str:
    """``def f(x):``"""
    if here.item or here.text not in ("def", "fn", "func", "function", "fun"):
        return ""
    name = here.near(1) if here.near(2) == "(" else "f"
    return f"a part of a graph that can be called is written `block {name}(x) {{ .. }}`"


def _targets(here: Place) -> str:
    """``a, b = split(x)``"""
    if here.text != "," or not here.statement_tokens or here.in_parens or "EQUAL" not in here.accepts:
        return ""
    equals = next((i for i in range(here.at, here.statement_end) if here.tokens[i].text == "="), None)
    return "" if equals is None else f"write `({_text(here, here.statement, equals)}) = ..`"


def _tuple(here: Place) -> str:
    """``shape = (4, 32)``"""
    i = here.opener
    if here.text != "," or not i or here.tokens[i].text != "(" or here.tokens[i - 1].kind == "word":
        return ""
    close = next((k for k in range(here.at, len(here.tokens)) if here.tokens[k].text == ")"), None)
    return "" if close is None else f"a list is written `[{_text(here, i + 1, close)}]`"


def _bare_list(here: Place) -> str:
    """``perm = 1, 0``"""
    if not here.in_call or not here.after_semicolon or here.near(-1) != "," or "NAME" not in here.accepts:
        return ""
    start = here.at
    while here.tokens[start - 1].text not in ("=", ";", "("):
        start -= 1
    close = here.at
    while close < len(here.tokens) and here.tokens[close].text not in (")", "=", "\n"):
        close += 1
    if close == len(here.tokens) or here.tokens[close].text == "=":
        close -= 2  # the comma and the name of the next attribute
    values = _text(here, start, close)
    return f"a list is written in brackets: `{here.tokens[start - 2].text} = [{values}]`"


def _unnamed(here: Place) -> str:
    """``f(x; 3)``"""
    if not here.in_call or here.near(-1) != ";" or here.kind not in ("number", "string"):
        return ""
    opener = here.opener or 1
    declaration = rf"\b(?:block|op) {here.tokens[opener - 1].text}\([^;()]*;\s*(\w+)"
    declared = re.search(declaration, here.source.text)
    return f"attributes are given by name: `{declared[1] if declared else 'name'} = {here.text}`"


def _arrow(here: Place) -> str:
    """``rule r { x -> y }``"""
    return "`=>` separates the sides" if here.text == "->" and here.item in ("rule", "test") else ""


def _power(here: Place) -> str:
    """``x ** 2``"""
    if here.text != "*" or here.near(-1) != "*":
        return ""
    base = here.near(-2) if here.tokens[here.at - 2].kind == "word" else ""
    shown = {"2": f"{base} * {base}", "0.5": f"sqrt({base})"}.get(here.near(1)) if base else None
    return f"there is no power operator; write {f'`{shown}`' if shown else 'a product'}"


def _section(here: Place) -> str:
    """``x[:, 0:4]``"""
    i = here.opener
    if here.text not in (":", ",") or not i or here.tokens[i].text != "[":
        return ""
    before = here.tokens[i - 1]
    is_type = before.text in DTYPES or here.tokens[here.statement].text in ("input", "weight")
    return _SLICE if before.kind == "word" and not is_type else ""


def _open_dimension(here: Place) -> str:
    """``f32[?, 4]``"""
    i = here.opener
    if here.text not in ("?", ":") or not i or here.tokens[i].text != "[":
        return ""
    return KNOWN_DIMENSIONS if here.tokens[i - 1].text in DTYPES else ""


def _indexed_output(here: Place) -> str:
    """``output y[i] = x``"""
    if here.text != "=" or here.near(-1) != "]" or here.tokens[here.statement].text != "output":
        return ""
    name = here.tokens[here.statement + 1].text
    return f"the name of an output has no index: bind `{name}[i] = ..`, then write `output {name}[..]`"


#: What is said about dimensions that are not numbers.
KNOWN_DIMENSIONS = "dimensions are known numbers: `f32[8, 16]`"

_HABITS: tuple[Callable[[Place], str], ...] = (
    _augmented,
    _function,
    _targets,
    _tuple,
    _bare_list,
    _unnamed,
    _arrow,
    _power,
    _section,
    _open_dimension,
    _indexed_output,
)


def _text(here: Place, start: int, end: int) -> str:
    """The source of some tokens, on one line."""
    if start >= end:
        return ""
    text = here.source.text[here.tokens[start].start : here.tokens[end - 1].end]
    shown = " ".join(text.split())
    return shown if len(shown) <= 60 else ".."
