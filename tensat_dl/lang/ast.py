"""The syntax tree: expressions (`tensat_dl.core.expression`), and the statements and items that are made of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tensat_dl.core import expression
from tensat_dl.core.diagnostics import Source, Span
from tensat_dl.core.expression import at
from tensat_dl.ops import table

# ---- expressions and parameters, which other folders know too --------------------------------------------

Binary = expression.Binary
Call = expression.Call
Const = expression.Const
EachIn = expression.EachIn
Expr = expression.Expr
Fact = expression.Fact
If = expression.If
Index = expression.Index
KeywordArg = expression.KeywordArg
ListExpr = expression.ListExpr
Name = expression.Name
Range = expression.Range
Section = expression.Section
Unary = expression.Unary
TensorParam = table.TensorParam

#: The place of trees that no text was parsed to.
NOWHERE = Span(Source("", ""), 0, 0)

# ---- statements -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LValue:
    """A name, one element of a list of tensors (``heads[i]``), or all of it (``heads[..]``)."""

    name: str
    index: Expr | None
    every: bool
    span: Span = at()


@dataclass(frozen=True, slots=True)
class TypeExpr:
    dtype: str
    shape: tuple[Expr, ...]
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Bind:
    """``a = e`` or ``(a, b) = e``; in a rule also ``e``, without targets, and ``each i: a[i] = e``."""

    targets: tuple[LValue, ...]
    value: Expr
    span: Span = at()
    each: str | None = None  # the index of a group


@dataclass(frozen=True, slots=True)
class Input:
    target: LValue
    type: TypeExpr
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Weight:
    target: LValue
    type: TypeExpr
    value: Expr | None
    span: Span = at()


@dataclass(frozen=True, slots=True)
class OutputItem:
    name: str | None
    value: Expr
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Output:
    items: tuple[OutputItem, ...]
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Return:
    values: tuple[Expr, ...]
    span: Span = at()


@dataclass(frozen=True, slots=True)
class For:
    var: str
    range: Range
    body: tuple[Stmt, ...]
    span: Span = at()


SimpleStmt = Bind | Input | Weight | Output | Return
Stmt = SimpleStmt | For

# ---- items ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AttrParam:
    """An attribute: ``type`` is a name, or ``choices`` lists the values of an enumeration."""

    name: str
    type: str
    length: int | None  # of int[n]
    choices: tuple[str, ...]
    default: Expr | None
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Params:
    tensors: tuple[TensorParam, ...]
    attrs: tuple[AttrParam, ...]


@dataclass(frozen=True, slots=True)
class OpStmt:
    """A statement of an operator's body; ``name``/``preset`` as the kind needs them."""

    kind: Literal["require", "let", "shape", "dtype", "flops", "preset", "view", "commutative"]
    value: Expr | None
    span: Span = at()
    name: str | None = None
    preset: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Op:
    name: str
    opaque: bool
    params: Params
    outputs: tuple[str, ...]
    body: tuple[OpStmt, ...]
    composition: Expr | None
    doc: str
    name_span: Span = field(compare=False, repr=False)
    span: Span = at()


@dataclass(frozen=True, slots=True)
class RuleSide:
    stmts: tuple[Bind, ...]
    where: tuple[Expr, ...]
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Family:
    """``for var in words``: a rule for each word, written in place of ``var`` in its name, its sides and its doc."""

    var: str
    words: tuple[Name, ...]
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Rule:
    name: str
    left: RuleSide
    right: RuleSide
    both: bool  # <=> instead of =>
    family: Family | None
    doc: str
    name_span: Span = field(compare=False, repr=False)
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Block:
    name: str
    params: Params
    body: tuple[Stmt, ...]
    doc: str
    name_span: Span = field(compare=False, repr=False)
    span: Span = at()


@dataclass(frozen=True, slots=True)
class SizeParam:
    """``n: 1..512 = 128``, an open size of a graph."""

    name: str
    low: Expr
    high: Expr
    default: Expr
    span: Span = at()


@dataclass(frozen=True, slots=True)
class GraphItem:
    name: str
    sizes: tuple[SizeParam, ...]
    body: tuple[Stmt, ...]
    doc: str
    name_span: Span = field(compare=False, repr=False)
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Test:
    """A graph, and what the named rule must find for it: another graph, or nothing (``after`` is None)."""

    rule: str
    before: tuple[Stmt, ...]
    after: tuple[Stmt, ...] | None
    doc: str
    name_span: Span = field(compare=False, repr=False)
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Import:
    target: str
    span: Span = at()


Item = Import | Op | Rule | Block | GraphItem | Test


@dataclass(frozen=True, slots=True)
class Comment:
    """A ``//`` comment. The printer puts it back before, or at the end of the line of, what it stood at."""

    text: str
    span: Span = at()


@dataclass(frozen=True, slots=True)
class File:
    items: tuple[Item, ...]
    comments: tuple[Comment, ...]
    span: Span = at()


# ---- walks ----------------------------------------------------------------------------------------------


def bound_in(body: tuple[Stmt, ...]) -> Iterator[LValue]:
    """Every name that statements bind, loops included."""
    for stmt in body:
        match stmt:
            case Bind(targets):
                yield from targets
            case Input(target) | Weight(target):
                yield target
            case For(_, _, inner):
                yield from bound_in(inner)


def cycles(bodies: Mapping[str, object]) -> Iterator[list[Call]]:
    """For bodies that call each other, the calls that lead from one of them back to it. No body is in two cycles."""
    reported: set[str] = set()
    for name in bodies:
        calls = _cycle(name, bodies)
        names = {call.fn for call in calls}
        if calls and not names & reported:
            reported |= names
            yield calls


def _cycle(name: str, bodies: Mapping[str, object]) -> list[Call]:
    came: dict[str, tuple[str, Call]] = {}
    todo = [name]
    while todo:
        at = todo.pop()
        for call in expression.calls_of(bodies[at]):
            if call.fn == name:
                calls = [call]
                while at != name:
                    at, earlier = came[at]
                    calls.append(earlier)
                return calls[::-1]
            if call.fn in bodies and call.fn not in came:
                came[call.fn] = at, call
                todo.append(call.fn)
    return []


# ---- trees that are made --------------------------------------------------------------------------------


def call(fn: str, args: Sequence[Expr], attrs: Sequence[KeywordArg], span: Span) -> Call:
    """``fn(args; attrs)``"""
    return Call(fn, tuple(args), tuple(attrs), span, span=span)


def keyword(name: str, value: Expr) -> KeywordArg:
    """``name = value``"""
    return KeywordArg(name, value, span=value.span)


def integer(value: int, span: Span) -> Const:
    """A literal."""
    return Const(value, "int", str(value), span=span)


def targets(names: Iterable[str], span: Span) -> tuple[LValue, ...]:
    """Names on the left of ``=``."""
    return tuple(LValue(name, None, False, span=span) for name in names)
