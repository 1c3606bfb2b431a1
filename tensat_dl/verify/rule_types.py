"""Whether a rule can ever apply: for some ranks its source, and with it its target, must type-check."""

from __future__ import annotations

from tensat_dl.core.diagnostics import Diagnostic, TsrError
from tensat_dl.core.rule import RewriteRule
from tensat_dl.engine.compile import compile_rule
from tensat_dl.engine.schema import Schema
from tensat_dl.ops.table import OpTable
from tensat_dl.rewrite.conditions import UNMET
from tensat_dl.rewrite.forms import Forms
from tensat_dl.rewrite.groups import instantiate

#: Whatever has these ranks.
FORMS = Forms((0, 1, 2, 3, 4, 5))


def check_rule_types(rule: RewriteRule, ops: OpTable) -> list[Diagnostic]:
    """Problems of a rule: a side that never type-checks, or a condition that can't be compiled."""
    try:
        schema = Schema(ops)
        found = schema.variants(rule if rule.index is None else instantiate(rule, 2), FORMS)
        if not found:
            return [Diagnostic(f"the source of rule `{rule.name}` never type-checks", rule.span)]
        reasons = [v.ill_typed for v in found]
        if (
            all(reasons) and UNMET not in reasons
        ):  # a rule whose conditions are never met is vacuous, not ill-typed
            reason = reasons[0]
            return [Diagnostic(f"the target of rule `{rule.name}` never type-checks: {reason}", rule.span)]
        compile_rule(rule, schema, FORMS)
    except TsrError as e:
        return list(e.diagnostics)
    return []
