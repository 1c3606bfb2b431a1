"""The growth brake: a rule that adds many e-nodes in one iteration sits out the next ones, longer each time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

#: More e-nodes than this in one iteration, or this share of those that are allowed in all, are many. Each time that a
#: rule is held back doubles what it may add.
RULE_BUDGET = 4_000
RULE_SHARE = 0.08


@dataclass
class Brake:
    """Which rules sit out, by name. Iterations are numbers."""

    _until: dict[str, int] = field(default_factory=dict)
    _times: Counter[str] = field(default_factory=Counter)

    def sits_out(self, rule: str, number: int) -> int:
        """The iteration until which a rule sits out; 0 if it takes part in this one."""
        until = self._until.get(rule, 0)
        return until if until > number else 0

    def holds(self, number: int) -> bool:
        """Whether any rule sits out an iteration after this one."""
        return any(until > number for until in self._until.values())

    def many(self, rule: str, added: int, allowed: int) -> bool:
        """Whether a rule has added many e-nodes, where so many are allowed in all."""
        return added > max(RULE_BUDGET, int(RULE_SHARE * allowed)) << self._times[rule]

    def hold(self, rule: str, number: int) -> int:
        """Holds a rule back; until which iteration."""
        self._times[rule] += 1
        self._until[rule] = number + 1 + self._times[rule]
        return self._until[rule]
