"""The rank-specialised variants of a rule: what is known, what must be checked, what the target's attributes are.

egglog has no loops over lists, so a rule about tensors of any rank is compiled once for each assignment of ranks
(and of axes) under which both sides type-check. The operators' own declarations decide: the source's constraints
become facts, the target's constraints become guards unless they follow from the facts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tensat_dl.datalog.conditions import UNMET, conjuncts, factors_in, values_in, with_facts, words
from tensat_dl.datalog.facts import Facts
from tensat_dl.datalog.source import Variant, choices, extend
from tensat_dl.datalog.target import type_target
from tensat_dl.ir.rule import RewriteRule
from tensat_dl.lang import ast
from tensat_dl.ops.evaluate import evaluate
from tensat_dl.ops.symbolic import Condition, EvaluationError
from tensat_dl.ops.table import OpTable
from tensat_dl.ops.typing import IllTyped, Inference


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
            _meet(rule, infer.table, variant, facts)
            type_target(rule, infer, variant, facts)
        except IllTyped as e:
            variant.ill_typed = e.message
        except EvaluationError as e:
            variant.ill_typed = str(e)
        out.append(variant)
    return out


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


def _meet(rule: RewriteRule, ops: OpTable, variant: Variant, facts: Facts) -> None:
    """Adds the rule's own conditions to the guards. Raises `IllTyped` if they can't hold."""
    for expr in rule.conditions:
        env = words(ops) | variant.env
        condition = evaluate(with_facts(expr, env), env)
        if condition is False:
            raise IllTyped(UNMET)
        for c in conjuncts(condition):
            if c.kind in ("weight", "start") or values_in(c) or factors_in(c):
                variant.facts.append(c)
                continue
            rest = facts.unproven(c)
            if rest is False:
                raise IllTyped(UNMET)
            if rest is not True:
                variant.guards.append(c)
                facts.add([c])
