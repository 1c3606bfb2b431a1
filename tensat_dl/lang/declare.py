"""Operator declarations: from the syntax tree to the form that later stages use."""

from __future__ import annotations

from dataclasses import dataclass

from tensat_dl.core.diagnostics import Diagnostic, TsrError, did_you_mean
from tensat_dl.core.source import Source
from tensat_dl.lang import ast
from tensat_dl.lang.parser import parse
from tensat_dl.ops.table import ATTR_TYPES, AttrDecl, OpDecl, Requirement, coerce, constant, wanted


@dataclass(frozen=True, slots=True)
class Declared:
    """An operator of a file, with its declaration as it is written."""

    decl: OpDecl
    item: ast.Op


def declarations(source: Source) -> dict[str, Declared]:
    """The operators that a text declares, by name. Raises `TsrError`."""
    return {
        item.name: Declared(declare(item), item) for item in parse(source).items if isinstance(item, ast.Op)
    }


def declare(op: ast.Op) -> OpDecl:
    """The declaration of a parsed ``op``. Raises `TsrError` for what is wrong with it by itself."""
    problems: list[Diagnostic] = []

    def body(kind: str) -> list[ast.OpStmt]:
        return [s for s in op.body if s.kind == kind]

    attrs = _parameters(op.params, problems)
    shapes = {s.name: s for s in body("shape")}
    dtypes = {s.name: s for s in body("dtype")}
    outputs: tuple[str | None, ...] = op.outputs or (None,)
    if op.composition is None:
        for out in outputs:
            if out not in shapes:
                what = f"output `{out}`" if out else "the result"
                hint = f"add a line such as `shape {f'{out} = ' if out else ''}shape(x)`"
                problems.append(
                    Diagnostic(f"`{op.name}` does not say the shape of {what}", op.name_span, hint)
                )
            if out not in dtypes and not op.params.tensors:
                problems.append(
                    Diagnostic(f"`{op.name}` has no inputs and does not say its element type", op.name_span)
                )
    elif op.outputs or op.opaque:
        problems.append(Diagnostic("a composition has one output and is not opaque", op.name_span))
    if op.composition is not None:
        for tensor in op.params.tensors:
            if tensor.kind != "one":
                hint = f"write `{tensor.name}`, or give the operator a body"
                message = "a composition has a fixed number of tensors"
                problems.append(Diagnostic(message, tensor.span, hint))
    seen: set[tuple[str, str | None, str | None]] = set()
    for stmt in op.body:
        key = (stmt.kind, stmt.name, stmt.preset)
        if key in seen and stmt.kind != "require":
            of = f" {stmt.name}" if stmt.name else ""
            problems.append(Diagnostic(f"`{stmt.kind}{of}` stands here twice", stmt.span))
        seen.add(key)
    for stmt in (*body("shape"), *body("dtype")):
        if stmt.name not in outputs:
            known = f"its outputs are {', '.join(op.outputs)}" if op.outputs else "it has one, without a name"
            message = f"`{stmt.name}` is not an output of `{op.name}`"
            if stmt.name is None:
                message, known = f"which output's {stmt.kind} is this?", f"{known}: `{stmt.kind} NAME = ..`"
            problems.append(Diagnostic(message, stmt.span, known))
    if problems:
        raise TsrError(problems)
    return OpDecl(
        name=op.name,
        doc=op.doc,
        inputs=op.params.tensors,
        attrs=attrs,
        outputs=op.outputs,
        requires=tuple(Requirement(s.value, s.message, span=s.span) for s in body("require")),
        lets=tuple((s.name or "", s.value) for s in body("let") if s.value is not None),
        shapes=tuple(e for o in outputs if o in shapes and (e := shapes[o].value) is not None),
        dtypes=tuple(dtypes[o].value if o in dtypes else None for o in outputs),
        flops=next((s.value for s in body("flops")), None),
        presets=tuple((s.name or "", s.preset or "", s.value) for s in body("preset") if s.value is not None),
        view=bool(body("view")),
        opaque=op.opaque,
        composition=op.composition,
        span=op.name_span,
    )


def parameters(params: ast.Params) -> tuple[AttrDecl, ...]:
    """The attributes among the parameters of an operator or a block. Raises `TsrError`."""
    problems: list[Diagnostic] = []
    attrs = _parameters(params, problems)
    if problems:
        raise TsrError(problems)
    return attrs


def _parameters(params: ast.Params, problems: list[Diagnostic]) -> tuple[AttrDecl, ...]:
    seen: set[str] = set()
    every: list[ast.TensorParam | ast.AttrParam] = [*params.tensors, *params.attrs]
    for param in every:
        if param.name in seen:
            problems.append(Diagnostic(f"parameter `{param.name}` is declared twice", param.span))
        seen.add(param.name)
    for i, tensor in enumerate(params.tensors):
        before = params.tensors[:i]
        if tensor.kind == "many" and tensor is not params.tensors[-1]:
            problems.append(Diagnostic(f"`{tensor.name}: tensor..` must be the last tensor", tensor.span))
        if tensor.kind == "many" and any(t.kind == "optional" for t in before):
            message = f"`{tensor.name}: tensor..` can't follow an optional tensor"
            problems.append(Diagnostic(message, tensor.span))
        if tensor.kind == "one" and any(t.kind == "optional" for t in before):
            hint = "optional tensors come last"
            problems.append(Diagnostic(f"`{tensor.name}` follows an optional tensor", tensor.span, hint))
    return tuple(_attr(a, problems) for a in params.attrs)


def _attr(param: ast.AttrParam, problems: list[Diagnostic]) -> AttrDecl:
    if not param.choices and param.type not in ATTR_TYPES:
        near = "" if param.type == "tensor" else did_you_mean(param.type, ATTR_TYPES)
        if param.type == "tensor":
            near = "tensors come before the `;`"
        hint = near or f"one of {', '.join(ATTR_TYPES)}, int[n], or alternatives such as `none | relu`"
        problems.append(Diagnostic(f"unknown attribute type `{param.type}`", param.span, hint))
    if param.length is not None and (param.type != "int" or param.length < 1):
        problems.append(Diagnostic("only int[n] with n of 1 or more has a length", param.span))
    repeated = next((c for i, c in enumerate(param.choices) if c in param.choices[:i]), None)
    if repeated is not None:
        problems.append(Diagnostic(f"`{repeated}` is listed twice", param.span))
    decl = AttrDecl(param.name, param.type, param.length, param.choices, None)  # type: ignore[arg-type]
    if param.default is None:
        return decl
    default = constant(param.default)
    if default is not None:
        default = coerce(decl, default)
    if default is None and decl.type in (*ATTR_TYPES, "choice"):
        problems.append(Diagnostic(f"the default of `{param.name}` is {wanted(decl)}", param.default.span))
    return AttrDecl(decl.name, decl.type, decl.length, decl.choices, default)
