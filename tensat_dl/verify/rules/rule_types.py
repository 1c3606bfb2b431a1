"""Whether a rule can ever apply: its two sides have types for some ranks, its conditions have values, and it can be
compiled."""

from __future__ import annotations

from tensat_dl.core import expression as ex
from tensat_dl.core.diagnostics import Diagnostic, collected
from tensat_dl.core.rule import RewriteRule
from tensat_dl.engine.compile import compile_rule, variants_of
from tensat_dl.engine.schema import Schema
from tensat_dl.ops.evaluate import evaluate
from tensat_dl.ops.symbolic import EvaluationError, NotKnown
from tensat_dl.ops.table import OpTable
from tensat_dl.ops.typing import Inference
from tensat_dl.ops.values import Env
from tensat_dl.rewrite.conditions import UNMET
from tensat_dl.rewrite.groups import instantiate, listed
from tensat_dl.rewrite.source import MAX_RANK, Forms
from tensat_dl.rewrite.variants import Assignments

#: Ranks for which types are checked.
ANY_RANKS = Forms(tuple(range(MAX_RANK + 1)))


def check_rule_types(rule: RewriteRule, ops: OpTable) -> list[Diagnostic]:
    """The problems of a rule that can never apply: a side that type-checks for no ranks, or a condition that has no
    value or can't be compiled."""
    problems: list[Diagnostic] = []
    with collected(problems):
        schema = Schema(ops)
        one = rule if rule.index is None else instantiate(rule, 2)
        found = schema.variants(one, ANY_RANKS)
        if not found:
            message = f"the source of rule `{rule.name}` never type-checks"
            try:
                Assignments(one, Inference(ops), met=True).variants(ANY_RANKS)
            except NotKnown as e:
                return [Diagnostic(f"{message}: {e}", rule.span)]
            return [
                Diagnostic(message, rule.span, f"rules are about tensors of at most {MAX_RANK} dimensions")
            ]
        reasons = [v.ill_typed for v in found]
        met = [v.env for v in found if v.ill_typed != UNMET]
        if all(reasons) and met:
            for condition in rule.conditions:
                missing = [_no_value(condition, env) for env in met]
                if all(missing):
                    message = f"condition `{condition.span.line}` never has a value: {missing[-1]}"
                    return [Diagnostic(message, condition.span)]
        reason = next((r for r in reasons if r != UNMET), "")
        if all(reasons) and reason:  # where conditions are never met the rule is vacuous
            message = f"the target of rule `{rule.name}` never type-checks: {reason}"
            return [Diagnostic(message, rule.span)]
        check_compiles(rule, ops, ANY_RANKS)
    return problems


def _no_value(condition: ex.Expr, env: Env) -> str:
    """Why a condition has no value under one assignment of ranks; empty if it has."""
    try:
        evaluate(condition, env)
    except EvaluationError as e:
        return str(e)
    return ""


def check_compiles(rule: RewriteRule, ops: OpTable, forms: Forms) -> None:
    """Raises `TsrError` if the rule can't be compiled, for lists of two if it takes lists."""
    schema = Schema(ops)
    one = listed(rule, 2) if rule.takes_lists else rule
    compile_rule(one, schema, variants_of(one, schema, forms), {})
