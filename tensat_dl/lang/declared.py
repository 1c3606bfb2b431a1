"""Checks operator declarations before anything is computed with them: names, kinds, and whether a composition can
ever be well-typed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from tensat_dl.core.diagnostics import Diagnostic, TsrError, did_you_mean, error
from tensat_dl.core.expression import calls_of
from tensat_dl.core.types import DTYPES
from tensat_dl.lang import ast
from tensat_dl.ops import symbolic as sym
from tensat_dl.ops.calls import check_arity, check_attr_kinds, check_attrs
from tensat_dl.ops.evaluate import Unresolved
from tensat_dl.ops.functions import FUNCTIONS
from tensat_dl.ops.kinds import ANYTHING, article, attribute_kind, fits, kind_of
from tensat_dl.ops.symbolic import Opaque
from tensat_dl.ops.table import INFIX, AttrDecl, OpDecl, OpTable
from tensat_dl.ops.typing import IllTyped, NotComputable, infer, is_number
from tensat_dl.ops.values import SymType

#: Ranks that are tried for the operands of a composition, and how many combinations at most.
_RANKS = (2, 4, 3, 1, 0, 5)
_MOST_TRIALS = 1300


def check_declaration(decl: OpDecl, ops: OpTable) -> list[Diagnostic]:
    """What is wrong with a declaration, given all others."""
    names = _names(decl)
    if decl.composition is None:
        return list(_body(decl, names))
    problems = list(_composition(decl, decl.composition, ops, names))
    return problems or list(_never_typed(decl, ops))


def compositions_cycle(declared: Sequence[OpDecl]) -> list[Diagnostic]:
    """A message for each of these compositions that is defined by itself."""
    uses = {d.name: list(calls_of(d.composition)) for d in declared if d.composition is not None}
    found: list[Diagnostic] = []
    reported: set[str] = set()
    for name in uses:
        if name in reported:
            continue
        seen: set[str] = set()
        todo = [name]
        while todo:
            for call in uses.get(todo.pop(), []):
                if call.fn == name:
                    message = f"`{name}` is defined by itself"
                    found.append(Diagnostic(message, call.fn_span, "a composition uses other operators"))
                    reported |= seen
                    todo = []
                    break
                if call.fn not in seen:
                    seen.add(call.fn)
                    todo.append(call.fn)
    return found


def _names(decl: OpDecl) -> dict[str, str]:
    names = {choice: "word" for a in decl.attrs for choice in a.choices}
    names |= {p.name: "list of tensors" if p.kind == "many" else "tensor" for p in decl.inputs}
    return names | {a.name: attribute_kind(a) for a in decl.attrs}


def _body(decl: OpDecl, names: dict[str, str]) -> Iterator[Diagnostic]:
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
    wanted: list[tuple[ast.Expr | None, str]] = [(s.value, "condition") for s in decl.requires]
    wanted += [(e, "list of integers") for e in decl.shapes]
    wanted += [(e, "word") for e in decl.dtypes if e is not None]
    for wish, kind in wanted:
        if wish is not None:
            yield from _of_kind(wish, names, kind, lets)
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
    """What is wrong with an expression in tensor position."""
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
        inputs = [_tensor(p.name, rank) for p, rank in zip(decl.inputs, ranks, strict=True)]
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
        yield Diagnostic(message, decl.composition.span, notes=(f"it would need that {reason}",))


def _tensor(name: str, rank: int) -> SymType:
    return SymType(Opaque(("dtype", name), DTYPES), tuple(sym.atom("dim", name, i) for i in range(rank)))


def _unknown(a: AttrDecl) -> Any:
    if a.length is not None:
        return tuple(sym.atom("attr", a.name, i) for i in range(a.length))
    if a.type == "ints":
        return sym.elements(a.name, 2)
    return sym.atom("attr", a.name) if a.type == "int" else Opaque(("attr", a.name), a.words)
