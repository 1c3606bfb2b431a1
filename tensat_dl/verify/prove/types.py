"""What is proved, and what a proof is."""

from __future__ import annotations

from dataclasses import dataclass

from tensat_dl.core.graph import Graph
from tensat_dl.engine.iterations import Stop

#: Both sides of a rule at concrete types and attributes: graphs of the same inputs, with as many outputs.
Pair = tuple[Graph, Graph]


@dataclass(frozen=True, slots=True)
class Goal:
    """A rule to be proved, at some assignments of shapes and attributes; none where no assignment meets its
    conditions."""

    rule: str
    declared: str  #: the name of the rule that this is a direction of
    pairs: tuple[Pair, ...]


@dataclass(frozen=True, slots=True)
class Proof:
    """How far a rule was derived: ``equal`` are the assignments, by position, at which both sides were found equal.

    If these are all, ``axioms`` are names of rules that do it, each of them needed at some assignment; empty if the
    search for them was cut short. Else ``stop`` says why the search for the first of the others ended.
    """

    goal: Goal
    equal: frozenset[int]
    axioms: tuple[str, ...]
    stop: Stop | None

    @property
    def derived(self) -> bool:
        return 0 < len(self.goal.pairs) == len(self.equal)

    @property
    def missed(self) -> Pair | None:
        """The first assignment at which the sides were not found equal."""
        return next((pair for i, pair in enumerate(self.goal.pairs) if i not in self.equal), None)
