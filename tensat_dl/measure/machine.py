"""What the pipeline asks of a machine that measures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from tensat_dl.core.egraph import EGraph
from tensat_dl.cost import CostModel
from tensat_dl.cost.priced import PricedGraph
from tensat_dl.measure.outcome import Outcome

#: Told how many of how many measurements are done.
Count = Callable[[int, int], None]


class Machine(Protocol):
    """``rewrites`` tells that the model of an unchanged graph is another one than that which it was read from."""

    rewrites: bool

    def complete(self, model: CostModel, egraph: EGraph, progress: Count, /) -> CostModel:
        """The cost model with a measurement of all that the e-graph has and that can be run by itself."""

    def contest(
        self, original: PricedGraph, candidates: Sequence[PricedGraph], progress: Count, /
    ) -> Outcome:
        """Which of the graphs is the answer, by timing them as a whole."""
