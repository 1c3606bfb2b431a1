"""Rules: from the syntax tree to rewrites between flat patterns."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import replace

from tensat_dl.core.diagnostics import Diagnostic, TsrError, error
from tensat_dl.core.expression import Fact, base_of, children, is_every, names_of, replaced, with_name
from tensat_dl.core.rule import Fixed, PatternNode, RewriteRule, Side, Variable
from tensat_dl.core.words import did_you_mean, plural
from tensat_dl.lang import ast
from tensat_dl.lang.pattern_names import ELEMENT
from tensat_dl.lang.patterns import PatternBuilder
from tensat_dl.ops.evaluate import Unresolved
from tensat_dl.ops.kinds import FACTS, article, fits, kind_of
from tensat_dl.ops.table import INFIX, OpDecl, OpTable
from tensat_dl.ops.values import FUNCTIONS


def resolve_rule(rule: ast.Rule, ops: OpTable) -> list[RewriteRule]:
    """The rewrite that a rule declares, or both directions of a ``<=>``. Raises `TsrError`."""
    if not rule.both:
        return [_direction(rule, rule.name, ops)]
    where = (*rule.left.where, *rule.right.where)
    left, right = replace(rule.left, where=()), replace(rule.right, where=())
    forward = _direction(replace(rule, left=replace(left, where=where), right=right), rule.name, ops)
    try:
        turned = replace(rule, left=replace(right, where=where), right=left)
        backward = _direction(turned, f"{rule.name}-back", ops)
    except TsrError as e:
        note = "the rule is read from right to left here: write `=>` if it holds in one direction only"
        raise TsrError(replace(d, notes=(*d.notes, note)) for d in e.diagnostics) from None
    return [forward, backward]


def compositions(declared: Iterable[OpDecl], ops: OpTable) -> list[RewriteRule]:
    """For each of these operators that is defined as a composition the rules ``fuse-f`` and ``unfuse-f``."""
    rules = []
    for decl in declared:
        if decl.composition is None:
            continue
        span = decl.composition.span
        args = tuple(ast.Name(p.name, span=span) for p in decl.inputs)
        attrs = tuple(ast.keyword(a.name, ast.Name(a.name, span=span)) for a in decl.attrs)
        call = ast.Call(decl.name, args, attrs, decl.span, span=span)
        whole = ast.RuleSide((ast.Bind((), call, span=span),), (), span=span)
        parts = ast.RuleSide((ast.Bind((), decl.composition, span=span),), (), span=span)
        scalars = _scalars(decl, decl.composition)
        doc = f"{decl.name} is defined as {span.line}."
        for name, left, right in ((f"fuse-{decl.name}", parts, whole), (f"unfuse-{decl.name}", whole, parts)):
            item = ast.Rule(name, left, right, False, None, doc, decl.span, span=span)
            try:
                rules.append(_direction(item, name, ops, scalars))
            except TsrError:
                if name.startswith("unfuse"):
                    raise
                # A composition that does not mention every parameter can only be unfolded.
    return rules


def _scalars(decl: OpDecl, expr: ast.Expr) -> dict[str, str]:
    """The float attributes that stand in a tensor's place in a composition, with their kind."""
    match expr:
        case ast.Name(id) if (a := decl.attr(id)) is not None and a.type == "float":
            return {id: "float"}
        case ast.Call(_, args) if isinstance(args, tuple):
            operands: tuple[ast.Expr, ...] = args
        case ast.Binary(op, left, right) if op in INFIX:
            operands = (left, right)
        case _:
            return {}
    return {name: kind for operand in operands for name, kind in _scalars(decl, operand).items()}


def _direction(
    rule: ast.Rule, name: str, ops: OpTable, scalars: Mapping[str, str] | None = None
) -> RewriteRule:
    """A rule from left to right. ``scalars`` are names that stand for numbers even where a tensor is expected."""
    left, right = rule.left, rule.right
    source = PatternBuilder(ops, is_source=True, kinds=dict(scalars or {}))
    source_values = source.side(left)
    if not source.nodes and not source.problems:
        hint = "a lone variable would match every tensor"
        raise error(left.stmts[0].span, "the source pattern has no operator", hint)
    target = PatternBuilder(ops, False, dict(source.kinds), set(source.members), source.index)
    target.failed |= source.failed
    target.chosen |= source.chosen
    target_values = target.side(right)
    conditions = _of_elements((*left.where, *right.where), source, target.loops)
    problems = source.problems + target.problems
    if problems:
        raise TsrError(problems)
    named = [t.name for s in left.stmts for t in s.targets]
    outputs = tuple(dict.fromkeys(n for n in named if n in target.bound or n in target.alias))
    if len(source_values) != len(target_values):
        raise _uneven(right, source_values, target_values)
    if not outputs and not source_values:
        raise _no_output(rule, source, target)
    result = RewriteRule(
        name,
        Side(tuple(source.nodes), (*outputs, *source_values)),
        Side(
            tuple(target.nodes),
            (*(target.alias.get(o, o) for o in outputs), *target_values),
            tuple(target.lets),
        ),
        conditions,
        frozenset(source.members | target.members),
        source.index,
        rule.doc,
        rule.name_span,
        rule.name,
    )
    problems = [*_conditions(result, source), *_unused(result, source, target)]
    if not problems and _terms(result.source, ops) == _terms(result.target, ops):
        hint = "a rule replaces the left side by another way to compute it"
        problems.append(Diagnostic(f"both sides of rule `{name}` are the same", rule.name_span, hint))
    if problems:
        raise TsrError(problems)
    resolved = (_resolved(c, source.kinds, _words(ops)) for c in result.conditions)
    return replace(result, conditions=tuple(map(_comparing, resolved)))


def _comparing(condition: ast.Expr) -> ast.Expr:
    """An attribute that stands alone is compared with true."""
    if not isinstance(condition, ast.Name):
        return condition
    true = ast.Const(True, "bool", "true", span=condition.span)
    return ast.Binary("==", condition, true, span=condition.span)


def _of_elements(
    conditions: tuple[ast.Expr, ...], source: PatternBuilder, loops: Iterable[str]
) -> tuple[ast.Expr, ...]:
    """Conditions in which the indices of `for`s among operands stand for every element."""
    if source.index == ELEMENT:
        for name in {*source.loops, *loops} - source.kinds.keys():
            conditions = with_name(conditions, name, lambda span: ast.Name(ELEMENT, span=span))
    return conditions


def _terms(side: Side, ops: OpTable) -> list[object]:
    """The outputs of a side as terms, without the names of values that it computes."""
    made: dict[str, object] = {}
    for node in side.nodes:
        default = {a.name: a.default for a in ops[node.op].attrs}
        given = {a.name: a.pattern.value if isinstance(a.pattern, Fixed) else a.value for a in node.attrs}
        attrs = tuple((default | given).items())
        args = ((made.get(base_of(a), a), is_every(a)) for a in node.args)
        made[node.result] = node.op, tuple(args), attrs, node.each is None
    return [made.get(o, o) for o in side.outputs]


def _words(ops: OpTable) -> set[str]:
    """The words that attributes can be set to; a condition may compare with them, as in ``act == relu``."""
    return {choice for decl in ops.values() for a in decl.attrs for choice in a.choices}


def _resolved(condition: ast.Expr, names: Container[str], words: Container[str]) -> ast.Expr:
    """A condition in which facts about tensors and words of attributes are told from calls and names."""

    def fact(call: ast.Call, function: str) -> Fact:
        assert isinstance(call.args, tuple)
        (tensor,) = call.args
        assert isinstance(tensor, ast.Name | ast.Index)
        return Fact(function, tensor, span=call.span)

    def change(part: object) -> ast.Expr | None:
        match part:
            case ast.Unary("not", ast.Call("weight") as call):
                return replace(fact(call, "varying"), span=part.span)
            case ast.Call(fn) if fn in FACTS:
                return fact(part, fn)
            case ast.Name(id) if id in words and id not in names:
                return ast.Const(id, "string", id, span=part.span)
        return None

    resolved: ast.Expr = replaced(condition, change)
    return resolved


def _uneven(right: ast.RuleSide, source: list[str], target: list[str]) -> TsrError:
    def count(values: list[str]) -> str:
        return f"{len(values) or 'no'} {plural(len(values), 'result')} without a name"

    message = f"the left side has {count(source)}, the right side has {count(target)}"
    return error(right.span, message, "give matched outputs the same name on both sides")


def _no_output(rule: ast.Rule, source: PatternBuilder, target: PatternBuilder) -> TsrError:
    names = [", ".join(f"`{n}`" for n in side.bound) or "nothing" for side in (source, target)]
    return error(
        rule.name_span,
        f"no output of rule `{rule.name}` is matched: no name is bound on both sides",
        "give what is replaced, and what replaces it, one name",
        [f"the left side binds {names[0]}, the right side {names[1]}"],
    )


def _conditions(rule: RewriteRule, source: PatternBuilder) -> Iterator[Diagnostic]:
    """The problems of ``where``: conditions may use only names of the left side."""
    known = {**dict.fromkeys(_words(source.ops), "word"), **source.kinds}
    for condition in rule.conditions:
        try:
            kind = kind_of(condition, known, facts=True)
        except Unresolved as e:
            yield _unresolved(e.expr, source)
            continue
        except TsrError as e:
            yield from e.diagnostics
            continue
        if not fits(kind, "condition"):
            message = f"`where` needs a condition, and this is {article(kind)}"
            yield Diagnostic(message, condition.span, "compare it: `==`, `!=`, `<`, `<=`, `>`, `>=`")
        yield from _from_the_end(condition, rule, source.ops)


def _from_the_end(condition: ast.Expr, rule: RewriteRule, ops: OpTable) -> Iterator[Diagnostic]:
    """Comparisons of a matched axis with a negative number: what is matched counts from 0."""
    match condition:
        case ast.Binary("==" | "!=" | "<" | "<=" | ">" | ">=", ast.Name(id), ast.Unary("-", ast.Const())):
            node = next((n for n in rule.source.nodes if _is_axis(id, n, ops)), None)
            if node is not None:
                tensor = node.args[0] if "." not in node.args[0] else "x"
                hint = f"a matched axis counts from 0: the last one is `rank({tensor}) - 1`"
                yield Diagnostic(f"`{id}` is never negative", condition.span, hint)
    for part in children(condition):
        yield from _from_the_end(part, rule, ops)


def _is_axis(name: str, node: PatternNode, ops: OpTable) -> bool:
    return any(a.pattern == Variable(name) and ops[node.op][a.name].type == "axis" for a in node.attrs)


def _unresolved(expr: ast.Name | ast.Call, source: PatternBuilder) -> Diagnostic:
    if isinstance(expr, ast.Name):
        return source.unbound(expr.id, expr.span, sorted(_words(source.ops))).diagnostics[0]
    if expr.fn in source.ops:
        hint = "conditions are about shapes, attributes, `weight(x)` and `value(x)`"
        return Diagnostic(f"`{expr.fn}` computes a tensor", expr.fn_span, hint)
    hint = did_you_mean(expr.fn, (*FUNCTIONS, *FACTS))
    return Diagnostic(f"unknown function `{expr.fn}`", expr.fn_span, hint)


def _unused(rule: RewriteRule, source: PatternBuilder, target: PatternBuilder) -> Iterator[Diagnostic]:
    """Names of the right side that nothing uses, and of the left side that nothing replaces."""
    used = {base_of(a) for n in rule.target.nodes for a in n.args} | set(rule.target.outputs)
    used |= {n.id for node in rule.target.nodes for k in node.attrs for n in names_of(k.value)}
    used |= {n.id for _, e in rule.target.lets for n in names_of(e)}
    for bound, span in target.bound.items():
        if bound not in used and bound not in source.bound:
            near = did_you_mean(bound, source.bound)
            hint = near or "remove it, or bind it on the left: what is matched has one name on both sides"
            yield Diagnostic(f"`{bound}` is computed on the right and never used", span, hint)
    read = {base_of(a) for n in rule.source.nodes for a in n.args}
    for bound, span in source.bound.items():
        if bound not in rule.source.outputs and bound not in read:
            yield Diagnostic(
                f"`{bound}` is matched and has no counterpart on the right",
                span,
                "bind it on the right too, or use it in the pattern",
            )
