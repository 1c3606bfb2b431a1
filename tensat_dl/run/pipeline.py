"""The pipeline: search (explore, price, extract), rebuild, verify. The CLI and the Python API come through here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tensat_dl.core.egraph import EGraph
from tensat_dl.core.graph import Graph
from tensat_dl.core.progress import Progress
from tensat_dl.core.rule import RewriteRule
from tensat_dl.cost import CostModel, PricedGraph
from tensat_dl.engine.types import Limits
from tensat_dl.extract.rebuild import rebuild
from tensat_dl.extract.types import Limits as ExtractLimits
from tensat_dl.extract.types import check_method
from tensat_dl.fuse.unfuse import unfused
from tensat_dl.measure.machine import Machine
from tensat_dl.measure.outcome import Outcome
from tensat_dl.ops.compose import semantics_of
from tensat_dl.ops.table import OpTable
from tensat_dl.run.growth import reason_to_stop
from tensat_dl.run.result import Result, Times
from tensat_dl.run.search import Found, Setup, Unfit, candidates, search
from tensat_dl.verify.equivalence import compare
from tensat_dl.verify.exact.run import compare_if_small, refuted_by
from tensat_dl.verify.rules import Verdict, verify_rules
from tensat_dl.verify.trust import UNSAMPLED, assumed, on_trust, rules_applied, unsampled
from tensat_dl.why.explain import INTERRUPTED, NoWay, missing, way_between
from tensat_dl.why.steps import Explanation


@dataclass(frozen=True, slots=True)
class Options:
    """How to optimize. Defaults are the command line's. Raises ValueError for an unknown method (`ExtractionError`)
    and for fusion on the CPU, where ONNX Runtime runs graphs with kernels of its own."""

    device: str = "h100"
    limits: Limits = field(default_factory=Limits)
    method: str = "exact"
    extract_limits: ExtractLimits = field(default_factory=ExtractLimits)
    verify: bool = True
    seed: int = 0
    threads: int = 1  #: of a device that this machine measures
    steps: bool = False  #: whether the result says which steps led to it
    fuse: bool = False  #: whether chains of elementwise operators may become single ones

    def __post_init__(self) -> None:
        check_method(self.method)
        if self.fuse and self.device == "cpu":
            raise ValueError(
                "fusion is for GPUs: on the CPU ONNX Runtime runs graphs, with kernels of its own"
            )


def optimize(
    graph: Graph,
    ops: OpTable,
    rules: Sequence[RewriteRule],
    options: Options | None = None,
    progress: Progress | None = None,
    parse_seconds: float = 0.0,
    machine: Machine | None = None,
    unfit: Unfit | None = None,
) -> tuple[Result, EGraph]:
    """The cheapest graph found that computes the same as ``graph``, and the priced e-graph that it is from.

    The answer is never costlier than the input under the device's cost model. What the run found out, the verdicts
    on rules and the comparison of the two graphs included, is in the result; a false rule or a mismatch does not
    raise. Ctrl-C ends the phase that is running, and the best graph found until then is the result.

    With a machine at hand, operators are measured on it, and the answer is what is faster there as a whole, beyond
    noise: one of several candidates, or the input. E-nodes that are ``unfit`` are no part of an answer.
    """
    options = options or Options()
    progress = progress or Progress()
    model = CostModel.of(ops, options.device, options.threads)
    setup = Setup(model, options.limits, options.method, options.extract_limits, machine, options.fuse, unfit)
    found = search(graph, rules, setup, progress, options.steps)
    library, ops = ops, found.model.table
    exploration, egraph, extraction, model = found.exploration, found.egraph, found.extraction, found.model
    progress.phase("extract")
    optimized, used = rebuild(egraph, extraction, graph)
    before, after = model.price_graph(graph), model.price_graph(optimized)
    notes = list(exploration.notes)
    if reason := reason_to_stop(exploration.iterations, exploration.stop, rules, options.limits.k_multi):
        notes.insert(0, reason)
    interrupted = exploration.stop == "interrupted"
    outcome = None
    if machine is not None and (unknown := len(model.unknown(egraph))):
        total = len(model.signatures(egraph))
        notes.append(
            f"{unknown:,} of {total:,} different operators were not measured: their costs are estimates"
        )
    if machine is not None:
        outcome, after, used = _fastest(graph, found, machine, options, progress)
        optimized = after.graph
        interrupted |= outcome is None
        if outcome is None or outcome.reason:
            why = "interrupted before candidates were timed" if outcome is None else outcome.reason
            notes.append(f"{why}: the input is the answer")
    elif after.total >= before.total:
        # A view can cost less in one graph than among all alternatives; a tie is not worth a change either.
        optimized, used, after = graph, {}, before
        notes.append("no graph was found that is cheaper than the input")
    if extraction.interrupted or found.interrupted:
        interrupted = True
        if machine is None or outcome is not None:  # else the input is the answer
            notes.append("interrupted: the cheapest graph extracted until then is used")
    equivalence = exact = None
    verdicts: tuple[Verdict, ...] = ()
    if options.verify:
        progress.phase("verify")
        try:
            applied = rules_applied(rules, exploration.iterations)
            verdicts = unsampled(verify_rules(applied, library, progress=progress.checking))
            notes[:0] = [f"rule {v.rule}: {v.reason}" for v in verdicts if v.reason == UNSAMPLED]
            compared = compare(graph, optimized, semantics_of(ops), options.seed)
            equivalence = on_trust(
                compared, (graph, optimized), exploration.iterations, assumed(rules, library)
            )
            exact = compare_if_small(graph, optimized, ops, options.seed)
            equivalence = refuted_by(equivalence, exact)
        except KeyboardInterrupt:
            interrupted = True
            notes.append("interrupted: the result is not verified")
    steps = None
    if options.steps:
        try:
            apart = unfused(optimized, ops, found.declared)
            steps = _steps(graph, apart, rules, found, options.seed, progress)
        except KeyboardInterrupt:
            steps = Explanation((), INTERRUPTED, True)
        interrupted |= steps.interrupted
    seconds = progress.seconds()
    result = Result(
        device=options.device,
        before=before,
        after=after,
        stop=exploration.stop,
        iterations=exploration.iterations,
        nodes=egraph.num_nodes,
        classes=egraph.num_classes,
        extraction=extraction,
        equivalence=equivalence,
        times=Times(
            parse_seconds,
            seconds["explore"],
            seconds["cost"],
            seconds["extract"],
            seconds.get("verify", 0.0),
            parse_seconds + sum(s for phase, s in seconds.items() if phase != "parse"),
            seconds.get("measure", 0.0),
        ),
        notes=tuple(notes),
        rules_used=tuple(used.items()),
        interrupted=interrupted,
        exact=exact,
        verdicts=verdicts,
        cycles=options.limits.cycles,
        measured=outcome,
        declared=found.declared,
        steps=steps,
    )
    return result, egraph


def _steps(
    before: Graph, after: Graph, rules: Sequence[RewriteRule], found: Found, seed: int, progress: Progress
) -> Explanation:
    """How the rules lead from a graph to the optimized one."""
    if not missing(after, before):
        return Explanation(())
    if found.past is None:
        return Explanation((), INTERRUPTED, True)
    try:
        return way_between(before, after, rules, found.model, *found.past, progress, seed)
    except NoWay as e:
        return Explanation((), e.message)


def _fastest(
    graph: Graph, found: Found, machine: Machine, options: Options, progress: Progress
) -> tuple[Outcome | None, PricedGraph, dict[str, int]]:
    """The fastest of a graph and what was extracted, by timing them as a whole, and the rules used for it. After
    Ctrl-C it is the graph, and there is no outcome."""
    before = found.model.price_graph(graph)
    if found.interrupted:
        return None, before, {}
    entrants: list[tuple[PricedGraph, dict[str, int]]] = []
    seen = {(graph.nodes, graph.outputs)}
    try:
        for extraction in candidates(found, options.method, options.extract_limits):
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
