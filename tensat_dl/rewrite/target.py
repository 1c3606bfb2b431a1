"""The target of a rule where its source is known: attributes, types, and what they need beyond the facts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tensat_dl.core import expression as ex
from tensat_dl.core.expression import names_of
from tensat_dl.core.rule import RewriteRule
from tensat_dl.core.types import TensorType
from tensat_dl.ops import symbolic as sym
from tensat_dl.ops.evaluate import evaluate, knowing
from tensat_dl.ops.symbolic import Condition, EvaluationError
from tensat_dl.ops.typing import IllTyped, Inference, attributes
from tensat_dl.ops.values import Absent, SymType
from tensat_dl.rewrite.facts import Facts
from tensat_dl.rewrite.source import Variant


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
    pending: list[tuple[str, ex.Expr]], scope: dict[str, Any], unbuilt: set[str]
) -> list[tuple[str, ex.Expr]]:
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
    infer: Inference,
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
            if evaluate(expr, knowing(variant.env, known)) is not True:
                return None
        type_target(rule, infer, variant)
    except (IllTyped, EvaluationError, Absent):  # absent is the value of what is no constant
        return None
    return variant
