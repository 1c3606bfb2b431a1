"""Lark's parse tree to our syntax tree, rule by rule of the grammar."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from lark import Token, v_args
from lark.tree import Meta
from lark.visitors import Transformer_NonRecursive

from tensat_dl.core.diagnostics import Source, Span
from tensat_dl.lang import ast

_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}

#: Rules whose node has their parts as its fields.
_NODES: dict[str, Any] = {
    "bind": ast.Bind,
    "input": ast.Input,
    "weight": ast.Weight,
    "out": ast.OutputItem,
    "if_": ast.If,
    "unary": ast.Unary,
    "name": ast.Name,
    "list_each": ast.ListExpr,
    "kwarg": ast.KeywordArg,
    "each_in": ast.EachIn,
}
#: Rules that are lists of parts, and the node around such a list, if there is one.
_LISTS: dict[str, Any] = {"output": ast.Output, "return_": ast.Return}
_TUPLES = ("start", "names", "test_side", "targets", "args", "elements", "kwargs", "sizes")
#: Statements of operators that are a keyword, names and a value.
_OP_STATEMENTS = ("let", "shape", "dtype", "flops", "preset", "view", "commutative")
_BOOLS = ("true", "false")

#: What a method is given: its rule's children, built. Named, since the class has a method called ``list``.
Parts = list[Any]


@v_args(meta=True)
class BuildTree(Transformer_NonRecursive[Any, Any]):
    """One method per rule of the grammar that the tables above do not cover. It cannot fail: all errors are found
    before."""

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

    def __default__(self, data: str, children: Parts, meta: Meta) -> Any:
        rule, span = str(data), self._at(meta)
        parts = [str(p) if isinstance(p, Token) else p for p in children]
        if rule in _NODES:
            return _NODES[rule](*parts, span=span)
        if rule in _OP_STATEMENTS:
            *names, value = parts or [None]
            return ast.OpStmt(rule, value, span, *names)  # type: ignore[arg-type]
        if rule in _BOOLS:
            return ast.Const(rule == "true", "bool", rule, span=span)
        if rule in _LISTS:
            return _LISTS[rule](tuple(parts), span=span)
        assert rule in _TUPLES, rule
        return tuple(p for p in parts if p is not None)

    # ---- items -------------------------------------------------------------------------------------------

    def _item(self, node: Any, name: Token, *fields: Any) -> Any:
        """An item that is called by its name, without its doc comment."""
        at = self._token(name)
        return node(str(name), *fields, doc="", name_span=at, span=at)

    def documented(self, meta: Meta, parts: Parts) -> ast.Item:
        *docs, item = parts
        doc = "\n".join(str(d)[3:].removeprefix(" ").rstrip() for d in docs)
        documented: ast.Item = replace(item, doc=doc, span=self._at(meta))
        return documented

    def import_(self, meta: Meta, parts: Parts) -> ast.Import:
        return ast.Import(_unquote(parts[0]), span=self._at(meta))

    def op(self, meta: Meta, parts: Parts) -> Any:
        opaque, name, params, outputs, *rest = parts
        body = tuple(r for r in rest if isinstance(r, ast.OpStmt))
        composition = next((r for r in rest if r is not None and not isinstance(r, ast.OpStmt)), None)
        return self._item(ast.Op, name, opaque is not None, params, outputs or (), body, composition)

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

    def require(self, meta: Meta, parts: Parts) -> ast.OpStmt:
        condition, message = parts
        text = None if message is None else _unquote(message)
        return ast.OpStmt("require", condition, message=text, span=self._at(meta))

    def rule(self, meta: Meta, parts: Parts) -> Any:
        name, family, left, arrow, right = parts
        return self._item(ast.Rule, name, left, right, arrow, family)

    def family(self, meta: Meta, parts: Parts) -> ast.Family:
        var, *words = parts
        names = tuple(ast.Name(str(w), span=self._token(w)) for w in words)
        return ast.Family(str(var), names, span=self._at(meta))

    def rule_side(self, meta: Meta, parts: Parts) -> ast.RuleSide:
        stmts = tuple(p for p in parts if isinstance(p, ast.Bind))
        where = tuple(p for p in parts if p is not None and not isinstance(p, ast.Bind))
        return ast.RuleSide(stmts, where, span=self._at(meta))

    def arrow(self, meta: Meta, parts: Parts) -> bool:
        return bool(parts[0].type == "BOTH")

    def value(self, meta: Meta, parts: Parts) -> ast.Bind:
        return ast.Bind((), parts[0], span=self._at(meta))

    def each(self, meta: Meta, parts: Parts) -> ast.Bind:
        index, bind = parts
        return ast.Bind(bind.targets, bind.value, each=str(index), span=self._at(meta))

    def block(self, meta: Meta, parts: Parts) -> Any:
        name, params, *body = parts
        return self._item(ast.Block, name, params, _stmts(body))

    def graph(self, meta: Meta, parts: Parts) -> Any:
        name, sizes, *body = parts
        return self._item(ast.GraphItem, name, sizes or (), _stmts(body))

    def size(self, meta: Meta, parts: Parts) -> ast.SizeParam:
        name, low, _dots, high, default = parts
        return ast.SizeParam(str(name), low, high, default, span=self._at(meta))

    def test(self, meta: Meta, parts: Parts) -> Any:
        name, before, after = parts
        return self._item(ast.Test, name, before, None if isinstance(after, Token) else after)

    # ---- statements --------------------------------------------------------------------------------------

    def for_(self, meta: Meta, parts: Parts) -> ast.For:
        var, over, *body = parts
        return ast.For(str(var), over, _stmts(body), span=self._at(meta))

    def lvalue(self, meta: Meta, parts: Parts) -> ast.LValue:
        name, index = parts
        every = isinstance(index, Token)
        return ast.LValue(str(name), None if every else index, every, span=self._at(meta))

    def tensor_type(self, meta: Meta, parts: Parts) -> ast.TypeExpr:
        dtype, *dims = parts
        return ast.TypeExpr(str(dtype), _stmts(dims), span=self._at(meta))

    def range(self, meta: Meta, parts: Parts) -> ast.Range:
        start, _dots, stop = parts
        return ast.Range(start, stop, span=self._at(meta))

    # ---- expressions -------------------------------------------------------------------------------------

    def binary(self, meta: Meta, parts: Parts) -> ast.Expr:
        left, op, right = parts
        return ast.Binary(str(op), left, right, span=self._at(meta))

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

    def call(self, meta: Meta, parts: Parts) -> ast.Expr:
        fn, args, attrs = parts
        return ast.Call(str(fn), args or (), attrs or (), self._token(fn), span=self._at(meta))

    call_each = call

    def list(self, meta: Meta, parts: Parts) -> ast.Expr:
        return ast.ListExpr(parts[0] or (), span=self._at(meta))

    def paren(self, meta: Meta, parts: Parts) -> ast.Expr:
        inner: ast.Expr = parts[0]
        return inner


def _stmts(parts: Parts) -> tuple[Any, ...]:
    return tuple(p for p in parts if p is not None)


def _unquote(token: Token) -> str:
    return re.sub(r"\\(.)", lambda escape: _ESCAPES[escape[1]], str(token)[1:-1])
