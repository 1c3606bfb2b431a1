"""Graphs: runs blocks and loops, resolves names, checks types, and yields a typed `Graph`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any

from tensat_dl.core.diagnostics import Diagnostic, Span, TsrError, collected, error
from tensat_dl.core.graph import DTYPES, Graph, TensorType, leaf_attrs, needed
from tensat_dl.core.words import did_you_mean, plural
from tensat_dl.lang import ast
from tensat_dl.lang.assembly import Assembly, Endless, check_size
from tensat_dl.lang.expressions import Expressions
from tensat_dl.lang.scope import Scope, ScopedTensor
from tensat_dl.lang.syntax_errors import KNOWN_DIMENSIONS
from tensat_dl.ops.evaluate import range_values
from tensat_dl.ops.table import OpTable
from tensat_dl.ops.values import AlreadyReported, Unknown, describe

Warn = Callable[[Diagnostic], None]

#: A comment that looks like a divisor, as in ``y = x // 2``; not behind a type.
_QUOTIENT = re.compile(
    r"^(?!\s*(?:input|weight)\b)(?:(?!//).)*[\w)\]][ \t]*(//[ \t]*\d+)[ \t,;)\]]*$", re.MULTILINE
)


def elaborate(
    item: ast.GraphItem,
    ops: OpTable,
    blocks: Mapping[str, ast.Block],
    warn: Warn | None = None,
    sizes: Mapping[str, int] | None = None,
) -> Graph:
    """The typed graph of a graph item, at these ``sizes`` of its names (see `tensat_dl.lang.named_sizes`). Raises
    `TsrError` with every problem; warnings go to ``warn``."""
    if warn is not None:
        for warning in _comments_like_quotients(item.span):
            warn(warning)
    what = f"graph `{item.name}`"
    return _graph(item.name, what, item.name_span, item.body, ops, blocks, warn, sizes or {})


def _comments_like_quotients(graph: Span) -> Iterator[Diagnostic]:
    for found in _QUOTIENT.finditer(graph.text):
        span = Span(graph.source, graph.start + found.start(1), graph.start + found.end(1))
        hint = "a quotient is `/`; of integers it is rounded down"
        yield Diagnostic(f"`{found[1]}` is a comment", span, hint, severity="warning")


@dataclass(frozen=True, slots=True)
class RuleTest:
    """A test of a rule: the graph that it is applied to, and the graph that it must find, or None if it must change
    nothing."""

    rule: str
    before: Graph
    after: Graph | None


def elaborate_test(test: ast.Test, ops: OpTable, blocks: Mapping[str, ast.Block]) -> RuleTest:
    """The typed graphs of a test. Raises `TsrError` with the problems of both."""
    problems: list[Diagnostic] = []

    def side(name: str, body: Sequence[ast.Stmt]) -> Graph | None:
        what = f"the graph {name} the arrow of this test"
        with collected(problems):
            return _graph(f"{test.rule}_{name}", what, test.name_span, body, ops, blocks)
        return None

    before = side("before", test.before)
    after = None if test.after is None else side("after", test.after)
    if before is None or problems:
        raise TsrError(problems)
    return RuleTest(test.rule, before, after)


def _graph(
    name: str,
    what: str,
    at: Span,
    body: Sequence[ast.Stmt],
    ops: OpTable,
    blocks: Mapping[str, ast.Block],
    warn: Warn | None = None,
    sizes: Mapping[str, int] | None = None,
) -> Graph:
    assembly = Assembly(ops, name)
    statements = Statements(assembly, blocks)
    scope = Scope("", body, dict(sizes or {}), sizes=frozenset(sizes or ()))
    there = ", ".join(f"{size} = {int(n)}" for size, n in (sizes or {}).items())
    try:
        with assembly.during(f"for {there}") if there else nullcontext():
            statements.run(body, scope)
    except Endless as e:
        raise TsrError([*assembly.problems.values(), *e.args]) from None
    if not statements.outputs and not statements.failed_outputs:
        for d in statements.empty_outputs or [Diagnostic(f"{what} has no output", at, "add `output x`")]:
            assembly.report(d)
    if assembly.problems:
        raise TsrError(assembly.problems.values())
    outputs = [(name, node) for name, (node, _) in statements.outputs.items()]
    if warn is not None:
        for warning in (*assembly.warnings, *_unused(assembly, [node for _, node in outputs])):
            warn(warning)
    return assembly.builder.finish(outputs)


def _unused(assembly: Assembly, outputs: Sequence[int]) -> Iterator[Diagnostic]:
    """A warning for each statement none of whose nodes takes part in any output."""
    nodes = assembly.builder.nodes
    reached = needed(nodes, outputs)
    for span, bound in assembly.bindings.items():
        if not any(node in reached for _, node in bound):
            name, node = bound[0]
            leaf = nodes[node].op in ("input", "weight")
            message = f"{nodes[node].op} `{name}` is never used" if leaf else f"`{name}` reaches no output"
            yield Diagnostic(message, span, severity="warning")


class Statements:
    """Runs the statements of one graph. A name that could not be computed is `Unknown`. Values computed from it are
    unknown as well, without another message."""

    def __init__(self, assembly: Assembly, blocks: Mapping[str, ast.Block]) -> None:
        self.assembly = assembly
        self.expressions = Expressions(assembly, blocks, self._block)
        self.outputs: dict[str, tuple[int, Span]] = {}  #: node and place of declaration by name
        self.failed_outputs = False
        self.empty_outputs: list[Diagnostic] = []  #: about outputs that are lists without elements

    def run(self, body: Sequence[ast.Stmt], scope: Scope) -> None:
        """Runs statements; their problems are reported to the assembly."""
        for stmt in body:
            self.assembly.step(stmt.span)
            with self._attempt(stmt, scope):
                self._statement(stmt, scope)

    @contextmanager
    def _attempt(self, stmt: ast.Stmt, scope: Scope) -> Iterator[None]:
        """Reports problems within, and makes the names that the statement would have bound unknown."""
        try:
            yield
        except AlreadyReported:
            self._failed(stmt, scope)
        except TsrError as e:
            for d in e.diagnostics:
                self.assembly.report(d)
            self._failed(stmt, scope)

    def _block(self, scope: Scope) -> Sequence[Any]:
        """The results of a block's body. Raises `AlreadyReported` if there are none because of a problem within."""
        *body, last = scope.body
        self.run(body, scope)
        assert isinstance(last, ast.Return)
        results = self.expressions.arguments(last.values, scope)
        if any(isinstance(v, Unknown) for _, v in results):
            raise AlreadyReported
        return self.assembly.tensors(results)

    def _statement(self, stmt: ast.Stmt, scope: Scope) -> None:
        match stmt:
            case ast.Input(target, type_expr):
                self._leaf("input", target, self._type(type_expr, scope), scope, stmt.span)
            case ast.Weight(target, type_expr, value):
                type = self._type(type_expr, scope)
                if value is None:
                    self._leaf("weight", target, type, scope, stmt.span)
                else:
                    self._constant(target, type, value, scope)
            case ast.Bind(targets, value):
                self._bind(stmt, targets, value, scope)
            case ast.For():
                self._loop(stmt, scope)
            case ast.Output(items):
                for item in items:
                    with self._attempt(stmt, scope):
                        self._output(item, scope)
            case ast.Return():
                raise error(
                    stmt.span, "`return` outside of a block", "a graph's results are written `output x`"
                )

    # ---- inputs and weights ------------------------------------------------------------------------------

    def _leaf(self, op: str, target: ast.LValue, type: TensorType, scope: Scope, at: Span) -> None:
        self._refuse_second(op, target, scope)
        index = None if target.index is None else self.assembly.integer(target.index, scope, "an index")
        written = target.name if index is None else f"{target.name}_{index}"
        name = self.assembly.names.counted(scope.prefix + written)
        self._store(target, self.assembly.add(op, (), leaf_attrs(name, type), type, name), scope, at)

    def _constant(self, target: ast.LValue, type: TensorType, value: ast.Expr, scope: Scope) -> None:
        self._refuse_second("weight", target, scope)
        number = self.assembly.evaluate(value, scope)
        if isinstance(number, bool) or not isinstance(number, int | float):
            message = f"the value of a weight is one number for all its elements, not {describe(number)}"
            raise error(value.span, message)
        filled = self.assembly.fill(number, type, value.span, target.name)
        self._store(target, filled, scope, target.span)

    def _refuse_second(self, op: str, target: ast.LValue, scope: Scope) -> None:
        first = scope.bound_at.get(target.name)
        if first is None or target.index is not None or target.name in scope.sizes:
            return
        if first.start != target.span.start:
            line, _ = first.source.position(first.start)
            hint = f"`{target.name}` is declared in line {line}"
            raise error(target.span, f"`{target.name}` is already bound", hint)
        if op == "input":
            message = f"input `{target.name}` is declared again in each round"
            raise error(
                target.span, message, f"write `input {target.name}[i] : ..`, or declare it before the loop"
            )

    def _type(self, expr: ast.TypeExpr, scope: Scope) -> TensorType:
        if expr.dtype not in DTYPES:
            hint = did_you_mean(expr.dtype, DTYPES) or f"element types are {', '.join(DTYPES)}"
            raise error(expr.span, f"unknown element type `{expr.dtype}`", hint)
        dims: list[int] = []
        for e in expr.shape:
            if isinstance(e, ast.Name) and e.id not in scope.names and scope.bound_later(e) is None:
                hint = did_you_mean(e.id, [n for n in scope.names if n]) or KNOWN_DIMENSIONS
                raise error(e.span, f"unknown name `{e.id}`", hint)
            value = self.assembly.evaluate(e, scope)
            for d in value if isinstance(value, tuple) else (value,):
                if isinstance(d, bool) or not isinstance(d, int):
                    raise error(e.span, f"a dimension is an integer, not {describe(d)}")
                if d <= 0:
                    raise error(e.span, f"a dimension is 1 or more, not {d}")
                dims.append(d)
        type = TensorType(expr.dtype, tuple(dims))
        check_size(type, expr.span)
        return type

    # ---- names -------------------------------------------------------------------------------------------

    def _bind(self, stmt: ast.Bind, targets: Sequence[ast.LValue], value: ast.Expr, scope: Scope) -> None:
        results = self.expressions.results(value, scope)
        if len(targets) == 1 and targets[0].every:
            name = targets[0].name
            if name in scope.sizes:
                hint = "choose another name for the tensors"
                raise error(targets[0].span, f"`{name}` is a size of this graph", hint)
            scope.names[name] = dict(enumerate(results))
            scope.bound_at.setdefault(name, targets[0].span)
            return
        if len(results) != len(targets):
            what = f"`{value.fn}` gives" if isinstance(value, ast.Call) else "here are"
            values = f"{len(results)} {plural(len(results), 'value')}"
            names = f"{len(targets)} {plural(len(targets), 'name')}"
            at = targets[0].span.to(targets[-1].span)
            message = f"{what} {values}, but {names} {'is' if len(targets) == 1 else 'are'} bound"
            raise error(at, message, self._how_to_bind(targets, value))
        for target, result in zip(targets, results, strict=True):
            self._store(target, result, scope, stmt.span)

    def _how_to_bind(self, targets: Sequence[ast.LValue], value: ast.Expr) -> str:
        """A hint for a wrong number of names."""
        if len(targets) == 1:
            return f"bind all of them as a list: `{targets[0].name}[..] = ..`"
        if isinstance(value, ast.Call) and value.fn in self.assembly.ops:
            outputs = self.assembly.ops[value.fn].outputs
            return f"its outputs are {', '.join(outputs)}" if outputs else ""
        return ""

    def _store(self, target: ast.LValue, value: Any, scope: Scope, statement: Span) -> None:
        name = target.name
        written = name
        if name in scope.sizes:
            raise error(
                target.span, f"`{name}` is a size of this graph", "choose another name for the tensor"
            )
        if target.every:
            raise error(
                target.span, f"`{name}[..]` binds all values of a list", f"write `{name}` for one value"
            )
        if target.index is None:
            if isinstance(value, Unknown):
                raise AlreadyReported
            scope.names[name] = value
        else:
            index = self.assembly.integer(target.index, scope, "an index")
            if index < 0:
                raise error(target.index.span, f"an element is bound at 0 or more, not at {index}")
            items = scope.names.setdefault(name, {})
            if isinstance(items, Unknown):
                return
            if not isinstance(items, dict):
                hint = f"`{name}` is {describe(items)}"
                raise error(target.span, f"`{name}` is not a list of tensors", hint)
            if not isinstance(value, ScopedTensor | Unknown):
                raise error(target.span, f"an element of a list is a tensor, not {describe(value)}")
            items[index] = value
            written = f"{name}_{index}"
        scope.bound_at.setdefault(name, target.span)
        if isinstance(value, ScopedTensor):
            self.assembly.label(value, scope.prefix + written)
            shown = target.span.text if target.index is None else name
            self.assembly.bindings.setdefault(statement, []).append((shown, value.node))

    def _failed(self, stmt: ast.Stmt, scope: Scope) -> None:
        if isinstance(stmt, ast.Output):
            self.failed_outputs = True
        for target in ast.bound_in((stmt,)):
            if target.name in scope.sizes:
                continue
            scope.bound_at.setdefault(target.name, target.span)
            items = scope.names.get(target.name)
            if target.index is not None and items is not None and not isinstance(items, dict):
                continue  # it is no list, and stays what it is
            index = None
            if isinstance(items, dict) and target.index is not None:
                with suppress(AlreadyReported, TsrError):
                    index = self.assembly.integer(target.index, scope, "an index")
            if isinstance(items, dict) and index is not None:
                items[index] = Unknown()
            else:
                scope.names[target.name] = Unknown()

    # ---- loops and outputs -------------------------------------------------------------------------------

    def _loop(self, stmt: ast.For, scope: Scope) -> None:
        var = stmt.var
        if var in scope.names:
            raise error(stmt.span, f"`{var}` is already bound", "use another name for the loop's variable")
        with self.assembly.located(scope, stmt.range.span):
            rounds = range_values(stmt.range, scope.names)
        if not rounds:
            if not scope.prefix:
                message = f"the loop over `{stmt.range.span.text}` has no rounds"
                warning = Diagnostic(message, stmt.range.span, severity="warning")
                self.assembly.warnings.append(warning)
            for target in ast.bound_in(stmt.body):
                if target.index is not None:
                    scope.names.setdefault(target.name, {})
                    scope.empty[target.name] = stmt.range.span.text
        for i in rounds:
            scope.names[var] = i
            with self.assembly.during(f"in the round with {var} = {i}"):
                self.run(stmt.body, scope)
        scope.names.pop(var, None)
        scope.ended.add(var)

    def _output(self, item: ast.OutputItem, scope: Scope) -> None:
        values = self.expressions.arguments([item.value], scope)
        if any(isinstance(v, Unknown) for _, v in values):
            raise AlreadyReported
        if not values:
            self.empty_outputs.append(_empty_output(item, scope))
        names = self._output_names(item.value, scope)
        for i, (expr, value) in enumerate(values):
            if not isinstance(value, ScopedTensor):
                text = expr.span.text
                hint = f"write `output {text}[..]` for all of them" if isinstance(value, dict) else ""
                raise error(expr.span, f"an output is a tensor, not {describe(value)}", hint)
            node = self.assembly.builder.nodes[value.node]
            written = item.name or (item.value.id if isinstance(item.value, ast.Name) else None)
            name = written or (names[i] if i < len(names) else "") or node.name or f"out{len(self.outputs)}"
            if name in self.outputs and written is not None:
                first = self.outputs[name][1]
                if first.start != item.span.start:
                    hint = f"give it another name: `{name}_2 = {item.value.span.text}`"
                    raise error(item.span, f"output `{name}` is declared twice", hint)
            while name in self.outputs:
                name += "_"
            self.outputs[name] = (value.node, item.span)

    def _output_names(self, expr: ast.Expr, scope: Scope) -> Sequence[str]:
        """The names of results that are an element or a part of a list; else none."""
        match expr:
            case ast.Section(ast.Name(id)):
                return [f"{id}_{k}" for k in self.expressions.indices(expr, scope)]
            case ast.Index(ast.Name(id), ast.Const(value)):
                return [f"{id}_{value}"]
        return ()


def _empty_output(item: ast.OutputItem, scope: Scope) -> Diagnostic:
    """The message for an output without tensors in a graph that has no other."""
    text = item.value.span.text
    hint = "a range `a..b` runs from a to b - 1"
    if isinstance(item.value, ast.Section) and isinstance(item.value.base, ast.Name):
        over = scope.empty.get(item.value.base.id)
        if over is not None:
            message = f"`{text}` is empty, because the range `{over}` of its loop is: the graph has no output"
            return Diagnostic(message, item.span, hint)
    return Diagnostic(f"`{text}` is empty: the graph has no output", item.span)
