"""The syntax tree. Frozen; spans do not take part in equality, so two texts that mean the same compare equal."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from tensat_dl.core.source import Span


def _span() -> Span:
    """The span of a tree: present on everything that was parsed, ignored by comparison."""
    return field(compare=False, repr=False, kw_only=True)  # type: ignore[no-any-return]


# ---- expressions ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Const:
    """An integer, a float, a string or a truth value."""

    value: int | float | str | bool
    kind: Literal["int", "float", "string", "bool"]
    text: str = field(compare=False, repr=False)  # as written: 1e-5 stays 1e-5
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Name:
    id: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class EachIn:
    """``body for var in range``: inside a list or in place of the arguments of a call."""

    body: Expr
    var: str
    range: Range
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class ListExpr:
    items: tuple[Expr, ...] | EachIn
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class KeywordArg:
    name: str
    value: Expr
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Call:
    fn: str
    args: tuple[Expr, ...] | EachIn
    attrs: tuple[KeywordArg, ...]
    fn_span: Span = field(compare=False, repr=False)
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Index:
    """``base[index]``"""

    base: Expr
    index: Expr
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Section:
    """``base[start..stop]``; both ends are optional."""

    base: Expr
    start: Expr | None
    stop: Expr | None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Unary:
    op: Literal["-", "not"]
    operand: Expr
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Binary:
    op: str
    left: Expr
    right: Expr
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class If:
    condition: Expr
    then: Expr
    otherwise: Expr
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Range:
    """``start..stop`` (stop excluded), or the elements of a list."""

    start: Expr
    stop: Expr | None
    span: Span = _span()


Expr = Const | Name | ListExpr | Call | Index | Section | Unary | Binary | If

# ---- statements -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LValue:
    """A name, one element of a list of tensors (``heads[i]``), or all of it (``heads[..]``)."""

    name: str
    index: Expr | None
    every: bool
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class TypeExpr:
    dtype: str
    shape: tuple[Expr, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Bind:
    """``a = e`` or ``(a, b) = e``"""

    targets: tuple[LValue, ...]
    value: Expr
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Input:
    target: LValue
    type: TypeExpr
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Weight:
    target: LValue
    type: TypeExpr
    value: Expr | None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class OutputItem:
    name: str | None
    value: Expr
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Output:
    items: tuple[OutputItem, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Return:
    values: tuple[Expr, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class For:
    var: str
    range: Range
    body: tuple[Stmt, ...]
    span: Span = _span()


Stmt = Bind | Input | Weight | Output | Return | For

# ---- items ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TensorParam:
    name: str
    kind: Literal["one", "optional", "many"]
    typed: bool  # whether ": tensor" was written
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class AttrParam:
    """An attribute: ``type`` is a name, or ``choices`` lists the values of an enumeration."""

    name: str
    type: str
    length: int | None  # of int[n]
    choices: tuple[str, ...]
    default: Expr | None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Params:
    tensors: tuple[TensorParam, ...]
    attrs: tuple[AttrParam, ...]


@dataclass(frozen=True, slots=True)
class OpStmt:
    """A statement of an operator's body; ``name``/``preset`` as the kind needs them."""

    kind: Literal["require", "let", "shape", "dtype", "flops", "preset", "view"]
    value: Expr | None
    name: str | None = None
    preset: str | None = None
    message: str | None = None
    span: Span = _span()


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
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class RuleStmt:
    """``targets = value``, or only ``value``; ``each`` is the index of a group."""

    targets: tuple[LValue, ...]
    value: Expr
    each: str | None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class RuleSide:
    stmts: tuple[RuleStmt, ...]
    where: tuple[Expr, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Rule:
    name: str
    left: RuleSide
    right: RuleSide
    both: bool  # <=> instead of =>
    doc: str
    name_span: Span = field(compare=False, repr=False)
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Block:
    name: str
    params: Params
    body: tuple[Stmt, ...]
    doc: str
    name_span: Span = field(compare=False, repr=False)
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class GraphItem:
    name: str
    body: tuple[Stmt, ...]
    doc: str
    name_span: Span = field(compare=False, repr=False)
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Test:
    """A graph, and what the named rule must find for it: another graph, or nothing (``after`` is None)."""

    rule: str
    before: tuple[Stmt, ...]
    after: tuple[Stmt, ...] | None
    doc: str
    name_span: Span = field(compare=False, repr=False)
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Import:
    target: str
    span: Span = _span()


Item = Import | Op | Rule | Block | GraphItem | Test


@dataclass(frozen=True, slots=True)
class Comment:
    """A ``//`` comment. The printer puts it back before, or at the end of the line of, what it stood at."""

    text: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class File:
    items: tuple[Item, ...]
    comments: tuple[Comment, ...]
    span: Span = _span()
