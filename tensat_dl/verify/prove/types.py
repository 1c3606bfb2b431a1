"""What is proved, and what a proof is."""

from __future__ import annotations

from dataclasses import dataclass

from tensat_dl.ir.graph import Graph
from tensat_dl.result import Stop

#: Both sides of a rule at concrete types and attributes: graphs of the same inputs, with as many outputs.
Pair = tuple[Graph, Graph]


@dataclass(frozen=True, slots=True)
class Goal:
    """A rule to be proved, at some assignments of shapes and attributes; none where no assignment meets its
    conditions."""

    rule: str
    pairs: tuple[Pair, ...]


@dataclass(frozen=True, slots=True)
class Proof:
    """How far a rule was derived.

    ``derived`` counts the assignments at which both sides were found equal. If that is all of them, ``axioms`` are
    the names of rules that do it, of which none can be left out; empty if the search for such rules was cut short.
    Else ``stop`` says why the search ended; None if it never began.
    """

    rule: str
    assignments: int
    derived: int
    axioms: tuple[str, ...]
    stop: Stop | None

    @property
    def complete(self) -> bool:
        return 0 < self.assignments == self.derived


def base(name: str) -> str:
    """A rule's name without the direction: both directions of a ``<=>`` are one rule."""
    return name.removesuffix("-back")
