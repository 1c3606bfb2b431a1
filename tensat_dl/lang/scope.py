"""What names stand for while a graph is put together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tensat_dl.ir.types import DTYPES, TensorType
from tensat_dl.lang import ast
from tensat_dl.lang.diagnostics import TsrError, did_you_mean, error
from tensat_dl.lang.source import Span
from tensat_dl.lang.walk import bound_in
from tensat_dl.ops.functions import FUNCTIONS
from tensat_dl.ops.values import Env, Unknown


@dataclass(frozen=True, slots=True)
class Tensor(TensorType):
    """A node's output. It is its type too, so that expressions can ask for its shape."""

    node: int


#: ``heads[i]`` for every i that was bound.
TensorList = dict[int, Tensor | Unknown]


@dataclass
class Scope:
    """Names of a graph's body or of one call of a block. A name stands for a tensor, a list of tensors, a number, a
    list of numbers, a word, None (an optional tensor that was not given), or `Unknown`."""

    prefix: str  #: of the names of nodes; empty for the graph itself
    body: Sequence[ast.Stmt]
    names: Env = field(default_factory=dict)
    bound_at: dict[str, Span] = field(default_factory=dict)

    def unknown(self, expr: ast.Name | ast.Call, operators: Mapping[str, object]) -> TsrError:
        """The message for a name or the function of a call that means nothing here."""
        if isinstance(expr, ast.Call):
            return self._unknown_call(expr, operators)
        name = expr.id
        later = next((t.span for t in bound_in(tuple(self.body)) if t.name == name), None)
        if later is not None and later.start > expr.span.start:
            line, _ = later.source.position(later.start)
            return error(expr.span, f"`{name}` is used before it is bound", f"it is bound in line {line}")
        hint = did_you_mean(name, [n for n in (*self.names, *DTYPES) if n])
        if name in operators or name in FUNCTIONS:
            hint = f"`{name}` is called with operands: `{name}(..)`"
        elif not hint and self.prefix:
            hint = "a block sees its parameters and what it binds itself"
        return error(expr.span, f"unknown name `{name}`", hint)

    def _unknown_call(self, expr: ast.Call, operators: Mapping[str, object]) -> TsrError:
        fn = expr.fn
        if fn in operators:
            message = f"`{fn}` computes a tensor, but here a number is computed"
            return error(expr.fn_span, message, f"bind it first: `y = {fn}(..)`, then use `y`")
        near = did_you_mean(fn, [*operators, *FUNCTIONS])
        if fn in self.names:
            near = "operators are called; this is a name"
        return error(expr.fn_span, f"unknown operator or function `{fn}`", near)


def was_declared(name: str, at: Span) -> str:
    """A hint that says where a name was declared first."""
    line, _ = at.source.position(at.start)
    return f"`{name}` is declared in line {line}"
