"""A graph in the making: its nodes, checked one by one, and every problem that was found on the way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import isfinite
from typing import Any

import numpy as np

from tensat_dl.core.diagnostics import Diagnostic, Span, TsrError, error
from tensat_dl.core.expression import is_number, number
from tensat_dl.core.graph import (
    CONSTANTS,
    FLOATS,
    INTEGERS,
    Attrs,
    AttrValue,
    GraphBuilder,
    TensorType,
    fill_attrs,
    overflows,
)
from tensat_dl.lang import ast
from tensat_dl.lang.node_names import Names
from tensat_dl.lang.scope import Scope, ScopedTensor
from tensat_dl.ops.attributes import attributes
from tensat_dl.ops.calls import (
    check_arity,
    check_attrs,
    checked_attrs,
    explain_ill_typed,
    in_floats,
    is_short,
)
from tensat_dl.ops.compositions import neighbour
from tensat_dl.ops.evaluate import Unresolved, evaluate
from tensat_dl.ops.flops import check_flops
from tensat_dl.ops.numbers import written
from tensat_dl.ops.products import Alignment, aligned
from tensat_dl.ops.symbolic import EvaluationError
from tensat_dl.ops.table import INFIX, OpDecl, OpTable
from tensat_dl.ops.traits import traits
from tensat_dl.ops.typing import IllTyped, infer
from tensat_dl.ops.values import Absent, AlreadyReported, Unknown, describe

#: More nodes than this, or more statements run, are taken for a mistake.
MAX_NODES = 100_000
#: Larger tensors fit into no memory, and their sizes into no integer of the engine.
MAX_ELEMENTS = 2**48

#: An argument as it is written and what it stands for.
Operand = tuple[ast.Expr, Any]


class Endless(Exception):
    """The graph is larger than anyone intends. The argument is its `Diagnostic`."""


class Assembly:
    """The nodes, names and problems of one graph."""

    def __init__(self, ops: OpTable, name: str) -> None:
        self.ops = ops
        self.builder = GraphBuilder(name, (d.name for d in ops.values() if d.opaque))
        self.problems: dict[tuple[str, int, int], Diagnostic] = {}
        self.warnings: list[Diagnostic] = []
        self.bindings: dict[Span, list[tuple[str, int]]] = {}  #: nodes by the statement that binds them
        self.names = Names()
        self._notes: list[str] = []
        self._steps = 0

    # ---- problems ----------------------------------------------------------------------------------------

    def report(self, diagnostic: Diagnostic) -> None:
        """Records the first problem at a place, however often a loop or a block meets it again."""
        span = diagnostic.span
        key = (span.source.path, span.start, span.end) if span else ("", 0, 0)
        if key not in self.problems:
            notes = (*diagnostic.notes, *reversed(self._notes[-4:]))
            self.problems[key] = replace(diagnostic, notes=notes)

    @contextmanager
    def during(self, note: str) -> Iterator[None]:
        """Problems within carry this note: the round of a loop, the call of a block."""
        self._notes.append(note)
        try:
            yield
        finally:
            self._notes.pop()

    def step(self, at: Span) -> None:
        """Counts a statement. Raises `Endless` when there have been too many."""
        self._steps += 1
        if self._steps > MAX_NODES:
            message = f"the graph takes more than {MAX_NODES:,} statements to build"
            raise Endless(Diagnostic(message, at))

    # ---- values ------------------------------------------------------------------------------------------

    def evaluate(self, expr: ast.Expr, scope: Scope) -> Any:
        """The value of an expression that computes with numbers. Raises `TsrError`, or `AlreadyReported`."""
        with self.located(scope, expr.span):
            return evaluate(expr, scope.names)

    @contextmanager
    def located(self, scope: Scope, at: Span) -> Iterator[None]:
        """Turns all errors of an evaluation into a `TsrError` with a place."""
        try:
            yield
        except Unresolved as e:
            raise scope.unknown(e.expr, self.ops) from None
        except Absent as e:
            raise error(e.span, f"`{e.name}` is not given in this call", "it is an optional tensor") from None
        except EvaluationError as e:
            raise error(e.span or at, str(e)) from None

    def integer(self, expr: ast.Expr, scope: Scope, what: str) -> int:
        """The value of an expression that must be an integer."""
        value = self.evaluate(expr, scope)
        if isinstance(value, bool) or not isinstance(value, int):
            raise error(expr.span, f"{what} is an integer, not {describe(value)}")
        return value

    # ---- nodes -------------------------------------------------------------------------------------------

    def add(
        self, op: str, inputs: Sequence[int], attrs: Attrs, type: TensorType, name: str = ""
    ) -> ScopedTensor:
        """Adds a node with one output."""
        return ScopedTensor(type.dtype, type.shape, self.builder.add(op, inputs, attrs, (type,), name))

    def apply(
        self,
        decl: OpDecl,
        operands: Sequence[Operand],
        attrs: Sequence[ast.KeywordArg],
        span: Span,
        scope: Scope,
    ) -> list[ScopedTensor]:
        """Adds one application; its results."""
        check_attrs(decl, attrs, span)
        tensors = self.tensors(operands, decl)
        check_arity(decl, len(tensors), span)
        given = [self.builder.nodes[t.node].type for t in tensors]
        alignment = None
        if decl.name == "matmul":
            tensors, alignment = self._aligned(tensors, span)
        nodes = [t.node for t in tensors]
        types = [self.builder.nodes[n].type for n in nodes]
        for a in attrs:
            declared = decl.attr(a.name)
            if is_number(a.value) and declared is not None and declared.type == "float":
                as_float(number(a.value), a.value.span)
        with self.located(scope, span):
            final = checked_attrs(decl, attributes(decl, attrs, scope.names, types, known=True), attrs)
        filled = dict(final)
        dtype = str(filled.get("dtype", types[0].dtype if types else ""))
        if decl.name in CONSTANTS:
            value = filled["value"]
            assert isinstance(value, float)
            check_range(value, dtype, dtype, span)
        final = decl.ordered({k: written(v, dtype) if isinstance(v, float) else v for k, v in filled.items()})
        try:
            typing = infer(self.ops, decl.name, types, dict(final))
            check_flops(decl, types, dict(final), typing)
        except IllTyped as e:
            shown = [(expr.span.text, t) for (expr, _), t in zip(operands, given, strict=False)]
            problem = explain_ill_typed(decl, e, shown, attrs, span)
            shape = dict(final).get("shape")
            if decl.name == "reshape" and isinstance(shape, tuple) and -1 in shape:
                problem = replace(problem, hint="every dimension is written out: -1 stands for none")
            raise TsrError([problem]) from None
        results = typing.concrete()
        for t in results:
            check_size(t, span)
        if len(self.builder.nodes) > MAX_NODES:
            raise error(span, f"the graph has more than {MAX_NODES:,} nodes")
        if decl.name in ("input", "weight"):
            self._refuse_other(decl.name, final, span)
        if len(results) == 1:
            known = self._folded(decl, nodes, dict(final))
            if known is not None:
                return [self.fill(known, results[0], span)]
            result = self.add(decl.name, nodes, final, results[0])
            return [result if alignment is None else self._shaped(result, alignment.result)]
        node = self.builder.add(decl.name, nodes, final, results)
        return [self.add("proj", (node,), (("index", i),), t) for i, t in enumerate(results)]

    def _aligned(
        self, tensors: list[ScopedTensor], span: Span
    ) -> tuple[list[ScopedTensor], Alignment | None]:
        """The operands of `matmul` with equal leading dimensions; they are given as NumPy's ``@`` takes them. Raises
        `TsrError`."""
        x, y, *bias = tensors
        found = aligned(x.shape, y.shape)
        if found is None:
            what = (
                "the operands are no scalars" if not (x.rank and y.rank) else "leading dimensions broadcast"
            )
            hint = "a scalar times a tensor is `*`" if not (x.rank and y.rank) else "they are equal or 1"
            notes = (f"the operands are {x} and {y}",)
            raise error(span, f"`matmul` requires that {what}", hint, notes)
        op = "expand" if found.expanded else "reshape"
        return [self._shaped(x, found.left, op), self._shaped(y, found.right, op), *bias], found

    def _shaped(self, x: ScopedTensor, shape: tuple[int, ...], op: str = "reshape") -> ScopedTensor:
        """The tensor with another shape; itself if it has that one."""
        if x.shape == shape:
            return x
        return self.add(op, (x.node,), (("shape", shape),), TensorType(x.dtype, shape))

    def _folded(self, decl: OpDecl, nodes: Sequence[int], attrs: Mapping[str, AttrValue]) -> float | None:
        """The value of a function of one scalar float constant, such as ``sqrt(2.0)``; None for anything else, and
        where the value is not finite. (Rules compute quotients and products.)"""
        if len(nodes) != 1 or decl.composition is not None or not traits(decl.name).chained:
            return None
        constant = self.builder.nodes[nodes[0]]
        if constant.op != "fill" or constant.type.shape or constant.type.dtype not in FLOATS:
            return None
        from tensat_dl.ops.semantics import SEMANTICS  # few files need it

        with np.errstate(all="ignore"):
            value = float(np.asarray(SEMANTICS[decl.name](np.float64(str(constant.attr("value"))), **attrs)))
        return value if isfinite(value) else None

    def _refuse_other(self, op: str, attrs: Attrs, span: Span) -> None:
        """Raises `TsrError` if an input or weight has the name of another one."""
        name = dict(attrs)["name"]
        for node in self.builder.nodes:
            if (
                node.op in ("input", "weight")
                and node.attr("name") == name
                and (node.op, node.attrs) != (op, attrs)
            ):
                raise error(span, f"the graph has another {node.op} called `{name}`, {node.type}")

    def tensors(self, operands: Sequence[Operand], decl: OpDecl | None = None) -> list[ScopedTensor]:
        """Operands as tensors; numbers become scalars of the element type of their `neighbour`."""
        types = {i: v.dtype for i, (_, v) in enumerate(operands) if isinstance(v, ScopedTensor)}
        like = neighbour(decl, types)
        if like is None:
            return [self._tensor(expr, value, "f32", "") for expr, value in operands]
        dtype, text = types[like], operands[like][0].span.text
        if decl is not None and decl.name == INFIX["/"] and dtype in INTEGERS:
            for expr, value in operands:
                if isinstance(value, float) and value.is_integer():
                    self._warn_of_quotient(expr, dtype, text)
        return [self._tensor(expr, value, dtype, text) for expr, value in operands]

    def _warn_of_quotient(self, number: ast.Expr, dtype: str, beside: str) -> None:
        """Whoever writes ``x / 3.0`` of an integer x may expect a fraction."""
        said = f"`{number.span.text}` has the type of {_named(beside)}, {dtype}"
        message = f"{said}: the quotient is rounded toward zero"
        warning = Diagnostic(message, number.span, in_floats(beside), severity="warning")
        if warning not in self.warnings:  # a loop comes here again
            self.warnings.append(warning)

    def _tensor(self, expr: ast.Expr, value: Any, dtype: str, beside: str) -> ScopedTensor:
        """An operand. A number gets the element type ``dtype`` of the operand that is written ``beside``."""
        if isinstance(value, ScopedTensor):
            return value
        if isinstance(value, Unknown):
            raise AlreadyReported
        if isinstance(value, float | int) and not isinstance(value, bool):
            return self.fill(value, TensorType(dtype, ()), expr.span, beside=beside)
        hint = ""
        if isinstance(value, dict) and isinstance(expr, ast.Name):
            hint = f"write `{expr.id}[..]` for all of them, `{expr.id}[i]` for one"
        raise error(expr.span, f"expected a tensor, found {describe(value)}", hint)

    def fill(
        self, value: float, type: TensorType, span: Span, name: str = "", beside: str = ""
    ) -> ScopedTensor:
        """A tensor whose elements are all one number, which is written at ``span``. If the type is that of another
        operand, that is written ``beside``."""
        check_range(value, type.dtype, str(type), span)
        attrs = fill_attrs(written(as_float(value, span), type.dtype), type)
        try:
            infer(self.ops, "fill", (), dict(attrs))
        except IllTyped:
            whole = "0 and 1" if type.dtype == "bool" else "whole numbers"
            hint = f"elements of type {type.dtype} are {whole}"
            if beside:
                hint = f"it has the element type of {_named(beside)}, and {hint}; {in_floats(beside)}"
            raise error(span, f"{value} can't be an element of {type}", hint) from None
        return self.add("fill", (), attrs, type, name)

    # ---- names -------------------------------------------------------------------------------------------

    def label(self, tensor: ScopedTensor, name: str) -> None:
        """Names a node after the first name that it is bound to."""
        node = self.builder.nodes[tensor.node]
        if not node.name:
            self.builder.nodes[tensor.node] = replace(node, name=self.names.counted(name))


def _named(operand: str) -> str:
    """An operand in a message."""
    return f"`{operand}`" if is_short(operand) else "the operand beside it"


def check_size(type: TensorType, at: Span) -> None:
    """Raises `TsrError` for a tensor larger than anyone intends."""
    if type.size > MAX_ELEMENTS:
        raise error(at, f"a tensor of type {type} is too large", "at most 2^48 elements are allowed")


#: The greatest element of floating-point types, as messages have it.
GREATEST = {"f16": "65504", "bf16": "3.39e38", "f32": "3.4e38"}


def as_float(value: float, at: Span) -> float:
    """A number as the float of a constant. Raises `TsrError` if it is beyond all floats, or an integer that a float
    would change."""
    try:
        found = float(value)
    except OverflowError:
        raise error(at, "the number is too large for a float") from None
    if found != value and isinstance(value, int):
        hint = f"integers beyond 2^53 are not all there; the nearest one is {int(found)}"
        raise error(at, f"the integer {value} can't be held exactly: constants are float64", hint)
    return found


def check_range(value: float, dtype: str, shown: str, at: Span) -> None:
    """Raises `TsrError` if an element type has no number as large, or as small; ``shown`` is the tensor's type."""
    if dtype in INTEGERS:
        least, greatest = INTEGERS[dtype]
        if not least <= value <= greatest:
            hint = f"elements of type {dtype} go from {least} to {greatest}"
            raise error(at, f"{value:.17g} can't be an element of {shown}", hint)
    elif overflows(dtype, value):
        hint = f"elements of type {dtype} go up to {GREATEST[dtype]}"
        raise error(at, f"{value} can't be an element of {shown}", hint)
