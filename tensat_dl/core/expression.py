"""Expressions of the language, for attributes, conditions, shapes and lets. They are frozen. Spans do not take part
in equality, so equal expressions at different places compare equal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache
from operator import is_
from typing import Any, Literal

from tensat_dl.core.diagnostics import Span


def at() -> Span:
    """The span of a tree: every parsed tree has one, and comparison ignores it."""
    return field(compare=False, repr=False)  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Const:
    """An integer, a float, a string or a truth value."""

    value: int | float | str | bool
    kind: Literal["int", "float", "string", "bool"]
    text: str = field(compare=False, repr=False)  # as written: 1e-5 stays 1e-5
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Name:
    id: str
    span: Span = at()


@dataclass(frozen=True, slots=True)
class EachIn:
    """``body for var in range``: inside a list or in place of the arguments of a call."""

    body: Expr
    var: str
    range: Range
    span: Span = at()


@dataclass(frozen=True, slots=True)
class ListExpr:
    items: tuple[Expr, ...] | EachIn
    span: Span = at()


@dataclass(frozen=True, slots=True)
class KeywordArg:
    name: str
    value: Expr
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Call:
    fn: str
    args: tuple[Expr, ...] | EachIn
    attrs: tuple[KeywordArg, ...]
    fn_span: Span = field(compare=False, repr=False)
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Index:
    """``base[index]``"""

    base: Expr
    index: Expr
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Section:
    """``base[start..stop]``; both ends are optional."""

    base: Expr
    start: Expr | None
    stop: Expr | None
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Unary:
    op: Literal["-", "not"]
    operand: Expr
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Binary:
    op: str
    left: Expr
    right: Expr
    span: Span = at()


@dataclass(frozen=True, slots=True)
class If:
    condition: Expr
    then: Expr
    otherwise: Expr
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Range:
    """``start..stop`` (stop excluded), or the elements of a list."""

    start: Expr
    stop: Expr | None
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact about a tensor, in a condition of a rule, that only an e-graph knows: ``weight(x)``, ``value(x)``,
    ``factors(x)``, ``start(x)``; and ``varying`` for ``not weight(x)``. (An e-class may be computed from weights
    alone in one way and from an input in another.)"""

    function: str
    tensor: Name | Index
    span: Span = at()

    @property
    def name(self) -> str:
        """The tensor: ``x``, or ``w[2]`` or ``w[i]`` of a group."""
        if isinstance(self.tensor, Name):
            return self.tensor.id
        assert isinstance(self.tensor.base, Name)
        if isinstance(self.tensor.index, Name):
            return member(self.tensor.base.id, self.tensor.index.id)
        assert isinstance(self.tensor.index, Const)
        assert isinstance(self.tensor.index.value, int)
        return member(self.tensor.base.id, self.tensor.index.value)


Expr = Fact | Const | Name | ListExpr | Call | Index | Section | Unary | Binary | If

# ---- names of members: a group's ``w`` is ``w[0]``, ``w[1]`` and so on in the rule for so many members


def member(base: str, index: int | str) -> str:
    """The name of one member's ``base``; in a rule that is not instantiated the index is a name."""
    return f"{base}[{index}]"


def every(base: str) -> str:
    """The argument that stands for all members' ``base``."""
    return f"{base}[..]"


def is_every(name: str) -> bool:
    return name.endswith("[..]")


def base_of(name: str) -> str:
    """A name without its index, if it has one."""
    return name.partition("[")[0]


def index_of(name: str) -> str:
    """The index in a name; "" if it has none."""
    return name.partition("[")[2].removesuffix("]")


def with_lists(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by name, and those of members ``w[0]``, ``w[1]`` and so on as the list ``w`` too."""
    lists: dict[str, list[Any]] = {}
    for name in sorted(filter(index_of, values), key=lambda n: int(index_of(n))):
        lists.setdefault(base_of(name), []).append(values[name])
    return {**values, **{base: tuple(items) for base, items in lists.items()}}


# ---- walks


def names_of(tree: Any) -> Iterator[Name]:
    """Every name in an expression, those bound by an inner ``for`` excepted."""
    if isinstance(tree, Name):
        yield tree
    elif isinstance(tree, EachIn):
        yield from names_of(tree.range)
        yield from (n for n in names_of(tree.body) if n.id != tree.var)
    else:
        for child in children(tree):
            yield from names_of(child)


def calls_of(tree: Any) -> Iterator[Call]:
    """Every call in a tree."""
    if isinstance(tree, Call):
        yield tree
    for child in children(tree):
        yield from calls_of(child)


def facts_of(tree: Any) -> Iterator[Fact]:
    """Every fact that conditions ask for."""
    if isinstance(tree, Fact):
        yield tree
    for child in children(tree):
        yield from facts_of(child)


def replaced(tree: Any, change: Callable[[Any], Any]) -> Any:
    """A tree with ``change(part)`` in place of each part; where that is None, the part stays and its own parts are
    changed."""
    new = change(tree)
    if new is not None:
        return new
    if isinstance(tree, tuple):
        several = tuple(replaced(part, change) for part in tree)
        return tree if all(map(is_, several, tree)) else several
    different = {}
    for name in _fields(tree) or ():
        part = getattr(tree, name)
        if isinstance(part, tuple) or _fields(part) is not None:
            changed = replaced(part, change)
            if changed is not part:
                different[name] = changed
    return replace(tree, **different) if different else tree


def with_name(tree: Any, name: str, new: Callable[[Span], Expr]) -> Any:
    """A tree with ``new(span)`` in place of each name at that span that is ``name``, except where an inner ``for``
    rebinds it."""

    def change(part: Any) -> Any:
        if isinstance(part, Name) and part.id == name:
            return new(part.span)
        if isinstance(part, EachIn) and part.var == name:
            return replace(part, range=with_name(part.range, name, new))
        return None

    return replaced(tree, change)


def children(tree: Any) -> Iterator[Any]:
    """The trees that a tree is made of, one level down."""
    if isinstance(tree, tuple):
        yield from tree
        return
    for name in _fields(tree) or ():
        value = getattr(tree, name)
        if isinstance(value, tuple) or _fields(value) is not None:
            yield value


def _fields(tree: Any) -> tuple[str, ...] | None:
    """The fields of a tree that may be trees; None for what is no tree."""
    cls: Any = type(tree)
    return _fields_of(cls)


@cache
def _fields_of(cls: type) -> tuple[str, ...] | None:
    if not is_dataclass(cls) or cls is Span:
        return None
    return tuple(f.name for f in fields(cls) if f.name not in ("span", "fn_span"))


def is_number(expr: Expr) -> bool:
    """Whether an expression in tensor position is a numeric literal."""
    match expr:
        case Const(_, "int" | "float"):
            return True
        case Unary("-", Const(_, "int" | "float")):
            return True
    return False


def number(expr: Expr) -> int | float:
    """The value of a numeric literal."""
    if isinstance(expr, Unary):
        return -number(expr.operand)
    assert isinstance(expr, Const)
    assert isinstance(expr.value, int | float)
    return expr.value
