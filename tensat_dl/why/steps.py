"""The chain of steps from a graph to another, as data."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Literal

from tensat_dl.core.graph import Graph, TensorType, value_numbers
from tensat_dl.core.rule import RewriteRule
from tensat_dl.core.shown import Shown
from tensat_dl.core.words import plural
from tensat_dl.cost.model import PricedGraph

#: The result of evaluating a step: "assumed" for rules about operators of which only the types are known.
Verdict = Literal["equal", "assumed", "inconclusive", "different"]

#: Why a chain ends early that Ctrl-C has ended.
INTERRUPTED = "interrupted"


class NoWay(Exception):
    """The search for a way from one graph to the other cannot begin. ``message`` says why."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


@dataclass(frozen=True, slots=True)
class Step:
    """One application of a rule. ``before`` and ``after`` are whole graphs, ``sides`` the two sides of the rule as
    graphs of the tensors that it was applied to. ``at`` names the tensors that are replaced.

    ``before`` is the ``after`` of the step before, unless ``turned`` names tensors for which an equal node was chosen
    again. None where there is no such graph: the step is one between its sides alone then.
    """

    rule: RewriteRule
    members: int
    at: tuple[tuple[str, TensorType], ...]
    sides: tuple[Graph, Graph]
    before: Graph | None
    after: Graph | None
    turned: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Explained:
    """A step, the sides of its rule with what they cost, the whole graph before and after it with what it costs, and
    whether both sides compute the same on the tensors of this step: exactly, or as far as float64 tells. ``whole`` is
    None where the step has no graphs."""

    step: Step
    sides: tuple[PricedGraph, PricedGraph]
    whole: tuple[PricedGraph, PricedGraph] | None
    verdict: Verdict
    message: str
    exactly: bool

    @property
    def cost(self) -> tuple[float, float] | None:
        """The costs of the whole graph before and after it, in milliseconds."""
        return None if self.whole is None else (self.whole[0].total, self.whole[1].total)


@dataclass(frozen=True, slots=True, repr=False)
class Explanation(Shown):
    """Steps from a graph to another, as far as they are known: ``unfinished`` says why they end before it, and is ""
    where they reach it. ``interrupted``: by Ctrl-C, after which what was known is kept. ``name`` is the graph's, and
    costs are for ``device``."""

    steps: tuple[Explained, ...]
    unfinished: str = ""
    interrupted: bool = False
    name: str = ""
    device: str = ""

    def __repr__(self) -> str:
        return f"<Explanation of {self.name}: {len(self.steps)} {plural(len(self.steps), 'step')}>"


def missing(after: Graph, before: Graph) -> bool:
    """Whether the second graph has an output that is not the first graph's already."""
    numbers: dict[Hashable, int] = {}
    first, second = (value_numbers(graph, numbers) for graph in (before, after))
    return [first[i] for _, i in before.outputs] != [second[i] for _, i in after.outputs]
