"""Blocks: their declarations checked, and the scope of one call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tensat_dl.core.diagnostics import Diagnostic
from tensat_dl.lang import ast
from tensat_dl.lang.assembly import Assembly, Operand
from tensat_dl.lang.declare import parameters
from tensat_dl.lang.scope import Scope
from tensat_dl.ops.attributes import attributes
from tensat_dl.ops.calls import check_arity, check_attrs, checked_attrs
from tensat_dl.ops.table import OpDecl


def check_blocks(blocks: Mapping[str, ast.Block]) -> Iterator[Diagnostic]:
    """The problems of blocks that do not depend on a call."""
    for block in blocks.values():
        yield from _body(block)
    for calls in ast.cycles({block.name: block.body for block in blocks.values()}):
        names = [calls[-1].fn, *(call.fn for call in calls)]
        hint = "a block is copied wherever it is called, so this would never end"
        notes = (" -> ".join(names),) if len(calls) > 1 else ()
        yield Diagnostic(f"block `{names[0]}` calls itself", calls[0].fn_span, hint, notes=notes)


def _body(block: ast.Block) -> Iterator[Diagnostic]:
    returns = [s for s in block.body if isinstance(s, ast.Return)]
    if not returns:
        hint = "its last statement is `return x`"
        yield Diagnostic(f"block `{block.name}` has no `return`", block.name_span, hint)
    elif returns[0] is not block.body[-1]:
        yield Diagnostic("`return` is the last statement of a block", returns[0].span)
    yield from _misplaced(block.body, False)


def _misplaced(body: Sequence[ast.Stmt], in_loop: bool) -> Iterator[Diagnostic]:
    for stmt in body:
        match stmt:
            case ast.Input():
                yield Diagnostic("a block has no inputs", stmt.span, "make it a parameter of the block")
            case ast.Output():
                yield Diagnostic("a block has no outputs", stmt.span, "write `return x`")
            case ast.Return() if in_loop:
                yield Diagnostic("`return` stands in a loop", stmt.span, "put it at the end of the block")
            case ast.For(_, _, inner):
                yield from _misplaced(inner, True)


def signature(block: ast.Block) -> OpDecl:
    """A block's parameters in the form of an operator's, so that calls are checked alike. Raises `TsrError`."""
    return OpDecl(
        name=block.name,
        doc=block.doc,
        inputs=block.params.tensors,
        attrs=parameters(block.params),
        outputs=(),
        requires=(),
        lets=(),
        shapes=(),
        dtypes=(),
        flops=None,
        presets=(),
        view=False,
        commutative=False,
        opaque=True,
        composition=None,
        span=block.name_span,
    )


def call_scope(
    block: ast.Block,
    expr: ast.Call,
    operands: Sequence[Operand],
    outer: Scope,
    assembly: Assembly,
    prefix: str,
) -> Scope:
    """The names that the body of a block starts with in one call. Raises `TsrError`."""
    decl = signature(block)
    check_attrs(decl, expr.attrs, expr.span)
    check_arity(decl, len(operands), expr.span)
    tensors = assembly.tensors(operands)
    with assembly.located(outer, expr.span):
        attrs = dict(
            checked_attrs(decl, attributes(decl, expr.attrs, outer.names, [], known=True), expr.attrs)
        )
    names: dict[str, Any] = {choice: choice for a in decl.attrs for choice in a.choices}
    for i, param in enumerate(decl.inputs):
        if param.kind == "many":
            names[param.name] = dict(enumerate(tensors[i:]))
        else:
            names[param.name] = tensors[i] if i < len(tensors) else None
    names |= attrs
    spans = {p.name: p.span for p in block.params.tensors}
    spans |= {p.name: p.span for p in block.params.attrs}
    return Scope(prefix, block.body, names, spans)
