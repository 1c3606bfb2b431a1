"""What follows once a worker explores: the search in its e-graphs, the answer, its timing and its verification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tensat_dl.beside import core_taken
from tensat_dl.core.egraph import EGraph
from tensat_dl.core.graph import Graph
from tensat_dl.core.progress import Progress
from tensat_dl.core.rule import RewriteRule
from tensat_dl.cost import PricedGraph
from tensat_dl.extract.extraction import Extraction
from tensat_dl.extract.rebuild import rules_used
from tensat_dl.measure.machine import Alone, Machine, Outcome
from tensat_dl.run.beginning import Beginning, Setup, Task
from tensat_dl.run.checked import Checked, notes_on, verified
from tensat_dl.run.growth import reason_to_stop
from tensat_dl.run.result import Result, Rounds, Times
from tensat_dl.run.rounds import Searched, legs, search, steps_along
from tensat_dl.run.search import candidates
from tensat_dl.verify.ahead import Ahead
from tensat_dl.why.steps import INTERRUPTED, Explanation, NoWay, missing

if TYPE_CHECKING:
    from tensat_dl.run.kept_search import KeptSearches, Recalled

#: Said of an answer whose search was not made again.
SEARCHED = "the search is that of an earlier run with the same costs"


@dataclass(frozen=True, slots=True)
class Answer:
    """The input and the optimized graph, and how many nodes of the latter each rule brought."""

    before: PricedGraph
    after: PricedGraph
    used: Mapping[str, int]
    outcome: Outcome | None = None  #: of timing whole graphs; None if that was not asked for, or interrupted
    notes: tuple[str, ...] = ()
    interrupted: bool = False
    extractions: tuple[Extraction, ...] = ()  #: that were timed


def finished(
    task: Task,
    begun: Beginning | Recalled,
    checking: Ahead | None,
    progress: Progress,
    parse_seconds: float,
    explained: bool,
    earlier: KeptSearches | None,
) -> tuple[Result, tuple[EGraph, ...]]:
    """The answer of a search that has begun, or of an ``earlier`` one, and the e-graphs of the rounds that led to it.
    ``checking`` is what is computed ahead for its verification. The worker is gone once the answer is known."""
    graph, ops, rules, options, setup = task.graph, task.ops, task.rules, task.options, task.setup
    told = None if checking is None else checking.answered
    if checking is not None and setup.machine is not None:
        # Whatever runs beside measurements would be measured, too.
        setup, told = replace(setup, machine=Alone(setup.machine, checking.wait)), None
    extractions: tuple[Extraction, ...] | None = None
    if isinstance(begun, Beginning):
        with core_taken():
            found = search(begun, setup, progress, explained, told)
    else:
        found, extractions = begun
    exploration, egraph = found.last.exploration, found.last.egraph
    iterations = found.iterations
    answer = _answer(graph, found, extractions, setup, progress)
    if earlier is not None and extractions is None:
        earlier.keep(options, found, answer.extractions)
    table = found.search.model.table
    checked = (
        verified(graph, answer.after.graph, rules, ops, table, iterations, options, progress, checking)
        if options.verify
        else Checked()
    )
    steps = None
    if explained:
        way = _steps(graph, answer.after.graph, rules, found, options.seed, progress)
        steps = replace(way, name=graph.name, device=options.target)
    bound = reason_to_stop(iterations, exploration.stop, rules, options.k_multi)
    result = Result(
        options=options,
        before=answer.before,
        after=answer.after,
        stop=exploration.stop,
        iterations=iterations,
        nodes=egraph.num_nodes,
        classes=egraph.num_classes,
        extraction=found.last.extraction,
        equivalence=checked.equivalence,
        times=Times.of({**progress.seconds(), "parse": parse_seconds}),
        notes=(
            *task.notes,
            *([] if extractions is None else [SEARCHED]),
            *([bound] if bound else []),
            *dict.fromkeys(note for r in found.rounds for note in r.exploration.notes),
            *answer.notes,
            *notes_on(graph, answer.after.graph, ops, table, answer.used, checked),
        ),
        rules=task.given,
        rules_used=tuple(answer.used.items()),
        interrupted=answer.interrupted or checked.incomplete or (steps is not None and steps.interrupted),
        exact=checked.exact,
        verdicts=checked.verdicts,
        groups=exploration.groups,
        measured=answer.outcome,
        declared=found.search.declared,
        steps=steps,
        rounds=Rounds(found.stops, found.gained, found.ended, found.tried, found.last.whole),
    )
    return result, tuple(r.egraph for r in found.rounds)


def _answer(
    graph: Graph,
    found: Searched,
    extractions: tuple[Extraction, ...] | None,
    setup: Setup,
    progress: Progress,
) -> Answer:
    """The answer that a search found for ``graph``. It is never costlier than the input. The ``extractions`` that may
    be the fastest are looked for, unless they are known."""
    model, machine = found.search.model, setup.machine
    progress.phase("extract")
    before, after = found.search.priced(graph), found.search.priced(found.answer.graph)
    used = rules_used(found.answer.origins)
    notes: list[str] = []
    outcome = None
    if machine is not None:
        if estimated := len(model.unknown_of([found.answer.graph])):
            operators = f"{estimated:,} different operators" if estimated > 1 else "an operator"
            notes.append(f"the cheapest graph has {operators} whose costs are estimates")
        after, used = before, {}
        with suppress(KeyboardInterrupt):
            if not found.interrupted:
                if extractions is None:
                    limits, solved = setup.extract_limits, found.search.solved
                    extractions = tuple(candidates(found.last, setup.method, limits, solved))
                outcome, after, used = _fastest(graph, found, extractions, machine, progress)
        if outcome is None or outcome.reason:
            why = "interrupted before candidates were timed" if outcome is None else outcome.reason
            notes.append(f"{why}: the input is the answer")
        if outcome is not None and outcome.best is None and outcome.candidates:
            notes += [f"the cheapest candidate: {c.reason}" for c in outcome.candidates[:1] if c.reason]
    elif not found.gained:
        notes.append("no graph was found that is cheaper than the input")
    untimed = machine is not None and outcome is None
    if found.interrupted and not untimed:  # else the input is the answer
        notes.append("interrupted: the cheapest graph extracted until then is used")
    return Answer(before, after, used, outcome, tuple(notes), untimed or found.interrupted, extractions or ())


def _fastest(
    graph: Graph, found: Searched, extractions: tuple[Extraction, ...], machine: Machine, progress: Progress
) -> tuple[Outcome, PricedGraph, dict[str, int]]:
    """The fastest of a graph and what was extracted, by timing them as a whole, and the rules used for it."""
    model = found.search.model
    before = found.search.priced(graph)
    entrants: list[tuple[PricedGraph, dict[str, int]]] = []
    seen = {(graph.nodes, graph.outputs)}
    for extraction in extractions:
        other, origins = found.last.rebuilt(extraction)
        if (other.nodes, other.outputs) not in seen:
            seen.add((other.nodes, other.outputs))
            entrants.append((model.price_graph(other), rules_used(origins)))
    if machine.rewrites:
        entrants.append((model.price_graph(replace(graph)), {}))
    progress.phase("measure")
    outcome = machine.contest(before, [c for c, _ in entrants], progress.measuring)
    return (outcome, before, {}) if outcome.winner is None else (outcome, *entrants[outcome.winner])


def _steps(
    before: Graph, after: Graph, rules: Sequence[RewriteRule], found: Searched, seed: int, progress: Progress
) -> Explanation:
    """The steps by which the rules lead from a graph to the optimized one."""
    model = found.search.model
    try:
        if not missing(after, before):
            return Explanation(())
        last = found.search.known(after, ("",) * len(after.nodes)).apart
        return steps_along(legs(found.rounds, last), rules, model, progress, seed)
    except NoWay as e:
        return Explanation((), e.message)
    except KeyboardInterrupt:
        return Explanation((), INTERRUPTED, True)
