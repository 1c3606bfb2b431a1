"""The rank-specialised variants of a rule: what is known, what must be checked, what the target's attributes are.

egglog has no loops over lists, so a rule about tensors of any rank is compiled once for each assignment of ranks
(and of axes) under which both sides type-check. The operators' own declarations decide: the source's constraints
become facts, the target's constraints become guards unless they follow from the facts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from tensat_dl.datalog.facts import Facts
from tensat_dl.ir.rule import PatternNode, RewriteRule
from tensat_dl.ir.types import TensorType
from tensat_dl.lang import ast
from tensat_dl.lang.walk import names_of
from tensat_dl.ops import symbolic as sym
from tensat_dl.ops.evaluate import evaluate
from tensat_dl.ops.kinds import FACTS
from tensat_dl.ops.symbolic import Condition, EvaluationError, Opaque, Sym
from tensat_dl.ops.table import AttrDecl, OpTable
from tensat_dl.ops.typing import IllTyped, Inference, attributes, defaults
from tensat_dl.ops.values import Absent, SymType

#: Tensors of more dimensions than this take no part in rules.
MAX_RANK = 6


@dataclass
class Variant:
    """One assignment of ranks and axes. ``guards`` are what the compiled rule has to check, ``facts`` those of
    them that only an e-graph knows (weights-only, constant values)."""

    types: dict[str, SymType]
    env: dict[str, Any]
    chosen: dict[str, int]  #: ranks of tensor variables, values of axis variables, lengths of list variables
    source_attrs: list[dict[str, Any]] = field(default_factory=list)
    target_attrs: list[dict[str, Any]] = field(default_factory=list)
    guards: list[Condition] = field(default_factory=list)
    facts: list[Condition] = field(default_factory=list)
    ill_typed: str = ""  #: why the rule never applies under this assignment; empty if it may

    def bind(self, name: str, t: SymType, varies: bool) -> None:
        """Names a tensor of the source. Expressions see members, ``w`` that varies or ``w[0]``, as lists."""
        self.types[name] = t
        base, _, index = name.partition("[")
        self.env[base] = (*self.env.get(base, ()), t) if index or varies else t

    def copy(self) -> Variant:
        return Variant(dict(self.types), dict(self.env), dict(self.chosen), list(self.source_attrs))


def variants(rule: RewriteRule, infer: Inference, ranks: Sequence[int]) -> list[Variant]:
    """Every assignment under which the source may type-check; marked are those for which the rule's conditions or
    the target's types can't hold: whatever tells them apart from the others has to be checked."""
    out = []
    ranks_only = [c for c in rule.conditions if _is_about_ranks(c)]
    for variant, conditions in _source(rule, infer, ranks):
        facts = Facts()
        try:
            if any(evaluate(c, variant.env) is False for c in ranks_only):  # sooner known than what follows
                raise IllTyped(UNMET)
            facts.add(conditions)
            _where(rule, infer.table, variant, facts)
            type_target(rule, infer, variant, facts)
        except IllTyped as e:
            variant.ill_typed = e.message
        except EvaluationError as e:
            variant.ill_typed = str(e)
        out.append(variant)
    return out


# ---- source ---------------------------------------------------------------------------------------------


def _source(
    rule: RewriteRule, infer: Inference, ranks: Sequence[int]
) -> Iterator[tuple[Variant, list[Condition]]]:
    def visit(i: int, variant: Variant, known: list[Condition]) -> Iterator[tuple[Variant, list[Condition]]]:
        if i == len(rule.source.nodes):
            yield variant, known
            return
        node = rule.source.nodes[i]
        for choice in choices(node, infer, ranks, variant):
            found = extend(rule, node, choice, infer, variant)
            if found is not None:
                yield from visit(i + 1, found[0], known + found[1])

    # The source of a group rule is matched for one member at a time: lists of one element, index 0.
    yield from visit(0, Variant({}, {rule.index: 0} if rule.index else {}, {}), [])


def _is_about_ranks(expr: ast.Expr) -> bool:
    """Whether a condition is a comparison of ranks with each other or with numbers."""

    def is_rank(e: ast.Expr) -> bool:
        return isinstance(e, ast.Const) or (isinstance(e, ast.Call) and e.fn == "rank")

    return isinstance(expr, ast.Binary) and is_rank(expr.left) and is_rank(expr.right)


def extend(
    rule: RewriteRule,
    node: PatternNode,
    choice: Mapping[str, tuple[str, int]],
    infer: Inference,
    variant: Variant,
) -> tuple[Variant, list[Condition]] | None:
    """The variant with one more node of the source, whose new variables are chosen (see `choices`), and the
    conditions under which that node is well-typed; None if it never is."""
    attempt = variant.copy()
    for name, (kind, value) in choice.items():
        attempt.chosen[name] = value
        if kind == "tensor":
            attempt.bind(name, _unknown_tensor(name, value), name in rule.members)
        elif kind == "axis":
            attempt.env[name] = value
        else:
            attempt.env[name] = tuple(sym.atom("elem", name, k) for k in range(value))
    try:
        attrs, equalities = _pattern_attrs(node, infer.table, attempt)
        typing = infer(node.op, [attempt.types[a] for a in node.args], attrs)
    except (IllTyped, EvaluationError):
        return None
    attempt.source_attrs.append(attrs)
    attempt.bind(node.result, typing.types[0], node.result in rule.members)
    attempt.guards = variant.guards + equalities
    return attempt, equalities + list(typing.conditions)


def _unknown_tensor(name: str, rank: int) -> SymType:
    return SymType(Opaque(("dtype", name)), tuple(sym.atom("dim", name, i) for i in range(rank)))


def choices(
    node: PatternNode, infer: Inference, ranks: Sequence[int], variant: Variant
) -> Iterator[dict[str, tuple[str, int]]]:
    """Assignments of the tensor, axis and list variables that this node is the first to mention, without ranks that
    its operator never takes together."""
    decl = infer.table[node.op]
    names: list[tuple[str, str]] = []
    options: list[Sequence[int]] = []
    axes = range(max(ranks, default=0))
    variadic: list[str] = []
    for position, arg in enumerate(node.args):
        if arg in variant.types or arg in [n for n, _ in names] or arg in variadic:
            continue
        many = decl.inputs[-1].kind == "many" if decl.inputs else False
        if many and position >= len(decl.inputs):
            variadic.append(arg)  # operands of a variadic operator have one rank
            continue
        names.append((arg, "tensor"))
        options.append(ranks)
    for keyword in node.attrs:
        a = decl.attr(keyword.name)
        assert a is not None
        if not isinstance(keyword.value, ast.Name) or keyword.value.id in variant.env:
            continue
        if a.type == "axis":
            names.append((keyword.value.id, "axis"))
            options.append(axes)
        elif a.type == "ints":
            names.append((keyword.value.id, "ints"))
            options.append(ranks)
    known = {arg: len(t.shape) for arg, t in variant.types.items()}
    for values in product(*options):
        choice = {n: (kind, v) for (n, kind), v in zip(names, values, strict=True)}
        taken = known | {n: v for n, (kind, v) in choice.items() if kind == "tensor"}
        if not variadic and not infer.possible(node.op, tuple(taken[a] for a in node.args)):
            continue
        if variadic:
            first = node.args[len(decl.inputs) - 1]
            rank = choice[first][1] if first in choice else len(variant.types[first].shape)
            choice |= dict.fromkeys(variadic, ("tensor", rank))
        yield choice


def _pattern_attrs(
    node: PatternNode, ops: OpTable, variant: Variant
) -> tuple[dict[str, Any], list[Condition]]:
    """Values of a source node's attributes, binding variables; and equalities that the pattern demands.

    An attribute given by an expression is an unknown that must equal the expression.
    """
    decl = ops[node.op]
    values = defaults(decl)
    equalities: list[Condition] = []
    computed: list[ast.KeywordArg] = []
    for keyword in node.attrs:
        a = decl.attr(keyword.name)
        assert a is not None
        expr = keyword.value
        if isinstance(expr, ast.Name):
            if expr.id in a.choices and expr.id not in variant.env:
                values[a.name] = expr.id
                continue
            if decl.preset(a.name, expr.id) is None:
                if expr.id not in variant.env:
                    variant.env[expr.id] = _unknown_attr(a, expr.id)
                values[a.name] = variant.env[expr.id]
                continue
        if isinstance(expr, ast.ListExpr) and isinstance(expr.items, tuple) and a.length == len(expr.items):
            elements = []
            for k, item in enumerate(expr.items):
                if isinstance(item, ast.Name) and item.id not in variant.env:
                    variant.env[item.id] = sym.atom("attr", item.id)
                value = evaluate(item, variant.env)
                if isinstance(item, ast.Name | ast.Const):
                    elements.append(value)
                else:
                    element = sym.atom("attr", f"{node.result}:{a.name}", k)
                    elements.append(element)
                    equalities += conjuncts(sym.equal(element, value))
            values[a.name] = tuple(elements)
            continue
        computed.append(keyword)
    inputs = [variant.types[a] for a in node.args]
    given = attributes(decl, node.attrs, variant.env, inputs) if computed else {}
    for keyword in computed:
        a = decl.attr(keyword.name)
        assert a is not None
        value = given[a.name]
        if isinstance(keyword.value, ast.Const | ast.Unary) or value == () or _is_constant(value):
            values[a.name] = value
            continue
        if isinstance(value, Opaque):  # such as dtype = dtype(x)
            values[a.name] = value
            continue
        name = f"{node.result}:{a.name}"
        unknown: Any
        if a.type == "ints":  # the length is matched like a list variable's, the elements are compared
            variant.chosen[name] = len(value)
            variant.env[name] = unknown = tuple(sym.atom("elem", name, k) for k in range(len(value)))
        else:
            unknown = _unknown_attr(a, name)
        equalities += conjuncts(sym.equal(unknown, value))
        values[a.name] = unknown
    return values, equalities


def _is_constant(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(_is_constant(v) for v in value)
    return isinstance(value, int | float | str | bool)


def _unknown_attr(a: AttrDecl, name: str) -> Any:
    if a.length is not None:
        return tuple(sym.atom("attr", name, i) for i in range(a.length))
    return sym.atom("attr", name) if a.type in ("int", "axis") else Opaque(("attr", name))


def conjuncts(c: sym.Bool) -> list[Condition]:
    if c is False:
        raise EvaluationError("an attribute can't have this value")
    if c is True:
        return []
    assert isinstance(c, Condition)
    return list(c.args) if c.kind == "and" else [c]


#: Why a rule has no target where its own conditions can't hold.
UNMET = "a condition of the rule does not hold"


# ---- conditions and target ------------------------------------------------------------------------------


def _where(rule: RewriteRule, ops: OpTable, variant: Variant, facts: Facts) -> None:
    """Adds the rule's own conditions to the guards. Raises `IllTyped` if they can't hold."""
    for expr in rule.conditions:
        env = words(ops) | variant.env
        condition = evaluate(with_facts(expr, env), env)
        if condition is False:
            raise IllTyped(UNMET)
        for c in conjuncts(condition):
            plain = c.args[0] if c.kind == "not" else c
            if plain.kind in ("weight", "start") or values_in(c) or factors_in(c):
                variant.facts.append(c)
                continue
            rest = facts.unproven(c)
            if rest is False:
                raise IllTyped(UNMET)
            if rest is not True:
                variant.guards.append(c)
                facts.add([c])


def values_in(c: Condition) -> list[str]:
    """The constants whose values a comparison, plain or negated, is about."""
    if c.kind == "not":
        return values_in(c.args[0])
    atoms = [x.atom for x in c.args if c.kind == "same" and isinstance(x, Opaque)]
    return [a[1] for a in atoms if a[0] == "value"]


def factors_in(c: Condition) -> list[str]:
    """The tensors whose numbers of factors a condition is about."""
    found: dict[str, None] = {}
    for x in c.args:
        if isinstance(x, Condition):
            found |= dict.fromkeys(factors_in(x))
        elif isinstance(x, Sym):
            found |= dict.fromkeys(sorted(a[1] for a in x.mentioned if a[0] == "factors"))
    return list(found)


def words(ops: OpTable) -> dict[str, str]:
    """What attributes can be set to by name; a condition may compare with it, as in ``act == relu``."""
    return {choice: choice for decl in ops.values() for a in decl.attrs for choice in a.choices}


def with_facts(expr: Any, env: dict[str, Any], known: Callable[[str, str], Any] | None = None) -> Any:
    """``weight(x)`` and the like replaced by names that stand for what the e-graph knows about x: unknowns,
    or what ``known(function, x)`` says."""
    if isinstance(expr, ast.Call) and expr.fn in FACTS and isinstance(expr.args, tuple):
        (arg,) = expr.args
        tensor = None
        if isinstance(arg, ast.Name):
            tensor = arg.id
        elif (
            isinstance(arg, ast.Index) and isinstance(arg.base, ast.Name) and isinstance(arg.index, ast.Const)
        ):
            tensor = f"{arg.base.id}[{arg.index.value}]"
        if tensor is not None:
            name = f"{expr.fn} of {tensor}"
            if known is not None:
                env[name] = known(expr.fn, tensor)
            elif expr.fn in ("weight", "start"):
                env[name] = Condition(expr.fn, (tensor,))
            elif expr.fn == "factors":
                env[name] = sym.atom("factors", tensor)
            else:
                env[name] = Opaque(("value", tensor))
            return ast.Name(name, span=expr.span)
    if isinstance(expr, ast.Binary):
        left, right = (with_facts(e, env, known) for e in (expr.left, expr.right))
        return replace(expr, left=left, right=right)
    if isinstance(expr, ast.Unary):
        return replace(expr, operand=with_facts(expr.operand, env, known))
    return expr


def type_target(rule: RewriteRule, infer: Inference, variant: Variant, facts: Facts | None = None) -> None:
    """Types the target; what it needs beyond the facts becomes guards. Raises `IllTyped`."""
    facts = facts or Facts()
    scope = dict(variant.env)
    matched = [variant.types[o] for o in rule.source.outputs]
    pending = list(rule.target.lets)
    unbuilt = [
        n.result.partition("[")[0] for n in rule.target.nodes
    ]  # a list, until its last member is built

    def need(c: sym.Bool, message: str) -> None:
        rest = facts.unproven(c)
        if rest is False:
            raise IllTyped(message)
        if isinstance(rest, Condition):
            parts = rest.args if rest.kind == "and" else (rest,)
            variant.guards.extend(parts)
            facts.add(parts)

    for node in rule.target.nodes:
        pending = _bind_lets(pending, scope, {n for n in unbuilt if n not in variant.env})
        unbuilt.pop(0)
        decl = infer.table[node.op]
        inputs = [variant.types[a] for a in node.args]
        attrs = attributes(decl, node.attrs, scope, inputs)
        typing = infer(node.op, inputs, attrs)
        for condition in typing.conditions:
            need(condition, f"{node.op}: a constraint of the target fails")
        variant.target_attrs.append(attrs)
        variant.types[node.result] = typing.types[0]
        member, _, index = node.result.partition("[")
        if index and not isinstance(variant.env.get(member), tuple):
            scope[member] = (*scope.get(member, ()), typing.types[0])
        scope.setdefault(node.result, typing.types[0])
    for source, a, target in zip(rule.source.outputs, matched, rule.target.outputs, strict=True):
        b = variant.types[target]
        need(sym.equal(a.dtype, b.dtype), "an output changes its element type")
        need(sym.equal(a.shape, b.shape), f"output `{source}` changes its shape")


def _bind_lets(
    pending: list[tuple[str, ast.Expr]], scope: dict[str, Any], unbuilt: set[str]
) -> list[tuple[str, ast.Expr]]:
    """Evaluates the lets whose names are all known by now; the others wait for the nodes that they measure."""
    later = []
    waiting = {*unbuilt, *(name for name, _ in pending)}
    for name, expr in pending:
        if waiting.isdisjoint(n.id for n in names_of(expr)):
            scope[name] = evaluate(expr, scope)
            waiting.discard(name)
        else:
            later.append((name, expr))
    return later


def concrete(
    rule: RewriteRule,
    ops: OpTable,
    types: Mapping[str, TensorType],
    env: Mapping[str, Any],
    known: Callable[[str, str], Any],
) -> Variant | None:
    """A concrete match checked: the target's attributes and types, or None if the rule does not apply to it.

    ``types`` are those of the source's tensors, ``env`` what expressions may name besides them, ``known`` answers
    ``weight(x)`` and the like. Used for groups, whose matches are put together outside of the engine.
    """
    symbolic = {name: SymType(t.dtype, t.shape) for name, t in types.items()}
    variant = Variant(dict(symbolic), {**symbolic, **env}, {})
    try:
        for expr in rule.conditions:
            scope = words(ops) | variant.env
            held = evaluate(with_facts(expr, scope, known), scope)
            if held is not True:
                return None
        type_target(rule, Inference(ops), variant)
    except (IllTyped, EvaluationError, Absent):  # absent is the value of what is no constant
        return None
    return variant
