"""The operators that are measured: those that a cheapest graph might have.

An e-graph has many times the operators of any answer, and measuring them would take longer than the search. So an
answer is asked for at prices that favour what is not measured yet: it costs `HOPE` of its estimate. What that answer
has is measured, and the next one is asked for, until an answer has nothing new. What was left out is in no cheaper
graph then, as far as the extraction finds it, unless it takes less than that part of its estimate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from tensat_dl.core.egraph import EGraph
from tensat_dl.core.graph import Graph
from tensat_dl.cost import CostModel
from tensat_dl.cost.signature import Signature
from tensat_dl.measure.machine import Count, Machine

#: The part of its estimate that an operator might take.
HOPE = 0.5


def measure_needed(
    model: CostModel,
    machine: Machine,
    egraph: EGraph,
    start: Graph,
    known: Iterable[Graph],
    cheapest: Callable[[EGraph], Graph],
    progress: Count,
) -> CostModel:
    """The cost model with measurements of what the ``known`` graphs have and the ``start`` of the exploration, and of
    what a cheapest graph of an e-graph without prices might have. ``cheapest`` finds such a graph in a priced
    e-graph. Raises what measuring raises, KeyboardInterrupt too."""

    def measured(signatures: Sequence[Signature]) -> CostModel:
        return replace(machine.measure(model, signatures, progress), tried=model.tried.union(signatures))

    if machine.all_at_once:
        wanted = {s: None for sized in model.at_all_sizes(egraph, start) for s in model.unknown(sized)}
        return measured(list(wanted))
    model = measured(untried(model, [start, *known]))
    while True:
        hopeful = replace(model, unmeasured_share=HOPE)
        graph = cheapest(hopeful.mean_price(egraph, start)[0])
        if not (missing := untried(model, [graph])):
            return model
        model = measured(missing)


def untried(model: CostModel, graphs: Iterable[Graph]) -> list[Signature]:
    """What graphs have that is not measured, and that nobody tried to measure."""
    return [s for s in model.unknown_of(graphs) if s not in model.tried]
