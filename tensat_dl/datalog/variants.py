"""The rank-specialised variants of a rule: what is known, what must be checked, what the target's attributes are.

egglog has no loops over lists, so a rule about tensors of any rank is compiled once for each assignment of ranks
(and of axes) under which both sides type-check. The operators' own declarations decide: the source's constraints
become facts, the target's constraints become guards unless they follow from the facts. Which assignments are worth
looking at is known from the forms that e-nodes may have (`forms.py`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

from tensat_dl.datalog.conditions import (
    UNMET,
    conjuncts,
    factors_in,
    is_about_ranks,
    values_in,
    with_facts,
    words,
)
from tensat_dl.datalog.facts import Facts
from tensat_dl.datalog.forms import Form, Forms, form_of
from tensat_dl.datalog.source import Choice, Variant, choices, extend
from tensat_dl.datalog.target import type_target
from tensat_dl.ir.rule import RewriteRule
from tensat_dl.ops.evaluate import evaluate
from tensat_dl.ops.symbolic import Condition, EvaluationError
from tensat_dl.ops.table import OpTable
from tensat_dl.ops.typing import IllTyped, Inference


@dataclass
class _State:
    """What an assignment to the first nodes of a source makes of them, and what it can be continued to."""

    variant: Variant
    conditions: list[Condition]  #: under which these nodes are well-typed
    below: dict[Hashable, _State | None] = field(default_factory=dict)
    complete: bool = False  #: whether the variant says what becomes of the target


class Assignments:
    """The variants of one rule. Every assignment is looked at once, however often more forms are known."""

    def __init__(self, rule: RewriteRule, infer: Inference) -> None:
        self._rule = rule
        self._infer = infer
        self._ranks_only = [c for c in rule.conditions if is_about_ranks(c)]
        # The source of a group rule is matched for one member at a time: lists of one element, index 0.
        self._start = _State(Variant({}, {rule.index: 0} if rule.index else {}, {}), [])

    def variants(self, forms: Forms) -> list[Variant]:
        """Every assignment under which e-nodes of these forms may be a source that type-checks; marked are those for
        which the rule's conditions or the target's types can't hold: whatever tells them apart from the others has
        to be checked."""
        out = []
        for state in self._sources(self._start, 0, forms):
            if not state.complete:
                self._complete(state)
            out.append(state.variant)
        return out

    def _sources(self, state: _State, i: int, forms: Forms) -> Iterator[_State]:
        """The states with all nodes of the source from node i on."""
        nodes = self._rule.source.nodes
        if i == len(nodes):
            yield state
            return
        for choice in choices(nodes[i], self._infer, forms, state.variant):
            key = tuple(choice.items())
            if key not in state.below:
                state.below[key] = self._extended(state, i, choice)
            more = state.below[key]
            if more is not None and self._form(i, more.variant) in forms:
                yield from self._sources(more, i + 1, forms)

    def _extended(self, state: _State, i: int, choice: Choice) -> _State | None:
        found = extend(self._rule, self._rule.source.nodes[i], choice, self._infer, state.variant)
        return None if found is None else _State(found[0], state.conditions + found[1])

    def _form(self, i: int, variant: Variant) -> Form:
        node = self._rule.source.nodes[i]
        ranks = [len(variant.types[a].shape) for a in node.args]
        return form_of(self._infer.table[node.op], ranks, len(variant.types[node.result].shape))

    def _complete(self, state: _State) -> None:
        """Types the target, and finds out what has to be checked."""
        variant, facts = state.variant, Facts()
        state.complete = True
        try:
            # sooner known than what follows
            if any(evaluate(c, variant.env) is False for c in self._ranks_only):
                raise IllTyped(UNMET)
            facts.add(state.conditions)
            _meet(self._rule, self._infer.table, variant, facts)
            type_target(self._rule, self._infer, variant, facts)
        except IllTyped as e:
            variant.ill_typed = e.message
        except EvaluationError as e:
            variant.ill_typed = str(e)


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
