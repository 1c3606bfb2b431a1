"""Rules: from the syntax tree to flat patterns, with every name resolved and every operator checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tensat_dl.ir.rule import PatternNode, RewriteRule, Side
from tensat_dl.lang import ast
from tensat_dl.lang.diagnostics import Diagnostic, TsrError, did_you_mean, error
from tensat_dl.lang.elaborate import check_arity, check_attrs
from tensat_dl.lang.source import Span
from tensat_dl.ops.evaluate import FUNCTIONS
from tensat_dl.ops.table import INFIX, OpTable, coerce, constant
from tensat_dl.ops.typing import is_number

#: Conditions on tensors that only the e-graph can answer.
FACTS = ("weight", "value")


def resolve_rule(rule: ast.Rule, ops: OpTable, warnings: list[Diagnostic]) -> list[RewriteRule]:
    """The rewrite that a rule declares, or both directions of a ``<=>``. Raises `TsrError`."""
    left, right = rule.left, rule.right
    if not rule.both:
        return [_direction(rule, rule.name, left, right, ops)]
    where = (*left.where, *right.where)
    forward = _direction(rule, rule.name, replace(left, where=where), replace(right, where=()), ops)
    backward = _direction(
        rule, f"{rule.name}-back", replace(right, where=where), replace(left, where=()), ops
    )
    return [forward, backward]


def compositions(ops: OpTable) -> list[RewriteRule]:
    """For each operator that is defined as a composition the rules ``fuse-f`` and ``unfuse-f``."""
    rules = []
    for decl in ops.values():
        if decl.composition is None:
            continue
        span = decl.composition.span
        args = tuple(ast.Name(p.name, span=span) for p in decl.inputs)
        attrs = tuple(ast.KeywordArg(a.name, ast.Name(a.name, span=span), span=span) for a in decl.attrs)
        call = ast.Call(decl.name, args, attrs, decl.span, span=span)
        whole = ast.RuleSide((ast.RuleStmt((), call, None, span=span),), (), span=span)
        parts = ast.RuleSide((ast.RuleStmt((), decl.composition, None, span=span),), (), span=span)
        doc = f"{decl.name} is defined as {' '.join(span.text.split())}."
        for name, left, right in ((f"fuse-{decl.name}", parts, whole), (f"unfuse-{decl.name}", whole, parts)):
            item = ast.Rule(name, left, right, False, doc, decl.span, span=span)
            try:
                rules.append(_direction(item, name, left, right, ops))
            except TsrError:
                if name.startswith("unfuse"):
                    raise
                # A composition that does not mention every parameter can only be unfolded.
    return rules


@dataclass
class _Context:
    """What is known while one side is flattened."""

    ops: OpTable
    variables: set[str]  #: tensor variables: bound by matching (left), or known from the left (right)
    attr_variables: set[str]
    members: set[str]
    is_source: bool
    index: str | None = None
    nodes: list[PatternNode] = field(default_factory=list)
    lets: list[tuple[str, ast.Expr]] = field(default_factory=list)
    bound: dict[str, Span] = field(default_factory=dict)  #: results of statements of this side
    alias: dict[str, str] = field(default_factory=dict)
    problems: list[Diagnostic] = field(default_factory=list)
    fresh: int = 0


def _direction(
    rule: ast.Rule, name: str, left: ast.RuleSide, right: ast.RuleSide, ops: OpTable
) -> RewriteRule:
    span = rule.name_span
    source = _Context(ops, set(), set(), set(), True)
    source_values = _side(left, source)
    if not source.nodes and not source.problems:
        raise error(
            left.span, "the source pattern has no operator", "a lone variable would match every tensor"
        )
    target = _Context(
        ops,
        source.variables | set(source.bound),
        source.attr_variables,
        source.members,
        False,
        source.index,
    )
    target_values = _side(right, target)
    problems = source.problems + target.problems
    if problems:
        raise TsrError(problems)
    named_left = [t for s in left.stmts for t in s.targets]
    shared = [t.name for t in named_left if t.name in target.bound or t.name in target.alias]
    outputs = tuple(dict.fromkeys(shared))
    if source_values or target_values:
        if len(source_values) != len(target_values):
            raise error(
                right.span,
                f"{len(source_values)} unnamed result(s) on the left, {len(target_values)} on the right",
                "give matched outputs the same name on both sides",
            )
        source_outputs = (*outputs, *source_values)
        target_outputs = (*(target.alias.get(o, o) for o in outputs), *target_values)
    else:
        source_outputs, target_outputs = outputs, tuple(target.alias.get(o, o) for o in outputs)
    if not source_outputs:
        raise error(
            span, f"rule `{rule.name}` has no matched output", "bind one name on both sides of the arrow"
        )
    conditions = (*left.where, *right.where)
    result = RewriteRule(
        name,
        Side(tuple(source.nodes), source_outputs),
        Side(tuple(target.nodes), target_outputs, tuple(target.lets)),
        conditions,
        frozenset(source.members | target.members),
        source.index,
        rule.doc,
        span,
    )
    problems = list(_check(result, source, target, rule))
    if problems:
        raise TsrError(problems)
    return result


def _side(side: ast.RuleSide, context: _Context) -> list[str]:
    """Flattens a side; the names of results of statements without a name."""
    values = []
    for stmt in side.stmts:
        try:
            values += _statement(stmt, context)
        except TsrError as e:
            context.problems += e.diagnostics
            for t in stmt.targets:
                context.bound.setdefault(t.name, t.span)
    return values


def _statement(stmt: ast.RuleStmt, context: _Context) -> list[str]:
    if stmt.each is not None:
        if context.index not in (None, stmt.each):
            raise error(stmt.span, f"the index of this group is `{context.index}`", "use one index in a rule")
        context.index = stmt.each
    if not stmt.targets:
        return [_tensor(stmt.value, None, context, stmt.each)]
    value = stmt.value
    if isinstance(value, ast.Call) and value.fn == "split":
        _split(stmt, value, context)
        return []
    if len(stmt.targets) > 1:
        raise error(stmt.span, "only split gives several values in a rule")
    (target,) = stmt.targets
    name = _target_name(target, stmt, context)
    if name in context.bound or (context.is_source and name in context.variables):
        raise error(target.span, f"`{name}` is bound twice")
    if not context.is_source and not _is_tensor(value, context):
        context.lets.append((name, value))
        context.bound[name] = target.span
        return []
    if not context.is_source and isinstance(value, ast.Name | ast.Index):
        context.alias[name] = _tensor(value, None, context, stmt.each)
        return []
    if context.is_source and isinstance(value, ast.Name):
        raise error(
            value.span, "the source pattern has no operator here", "a lone variable would match anything"
        )
    _tensor(value, name, context, stmt.each)
    context.bound[name] = target.span
    return []


def _target_name(target: ast.LValue, stmt: ast.RuleStmt, context: _Context) -> str:
    if target.index is None and not target.every:
        if stmt.each is not None:
            hint = f"write `{target.name}[{stmt.each}]`"
            raise error(target.span, f"`{target.name}` has no index in an `each`", hint)
        return target.name
    ok = isinstance(target.index, ast.Name) and target.index.id == stmt.each and stmt.each is not None
    if not ok:
        raise error(target.span, "only `each` statements bind indexed names", "write `each i: y[i] = ...`")
    context.members.add(target.name)
    return target.name


def _is_tensor(expr: ast.Expr, context: _Context) -> bool:
    match expr:
        case ast.Call(fn):
            return fn not in FUNCTIONS
        case ast.Name(id):
            return id in context.variables or id in context.alias or id in {n.result for n in context.nodes}
        case ast.Index(base, _):
            return isinstance(base, ast.Name) and base.id in context.members
        case ast.Binary(op, left, right) if op in INFIX:
            return op == "@" or _is_tensor(left, context) or _is_tensor(right, context)
    return False


def _split(stmt: ast.RuleStmt, call: ast.Call, context: _Context) -> None:
    """``(a, b) = split(y; axis, sizes)`` and ``y[..] = split(m; axis, sizes)`` as slices."""
    given = {a.name: a.value for a in call.attrs}
    if set(given) != {"axis", "sizes"} or not isinstance(call.args, tuple) or len(call.args) != 1:
        raise error(call.span, "split is written `split(x; axis = k, sizes = [m, n])`")
    if context.is_source:
        raise error(call.span, "split stands only on the right", "in a source pattern write slices")
    whole = _tensor(call.args[0], None, context, None)
    sizes, span = given["sizes"], call.span

    def cut(result: str, start: ast.Expr, size: ast.Expr, each: str | None) -> None:
        attrs = (
            ast.KeywordArg("axis", given["axis"], span=span),
            ast.KeywordArg("start", start, span=span),
            ast.KeywordArg("stop", ast.Binary("+", start, size, span=span), span=span),
        )
        context.nodes.append(PatternNode(result, "slice", (whole,), attrs, each, span))

    if stmt.targets[0].every:
        name, index = stmt.targets[0].name, context.index or "i"
        context.members.add(name)
        i = ast.Name(index, span=span)
        context.lets.append((f"{name}.sizes", sizes))  # evaluated once, not once for each member
        sizes = ast.Name(f"{name}.sizes", span=span)
        before = ast.Section(sizes, None, i, span=span)
        cut(name, ast.Call("sum", (before,), (), span, span=span), ast.Index(sizes, i, span=span), index)
        context.bound[name] = stmt.targets[0].span
        return
    if not isinstance(sizes, ast.ListExpr) or not isinstance(sizes.items, tuple):
        raise error(sizes.span, "sizes is written as a list")
    if len(sizes.items) != len(stmt.targets):
        raise error(sizes.span, f"{len(sizes.items)} sizes for {len(stmt.targets)} names")
    start: ast.Expr = ast.Const(0, "int", "0", span=span)
    for target, size in zip(stmt.targets, sizes.items, strict=True):
        name = _target_name(target, stmt, context)
        if name in context.bound:
            raise error(target.span, f"`{name}` is bound twice")
        cut(name, start, size, None)
        context.bound[name] = target.span
        start = size if isinstance(start, ast.Const) else ast.Binary("+", start, size, span=span)


def _tensor(expr: ast.Expr, result: str | None, context: _Context, each: str | None) -> str:
    """Flattens an expression in tensor position; the name of its result."""
    ops = context.ops
    match expr:
        case ast.Name(id):
            return _variable(id, expr, context, each, False)
        case ast.Index(ast.Name(id), ast.Name(index)) if index == each and each is not None:
            return _variable(id, expr, context, each, True)
        case ast.Binary(op, left, right) if op in INFIX:
            fn, args, attrs, at = INFIX[op], (left, right), (), expr.span
        case ast.Call(fn, args, attrs, at) if isinstance(args, tuple):
            if fn not in ops:
                what = "a function of integers" if fn in FUNCTIONS else None
                hint = did_you_mean(fn, ops)
                raise error(at, f"`{fn}` is {what}" if what else f"unknown operator `{fn}`", hint)
        case _:
            raise error(expr.span, "expected a tensor: a variable or an operator")
    decl = ops[fn]
    if decl.outputs:
        raise error(at, f"`{fn}` has several outputs, which rules can't match yet")
    names: list[str] = []
    numbers: list[tuple[int, ast.Expr]] = []
    for a in args:
        if is_number(a):
            numbers.append((len(names), a))
            names.append("")
        elif (
            isinstance(a, ast.Section) and isinstance(a.base, ast.Name) and a.start is None and a.stop is None
        ):
            if context.is_source or a.base.id not in context.members:
                raise error(a.span, f"`{a.base.id}[..]` is not a group of this rule")
            names.append(f"{context.alias.get(a.base.id, a.base.id)}[..]")
        else:
            names.append(_tensor(a, None, context, each))
    if not any(n.endswith("[..]") for n in names):
        check_arity(decl, len(names), expr.span)
    check_attrs(decl, attrs, expr.span)
    for position, number in numbers:
        like = next((n for n in names if n and not n.endswith("[..]")), None)
        names[position] = _number(number, like, context, each)
    if context.is_source:
        _bind_attrs(fn, attrs, context)
    if result is None:
        result = f"{fn}.{'l' if context.is_source else 'r'}{context.fresh}"
        context.fresh += 1
    if each is not None:
        context.members.add(result)
    context.nodes.append(PatternNode(result, fn, tuple(names), attrs, each, expr.span))
    return result


def _variable(name: str, expr: ast.Expr, context: _Context, each: str | None, member: bool) -> str:
    if name in context.attr_variables:
        raise error(expr.span, f"`{name}` is an attribute, not a tensor")
    if name in context.alias:
        return context.alias[name]
    local = {n.result for n in context.nodes}
    if not context.is_source and name not in context.variables and name not in local:
        known = [*context.variables, *local]
        raise error(
            expr.span,
            f"`{name}` is not bound by the source pattern",
            did_you_mean(name, known) or "every variable on the right occurs on the left",
        )
    if context.is_source and member:
        context.members.add(name)
    if (name in context.members) != member:
        hint = f"write `{name}[{context.index}]`" if not member else f"write `{name}`"
        raise error(expr.span, f"`{name}` {'varies' if not member else 'does not vary'} by member", hint)
    if context.is_source and name not in local:
        context.variables.add(name)
    return name


def _number(expr: ast.Expr, like: str | None, context: _Context, each: str | None) -> str:
    """A number in tensor position: a scalar constant of the element type of its neighbour."""
    if like is None:
        raise error(expr.span, "a number needs a tensor beside it")
    span = expr.span
    base: ast.Expr = ast.Name(like, span=span)
    if like in context.members and each is not None:
        base = ast.Index(base, ast.Name(each, span=span), span=span)
    result = f"fill.{'l' if context.is_source else 'r'}{context.fresh}"
    context.fresh += 1
    if context.is_source:  # any element type: the consumer's own constraints tie it to its neighbour's
        dtype: ast.Expr = ast.Name(f"{result}.dtype", span=span)
        context.attr_variables.add(f"{result}.dtype")
    else:
        dtype = ast.Call("dtype", (base,), (), span, span=span)
    attrs = (
        ast.KeywordArg("value", expr, span=span),
        ast.KeywordArg("dtype", dtype, span=span),
        ast.KeywordArg("shape", ast.ListExpr((), span=span), span=span),
    )
    context.nodes.append(PatternNode(result, "fill", (), attrs, None, span))
    return result


def _bind_attrs(op: str, attrs: Sequence[ast.KeywordArg], context: _Context) -> None:
    """Bare names (and lists of names) in attribute position of a source pattern are variables."""
    decl = context.ops[op]
    for keyword in attrs:
        a = decl.attr(keyword.name)
        assert a is not None
        for name in _pattern_names(keyword.value):
            is_word = name.id in a.choices or decl.preset(a.name, name.id) is not None
            if not is_word and name.id not in context.variables:
                context.attr_variables.add(name.id)
        value = constant(keyword.value)
        literal = not isinstance(keyword.value, ast.Name) and value is not None
        if literal and coerce(a, value) is None:
            from tensat_dl.lang.elaborate import wanted

            raise error(keyword.value.span, f"`{a.name}` of {op} can't be this", wanted(a))


def _pattern_names(expr: ast.Expr) -> Iterator[ast.Name]:
    if isinstance(expr, ast.Name):
        yield expr
    elif isinstance(expr, ast.ListExpr) and isinstance(expr.items, tuple):
        yield from (i for i in expr.items if isinstance(i, ast.Name))


def names_of(expr: Any) -> Iterator[ast.Name]:
    """Every name in an expression, those bound by an inner ``for`` excepted."""
    match expr:
        case ast.Name():
            yield expr
        case ast.EachIn(body, var, over):
            yield from names_of(over)
            yield from (n for n in names_of(body) if n.id != var)
        case ast.Range(start, stop):
            yield from names_of(start)
            yield from names_of(stop)
        case ast.ListExpr(items) | ast.Call(_, items):
            if isinstance(items, ast.EachIn):
                yield from names_of(items)
            else:
                for i in items:
                    yield from names_of(i)
        case ast.Index(base, index):
            yield from names_of(base)
            yield from names_of(index)
        case ast.Section(base, start, stop):
            for e in (base, start, stop):
                yield from names_of(e)
        case ast.Unary(_, operand):
            yield from names_of(operand)
        case ast.Binary(_, a, b):
            yield from names_of(a)
            yield from names_of(b)
        case ast.If(a, b, c):
            for e in (a, b, c):
                yield from names_of(e)


def _check(rule: RewriteRule, source: _Context, target: _Context, item: ast.Rule) -> Iterator[Diagnostic]:
    """Unknown names in conditions and attributes, unused intermediates, unused variables."""
    from tensat_dl.ir.types import DTYPES

    tensors = set(rule.tensor_variables()) | {n.result for n in rule.source.nodes}
    known = tensors | source.attr_variables | set(DTYPES)
    if rule.index:
        known.add(rule.index)
    enum_words = {c for d in source.ops.values() for a in d.attrs for c in a.choices}
    for condition in rule.conditions:
        for name in names_of(condition):
            if name.id not in known and name.id not in enum_words:
                hint = did_you_mean(name.id, known)
                yield Diagnostic(f"`{name.id}` is not bound by the source pattern", name.span, hint)
        for call in _calls(condition):
            if call.fn not in FUNCTIONS and call.fn not in FACTS:
                hint = did_you_mean(call.fn, (*FUNCTIONS, *FACTS))
                yield Diagnostic(f"unknown function `{call.fn}`", call.fn_span, hint)
    known |= {n.result for n in rule.target.nodes} | {name for name, _ in rule.target.lets}
    for node in rule.target.nodes:
        decl = source.ops[node.op]
        for keyword in node.attrs:
            a = decl.attr(keyword.name)
            presets = {p for at, p, _ in decl.presets if at == keyword.name}
            for name in names_of(keyword.value):
                if name.id not in known and name.id not in presets and not (a and name.id in a.choices):
                    hint = did_you_mean(name.id, known)
                    yield Diagnostic(f"`{name.id}` is not bound by the source pattern", name.span, hint)
    used = {a.removesuffix("[..]") for n in rule.target.nodes for a in n.args} | set(rule.target.outputs)
    used |= {n.id for node in rule.target.nodes for k in node.attrs for n in names_of(k.value)}
    used |= {n.id for _, e in rule.target.lets for n in names_of(e)}
    for bound, span in target.bound.items():
        if bound not in used and bound not in source.bound:
            yield Diagnostic(f"`{bound}` is computed on the right and never used", span)
    left_only = set(source.bound) - set(rule.source.outputs)
    read = {a for n in rule.source.nodes for a in n.args}
    for bound in sorted(left_only - read):
        yield Diagnostic(
            f"`{bound}` is matched and has no counterpart on the right",
            source.bound[bound],
            "bind it on the right too, or use it in the pattern",
        )


def _calls(expr: Any) -> Iterator[ast.Call]:
    if isinstance(expr, ast.Call):
        yield expr
    for name in (
        "args",
        "items",
        "body",
        "left",
        "right",
        "operand",
        "base",
        "index",
        "condition",
        "then",
        "otherwise",
    ):
        child = getattr(expr, name, None)
        for c in child if isinstance(child, tuple) else (child,):
            if c is not None and not isinstance(c, str | Span):
                yield from _calls(c)
