"""``split`` on the right side of a rule: ``(a, b) = split(y; axis, sizes)`` and ``y[..] = split(m; axis, sizes)`` are
slices from where the former one ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tensat_dl.core.diagnostics import error
from tensat_dl.core.source import Span
from tensat_dl.lang import ast


@dataclass(frozen=True, slots=True)
class Split:
    """What a call says: the tensor that is split, along which axis, into parts of which sizes."""

    whole: ast.Expr
    axis: ast.Expr
    sizes: ast.Expr
    span: Span

    @classmethod
    def of(cls, call: ast.Call) -> Split:
        """Raises `TsrError` for another form."""
        given = {a.name: a.value for a in call.attrs}
        args = call.args if isinstance(call.args, tuple) else ()
        if set(given) != {"axis", "sizes"} or len(call.attrs) != 2 or len(args) != 1:
            form = "its form is `split(x; axis = k, sizes = [m, n])`"
            raise error(call.span, "`split` takes one tensor, one `axis` and one `sizes`", form)
        return cls(args[0], given["axis"], given["sizes"], call.span)

    def parts(self, targets: Sequence[ast.LValue]) -> Iterator[tuple[ast.LValue, ast.Expr, ast.Expr]]:
        """Where each part starts, and its size. Raises `TsrError` unless there is a size for each."""
        sizes, span = self.sizes, self.span
        if not isinstance(sizes, ast.ListExpr) or not isinstance(sizes.items, tuple):
            raise error(sizes.span, "`sizes` is written out as a list here, such as [dim(a, 0), dim(b, 0)]")
        if len(sizes.items) != len(targets):
            n = len(sizes.items)
            message = f"{n} size{'s' if n != 1 else ''} for {len(targets)} names"
            raise error(sizes.span, message, "give one size for each name")
        start: ast.Expr = ast.Const(0, "int", "0", span=span)
        for target, size in zip(targets, sizes.items, strict=True):
            yield target, start, size
            first = isinstance(start, ast.Const) and start.value == 0
            start = size if first else ast.Binary("+", start, size, span=span)

    def member(self, sizes: str, index: str) -> tuple[ast.Expr, ast.Expr]:
        """Where the part of a group's member starts, and its size, if ``sizes`` names the list of all sizes."""
        span = self.span
        i, every = ast.Name(index, span=span), ast.Name(sizes, span=span)
        start = ast.Call("sum", (ast.Section(every, None, i, span=span),), (), span, span=span)
        return start, ast.Index(every, i, span=span)

    def cut(self, start: ast.Expr, size: ast.Expr) -> tuple[ast.KeywordArg, ...]:
        """The attributes of the slice that is one part, or each member's."""
        span = self.span
        return (
            ast.KeywordArg("axis", self.axis, span=span),
            ast.KeywordArg("start", start, span=span),
            ast.KeywordArg("stop", ast.Binary("+", start, size, span=span), span=span),
        )
