"""The pipeline: a worker explores, and the rest is imported meanwhile; then all else. The command line and the Python
API come through here."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from tensat_dl.core.egraph import EGraph
from tensat_dl.core.graph import Graph
from tensat_dl.core.progress import Progress
from tensat_dl.core.rule import RewriteRule
from tensat_dl.ops.table import OpTable
from tensat_dl.run.beginning import Setup, Task, Unfit, beginning
from tensat_dl.run.options import Options
from tensat_dl.sizes.answers import OtherSizes
from tensat_dl.sizes.named import OpenGraph
from tensat_dl.sizes.resized import Resized

if TYPE_CHECKING:
    from tensat_dl.measure.machine import Machine
    from tensat_dl.run.kept_search import KeptSearches
    from tensat_dl.run.result import Result
    from tensat_dl.why.steps import Explanation


def optimize(
    graph: Graph,
    ops: OpTable,
    rules: Sequence[RewriteRule],
    options: Options | None = None,
    *,
    progress: Progress | None = None,
    parse_seconds: float = 0.0,
    machine: Machine | None = None,
    unfit: Unfit | None = None,
    explained: bool = False,
    sizes: tuple[Resized | None, ...] = (),
    opened: OpenGraph | None = None,
    earlier: KeptSearches | None = None,
) -> tuple[Result, tuple[EGraph, ...]]:
    """The cheapest graph found that computes the same as ``graph``, and the priced e-graphs of the rounds that led to
    it: it is from the last.

    The answer is never costlier than the input under the device's cost model. The result has the verdicts on rules,
    the comparison of the two graphs and, if it is to be ``explained``, the steps that led to it; a false rule or a
    mismatch does not raise. Where rounding alone makes the answer another, it is one by rules that keep roundings.
    Ctrl-C ends the phase that is running, and the best graph found until then is the result.

    With a machine, operators are measured on it, and several candidates are timed there as a whole: the answer is a
    candidate that is faster than the input beyond noise, or else the input. E-nodes that are ``unfit`` are no part of
    an answer. With ``sizes`` of open dimensions, costs are means over these. The answer to a graph that is ``opened``
    holds at all sizes of its names. What an ``earlier`` run found is timed and checked again, not searched for,
    unless it is to be explained.
    """
    earlier = None if explained else earlier
    options = options or Options()
    progress = progress or Progress()
    other = None if opened is None else OtherSizes(opened, ops)
    setup = Setup.of(options, graph, rules, ops, machine, unfit if other is None else other.fixed, sizes)
    result, egraphs = _optimized(
        graph, ops, rules, options, setup, progress, parse_seconds, explained, earlier
    )
    from tensat_dl.run.refused import rounded_apart

    if options.reassociate and (apart := rounded_apart(result)):
        keeping = replace(options, reassociate=False)
        result, egraphs = _optimized(
            graph, ops, rules, keeping, setup, progress, parse_seconds, explained, earlier
        )
        note = f"{apart}: rules that change how results are rounded were left out"
        result = replace(result, notes=(*result.notes, note))
    if other is not None:
        from tensat_dl.fuse.fuse import extended
        from tensat_dl.run.named_sizes import settled

        model = replace(setup.model, table=extended(ops, result.declared))
        result = settled(result, other, model, progress)
    return result, egraphs


def _optimized(
    graph: Graph,
    ops: OpTable,
    rules: Sequence[RewriteRule],
    options: Options,
    setup: Setup,
    progress: Progress,
    parse_seconds: float,
    explained: bool,
    earlier: KeptSearches | None,
) -> tuple[Result, tuple[EGraph, ...]]:
    """The answer at the given sizes, and the e-graphs of the rounds that led to it."""
    given = tuple(rules)
    rules, false = _relied_on(rules, ops, options, progress)
    task = Task(graph, ops, given, rules, false, options, setup)
    if options.search != "saturation":
        from tensat_dl.run.sequential import optimize_graph_by_graph

        return optimize_graph_by_graph(task, progress, parse_seconds, explained)
    known = earlier.recalled(options, setup, progress) if earlier is not None else None
    with nullcontext(known) if known is not None else beginning(graph, rules, setup, progress) as begun:
        # What comes next is imported while the worker explores, and the input is run.
        from tensat_dl.verify.ahead import ahead

        with ahead(graph, ops, options.seed) if options.verify else nullcontext() as checking:
            from tensat_dl.run.finish import finished

            return finished(task, begun, checking, progress, parse_seconds, explained, earlier)


def _relied_on(
    rules: Sequence[RewriteRule], ops: OpTable, options: Options, progress: Progress
) -> tuple[tuple[RewriteRule, ...], tuple[str, ...]]:
    """The rules that a run may use, and notes about others. Most runs examine none before they use them."""
    if options.any_rules:
        return tuple(rules), ()
    from tensat_dl.run.checked import relied_on

    return relied_on(rules, ops, options, progress)


def explain(
    graph: Graph,
    after: Graph,
    ops: OpTable,
    rules: Sequence[RewriteRule],
    options: Options,
    progress: Progress | None = None,
    unfit: Unfit | None = None,
    sizes: tuple[Resized | None, ...] = (),
) -> Explanation:
    """The steps by which a run with these options found ``after``, without fused operators: it searches again."""
    from tensat_dl.run.rounds import search_again
    from tensat_dl.why.steps import Explanation, NoWay

    progress = progress or Progress()
    rules, _ = _relied_on(rules, ops, options, progress)
    setup = Setup.of(options, graph, rules, ops, unfit=unfit, sizes=sizes)
    try:
        if options.search != "saturation":
            from tensat_dl.run.sequential import walk_again

            return replace(
                walk_again(graph, after, rules, setup, options, progress),
                name=graph.name,
                device=options.target,
            )
        found = search_again(graph, after, rules, setup, progress)
    except NoWay as e:
        found = Explanation((), e.message)
    return replace(found, name=graph.name, device=options.target)
