"""Makes an `OpDecl` of an operator's declaration in the syntax tree, and checks it before it is used: names, kinds,
and whether a composition can ever be well-typed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from tensat_dl.core.diagnostics import Diagnostic, Source, TsrError, collected, error
from tensat_dl.core.expression import children, is_number
from tensat_dl.core.words import did_you_mean
from tensat_dl.lang import ast
from tensat_dl.lang.parser import parse
from tensat_dl.ops import symbolic as sym
from tensat_dl.ops.attributes import unknown_attribute
from tensat_dl.ops.calls import check_arity, check_attr_kinds, check_attrs
from tensat_dl.ops.evaluate import Unresolved
from tensat_dl.ops.kinds import ANYTHING, article, attribute_kind, fits, kind_of
from tensat_dl.ops.table import (
    ATTR_TYPES,
    INFIX,
    NEGATION,
    AttrDecl,
    OpDecl,
    OpTable,
    Requirement,
    coerce,
    constant,
    wanted,
)
from tensat_dl.ops.typing import IllTyped, NotComputable, infer
from tensat_dl.ops.values import FUNCTIONS, unknown_tensor

#: Lists of a known length are written out wherever they are: longer ones are `ints`.
LONGEST = 64


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
    """The declaration of a parsed ``op``. Raises `TsrError` for problems that do not depend on other operators."""
    problems: list[Diagnostic] = []
    attrs: tuple[AttrDecl, ...] = ()
    with collected(problems):
        attrs = parameters(op.params)
    problems += _misdeclared(op)
    if problems:
        raise TsrError(problems)
    shapes, dtypes = ({s.name: s for s in _body(op, kind)} for kind in ("shape", "dtype"))
    outputs: tuple[str | None, ...] = op.outputs or (None,)
    return OpDecl(
        name=op.name,
        doc=op.doc,
        inputs=op.params.tensors,
        attrs=attrs,
        outputs=op.outputs,
        requires=tuple(Requirement(s.value, s.message, span=s.span) for s in _body(op, "require")),
        lets=tuple((s.name or "", s.value) for s in _body(op, "let") if s.value is not None),
        shapes=tuple(e for o in outputs if o in shapes and (e := shapes[o].value) is not None),
        dtypes=tuple(dtypes[o].value if o in dtypes else None for o in outputs),
        flops=next((s.value for s in _body(op, "flops")), None),
        presets=tuple(
            (s.name or "", s.preset or "", s.value) for s in _body(op, "preset") if s.value is not None
        ),
        view=bool(_body(op, "view")),
        commutative=bool(_body(op, "commutative")),
        opaque=op.opaque,
        composition=op.composition,
        span=op.name_span,
    )


def _body(op: ast.Op, kind: str) -> list[ast.OpStmt]:
    return [s for s in op.body if s.kind == kind]


def _misdeclared(op: ast.Op) -> Iterator[Diagnostic]:
    outputs: tuple[str | None, ...] = op.outputs or (None,)
    for twice in dict.fromkeys(o for o in op.outputs if op.outputs.count(o) > 1):
        yield Diagnostic(f"`{op.name}` has two outputs `{twice}`", op.name_span)
    if op.composition is None:
        shapes, dtypes = ([s.name for s in _body(op, kind)] for kind in ("shape", "dtype"))
        for out in outputs:
            if out not in shapes:
                what = f"output `{out}`" if out else "the result"
                hint = f"add a line such as `shape {f'{out} = ' if out else ''}shape(x)`"
                yield Diagnostic(f"`{op.name}` does not say the shape of {what}", op.name_span, hint)
            if out not in dtypes and not op.params.tensors:
                yield Diagnostic(f"`{op.name}` has no inputs and does not say its element type", op.name_span)
    else:
        if op.outputs or op.opaque:
            yield Diagnostic("a composition has one output and is not opaque", op.name_span)
        for tensor in op.params.tensors:
            if tensor.kind != "one":
                hint = f"write `{tensor.name}`, or make it an `opaque op` that says its shape"
                yield Diagnostic("a composition has a fixed number of tensors", tensor.span, hint)
    seen: set[tuple[str, str | None, str | None]] = set()
    for stmt in op.body:
        key = (stmt.kind, stmt.name, stmt.preset)
        if key in seen and stmt.kind != "require":
            of = f" {stmt.name}" if stmt.name else ""
            yield Diagnostic(f"`{stmt.kind}{of}` stands here twice", stmt.span)
        seen.add(key)
    for stmt in _body(op, "commutative"):
        if op.opaque:
            hint = "only operators of the library can be"
            yield Diagnostic("nothing can check that an opaque operator is commutative", stmt.span, hint)
        elif [t.kind for t in op.params.tensors] != ["one", "one"] or op.outputs:
            yield Diagnostic(f"`{op.name}` does not have two operands and one output", stmt.span)
    for stmt in (*_body(op, "shape"), *_body(op, "dtype")):
        if stmt.name not in outputs:
            known = f"its outputs are {', '.join(op.outputs)}" if op.outputs else "it has one, without a name"
            message = f"`{stmt.name}` is not an output of `{op.name}`"
            if stmt.name is None:
                message, known = f"which output's {stmt.kind} is this?", f"{known}: `{stmt.kind} NAME = ..`"
            yield Diagnostic(message, stmt.span, known)


def parameters(params: ast.Params) -> tuple[AttrDecl, ...]:
    """The attributes among the parameters of an operator or a block. Raises `TsrError`."""
    problems: list[Diagnostic] = []
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
    attrs = tuple(_attr(a, problems) for a in params.attrs)
    if problems:
        raise TsrError(problems)
    return attrs


def _attr(param: ast.AttrParam, problems: list[Diagnostic]) -> AttrDecl:
    known = bool(param.choices) or param.type in ATTR_TYPES
    if not known:
        near = "" if param.type == "tensor" else did_you_mean(param.type, ATTR_TYPES)
        if param.type == "tensor":
            near = "tensors come before the `;`"
        hint = near or f"one of {', '.join(ATTR_TYPES)}, int[n], or alternatives such as `none | relu`"
        problems.append(Diagnostic(f"unknown attribute type `{param.type}`", param.span, hint))
    if param.length is not None and (param.type != "int" or not 1 <= param.length <= LONGEST):
        message = f"only int[n] with n from 1 to {LONGEST} has a length"
        problems.append(Diagnostic(message, param.span))
    repeated = next((c for i, c in enumerate(param.choices) if c in param.choices[:i]), None)
    if repeated is not None:
        problems.append(Diagnostic(f"`{repeated}` is listed twice", param.span))
    decl = AttrDecl(param.name, param.type, param.length, param.choices, None)  # type: ignore[arg-type]
    if param.default is None or not known:
        return decl
    default = constant(param.default)
    if default is not None:
        default = coerce(decl, default)
    if default is None:
        problems.append(Diagnostic(f"the default of `{param.name}` is {wanted(decl)}", param.default.span))
    return AttrDecl(decl.name, decl.type, decl.length, decl.choices, default)


#: Ranks that are tried for the operands of a composition, and how many combinations at most.
_RANKS = (2, 4, 3, 1, 0, 5)
_MOST_TRIALS = 1300


def check_declaration(decl: OpDecl, ops: OpTable) -> list[Diagnostic]:
    """The problems of a declaration, given all others."""
    names = _names(decl)
    if decl.composition is None:
        return list(_check_body(decl, names))
    problems = list(_composition(decl, decl.composition, ops, names))
    return problems or list(_never_typed(decl, ops))


def compositions_cycle(declared: Sequence[OpDecl]) -> list[Diagnostic]:
    """A message for each composition whose definition uses itself, directly or through others."""
    bodies = {d.name: d.composition for d in declared if d.composition is not None}
    return [
        Diagnostic(
            f"`{calls[-1].fn}` is defined by itself", calls[-1].fn_span, "a composition uses other operators"
        )
        for calls in ast.cycles(bodies)
    ]


def _names(decl: OpDecl) -> dict[str, str]:
    names = {choice: "word" for a in decl.attrs for choice in a.choices}
    names |= {p.name: "list of tensors" if p.kind == "many" else "tensor" for p in decl.inputs}
    return names | {a.name: attribute_kind(a) for a in decl.attrs}


def _check_body(decl: OpDecl, names: dict[str, str]) -> Iterator[Diagnostic]:
    lets = [name for name, _ in decl.lets]
    for name, expr in decl.lets:
        kind = ANYTHING
        try:
            if name in names:
                raise error(expr.span, f"`{name}` is already bound", "choose another name for the `let`")
            kind = kind_of(expr, names)
        except TsrError as e:
            yield from _explained(e, lets)
        names[name] = kind
    parts: list[tuple[ast.Expr | None, str]] = [(s.value, "condition") for s in decl.requires]
    parts += [(e, "list of integers") for e in decl.shapes]
    parts += [(e, "word") for e in decl.dtypes]
    for part, kind in parts:
        if part is not None:
            yield from _of_kind(part, names, kind, lets)
    for attr, preset, expr in decl.presets:
        a = decl.attr(attr)
        if a is None:
            hint = did_you_mean(attr, [x.name for x in decl.attrs])
            message = f"`{preset}` is a preset of `{attr}`, which `{decl.name}` does not have"
            yield Diagnostic(message, expr.span, hint)
        else:
            yield from _of_kind(expr, names, attribute_kind(a), lets)
    if decl.flops is not None:
        yield from _of_kind(decl.flops, {**names, "out": "list of integers"}, "integer", lets)
        if isinstance(decl.flops, ast.Unary) and decl.flops.op == "-":
            yield Diagnostic("a number of operations is not negative", decl.flops.span)


def _of_kind(expr: ast.Expr, names: dict[str, str], wanted: str, lets: Sequence[str]) -> Iterator[Diagnostic]:
    try:
        kind = kind_of(expr, names)
    except TsrError as e:
        yield from _explained(e, lets)
        return
    if not fits(kind, wanted) and not (wanted == "integer" and kind == "float"):
        shown = "an element type" if wanted == "word" else article(wanted)
        yield Diagnostic(f"expected {shown}, found {article(kind)}", expr.span)


def _explained(e: TsrError, lets: Sequence[str]) -> tuple[Diagnostic, ...]:
    if isinstance(e, Unresolved) and isinstance(e.expr, ast.Name) and e.expr.id in lets:
        message = f"`{e.expr.id}` is used before its `let`"
        return (Diagnostic(message, e.expr.span, "a `let` may use what stands above it"),)
    return e.diagnostics


def _composition(decl: OpDecl, expr: ast.Expr, ops: OpTable, names: dict[str, str]) -> Iterator[Diagnostic]:
    """The problems of an expression in tensor position."""
    args: tuple[ast.Expr, ...] | ast.EachIn
    match expr:
        case ast.Name(id):
            if names.get(id) == "tensor":
                return
            if id in names:
                yield Diagnostic(f"`{id}` is {article(names[id])}, not a tensor", expr.span)
            else:
                tensors = [n for n, kind in names.items() if kind == "tensor"]
                hint = did_you_mean(id, tensors) or f"the parameters of `{decl.name}` are {decl.signature}"
                yield Diagnostic(f"unknown name `{id}`", expr.span, hint)
            return
        case ast.Binary(op, left, right) if op in INFIX:
            fn, args, attrs = INFIX[op], (left, right), ()
        case ast.Unary("-", operand):
            fn, args, attrs = NEGATION, (operand,), ()
        case ast.Call(fn, args, attrs) if isinstance(args, tuple):
            if fn not in ops:
                what = f"`{fn}` computes no tensor" if fn in FUNCTIONS else f"unknown operator `{fn}`"
                yield Diagnostic(what, expr.fn_span, did_you_mean(fn, ops))
                return
        case _:
            hint = "a composition is made of operators, parameters and numbers"
            yield Diagnostic("expected a tensor", expr.span, hint)
            return

    def is_scalar(a: ast.Expr) -> bool:
        return is_number(a) or (isinstance(a, ast.Name) and names.get(a.id) == "float")

    below = [d for a in args if not is_scalar(a) for d in _composition(decl, a, ops, names)]
    yield from below
    try:
        check_attrs(ops[fn], attrs, expr.span)
        check_arity(ops[fn], len(args), expr.span)
        if ops[fn].outputs:
            raise error(expr.span, f"`{fn}` has several outputs", "a composition has one")
        if all(map(is_scalar, args)) and args:
            raise error(expr.span, "a number needs a tensor beside it, whose element type it takes")
    except TsrError as e:
        yield from e.diagnostics
        return
    yield from check_attr_kinds(ops[fn], attrs, names)


def _never_typed(decl: OpDecl, ops: OpTable) -> Iterator[Diagnostic]:
    """A message if no ranks of the operands make the composition well-typed."""
    assert decl.composition is not None
    count = len(decl.inputs)
    if len(_RANKS) ** count > _MOST_TRIALS:
        return
    reasons: Counter[str] = Counter()
    axes = [a.name for a in decl.attrs if a.type == "axis"]
    for ranks in product(_RANKS, repeat=count):
        inputs = [unknown_tensor(p.name, rank) for p, rank in zip(decl.inputs, ranks, strict=True)]
        for values in product(range(max(ranks, default=1)), repeat=len(axes)):
            attrs = {a.name: _unknown(a) for a in decl.attrs} | dict(zip(axes, values, strict=True))
            try:
                infer(ops, decl.name, inputs, attrs)
            except NotComputable:
                return  # it depends on values: nothing can be said
            except IllTyped as e:
                reasons[e.message] += 1
            except TsrError as e:
                yield from e.diagnostics
                return
            else:
                return
    if reasons:
        ((reason, _),) = reasons.most_common(1)
        message = f"the composition of `{decl.name}` type-checks for no operands"
        numbers = {a.name for a in decl.attrs if a.type == "int"}
        name = next((n for n in _given_as_axes(decl.composition, ops) if n in numbers), "")
        hint = f"`{name}` is an axis: declare it as `{name}: axis`" if name else ""
        yield Diagnostic(message, decl.composition.span, hint, notes=(f"it would need that {reason}",))


def _given_as_axes(expr: object, ops: OpTable) -> Iterator[str]:
    """The names that are given for axes in a composition."""
    if isinstance(expr, ast.Call) and expr.fn in ops:
        for keyword in expr.attrs:
            a = next((a for a in ops[expr.fn].attrs if a.name == keyword.name), None)
            if a is not None and a.type == "axis" and isinstance(keyword.value, ast.Name):
                yield keyword.value.id
    for child in children(expr):
        yield from _given_as_axes(child, ops)


def _unknown(a: AttrDecl) -> Any:
    return sym.elements(a.name, 2) if a.listed else unknown_attribute(a, a.name)
