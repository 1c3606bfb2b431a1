"""The rank-specialised variants of a rule: what is known, what must be checked, what the target's attributes are.

egglog has no loops over lists, so a rule about tensors of any rank is compiled once for each assignment of ranks
(and of axes) under which both sides type-check. The operators' own declarations decide: the source's constraints
become facts, the target's constraints become guards unless they follow from the facts. Which assignments are worth
looking at is known from the forms that e-nodes may have (`forms.py`).
"""

from __future__ import annotations

from collections.abc import Iterator

from tensat_dl.core.rule import PatternNode, RewriteRule
from tensat_dl.ops.evaluate import evaluate
from tensat_dl.ops.symbolic import EvaluationError
from tensat_dl.ops.table import OpTable
from tensat_dl.ops.typing import IllTyped, Inference
from tensat_dl.rewrite.conditions import (
    UNMET,
    conjuncts,
    factors_in,
    is_about_ranks,
    values_in,
)
from tensat_dl.rewrite.facts import Facts
from tensat_dl.rewrite.forms import Form, Forms, form_of
from tensat_dl.rewrite.source import Prefix, Variant, choices
from tensat_dl.rewrite.target import type_target


class Assignments:
    """The variants of one rule. Every assignment is looked at once, however often more forms are known."""

    def __init__(self, rule: RewriteRule, infer: Inference) -> None:
        self._rule = rule
        self._ops = infer.table
        self._ranks_only = [c for c in rule.conditions if is_about_ranks(c)]
        # The source of a group rule is matched for one member at a time: lists of one element, index 0.
        self._start = Prefix(rule, infer, Variant({}, {rule.index: 0} if rule.index else {}, {}))
        self._done: set[Prefix] = set()

    def variants(self, forms: Forms) -> list[Variant]:
        """Every assignment under which e-nodes of these forms may be a source that type-checks; marked are those for
        which the rule's conditions or the target's types can't hold: whatever tells them apart from the others has
        to be checked."""
        out = []
        for source in self._sources(self._start, forms):
            if source not in self._done:
                self._done.add(source)
                self._type_target(source)
            out.append(source.variant)
        return out

    def _sources(self, prefix: Prefix, forms: Forms) -> Iterator[Prefix]:
        """The sources that begin like this."""
        if prefix.complete:
            yield prefix
            return
        for choice in choices(prefix.next, prefix.infer, forms, prefix.variant):
            longer = prefix.longer(choice)
            if longer is not None and self._form(prefix.next, longer.variant) in forms:
                yield from self._sources(longer, forms)

    def _form(self, node: PatternNode, variant: Variant) -> Form:
        ranks = [len(variant.types[a].shape) for a in node.args]
        return form_of(self._ops[node.op], ranks, len(variant.types[node.result].shape))

    def _type_target(self, source: Prefix) -> None:
        """Types the target, and finds out what has to be checked."""
        variant, facts = source.variant, Facts()
        try:
            # sooner known than what follows
            if any(evaluate(c, variant.env) is False for c in self._ranks_only):
                raise IllTyped(UNMET)
            facts.add(source.conditions)
            _meet(self._rule, self._ops, variant, facts)
            type_target(self._rule, source.infer, variant, facts)
        except IllTyped as e:
            variant.ill_typed = e.message
        except EvaluationError as e:
            variant.ill_typed = str(e)


def _meet(rule: RewriteRule, ops: OpTable, variant: Variant, facts: Facts) -> None:
    """Adds the rule's own conditions to the guards. Raises `IllTyped` if they can't hold."""
    for expr in rule.conditions:
        condition = evaluate(expr, variant.env)
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
