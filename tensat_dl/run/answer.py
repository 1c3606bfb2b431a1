"""The answer of a run: the cheapest graph that was found, the fastest one if graphs are timed, or the input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tensat_dl.core.graph import Graph
from tensat_dl.core.progress import Progress
from tensat_dl.cost import PricedGraph
from tensat_dl.extract.rebuild import rebuild
from tensat_dl.measure.machine import Machine
from tensat_dl.measure.outcome import Outcome
from tensat_dl.run.search import Found, Setup, candidates


@dataclass(frozen=True, slots=True)
class Answer:
    """The input and the optimized graph, and how many nodes of the latter each rule brought."""

    before: PricedGraph
    after: PricedGraph
    used: Mapping[str, int]
    outcome: Outcome | None = None  #: of timing whole graphs; None if that was not asked for, or interrupted
    notes: tuple[str, ...] = ()
    interrupted: bool = False


def answer_of(graph: Graph, found: Found, setup: Setup, progress: Progress) -> Answer:
    """What a search for graphs that compute the same as ``graph`` leads to. It is never costlier than the input."""
    model, extraction, machine = found.model, found.extraction, setup.machine
    progress.phase("extract")
    optimized, used = rebuild(found.egraph, extraction, graph)
    before, after = model.price_graph(graph), model.price_graph(optimized)
    notes: list[str] = []
    outcome = None
    if machine is not None:
        if unknown := len(model.unknown(found.egraph)):
            total = len(model.signatures(found.egraph))
            notes.append(
                f"{unknown:,} of {total:,} different operators were not measured: their costs are estimates"
            )
        outcome, after, used = _fastest(graph, found, setup, machine, progress)
        if outcome is None or outcome.reason:
            why = "interrupted before candidates were timed" if outcome is None else outcome.reason
            notes.append(f"{why}: the input is the answer")
    elif after.total >= before.total:
        # A view can cost less in one graph than among all alternatives; a tie is not worth a change either.
        used, after = {}, before
        notes.append("no graph was found that is cheaper than the input")
    untimed = machine is not None and outcome is None
    cut_short = extraction.interrupted or found.interrupted
    if cut_short and not untimed:  # else the input is the answer
        notes.append("interrupted: the cheapest graph extracted until then is used")
    return Answer(before, after, used, outcome, tuple(notes), untimed or cut_short)


def _fastest(
    graph: Graph, found: Found, setup: Setup, machine: Machine, progress: Progress
) -> tuple[Outcome | None, PricedGraph, dict[str, int]]:
    """The fastest of a graph and what was extracted, by timing them as a whole, and the rules used for it. After
    Ctrl-C it is the graph, and there is no outcome."""
    before = found.model.price_graph(graph)
    if found.interrupted:
        return None, before, {}
    entrants: list[tuple[PricedGraph, dict[str, int]]] = []
    seen = {(graph.nodes, graph.outputs)}
    try:
        for extraction in candidates(found, setup.method, setup.extract_limits):
            other, used = rebuild(found.egraph, extraction, graph)
            if (other.nodes, other.outputs) not in seen:
                seen.add((other.nodes, other.outputs))
                entrants.append((found.model.price_graph(other), used))
        if machine.rewrites:
            entrants.append((found.model.price_graph(replace(graph)), {}))
        progress.phase("measure")
        outcome = machine.contest(before, [c for c, _ in entrants], progress.measuring)
    except KeyboardInterrupt:
        return None, before, {}
    return (outcome, before, {}) if outcome.winner is None else (outcome, *entrants[outcome.winner])
