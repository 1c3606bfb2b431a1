"""A rule at one match: its target, typed, as operators on the tensors that the match names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tensat_dl.core.rule import RewriteRule
from tensat_dl.core.types import TensorType
from tensat_dl.engine.targets import Target, target_of
from tensat_dl.ops.table import OpTable
from tensat_dl.ops.typing import Inference
from tensat_dl.rewrite.checks import Known, fact, kind
from tensat_dl.rewrite.groups import instantiate
from tensat_dl.rewrite.source import Variant
from tensat_dl.rewrite.target import concrete

_Kinds = tuple[object, ...]


class Instances:
    """Targets of rules. What depends on types and the like alone is worked out once for all matches alike."""

    def __init__(self, ops: OpTable, known: Known) -> None:
        self.ops = ops
        self.known = known
        self._infer = Inference(ops)
        self._rules: dict[tuple[str, int], RewriteRule] = {}
        self._variants: dict[_Kinds, Variant | None] = {}

    def rule(self, rule: RewriteRule, members: int) -> RewriteRule:
        """A group rule for that many members; another rule as it is."""
        if rule.index is None:
            return rule
        key = rule.name, members
        if key not in self._rules:
            self._rules[key] = instantiate(rule, members)
        return self._rules[key]

    def target(
        self, rule: RewriteRule, names: dict[str, int], attrs: Mapping[str, Any], members: int = 0
    ) -> Target | None:
        """What the rule builds, or None if a condition does not hold or the target would be ill-typed.

        ``names`` has a class for each tensor of the source; those of members are called ``w[0]``, ``w[1]`` and so on.
        """
        one = self.rule(rule, members)
        variant = self.variant(one, names, attrs, members)
        return None if variant is None else target_of(one, names, variant, self.known, self.ops)

    def variant(
        self, rule: RewriteRule, names: Mapping[str, int], attrs: Mapping[str, Any], members: int = 0
    ) -> Variant | None:
        """The typed target of a rule (for so many members)."""
        key = (
            *(rule.name, members, repr(sorted(attrs.items()))),
            *((n, kind(self.known, c)) for n, c in names.items()),
        )
        if key not in self._variants:
            types = {n: self.known.types[c] for n, c in names.items()}
            env = {**lists(types), **attrs}
            self._variants[key] = concrete(
                rule,
                self._infer,
                types,
                env,
                lambda function, tensor: fact(self.known, function, names[tensor]),
            )
        return self._variants[key]


def lists(types: Mapping[str, TensorType]) -> dict[str, tuple[TensorType, ...]]:
    """``w[0]``, ``w[1]``, .. as the list ``w``."""
    found: dict[str, tuple[TensorType, ...]] = {}
    for name, t in types.items():
        base, bracket, _ = name.partition("[")
        if bracket:
            found[base] = (*found.get(base, ()), t)
    return found
