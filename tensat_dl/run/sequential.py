"""The pipeline of a search graph by graph: search, measure, verify, explain."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tensat_dl.baselines.backtracking import Backtracking
from tensat_dl.baselines.costs import Complete
from tensat_dl.baselines.sampling import Sampling
from tensat_dl.baselines.steps import steps_of
from tensat_dl.baselines.walk import Fits, Limit, Walk
from tensat_dl.core.egraph import EGraph, NodeKey, without_choices
from tensat_dl.core.graph import Graph, TensorType
from tensat_dl.core.progress import Progress
from tensat_dl.core.rule import RewriteRule
from tensat_dl.cost import CostModel, PricedGraph
from tensat_dl.engine.exploration import Iteration, RuleStats
from tensat_dl.extract.extraction import Extraction
from tensat_dl.extract.rebuild import rules_used
from tensat_dl.measure.machine import Outcome
from tensat_dl.run.beginning import Setup, Task, Unfit
from tensat_dl.run.checked import Checked, notes_on, verified
from tensat_dl.run.options import Options
from tensat_dl.run.result import Result, Rounds, Times
from tensat_dl.run.rounds import aligned
from tensat_dl.why.steps import INTERRUPTED, Explanation, missing
from tensat_dl.why.way import evaluated


def optimize_graph_by_graph(
    asked: Task, progress: Progress, parse_seconds: float, explained: bool
) -> tuple[Result, tuple[EGraph, ...]]:
    """The result of such a search, and the answer as an e-graph without choices."""
    graph, options = asked.graph, asked.options
    walk = walked(graph, asked.rules, asked.setup, options, progress)
    model, interrupted = walk.costs.model, walk.stop == "interrupted"
    before, after = model.price_graph(graph), model.price_graph(walk.store.graph(walk.outputs))
    used = rules_used(walk.store.origin[n] for n in walk.store.order(walk.outputs))
    notes = [*asked.notes]
    if walk.best.before is None:
        after, used = before, {}
        notes.append("no graph was found that is cheaper than the input")
    outcome: Outcome | None = None
    if asked.setup.machine is not None:
        outcome, after, used, note = _contest(before, after, used, asked.setup, interrupted, progress)
        notes += note
    if interrupted:
        notes.append("interrupted: the cheapest graph found until then is used")
    iterations = (_iteration(walk),)
    resting = (_iteration(walk, Counter(sub.rule.name for sub in walk.best.chain())),)
    table = model.table
    checked = (
        verified(graph, after.graph, asked.rules, asked.ops, table, resting, options, progress)
        if options.verify
        else Checked()
    )
    steps = None
    if explained:
        same = not missing(after.graph, graph)
        steps = Explanation(()) if same else _explained(walk, asked.rules, model, options.seed, progress)
        steps = replace(steps, name=graph.name, device=options.target)
    notes += notes_on(graph, after.graph, asked.ops, table, used, checked)
    result = Result(
        options=options,
        before=before,
        after=after,
        stop=walk.stop,
        iterations=iterations,
        nodes=len(walk.store),
        classes=len(walk.store),
        extraction=Extraction({}, walk.best.cost, 0.0, "feasible", options.search, walk.seconds, interrupted),
        equivalence=checked.equivalence,
        times=Times.of({**progress.seconds(), "parse": parse_seconds}),
        notes=tuple(notes),
        rules=asked.given,
        rules_used=tuple(used.items()),
        interrupted=interrupted or checked.incomplete or (steps is not None and steps.interrupted),
        exact=checked.exact,
        verdicts=checked.verdicts,
        measured=outcome,
        rounds=Rounds((walk.stop,), int(walk.best.before is not None)),
        trace=walk.trace(options.search),
        steps=steps,
    )
    return result, (model.price(without_choices(after.graph))[0],)


def walked(
    graph: Graph,
    rules: Sequence[RewriteRule],
    setup: Setup,
    options: Options,
    progress: Progress,
    goal: Graph | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Walk:
    """The search that the options ask for. It ends at the ``goal``, if there is one; seconds are the ``clock``'s."""
    progress.phase("explore")
    named: dict[str, Any] = {
        "complete": _completing(setup, progress),
        "fits": None if setup.unfit is None else _fits(graph, setup.unfit),
        "goal": goal,
        "progress": progress.walking,
        "clock": clock,
    }
    limit = Limit(options.iterations, options.time_limit)
    if options.search == "backtracking":
        named |= {"alpha": options.alpha, "split": options.split}
        return Backtracking(graph, rules, setup.model, limit, **named).run()
    return Sampling(graph, rules, setup.model, limit, seed=options.seed, **named).run()


def walk_again(
    before: Graph,
    after: Graph,
    rules: Sequence[RewriteRule],
    setup: Setup,
    options: Options,
    progress: Progress,
) -> Explanation:
    """The steps by which such a search led to ``after``: it searches again until it has that. Raises `NoWay` if the
    two graphs can't be compared."""
    after = aligned(after, before)
    if not missing(after, before):
        return Explanation(())
    walk = walked(before, rules, setup, options, progress, after)
    if walk.store.find(after) != walk.outputs:
        interrupted = walk.stop == "interrupted"
        reason = INTERRUPTED if interrupted else "searching again did not lead to the optimized graph"
        return Explanation((), reason, interrupted)
    return _explained(walk, rules, walk.costs.model, options.seed, progress)


def _explained(
    walk: Walk, rules: Sequence[RewriteRule], model: CostModel, seed: int, progress: Progress
) -> Explanation:
    progress.phase("evaluate")
    steps = list(steps_of(walk, {r.name: r for r in rules}, model.table))
    done, interrupted = evaluated(steps, rules, model, seed, progress.counting)
    return Explanation(done, "", interrupted)


def _iteration(walk: Walk, applied: Counter[str] | None = None) -> Iteration:
    """The search as one iteration: how often each rule matched, and how many graphs it led to."""
    counts = walk.applied if applied is None else applied
    stats = (
        RuleStats(rule, found, counts[rule], 0, 0.0)
        for rule, found in walk.rewriting.matches.items()
        if found
    )
    return Iteration(len(walk.store), len(walk.store), walk.seconds, tuple(stats))


def _completing(setup: Setup, progress: Progress) -> Complete | None:
    machine = setup.machine
    if machine is None:
        return None

    def complete(model: CostModel, egraph: EGraph) -> CostModel:
        progress.phase("measure")
        found = machine.measure(model, model.unknown(egraph), progress.measuring)
        progress.phase("explore")
        return found

    return complete


def _contest(
    before: PricedGraph,
    after: PricedGraph,
    used: dict[str, int],
    setup: Setup,
    interrupted: bool,
    progress: Progress,
) -> tuple[Outcome | None, PricedGraph, dict[str, int], list[str]]:
    """The faster of the two graphs, by timing them as a whole. After Ctrl-C it is the first."""
    machine = setup.machine
    assert machine is not None
    outcome = None
    entrants = [] if after.graph == before.graph else [(after, used)]
    if machine.rewrites:
        entrants.append((replace(before, graph=replace(before.graph)), {}))
    if not interrupted:
        progress.phase("measure")
        try:
            outcome = machine.contest(before, [graph for graph, _ in entrants], progress.measuring)
        except KeyboardInterrupt:
            outcome = None
    if outcome is not None and outcome.winner is not None:
        return outcome, *entrants[outcome.winner], []
    why = "interrupted before candidates were timed" if outcome is None else outcome.reason
    return outcome, before, {}, [f"{why}: the input is the answer"]


def _fits(start: Graph, unfit: Unfit) -> Fits:
    """Whether a graph holds at other sizes of open dimensions: its nodes are put into one e-graph with those of the
    first, in which the outputs of both are equal."""

    def fits(graph: Graph) -> bool:
        index: dict[NodeKey, int] = {}
        keys: list[NodeKey] = []
        types: list[tuple[TensorType, ...]] = []
        known: list[bool] = []

        def classes(g: Graph, merged: dict[int, int]) -> list[int]:
            found: list[int] = []
            for i, (n, weight) in enumerate(zip(g.nodes, g.weights_only(), strict=True)):
                key = n.op, n.attrs, tuple(found[j] for j in n.inputs)
                if key not in index:
                    index[key] = merged.get(i, len(types))
                    keys.append(key)
                    if index[key] == len(types):
                        types.append(n.types)
                        known.append(weight)
                found.append(index[key])
            return found

        first = classes(start, {})
        roots = [first[i] for _, i in start.outputs]
        classes(graph, dict(zip((i for _, i in graph.outputs), roots, strict=True)))
        order = sorted(range(len(keys)), key=lambda k: index[keys[k]])
        place = {keys[k]: at for at, k in enumerate(order)}
        source = [place[n.op, n.attrs, tuple(first[j] for j in n.inputs)] for n in start.nodes]
        egraph = EGraph.of(
            [keys[k] for k in order],
            [index[keys[k]] for k in order],
            types=tuple(types),
            weights_only=known,
            roots=tuple(roots),
            source=source,
        )
        return not unfit(egraph, start).any()

    return fits
