"""The meaning of names while a graph is put together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tensat_dl.core.diagnostics import Span, TsrError, error
from tensat_dl.core.graph import DTYPES, TensorType
from tensat_dl.core.words import did_you_mean
from tensat_dl.lang import ast
from tensat_dl.ops.values import FUNCTIONS, Env


@dataclass(frozen=True, slots=True)
class ScopedTensor(TensorType):
    """A node's output. It is its type too, so that expressions can ask for its shape."""

    node: int


@dataclass
class Scope:
    """Names of a graph's body or of one call of a block. A name stands for a tensor, a list of tensors, a number, a
    list of numbers, a word, None (an optional tensor that was not given), or `Unknown`."""

    prefix: str  #: of the names of nodes; empty for the graph itself
    body: Sequence[ast.Stmt]
    names: Env = field(default_factory=dict)
    bound_at: dict[str, Span] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)  #: variables of loops that are over
    sizes: frozenset[str] = frozenset()  #: the names that are sizes of the graph
    empty: dict[str, str] = field(default_factory=dict)  #: loops without rounds by the lists that they bind

    def unknown(self, expr: ast.Name | ast.Call, operators: Mapping[str, object]) -> TsrError:
        """The message for an unknown name, or for a call of an unknown function."""
        if isinstance(expr, ast.Call):
            return self._unknown_call(expr, operators)
        name = expr.id
        later = self.bound_later(expr)
        if later is not None:
            line, _ = later.source.position(later.start)
            return error(expr.span, f"`{name}` is used before it is bound", f"it is bound in line {line}")
        hint = did_you_mean(name, [n for n in (*self.names, *DTYPES) if n])
        if name in operators or name in FUNCTIONS:
            hint = f"`{name}` is called with operands: `{name}(..)`"
        elif name in self.ended:
            hint = f"`{name}` is the variable of a loop and exists only inside it"
        elif not hint and self.prefix:
            hint = "a block sees its parameters and what it binds itself"
        return error(expr.span, f"unknown name `{name}`", hint)

    def bound_later(self, name: ast.Name) -> Span | None:
        """Where a name is bound after the place where it is used, if it is."""
        at = next((t.span for t in ast.bound_in(tuple(self.body)) if t.name == name.id), None)
        return at if at is not None and at.start > name.span.start else None

    def _unknown_call(self, expr: ast.Call, operators: Mapping[str, object]) -> TsrError:
        fn = expr.fn
        if fn in operators:
            message = f"`{fn}` computes a tensor, but here a number is computed"
            return error(expr.fn_span, message, f"bind it first: `y = {fn}(..)`, then use `y`")
        near = _elsewhere(expr, operators) or did_you_mean(fn, [*operators, *FUNCTIONS])
        if fn in self.names:
            near = "operators are called; this is a name"
        return error(expr.fn_span, f"unknown operator or function `{fn}`", near)


#: What other libraries call operators.
_OTHER_NAMES = {
    "mean": "reduce_mean",
    "avg": "reduce_mean",
    "average": "reduce_mean",
    "add": "ewadd",
    "sub": "ewsub",
    "subtract": "ewsub",
    "mul": "ewmul",
    "multiply": "ewmul",
    "div": "ewdiv",
    "divide": "ewdiv",
    "dot": "matmul",
    "mm": "matmul",
    "bmm": "matmul",
    "cat": "concat",
    "concatenate": "concat",
    "permute": "transpose",
    "view": "reshape",
    "conv": "conv2d",
    "swish": "silu",
}


def _elsewhere(call: ast.Call, operators: Mapping[str, object]) -> str:
    """A hint for a function of another language or library."""
    if call.fn == "range" and isinstance(call.args, tuple) and 1 <= len(call.args) <= 2:
        texts = [a.span.text for a in call.args]
        written = "..".join(["0", *texts][-2:])
        return f"a range is written `{written}`, as in `for i in {written}`"
    here = _OTHER_NAMES.get(call.fn, "")
    return f"it is called `{here}`" if here in operators else ""
