"""Graphs: runs blocks and loops, resolves names, checks types, and yields a typed `Graph`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tensat_dl.ir.graph import Attrs, Graph, GraphBuilder
from tensat_dl.ir.types import DTYPES, TensorType
from tensat_dl.lang import ast
from tensat_dl.lang.diagnostics import Diagnostic, TsrError, did_you_mean, error
from tensat_dl.lang.source import Span
from tensat_dl.ops.evaluate import evaluate, range_values
from tensat_dl.ops.symbolic import EvaluationError
from tensat_dl.ops.table import INFIX, AttrDecl, OpDecl, OpTable, coerce
from tensat_dl.ops.typing import IllTyped, attributes, defaults, infer, is_number

MAX_NODES = 1_000_000


class _Failed(Exception):
    """A statement failed; its message is recorded. What it would have bound is unknown and stays silent."""


class _Unknown:
    """The value of a name whose statement failed."""


#: A tensor (node index), a list of tensors by index, an attribute or loop value, or unknown.
@dataclass(slots=True)
class _Tensor:
    node: int


_List = dict[int, "_Tensor | _Unknown"]


@dataclass
class _Scope:
    """Names of a graph body or of one call of a block."""

    prefix: str
    names: dict[str, Any] = field(default_factory=dict)
    types: dict[str, Any] = field(default_factory=dict)  #: the same names as the evaluator sees them
    bound_at: dict[str, Span] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)


class Elaborator:
    """Turns statements into nodes. One instance per graph; it collects every problem before it gives up."""

    def __init__(self, ops: OpTable, blocks: Mapping[str, ast.Block], name: str) -> None:
        self.ops = ops
        self.blocks = blocks
        self.builder = GraphBuilder(name)
        self.problems: dict[tuple[int, str], Diagnostic] = {}
        self.warnings: list[Diagnostic] = []
        self.outputs: list[tuple[str, int]] = []
        self.calls: dict[str, int] = {}
        self.taken: set[str] = set()
        self.depth = 0
        self.failed_outputs = False

    def run(self, item: ast.GraphItem | ast.Test, body: Sequence[ast.Stmt]) -> Graph:
        """The graph of a body. Raises `TsrError` with every located problem."""
        scope = _Scope("")
        self.statements(body, scope)
        if not self.outputs and not self.failed_outputs:
            self.report(
                Diagnostic(f"graph `{self.builder.name}` has no output", item.name_span, "add `output x`")
            )
        if self.problems:
            raise TsrError(self.problems.values())
        self._warn_unused(scope)
        return self.builder.finish(self.outputs)

    # ---- statements --------------------------------------------------------------------------------------

    def statements(self, body: Sequence[ast.Stmt], scope: _Scope) -> tuple[Any, ...] | None:
        """Runs statements; the values of ``return``, if there is one."""
        for stmt in body:
            try:
                if isinstance(stmt, ast.Return):
                    values = tuple(v for e in stmt.values for v in self.spread(e, scope))
                    if stmt is not body[-1]:
                        self.report(Diagnostic("`return` is the last statement of a block", stmt.span))
                    return values
                self.statement(stmt, scope)
            except _Failed:
                self._poison(stmt, scope)
            except TsrError as e:
                for d in e.diagnostics:
                    self.report(d)
                self._poison(stmt, scope)
            except EvaluationError as e:
                self.report(Diagnostic(str(e), stmt.span))
                self._poison(stmt, scope)
        return None

    def statement(self, stmt: ast.Stmt, scope: _Scope) -> None:
        match stmt:
            case ast.Input(target, type_expr):
                if scope.prefix:
                    raise error(stmt.span, "an input inside a block", "make it a parameter of the block")
                self.leaf("input", target, self.type(type_expr, scope), scope, stmt.span)
            case ast.Weight(target, type_expr, value):
                self.weight(stmt, target, self.type(type_expr, scope), value, scope)
            case ast.Bind(targets, value):
                self.bind(targets, value, scope)
            case ast.For(var, over, body):
                for i in range_values(over, scope.types):
                    if var in scope.bound_at and not isinstance(scope.names.get(var), int | tuple):
                        raise error(stmt.span, f"`{var}` is already a tensor", "use another loop variable")
                    scope.names[var] = scope.types[var] = i
                    self.statements(body, scope)
                scope.names.pop(var, None)
                scope.types.pop(var, None)
            case ast.Output(items):
                if scope.prefix:
                    raise error(stmt.span, "an output inside a block", "write `return`")
                for item in items:
                    self.output(item, scope)

    def leaf(self, op: str, target: ast.LValue, type: TensorType, scope: _Scope, span: Span) -> None:
        if op == "input" and target.index is None and target.name in scope.bound_at:
            line, _ = span.source.position(scope.bound_at[target.name].start)
            raise error(span, f"`{target.name}` is already bound", f"the first time at line {line}")
        name = self.unique(scope.prefix + self.written(target, scope))
        attrs: Attrs = (("name", name), ("dtype", type.dtype), ("shape", type.shape))
        self.store(target, _Tensor(self.builder.add(op, (), attrs, (type,), name)), scope)

    def weight(
        self, stmt: ast.Weight, target: ast.LValue, type: TensorType, value: ast.Expr | None, scope: _Scope
    ) -> None:
        if value is None:
            self.leaf("weight", target, type, scope, stmt.span)
            return
        number = evaluate(value, scope.types)
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise error(value.span, "the value of a weight is one number for all its elements")
        attrs: Attrs = (("value", float(number)), ("dtype", type.dtype), ("shape", type.shape))
        self.store(target, _Tensor(self.builder.add("fill", (), attrs, (type,), target.name)), scope)

    def type(self, expr: ast.TypeExpr, scope: _Scope) -> TensorType:
        if expr.dtype not in DTYPES:
            hint = did_you_mean(expr.dtype, DTYPES) or f"element types are {', '.join(DTYPES)}"
            raise error(expr.span, f"unknown element type `{expr.dtype}`", hint)
        dims = []
        for e in expr.shape:
            value = evaluate(e, scope.types)
            for d in value if isinstance(value, tuple) else (value,):
                if isinstance(d, bool) or not isinstance(d, int):
                    raise error(e.span, "a dimension is an integer")
                if d <= 0:
                    raise error(e.span, f"a dimension is positive, not {d}")
                dims.append(d)
        return TensorType(expr.dtype, tuple(dims))

    def bind(self, targets: Sequence[ast.LValue], value: ast.Expr, scope: _Scope) -> None:
        if isinstance(value, ast.Call) and value.fn == "split":
            results: Sequence[Any] = self.split(value, len(targets), scope)
        elif isinstance(value, ast.Call) and value.fn in self.blocks:
            results = self.block(value, scope)
        elif isinstance(value, ast.Call) and value.fn in self.ops and len(targets) > 1:
            results = self.several(value, scope)
        elif len(targets) == 1 and targets[0].every and isinstance(value, ast.Section):
            self.store(targets[0], self.list_of(value.base, scope), scope)
            return
        else:
            results = [self.value(value, scope)]
        if len(targets) == 1 and targets[0].every:
            self.store(targets[0], dict(enumerate(results)), scope)
            return
        if len(results) != len(targets):
            what = f"{len(results)} value{'s' if len(results) != 1 else ''}"
            raise error(
                value.span,
                f"{what} for {len(targets)} name{'s' if len(targets) != 1 else ''}",
                self._count_hint(value),
            )
        for target, result in zip(targets, results, strict=True):
            self.store(target, result, scope)

    def _count_hint(self, value: ast.Expr) -> str:
        if isinstance(value, ast.Call) and value.fn in self.ops and self.ops[value.fn].outputs:
            return f"`{value.fn}` gives {', '.join(self.ops[value.fn].outputs)}"
        return ""

    def output(self, item: ast.OutputItem, scope: _Scope) -> None:
        self.failed_outputs = True  # until it is known to have worked
        taken = {name for name, _ in self.outputs}
        for i, value in enumerate(self.spread(item.value, scope)):
            if isinstance(value, _Unknown):
                continue
            if not isinstance(value, _Tensor):
                raise error(item.value.span, "an output is a tensor")
            node = self.builder.nodes[value.node]
            name = item.name or _output_name(item.value, i) or node.name or f"out{len(self.outputs)}"
            if name in taken and item.name:
                raise error(item.span, f"output `{name}` is declared twice")
            while name in taken:
                name += "_"
            taken.add(name)
            self.outputs.append((name, value.node))
            self.failed_outputs = False

    def store(self, target: ast.LValue, value: Any, scope: _Scope) -> None:
        name = target.name
        scope.bound_at.setdefault(name, target.span)
        if target.index is None:
            scope.names[name] = value
            if isinstance(value, _Tensor):
                self.label(value, scope.prefix + name)
            scope.types[name] = self.as_type(value)
            return
        index = evaluate(target.index, scope.types)
        if isinstance(index, bool) or not isinstance(index, int):
            raise error(target.index.span, "an index is an integer")
        items = scope.names.setdefault(name, {})
        if not isinstance(items, dict):
            raise error(target.span, f"`{name}` is not a list")
        items[index] = value
        if isinstance(value, _Tensor):
            self.label(value, f"{scope.prefix}{name}_{index}")

    def label(self, value: _Tensor, name: str) -> None:
        """Names a node after the first name that it is bound to."""
        node = self.builder.nodes[value.node]
        if not node.name:
            unique = self.unique(name)
            self.builder.nodes[value.node] = type(node)(node.op, node.inputs, node.attrs, node.types, unique)

    def as_type(self, value: Any) -> Any:
        if isinstance(value, _Tensor):
            types = self.builder.nodes[value.node].types
            return types[0] if len(types) == 1 else None
        return value

    def unique(self, name: str) -> str:
        candidate, i = name, 0
        while candidate in self.taken:
            i += 1
            candidate = f"{name}_{i}"
        self.taken.add(candidate)
        return candidate

    def written(self, target: ast.LValue, scope: _Scope) -> str:
        if target.index is None:
            return target.name
        return f"{target.name}_{evaluate(target.index, scope.types)}"

    # ---- expressions -------------------------------------------------------------------------------------

    def value(self, expr: ast.Expr, scope: _Scope) -> Any:
        """A tensor, or an integer, float or list."""
        match expr:
            case ast.Name(id) if id in scope.names:
                scope.used.add(id)
                return scope.names[id]
            case ast.Name(id):
                hint = did_you_mean(id, scope.names)
                raise error(expr.span, f"unknown name `{id}`", hint)
            case ast.Call(fn) if fn in self.blocks or fn in self.ops or fn == "split":
                results = self.call(expr, scope)
                if len(results) != 1:
                    raise error(expr.span, f"`{fn}` gives {len(results)} values here, where one is needed")
                return results[0]
            case ast.Call(fn) if not self._is_function(fn):
                known = [*self.ops, *self.blocks]
                raise error(expr.fn_span, f"unknown operator `{fn}`", did_you_mean(fn, known))
            case ast.Binary(op, left, right) if op in INFIX:
                if self.is_tensor(left, scope) or self.is_tensor(right, scope):
                    decl = self.ops[INFIX[op]]
                    return _Tensor(self.apply(decl, [left, right], (), expr.span, scope))
                if op == "@":
                    raise error(expr.span, "`@` multiplies tensors")
            case ast.Index(base, index):
                items = scope.names.get(base.id) if isinstance(base, ast.Name) else None
                if isinstance(items, dict):
                    i = evaluate(index, scope.types)
                    assert isinstance(base, ast.Name)
                    scope.used.add(base.id)
                    if i not in items:
                        some = ", ".join(str(k) for k in sorted(items)[:8])
                        raise error(expr.span, f"`{base.id}` has no element {i}", f"it has {some}")
                    return items[i]
        return evaluate(expr, scope.types)

    def _is_function(self, name: str) -> bool:
        from tensat_dl.ops.evaluate import FUNCTIONS

        return name in FUNCTIONS

    def is_tensor(self, expr: ast.Expr, scope: _Scope) -> bool:
        match expr:
            case ast.Name(id):
                return isinstance(scope.names.get(id), _Tensor | _Unknown)
            case ast.Call(fn):
                return fn in self.ops or fn in self.blocks or not self._is_function(fn)
            case ast.Binary(op, left, right) if op in INFIX:
                return op == "@" or self.is_tensor(left, scope) or self.is_tensor(right, scope)
            case ast.Index(ast.Name(id)):
                return isinstance(scope.names.get(id), dict)
        return False

    def spread(self, expr: ast.Expr, scope: _Scope) -> list[Any]:
        """The values of an argument: several for ``list[..]``, else one."""
        if isinstance(expr, ast.Section) and isinstance(expr.base, ast.Name):
            items = scope.names.get(expr.base.id)
            if isinstance(items, dict):
                keys = sorted(self.list_of(expr.base, scope))
                low = None if expr.start is None else evaluate(expr.start, scope.types)
                high = None if expr.stop is None else evaluate(expr.stop, scope.types)
                return [items[k] for k in keys[low:high]]
        if isinstance(expr, ast.Call) and expr.fn in self.blocks:
            return list(self.call(expr, scope))
        return [self.value(expr, scope)]

    def list_of(self, base: ast.Expr, scope: _Scope) -> _List:
        items = scope.names.get(base.id) if isinstance(base, ast.Name) else None
        if not isinstance(items, dict):
            raise error(base.span, "expected a list of tensors")
        assert isinstance(base, ast.Name)
        scope.used.add(base.id)
        return items

    def call(self, expr: ast.Call, scope: _Scope) -> Sequence[Any]:
        if expr.fn == "split":
            return self.split(expr, None, scope)
        if expr.fn in self.blocks:
            return self.block(expr, scope)
        if self.ops[expr.fn].outputs:
            return self.several(expr, scope)
        assert isinstance(expr.args, tuple)
        return [_Tensor(self.apply(self.ops[expr.fn], expr.args, expr.attrs, expr.span, scope))]

    def operands(self, args: Sequence[ast.Expr], scope: _Scope) -> list[int]:
        """Node indices of arguments; numbers become scalars of the first tensor's element type."""
        values: list[tuple[ast.Expr, Any]] = []
        for a in args:
            values += [(a, None)] if is_number(a) else [(a, v) for v in self.spread(a, scope)]
        if any(isinstance(v, _Unknown) for _, v in values):
            raise _Failed
        dtypes = [self.builder.nodes[v.node].types[0].dtype for _, v in values if isinstance(v, _Tensor)]
        out = []
        for a, v in values:
            if isinstance(v, _Tensor):
                if len(self.builder.nodes[v.node].types) > 1:
                    raise error(a.span, "this has several values; bind them to names: `(a, b) = ...`")
                out.append(v.node)
            elif v is None or (isinstance(v, float | int) and not isinstance(v, bool)):
                number = evaluate(a, scope.types) if v is None else v
                type = TensorType(dtypes[0] if dtypes else "f32", ())
                attrs: Attrs = (("value", float(number)), ("dtype", type.dtype), ("shape", ()))
                out.append(self.builder.add("fill", (), attrs, (type,)))
            else:
                raise error(a.span, "expected a tensor")
        return out

    def apply(
        self,
        decl: OpDecl,
        args: Sequence[ast.Expr],
        attrs: Sequence[ast.KeywordArg],
        span: Span,
        scope: _Scope,
    ) -> int:
        """Adds one application; returns its node."""
        check_attrs(decl, attrs, span)
        inputs = self.operands(args, scope)
        check_arity(decl, len(inputs), span)
        types = [self.builder.nodes[i].type for i in inputs]
        try:
            values = attributes(decl, attrs, scope.types, types)
        except TsrError as e:
            raise _explain_attr(e, decl, attrs) from None
        except EvaluationError as e:
            raise error(span, f"{decl.name}: {e}") from None
        final = checked_attrs(decl, values, attrs)
        try:
            typing = infer(self.ops, decl.name, types, dict(final))
        except IllTyped as e:
            shown = ", ".join(f"{_param(decl, i)}: {t}" for i, t in enumerate(types))
            given = ", ".join(f"{k.name} = {_show(dict(final)[k.name])}" for k in attrs)
            hint = " with ".join(x for x in (f"given {shown}" if shown else "", given) if x)
            raise error(span, f"{decl.name} does not fit: {e.message}", hint) from None
        if len(self.builder.nodes) > MAX_NODES:
            raise error(span, f"the graph has more than {MAX_NODES:,} nodes")
        return self.builder.add(decl.name, inputs, final, typing.concrete())

    def several(self, expr: ast.Call, scope: _Scope) -> list[_Tensor]:
        """An operator with several outputs: one node, and a ``proj`` for each output."""
        decl = self.ops[expr.fn]
        assert isinstance(expr.args, tuple)
        node = self.apply(decl, expr.args, expr.attrs, expr.span, scope)
        types = self.builder.nodes[node].types
        if len(types) == 1:
            return [_Tensor(node)]
        return [
            _Tensor(self.builder.add("proj", (node,), (("index", i),), (t,))) for i, t in enumerate(types)
        ]

    def split(self, expr: ast.Call, count: int | None, scope: _Scope) -> list[_Tensor]:
        """``split(x; axis = k, sizes = [..])``: neighbouring slices that cover x."""
        given = {a.name: a for a in expr.attrs}
        for a in expr.attrs:
            if a.name not in ("axis", "sizes"):
                raise error(a.span, f"split has no attribute `{a.name}`", "it has axis, sizes")
        if not isinstance(expr.args, tuple) or len(expr.args) != 1 or set(given) != {"axis", "sizes"}:
            raise error(expr.span, "split is written `split(x; axis = k, sizes = [m, n])`")
        (node,) = self.operands(expr.args, scope)
        axis = evaluate(given["axis"].value, scope.types)
        sizes = evaluate(given["sizes"].value, scope.types)
        type = self.builder.nodes[node].type
        if not isinstance(axis, int) or not 0 <= axis < type.rank:
            raise error(given["axis"].span, f"axis {axis} is not a dimension of {type}")
        if not isinstance(sizes, tuple) or not all(isinstance(s, int) and s > 0 for s in sizes):
            raise error(given["sizes"].span, "sizes is a list of positive integers")
        if sum(sizes) != type.shape[axis]:
            raise error(
                given["sizes"].span,
                f"sizes add up to {sum(sizes)}, but dimension {axis} of {type} is {type.shape[axis]}",
            )
        if count is not None and count > 1 and len(sizes) != count:
            raise error(given["sizes"].span, f"{len(sizes)} sizes for {count} names")
        parts, start = [], 0
        for size in sizes:
            attrs: Attrs = (("axis", axis), ("start", start), ("stop", start + size))
            typing = infer(self.ops, "slice", [type], dict(attrs))
            parts.append(_Tensor(self.builder.add("slice", (node,), attrs, typing.concrete())))
            start += size
        return parts

    def block(self, expr: ast.Call, scope: _Scope) -> tuple[Any, ...]:
        """One call of a block: its body in a scope of its own."""
        block = self.blocks[expr.fn]
        if self.depth >= 32:
            raise error(expr.span, f"`{block.name}` calls itself without end")
        decl = block_signature(block)
        check_attrs(decl, expr.attrs, expr.span)
        assert isinstance(expr.args, tuple)
        values = [v for a in expr.args for v in ([a] if is_number(a) else self.spread(a, scope))]
        inputs = [
            _Tensor(self.operands([v], scope)[0]) if not isinstance(v, _Tensor | _Unknown) else v
            for v in values
        ]
        if any(isinstance(v, _Unknown) for v in inputs):
            raise _Failed
        check_arity(decl, len(inputs), expr.span)
        attrs = attributes(decl, expr.attrs, scope.types, [])
        checked_attrs(decl, attrs, expr.attrs)
        number = self.calls.get(block.name, 0)
        self.calls[block.name] = number + 1
        inner = _Scope(f"{scope.prefix}{block.name}_{number}_")
        for i, tensor in enumerate(decl.inputs):
            value: Any = inputs[i] if i < len(inputs) else None
            if tensor.kind == "many":
                value = dict(enumerate(inputs[i:]))
            inner.names[tensor.name] = value
            inner.types[tensor.name] = self.as_type(value)
            inner.bound_at[tensor.name] = tensor.span
        for name, value in attrs.items():
            inner.names[name] = inner.types[name] = value
        for a in decl.attrs:
            for choice in a.choices:
                inner.names.setdefault(choice, choice)
                inner.types.setdefault(choice, choice)
        self.depth += 1
        before = set(self.problems)
        results = self.statements(block.body, inner)
        self.depth -= 1
        if set(self.problems) - before:
            raise _Failed
        if results is None:
            raise error(block.name_span, f"block `{block.name}` has no `return`")
        return results

    # ---- problems ----------------------------------------------------------------------------------------

    def report(self, diagnostic: Diagnostic) -> None:
        """Records a problem once, however often a loop or a block repeats it."""
        at = diagnostic.span.start if diagnostic.span else 0
        self.problems.setdefault((at, diagnostic.message.split(",")[0]), diagnostic)

    def _poison(self, stmt: ast.Stmt, scope: _Scope) -> None:
        targets: Sequence[ast.LValue] = ()
        if isinstance(stmt, ast.Bind):
            targets = stmt.targets
        elif isinstance(stmt, ast.Weight | ast.Input):
            targets = (stmt.target,)
        elif isinstance(stmt, ast.Output):
            self.failed_outputs = True
        for t in targets:
            if t.index is None:
                scope.names[t.name] = _Unknown() if not t.every else {}
            else:
                try:
                    scope.names.setdefault(t.name, {})[evaluate(t.index, scope.types)] = _Unknown()
                except (TsrError, EvaluationError, TypeError):
                    scope.names[t.name] = _Unknown()

    def _warn_unused(self, scope: _Scope) -> None:
        reached = {i for _, i in self.outputs}
        for i in range(len(self.builder.nodes) - 1, -1, -1):
            if i in reached:
                reached.update(self.builder.nodes[i].inputs)
        for name, value in scope.names.items():
            if isinstance(value, _Tensor) and value.node not in reached and name in scope.bound_at:
                message = f"`{name}` reaches no output"
                self.warnings.append(Diagnostic(message, scope.bound_at[name], severity="warning"))


def _output_name(expr: ast.Expr, i: int) -> str:
    match expr:
        case ast.Name(id):
            return id
        case ast.Section(ast.Name(id)):
            return f"{id}_{i}"
        case ast.Index(ast.Name(id), ast.Const(value)):
            return f"{id}_{value}"
    return ""


def _param(decl: OpDecl, i: int) -> str:
    param = decl.inputs[min(i, len(decl.inputs) - 1)]
    return f"{param.name}[{i - len(decl.inputs) + 1}]" if param.kind == "many" else param.name


def _show(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def block_signature(block: ast.Block) -> OpDecl:
    """A block's parameters in the form of an operator's, so that calls are checked alike."""
    from tensat_dl.ops.table import declare

    stub = ast.OpStmt("shape", ast.ListExpr((), span=block.span), span=block.span)
    dtype = ast.OpStmt("dtype", ast.Name("f32", span=block.span), span=block.span)
    return declare(
        ast.Op(
            block.name,
            True,
            block.params,
            (),
            (stub, dtype),
            None,
            block.doc,
            block.name_span,
            span=block.span,
        )
    )


def check_arity(decl: OpDecl, count: int, span: Span) -> None:
    """Raises `TsrError` if an application has the wrong number of inputs."""
    low, high = decl.min_inputs, decl.max_inputs
    if count < low or (high is not None and count > high):
        want = f"{low}" if high == low else f"{low} or more" if high is None else f"{low} to {high}"
        plural = "s" if want != "1" else ""
        raise error(
            span, f"`{decl.name}` takes {want} tensor{plural}, not {count}", f"its form is {decl.signature}"
        )


def check_attrs(decl: OpDecl, given: Sequence[ast.KeywordArg], span: Span) -> None:
    """Raises `TsrError` for unknown, repeated and missing attributes."""
    problems = []
    seen: set[str] = set()
    names = [a.name for a in decl.attrs]
    for keyword in given:
        if keyword.name not in names:
            hint = did_you_mean(keyword.name, names) or (
                f"it has {', '.join(names)}" if names else "it has no attributes"
            )
            problems.append(
                Diagnostic(f"`{decl.name}` has no attribute `{keyword.name}`", keyword.span, hint)
            )
        elif keyword.name in seen:
            problems.append(Diagnostic(f"attribute `{keyword.name}` is given twice", keyword.span))
        seen.add(keyword.name)
    missing = [a.name for a in decl.attrs if a.default is None and a.name not in seen]
    if missing and not problems:
        hint = f"its form is {decl.signature}"
        problems.append(Diagnostic(f"`{decl.name}` needs `{'`, `'.join(missing)}`", span, hint))
    if problems:
        raise TsrError(problems)


def checked_attrs(decl: OpDecl, values: Mapping[str, Any], given: Sequence[ast.KeywordArg]) -> Attrs:
    """Attributes of the declared types, in declared order. Raises `TsrError` for a value of a wrong type."""
    spans = {k.name: k.value.span for k in given}
    out = []
    for a in decl.attrs:
        value = coerce(a, values[a.name])
        if value is None:
            raise error(
                spans.get(a.name, decl.span),
                f"`{a.name}` of {decl.name} can't be {_show(values[a.name])}",
                wanted(a),
            )
        out.append((a.name, value))
    return tuple(out)


def wanted(a: AttrDecl) -> str:
    """What an attribute accepts, for hints."""
    if a.choices:
        return f"it is one of {', '.join(a.choices)}"
    if a.length is not None:
        return f"it is {a.length} integers, or one for all"
    names = {"int": "an integer", "float": "a number", "bool": "true or false", "string": "a string"}
    names |= {"dtype": "an element type", "axis": "a dimension: 0 is the first", "ints": "a list of integers"}
    return f"it is {names[a.type]}"


def _explain_attr(e: TsrError, decl: OpDecl, given: Sequence[ast.KeywordArg]) -> TsrError:
    """An unknown name where a choice or preset is expected gets the list of those."""
    out = []
    for d in e.diagnostics:
        keyword = next((k for k in given if d.span and k.value.span.start == d.span.start), None)
        a = decl.attr(keyword.name) if keyword else None
        if keyword and a and isinstance(keyword.value, ast.Name) and d.message.startswith("unknown name"):
            options = [*a.choices, *(p for at, p, _ in decl.presets if at == a.name)]
            if options:
                hint = did_you_mean(keyword.value.id, options) or f"it is one of {', '.join(options)}"
                d = Diagnostic(f"`{keyword.value.id}` is not a value of `{a.name}`", d.span, hint)
        out.append(d)
    return TsrError(out)


def elaborate(
    item: ast.GraphItem,
    ops: OpTable,
    blocks: Mapping[str, ast.Block],
    warn: Callable[[Diagnostic], None] | None = None,
) -> Graph:
    """The typed graph of a graph item. Raises `TsrError` with every problem; warnings go to ``warn``."""
    elaborator = Elaborator(ops, blocks, item.name)
    graph = elaborator.run(item, item.body)
    if warn is not None:
        for w in elaborator.warnings:
            warn(w)
    return graph


def elaborate_body(
    test: ast.Test, body: Sequence[ast.Stmt], ops: OpTable, blocks: Mapping[str, ast.Block], name: str
) -> Graph:
    """The typed graph of one side of a test."""
    return Elaborator(ops, blocks, name).run(test, body)


__all__ = ["Elaborator", "defaults", "elaborate", "elaborate_body"]
