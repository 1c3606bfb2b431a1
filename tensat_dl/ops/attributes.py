"""Attributes of applications, as they are written, and the names that a declaration's expressions may use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from tensat_dl.core import expression as ex
from tensat_dl.core.expression import is_number
from tensat_dl.core.graph import TensorType
from tensat_dl.ops import symbolic as sym
from tensat_dl.ops.evaluate import Unresolved, evaluate
from tensat_dl.ops.kinds import not_a_word, words
from tensat_dl.ops.lists import Many
from tensat_dl.ops.symbolic import Condition, NotKnown, Of, Opaque, Sym
from tensat_dl.ops.table import AttrDecl, OpDecl
from tensat_dl.ops.values import AnyType, Env, Lazy, SymType, Unknown


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
