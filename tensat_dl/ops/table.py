"""The operator table: declarations of ``rules/ops.tsr`` and of user files, in the form that later stages use."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from tensat_dl.ir.graph import AttrValue
from tensat_dl.ir.types import DTYPES
from tensat_dl.lang import ast
from tensat_dl.lang.diagnostics import Diagnostic, TsrError, did_you_mean
from tensat_dl.lang.source import Span
from tensat_dl.lang.walk import calls_of

AttrType = Literal["int", "float", "bool", "string", "dtype", "axis", "ints", "choice"]
ATTR_TYPES = ("int", "float", "bool", "string", "dtype", "axis", "ints")

#: Infix operators on tensors stand for these.
INFIX = {"+": "ewadd", "-": "ewsub", "*": "ewmul", "/": "ewdiv", "@": "matmul"}


@dataclass(frozen=True, slots=True)
class AttrDecl:
    """A named attribute. ``length`` is n for int[n]; ``default`` is None where a value must be given."""

    name: str
    type: AttrType
    length: int | None
    choices: tuple[str, ...]
    default: AttrValue | None

    @property
    def words(self) -> tuple[str, ...]:
        """All strings that are values of it; empty where any string is, or none."""
        return DTYPES if self.type == "dtype" else self.choices


@dataclass(frozen=True, slots=True)
class OpDecl:
    """One operator. ``shapes`` and ``dtypes`` have one entry per output; a dtype of None means the first input's."""

    name: str
    doc: str
    inputs: tuple[ast.TensorParam, ...]
    attrs: tuple[AttrDecl, ...]
    outputs: tuple[str, ...]  #: names of several outputs; empty for an operator with one
    requires: tuple[ast.OpStmt, ...]
    lets: tuple[tuple[str, ast.Expr], ...]
    shapes: tuple[ast.Expr, ...]
    dtypes: tuple[ast.Expr | None, ...]
    flops: ast.Expr | None
    presets: tuple[tuple[str, str, ast.Expr], ...]  #: (attribute, preset, value)
    view: bool
    opaque: bool
    composition: ast.Expr | None
    span: Span

    @property
    def min_inputs(self) -> int:
        return sum(p.kind != "optional" for p in self.inputs)

    @property
    def truth_values(self) -> frozenset[int]:
        """The positions of operands that are required to be truth values."""
        names = set()
        for stmt in self.requires:
            match stmt.value:
                case ast.Binary("==", ast.Call("dtype", (ast.Name(name),)), ast.Name("bool")):
                    names.add(name)
        return frozenset(i for i, p in enumerate(self.inputs) if p.name in names)

    @property
    def max_inputs(self) -> int | None:
        """None if there is no limit."""
        return None if any(p.kind == "many" for p in self.inputs) else len(self.inputs)

    def attr(self, name: str) -> AttrDecl | None:
        return next((a for a in self.attrs if a.name == name), None)

    def preset(self, attr: str, name: str) -> ast.Expr | None:
        return next((e for a, p, e in self.presets if (a, p) == (attr, name)), None)

    @property
    def signature(self) -> str:
        """As in ``matmul(x, y, bias?; act = none)``."""
        marks = {"one": "", "optional": "?", "many": ".."}
        inputs = ", ".join(p.name + marks[p.kind] for p in self.inputs)
        attrs = ", ".join(a.name for a in self.attrs)
        return f"{self.name}({inputs}{'; ' + attrs if attrs else ''})"


class OpTable(Mapping[str, OpDecl]):
    """Operators by name."""

    def __init__(self, decls: Iterable[OpDecl]) -> None:
        self._decls = {d.name: d for d in decls}
        self._contents: dict[str, str] = {}

    def __getitem__(self, name: str) -> OpDecl:
        return self._decls[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._decls)

    def __len__(self) -> int:
        return len(self._decls)

    def content(self, name: str) -> str:
        """Eight characters that say what a composition computes, whatever its name; "" for another operator."""
        composition = self[name].composition
        if composition is None:
            return ""
        if name not in self._contents:
            parts = {call.fn: self.content(call.fn) for call in calls_of(composition) if call.fn in self}
            text = repr((self[name].inputs, self[name].attrs, composition, sorted(parts.items())))
            self._contents[name] = hashlib.sha256(text.encode()).hexdigest()[:8]
        return self._contents[name]


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
        requires=tuple(body("require")),
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


def wanted(a: AttrDecl) -> str:
    """What an attribute accepts."""
    if a.choices:
        return f"one of {', '.join(a.choices)}"
    if a.length is not None:
        return f"a list of {a.length} integers, or one integer for all"
    names = {"int": "an integer", "float": "a number", "bool": "true or false", "string": "a string"}
    names |= {"dtype": "an element type", "axis": "an integer", "ints": "a list of integers"}
    return names[a.type]


def have_common_values(a: AttrDecl, b: AttrDecl) -> bool:
    """Whether some word may be the value of either of two attributes, which take words. An element type is not the
    string that is its name."""
    if (a.type == "dtype") != (b.type == "dtype"):
        return False
    return not a.words or not b.words or not set(a.words).isdisjoint(b.words)


def constant(expr: ast.Expr) -> AttrValue | None:
    """The value of a literal, of a name standing for itself, or of a list of integers; else None."""
    match expr:
        case ast.Const(value):
            return value
        case ast.Name(id):
            return id
        case ast.Unary("-", ast.Const(value)) if isinstance(value, int | float):
            return -value
        case ast.ListExpr(items) if isinstance(items, tuple):
            values = [constant(i) for i in items]
            if all(isinstance(v, int) and not isinstance(v, bool) for v in values):
                return tuple(v for v in values if isinstance(v, int))
    return None


def coerce(decl: AttrDecl, value: object) -> AttrValue | None:
    """The value as an attribute of this declaration, or None if it is of the wrong type."""
    is_int = isinstance(value, int) and not isinstance(value, bool)
    if decl.length is not None:
        if is_int:
            return (value,) * decl.length  # type: ignore[return-value]
        return value if _int_tuple(value) and len(value) == decl.length else None  # type: ignore
    match decl.type:
        case "int" | "axis":
            return value if is_int else None  # type: ignore[return-value]
        case "float":
            return float(value) if is_int or isinstance(value, float) else None  # type: ignore[arg-type]
        case "bool":
            return value if isinstance(value, bool) else None
        case "string":
            return value if isinstance(value, str) else None
        case "dtype":
            return value if isinstance(value, str) and value in DTYPES else None
        case "choice":
            return value if isinstance(value, str) and value in decl.choices else None
        case "ints":
            return value if _int_tuple(value) else None  # type: ignore[return-value]
    return None


def _int_tuple(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(v, int) and not isinstance(v, bool) for v in value)
