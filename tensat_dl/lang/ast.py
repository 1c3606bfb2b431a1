"""The syntax tree: expressions (`tensat_dl.core.expression`), and the statements and items that are made of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from tensat_dl.core.expression import (
    Binary as Binary,
)
from tensat_dl.core.expression import (
    Call as Call,
)
from tensat_dl.core.expression import (
    Const as Const,
)
from tensat_dl.core.expression import (
    EachIn as EachIn,
)
from tensat_dl.core.expression import (
    Expr as Expr,
)
from tensat_dl.core.expression import (
    Fact as Fact,
)
from tensat_dl.core.expression import (
    If as If,
)
from tensat_dl.core.expression import (
    Index as Index,
)
from tensat_dl.core.expression import (
    KeywordArg as KeywordArg,
)
from tensat_dl.core.expression import (
    ListExpr as ListExpr,
)
from tensat_dl.core.expression import (
    Name as Name,
)
from tensat_dl.core.expression import (
    Range as Range,
)
from tensat_dl.core.expression import (
    Section as Section,
)
from tensat_dl.core.expression import (
    Unary as Unary,
)
from tensat_dl.core.expression import (
    at,
)
from tensat_dl.core.source import Span
from tensat_dl.ops.table import TensorParam as TensorParam

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
    """``a = e`` or ``(a, b) = e``"""

    targets: tuple[LValue, ...]
    value: Expr
    span: Span = at()


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


Stmt = Bind | Input | Weight | Output | Return | For

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

    kind: Literal["require", "let", "shape", "dtype", "flops", "preset", "view"]
    value: Expr | None
    name: str | None = None
    preset: str | None = None
    message: str | None = None
    span: Span = at()


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
class RuleStmt:
    """``targets = value``, or only ``value``; ``each`` is the index of a group."""

    targets: tuple[LValue, ...]
    value: Expr
    each: str | None
    span: Span = at()


@dataclass(frozen=True, slots=True)
class RuleSide:
    stmts: tuple[RuleStmt, ...]
    where: tuple[Expr, ...]
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Rule:
    name: str
    left: RuleSide
    right: RuleSide
    both: bool  # <=> instead of =>
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
class GraphItem:
    name: str
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
