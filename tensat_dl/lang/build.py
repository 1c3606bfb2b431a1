"""Lark's parse tree to our syntax tree: one method per grammar rule, in the grammar's order."""

from __future__ import annotations

import re
from typing import Any

from lark import Token, v_args
from lark.tree import Meta
from lark.visitors import Transformer_NonRecursive

from tensat_dl.core.source import Source, Span
from tensat_dl.lang import ast

_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}

#: What a method is given: its rule's children, built. Named, since the class has a method called ``list``.
Parts = list[Any]


@v_args(meta=True)
class BuildTree(Transformer_NonRecursive[Any, Any]):
    """One method per rule of the grammar. It cannot fail: what is wrong is found before."""

    def __init__(self, source: Source) -> None:
        super().__init__(visit_tokens=False)
        self.source = source

    def _at(self, meta: Meta) -> Span:
        if meta.empty:
            return Span(self.source, 0, 0)
        return Span(self.source, meta.start_pos, meta.end_pos)

    def _token(self, token: Token) -> Span:
        assert token.start_pos is not None
        assert token.end_pos is not None
        return Span(self.source, token.start_pos, token.end_pos)

    # ---- items -------------------------------------------------------------------------------------------

    def start(self, meta: Meta, items: Parts) -> tuple[ast.Item, ...]:
        return tuple(i for i in items if i is not None)

    def documented(self, meta: Meta, parts: Parts) -> ast.Item:
        *docs, make = parts
        doc = "\n".join(str(d)[3:].removeprefix(" ").rstrip() for d in docs)
        item: ast.Item = make(doc, self._at(meta))
        return item

    def import_(self, meta: Meta, parts: Parts) -> ast.Import:
        return ast.Import(_unquote(parts[0]), span=self._at(meta))

    def op(self, meta: Meta, parts: Parts) -> Any:
        opaque, name, params, outputs, *rest = parts
        body = tuple(r for r in rest if isinstance(r, ast.OpStmt))
        composition = next((r for r in rest if r is not None and not isinstance(r, ast.OpStmt)), None)

        def make(doc: str, span: Span) -> ast.Op:
            return ast.Op(
                str(name),
                opaque is not None,
                params,
                outputs or (),
                body,
                composition,
                doc,
                self._token(name),
                span=span,
            )

        return make

    def params(self, meta: Meta, parts: Parts) -> ast.Params:
        return ast.Params(
            tuple(p for p in parts if isinstance(p, ast.TensorParam)),
            tuple(p for p in parts if isinstance(p, ast.AttrParam)),
        )

    def tensor_param(self, meta: Meta, parts: Parts) -> ast.TensorParam:
        name, mark = parts[0], parts[1] if len(parts) > 1 else None
        kind: Any = "one" if mark is None else "optional" if mark.type == "OPTIONAL" else "many"
        text = self._at(meta).text
        return ast.TensorParam(str(name), kind, ":" in text, span=self._at(meta))

    def attr_param(self, meta: Meta, parts: Parts) -> ast.AttrParam:
        name, (kind, length, choices), default = parts
        return ast.AttrParam(str(name), kind, length, choices, default, span=self._at(meta))

    def plain_type(self, meta: Meta, parts: Parts) -> tuple[str, int | None, tuple[str, ...]]:
        name, length = parts
        return str(name), None if length is None else int(length), ()

    def choice_type(self, meta: Meta, parts: Parts) -> tuple[str, int | None, tuple[str, ...]]:
        return "choice", None, tuple(str(p) for p in parts)

    def names(self, meta: Meta, parts: Parts) -> tuple[str, ...]:
        return tuple(str(p) for p in parts)

    # ---- statements of an operator -----------------------------------------------------------------------

    def require(self, meta: Meta, parts: Parts) -> ast.OpStmt:
        condition, message = parts
        text = None if message is None else _unquote(message)
        return ast.OpStmt("require", condition, message=text, span=self._at(meta))

    def let(self, meta: Meta, parts: Parts) -> ast.OpStmt:
        return ast.OpStmt("let", parts[1], name=str(parts[0]), span=self._at(meta))

    def shape(self, meta: Meta, parts: Parts) -> ast.OpStmt:
        name = None if parts[0] is None else str(parts[0])
        return ast.OpStmt("shape", parts[1], name=name, span=self._at(meta))

    def dtype(self, meta: Meta, parts: Parts) -> ast.OpStmt:
        name = None if parts[0] is None else str(parts[0])
        return ast.OpStmt("dtype", parts[1], name=name, span=self._at(meta))

    def flops(self, meta: Meta, parts: Parts) -> ast.OpStmt:
        return ast.OpStmt("flops", parts[0], span=self._at(meta))

    def preset(self, meta: Meta, parts: Parts) -> ast.OpStmt:
        return ast.OpStmt("preset", parts[2], name=str(parts[0]), preset=str(parts[1]), span=self._at(meta))

    def view(self, meta: Meta, parts: Parts) -> ast.OpStmt:
        return ast.OpStmt("view", None, span=self._at(meta))

    # ---- rules -------------------------------------------------------------------------------------------

    def rule(self, meta: Meta, parts: Parts) -> Any:
        name, left, arrow, right = parts

        def make(doc: str, span: Span) -> ast.Rule:
            return ast.Rule(str(name), left, right, arrow, doc, self._token(name), span=span)

        return make

    def rule_side(self, meta: Meta, parts: Parts) -> ast.RuleSide:
        stmts = tuple(p for p in parts if isinstance(p, ast.RuleStmt | ast.Bind))
        where = tuple(p for p in parts if p is not None and not isinstance(p, ast.RuleStmt | ast.Bind))
        return ast.RuleSide(tuple(_rule_stmt(s) for s in stmts), where, span=self._at(meta))

    def arrow(self, meta: Meta, parts: Parts) -> bool:
        return bool(parts[0].type == "BOTH")

    def value(self, meta: Meta, parts: Parts) -> ast.RuleStmt:
        return ast.RuleStmt((), parts[0], None, span=self._at(meta))

    def each(self, meta: Meta, parts: Parts) -> ast.RuleStmt:
        index, bind = parts
        return ast.RuleStmt(bind.targets, bind.value, str(index), span=self._at(meta))

    # ---- graphs, blocks, tests ---------------------------------------------------------------------------

    def block(self, meta: Meta, parts: Parts) -> Any:
        name, params, *body = parts

        def make(doc: str, span: Span) -> ast.Block:
            return ast.Block(str(name), params, _stmts(body), doc, self._token(name), span=span)

        return make

    def graph(self, meta: Meta, parts: Parts) -> Any:
        name, *body = parts

        def make(doc: str, span: Span) -> ast.GraphItem:
            return ast.GraphItem(str(name), _stmts(body), doc, self._token(name), span=span)

        return make

    def test(self, meta: Meta, parts: Parts) -> Any:
        name, before, after = parts

        def make(doc: str, span: Span) -> ast.Test:
            found = None if isinstance(after, Token) else after
            return ast.Test(str(name), before, found, doc, self._token(name), span=span)

        return make

    def test_side(self, meta: Meta, parts: Parts) -> tuple[ast.Stmt, ...]:
        return _stmts(parts)

    def input(self, meta: Meta, parts: Parts) -> ast.Input:
        return ast.Input(parts[0], parts[1], span=self._at(meta))

    def weight(self, meta: Meta, parts: Parts) -> ast.Weight:
        return ast.Weight(parts[0], parts[1], parts[2], span=self._at(meta))

    def output(self, meta: Meta, parts: Parts) -> ast.Output:
        return ast.Output(tuple(parts), span=self._at(meta))

    def return_(self, meta: Meta, parts: Parts) -> ast.Return:
        return ast.Return(tuple(parts), span=self._at(meta))

    def for_(self, meta: Meta, parts: Parts) -> ast.For:
        var, over, *body = parts
        return ast.For(str(var), over, _stmts(body), span=self._at(meta))

    def bind(self, meta: Meta, parts: Parts) -> ast.Bind:
        return ast.Bind(parts[0], parts[1], span=self._at(meta))

    def targets(self, meta: Meta, parts: Parts) -> tuple[ast.LValue, ...]:
        return tuple(parts)

    def lvalue(self, meta: Meta, parts: Parts) -> ast.LValue:
        name, index = parts
        every = isinstance(index, Token)
        return ast.LValue(str(name), None if every else index, every, span=self._at(meta))

    def out(self, meta: Meta, parts: Parts) -> ast.OutputItem:
        name = None if parts[0] is None else str(parts[0])
        return ast.OutputItem(name, parts[1], span=self._at(meta))

    def tensor_type(self, meta: Meta, parts: Parts) -> ast.TypeExpr:
        dtype, *dims = parts
        return ast.TypeExpr(str(dtype), tuple(d for d in dims if d is not None), span=self._at(meta))

    def range(self, meta: Meta, parts: Parts) -> ast.Range:
        values = [p for p in parts if p is not None and not isinstance(p, Token)]
        return ast.Range(values[0], values[1] if len(values) > 1 else None, span=self._at(meta))

    # ---- expressions -------------------------------------------------------------------------------------

    def if_(self, meta: Meta, parts: Parts) -> ast.Expr:
        condition, then, otherwise = parts
        return ast.If(condition, then, otherwise, span=self._at(meta))

    def binary(self, meta: Meta, parts: Parts) -> ast.Expr:
        left, op, right = parts
        return ast.Binary(str(op), left, right, span=self._at(meta))

    def unary(self, meta: Meta, parts: Parts) -> ast.Expr:
        op: Any = str(parts[0])
        return ast.Unary(op, parts[1], span=self._at(meta))

    def index(self, meta: Meta, parts: Parts) -> ast.Expr:
        return ast.Index(self._base(parts[0]), parts[1], span=self._at(meta))

    def section(self, meta: Meta, parts: Parts) -> ast.Expr:
        base, start, _dots, stop = parts
        return ast.Section(self._base(base), start, stop, span=self._at(meta))

    def _base(self, base: Token | ast.Expr) -> ast.Expr:
        return ast.Name(str(base), span=self._token(base)) if isinstance(base, Token) else base

    def int(self, meta: Meta, parts: Parts) -> ast.Expr:
        return ast.Const(int(parts[0]), "int", str(parts[0]), span=self._at(meta))

    def float(self, meta: Meta, parts: Parts) -> ast.Expr:
        return ast.Const(float(parts[0]), "float", str(parts[0]), span=self._at(meta))

    def string(self, meta: Meta, parts: Parts) -> ast.Expr:
        return ast.Const(_unquote(parts[0]), "string", str(parts[0]), span=self._at(meta))

    def true(self, meta: Meta, parts: Parts) -> ast.Expr:
        return ast.Const(True, "bool", "true", span=self._at(meta))

    def false(self, meta: Meta, parts: Parts) -> ast.Expr:
        return ast.Const(False, "bool", "false", span=self._at(meta))

    def name(self, meta: Meta, parts: Parts) -> ast.Expr:
        return ast.Name(str(parts[0]), span=self._at(meta))

    def call(self, meta: Meta, parts: Parts) -> ast.Expr:
        fn, args, attrs = parts
        return ast.Call(str(fn), args or (), attrs or (), self._token(fn), span=self._at(meta))

    def call_each(self, meta: Meta, parts: Parts) -> ast.Expr:
        fn, each, attrs = parts
        return ast.Call(str(fn), each, attrs or (), self._token(fn), span=self._at(meta))

    def list(self, meta: Meta, parts: Parts) -> ast.Expr:
        return ast.ListExpr(parts[0] or (), span=self._at(meta))

    def list_each(self, meta: Meta, parts: Parts) -> ast.Expr:
        return ast.ListExpr(parts[0], span=self._at(meta))

    def paren(self, meta: Meta, parts: Parts) -> ast.Expr:
        inner: ast.Expr = parts[0]
        return inner

    def args(self, meta: Meta, parts: Parts) -> tuple[ast.Expr, ...]:
        return tuple(parts)

    def elements(self, meta: Meta, parts: Parts) -> tuple[ast.Expr, ...]:
        return tuple(parts)

    def kwargs(self, meta: Meta, parts: Parts) -> tuple[ast.KeywordArg, ...]:
        return tuple(p for p in parts if p is not None)

    def kwarg(self, meta: Meta, parts: Parts) -> ast.KeywordArg:
        return ast.KeywordArg(str(parts[0]), parts[1], span=self._at(meta))

    def each_in(self, meta: Meta, parts: Parts) -> ast.EachIn:
        body, var, over = parts
        return ast.EachIn(body, str(var), over, span=self._at(meta))


def _rule_stmt(stmt: ast.RuleStmt | ast.Bind) -> ast.RuleStmt:
    if isinstance(stmt, ast.Bind):
        return ast.RuleStmt(stmt.targets, stmt.value, None, span=stmt.span)
    return stmt


def _stmts(parts: Parts) -> tuple[ast.Stmt, ...]:
    return tuple(p for p in parts if p is not None)


def _unquote(token: Token) -> str:
    return re.sub(r"\\(.)", lambda escape: _ESCAPES[escape[1]], str(token)[1:-1])
