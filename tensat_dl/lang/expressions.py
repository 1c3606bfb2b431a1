"""Expressions of a graph's body: numbers are computed now, tensors become nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tensat_dl.core.diagnostics import Diagnostic, TsrError, error
from tensat_dl.core.graph import TensorType
from tensat_dl.lang import ast
from tensat_dl.lang.assembly import Assembly, Operand
from tensat_dl.lang.blocks import call_scope
from tensat_dl.lang.scope import Scope, ScopedTensor
from tensat_dl.ops.attributes import from_first
from tensat_dl.ops.calls import show
from tensat_dl.ops.evaluate import member, range_values, which_elements
from tensat_dl.ops.table import INFIX, NEGATION
from tensat_dl.ops.values import FUNCTIONS, Absent, AlreadyReported, Unknown, describe

SPLIT = "split is written `split(x; axis = k, sizes = [m, n])`"


class Expressions:
    """Evaluates expressions, adding the nodes that they stand for. ``run`` runs the body of a block."""

    def __init__(
        self,
        assembly: Assembly,
        blocks: Mapping[str, ast.Block],
        run: Callable[[Scope], Sequence[Any]],
    ) -> None:
        self.assembly = assembly
        self.ops = assembly.ops
        self.blocks = blocks
        self.run = run
        self._calls: dict[str, int] = {}

    def value(self, expr: ast.Expr, scope: Scope) -> Any:
        """A tensor, a number, a word or a list. Raises `TsrError`, or `AlreadyReported`."""
        match expr:
            case ast.Name(id) if id in scope.names:
                value = scope.names[id]
                if isinstance(value, Unknown):
                    raise AlreadyReported
                if value is None:
                    with self.assembly.located(scope, expr.span):
                        raise Absent(id, expr.span)
                return value
            case ast.Call(fn) if self.gives_tensors(fn) or fn not in FUNCTIONS:
                results = self.results(expr, scope)
                if len(results) != 1:
                    hint = "bind them to names: `(a, b) = ..`" if results else ""
                    raise error(expr.span, f"`{fn}` gives {len(results)} tensors where one is needed", hint)
                return results[0]
            case ast.Binary(op, left, right) if op in INFIX:
                operands = _every((left, right), lambda e: [(e, self.value(e, scope))])
                if any(isinstance(v, ScopedTensor) for _, v in operands):
                    return self.assembly.apply(self.ops[INFIX[op]], operands, (), expr.span, scope)[0]
            case ast.Unary("-", operand) if isinstance(tensor := self.value(operand, scope), ScopedTensor):
                return self.assembly.apply(self.ops[NEGATION], [(operand, tensor)], (), expr.span, scope)[0]
            case ast.If(condition, then, otherwise):
                chosen = self.assembly.evaluate(condition, scope)
                if not isinstance(chosen, bool):
                    raise error(condition.span, f"expected a condition, found {describe(chosen)}")
                return self.value(then if chosen else otherwise, scope)
            case ast.Index(ast.Name() as base) | ast.Section(ast.Name() as base) if self._is_tensor(
                base, scope
            ):
                raise error(expr.span, "tensors have no index", _slice(expr))
            case ast.Call("sum" | "max" | "min" as fn, tuple(args), attrs) if any(
                self._is_tensor(a, scope) for a in args
            ):
                axis = attrs[0].span.text if attrs else "axis = 0"
                hint = f"along an axis: `reduce_{fn}({args[0].span.text}; {axis})`"
                if fn == "min" or len(args) != 1:
                    both = ", ".join(a.span.text for a in args)
                    hint = f"of two tensors: `ew{fn}({both})`" if len(args) == 2 and fn != "sum" else ""
                raise error(expr.fn_span, f"`{fn}` is a function of numbers, not of tensors", hint)
            case ast.Index(ast.Name(id), index) if isinstance(scope.names.get(id), dict):
                return member(expr, scope.names[id], self.assembly.integer(index, scope, "an index"))
            case ast.Section(ast.Name(id)) if isinstance(scope.names.get(id), dict):
                hint = f"all of them are bound by `name[..] = {expr.span.text}`"
                raise error(expr.span, "a list of tensors where one value is needed", hint)
            case ast.ListExpr(items) if isinstance(items, tuple) and any(
                self._is_tensor(i, scope) for i in items
            ):
                hint = "bind them one by one: `t[0] = ..`, `t[1] = ..`"
                raise error(expr.span, "tensors are not written as a list", hint)
        return self.assembly.evaluate(expr, scope)

    def _refuse_list(self, arg: ast.Expr, call: ast.Call, scope: Scope) -> None:
        """``concat([x, y]; axis = 0)``"""
        if not isinstance(arg, ast.ListExpr) or not isinstance(arg.items, tuple):
            return
        if not any(self._is_tensor(i, scope) for i in arg.items):
            return
        items = ", ".join(i.span.text for i in arg.items)
        written = call.span.text.replace(arg.span.text, items, 1)
        fits = len(written) <= 80 and "\n" not in written
        hint = f"write `{written}`" if fits else "write them one after the other, without brackets"
        raise error(arg.span, "tensors are not written as a list", hint)

    def _is_tensor(self, expr: ast.Expr, scope: Scope) -> bool:
        match expr:
            case ast.Name(id):
                return isinstance(scope.names.get(id), ScopedTensor)
            case ast.Call(fn):
                return self.gives_tensors(fn)
        return False

    def gives_tensors(self, fn: str) -> bool:
        """Whether calls of a name add nodes."""
        return fn in self.blocks or fn in self.ops or fn == "split"

    def arguments(self, args: Sequence[ast.Expr] | ast.EachIn, scope: Scope) -> list[Operand]:
        """Arguments and their values: several for ``list[..]`` and for calls with several results, none for an
        optional tensor that was not given and stands last."""
        if isinstance(args, ast.EachIn):
            return self._each(args, scope)
        if args and isinstance(args[-1], ast.Name) and scope.names.get(args[-1].id, 0) is None:
            args = args[:-1]
        return _every(args, lambda a: [(a, v) for v in self.results(a, scope)])

    def _each(self, each: ast.EachIn, scope: Scope) -> list[Operand]:
        """The operands ``body for var in range``."""
        inner = replace(scope, names=dict(scope.names))
        out: list[Operand] = []
        with self.assembly.located(scope, each.range.span):
            values = range_values(each.range, scope.names)
        for i in values:
            inner.names[each.var] = i
            out += [(each.body, v) for v in self.results(each.body, inner)]
        return out

    def results(self, expr: ast.Expr, scope: Scope) -> Sequence[Any]:
        """All values of an expression that may stand for several."""
        match expr:
            case ast.Section(ast.Name(id)) if isinstance(scope.names.get(id), dict):
                return [scope.names[id][k] for k in self.indices(expr, scope)]
            case ast.Call(fn) if self.gives_tensors(fn):
                return self._call(expr, scope)
            case ast.Call(fn) if fn not in FUNCTIONS:
                raise scope.unknown(expr, {**self.ops, **self.blocks})
        return [self.value(expr, scope)]

    def indices(self, section: ast.Section, scope: Scope) -> Sequence[int]:
        """The indices of a part of a list of tensors: those from the first on and below the second."""
        assert isinstance(section.base, ast.Name)
        items = scope.names[section.base.id]
        end = max(items, default=-1) + 1

        def place(expr: ast.Expr) -> int:
            i = self.assembly.integer(expr, scope, "an index")
            if not -end <= i <= end:
                message = (
                    f"`{section.base.span.text}` ends before {i}" if i > 0 else f"there is no element {i}"
                )
                raise error(expr.span, message, which_elements(items))
            return i + end if i < 0 else i

        low = 0 if section.start is None else place(section.start)
        high = end if section.stop is None else place(section.stop)
        return [k for k in sorted(items) if low <= k < high]

    def _call(self, expr: ast.Call, scope: Scope) -> Sequence[Any]:
        if expr.fn == "split":
            return self._split(expr, expr.args if isinstance(expr.args, tuple) else (), scope)
        named = any(k.name == "name" for k in expr.attrs)  # the form for names that are no words
        if expr.fn in ("input", "weight") and (expr.args or not named):
            name = "x" if expr.fn == "input" else "w"
            hint = f"write `{expr.fn} {name} : f32[2, 2]`, then use `{name}`"
            raise error(expr.fn_span, f"`{expr.fn}` is not called: inputs and weights are declared", hint)
        if isinstance(expr.args, tuple):
            for a in expr.args:
                self._refuse_list(a, expr, scope)
        operands = self.arguments(expr.args, scope)
        if expr.fn in self.blocks:
            return self._block(expr, operands, scope)
        return self.assembly.apply(self.ops[expr.fn], operands, expr.attrs, expr.span, scope)

    def _block(self, expr: ast.Call, operands: Sequence[Operand], scope: Scope) -> Sequence[Any]:
        block = self.blocks[expr.fn]
        number = self._calls.get(block.name, 0)
        self._calls[block.name] = number + 1
        prefix = f"{scope.prefix}{block.name}_{number}_"
        inner = call_scope(block, expr, operands, scope, self.assembly, prefix)
        with self.assembly.during(f"in block `{block.name}`, called at {expr.span.place}"):
            return self.run(inner)

    def _split(self, expr: ast.Call, args: Sequence[ast.Expr], scope: Scope) -> list[ScopedTensor]:
        """``split(x; axis = k, sizes = [..])``: neighbouring slices that cover x."""
        given = {a.name: a.value for a in expr.attrs}
        for a in expr.attrs:
            if a.name not in ("axis", "sizes"):
                raise error(a.span, f"`split` has no attribute `{a.name}`", SPLIT)
        if set(given) != {"axis", "sizes"} or len(expr.attrs) != 2:
            raise error(expr.span, "`split` needs one `axis` and one `sizes`", SPLIT)
        operands = self.arguments(args, scope)
        if len(operands) != 1:
            raise error(expr.span, f"`split` takes 1 tensor, not {len(operands)}", SPLIT)
        (whole,) = self.assembly.tensors(operands)
        axis = from_first(self.assembly.integer(given["axis"], scope, "`axis` of `split`"), whole.rank)
        sizes = self.assembly.evaluate(given["sizes"], scope)
        at = given["sizes"].span
        if not 0 <= axis < whole.rank:
            notes = (f"x is {whole}",)
            raise error(
                given["axis"].span, f"`split` requires that axis is a dimension of x, not {axis}", "", notes
            )
        if not isinstance(sizes, tuple) or not all(_is_size(s) for s in sizes):
            raise error(at, f"`sizes` of `split` is a list of positive integers, not {show(sizes)}", SPLIT)
        if sum(sizes) != whole.shape[axis]:
            message = f"the sizes add up to {sum(sizes)}, but dimension {axis} is {whole.shape[axis]}"
            raise error(at, message, notes=(f"x is {whole}",))
        parts, start = [], 0
        for size in sizes:
            attrs = (("axis", axis), ("start", start), ("stop", start + size))
            type = TensorType(whole.dtype, (*whole.shape[:axis], size, *whole.shape[axis + 1 :]))
            parts.append(self.assembly.add("slice", (whole.node,), attrs, type))
            start += size
        return parts


def _every(exprs: Sequence[ast.Expr], evaluate: Callable[[ast.Expr], list[Operand]]) -> list[Operand]:
    """The values of expressions, in order. Each is tried, so that the problems of all are reported."""
    out: list[Operand] = []
    problems: list[Diagnostic] = []
    failed = False
    for expr in exprs:
        try:
            out += evaluate(expr)
        except AlreadyReported:
            failed = True
        except TsrError as e:
            problems += e.diagnostics
    if problems:
        raise TsrError(problems)
    if failed:
        raise AlreadyReported
    return out


def _slice(expr: ast.Index | ast.Section) -> str:
    """What to write for ``x[2]`` or ``x[0..4]``, where x is a tensor."""
    start, stop = "0", "4"
    if isinstance(expr, ast.Section):
        start = expr.start.span.text if expr.start is not None else "0"
        stop = expr.stop.span.text if expr.stop is not None else f"dim({expr.base.span.text}, 0)"
    elif isinstance(expr.index, ast.Const) and isinstance(expr.index.value, int):
        start = expr.index.span.text
        stop = str(expr.index.value + 1)
    return f"a part of it is `slice({expr.base.span.text}; axis = 0, start = {start}, stop = {stop})`"


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
