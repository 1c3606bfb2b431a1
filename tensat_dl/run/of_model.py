"""Optimizes a model: its graph, at the sizes of its open dimensions, on the machine that is asked for; with buckets
also for each of several sizes alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tensat_dl.core.egraph import EGraph
from tensat_dl.core.progress import Progress
from tensat_dl.core.rule import RewriteRule
from tensat_dl.run.machines import machine_of
from tensat_dl.run.model import Model
from tensat_dl.run.options import Options, sizes_of
from tensat_dl.run.pipeline import optimize
from tensat_dl.sizes.dim_sizes import mixed_dim

if TYPE_CHECKING:
    from tensat_dl.run.result import Result


def check_fit(model: Model, options: Options) -> None:
    """Raises ValueError for options that are not for such a model."""
    sizes_of(model.onnx, options)
    if options.buckets:
        mixed_dim(model.dims)


def optimize_model(
    model: Model,
    options: Options,
    progress: Progress | None = None,
    *,
    rules: Sequence[RewriteRule] | None = None,
    explained: bool = False,
    parse_seconds: float = 0.0,
) -> tuple[Result, tuple[EGraph, ...]]:
    """What `tensat_dl.run.pipeline.optimize` finds for a model, by the model's rules or by others. If buckets are
    asked for, the result has them; where one graph is enough, that is the answer. After Ctrl-C it has none."""
    check_fit(model, options)
    progress = progress or Progress()
    given = model.rules if rules is None else rules
    result, egraphs = _at_its_sizes(model, options, given, progress, explained, parse_seconds)
    if not options.buckets or result.interrupted:
        return result, egraphs
    from tensat_dl.run.buckets import find_buckets  # with the packages for ONNX models
    from tensat_dl.run.refused import refusal

    if refusal(result, model.program.own_rules) is not None:
        return result, egraphs

    def alone(one: Model) -> Result:
        return _at_its_sizes(one, replace(result.options, buckets=False), result.rules, progress)[0]

    try:
        buckets = find_buckets(model, result, alone, progress)
    except KeyboardInterrupt:
        note = "interrupted: the answer for all sizes is used, without buckets"
        return replace(result, interrupted=True, notes=(*result.notes, note)), egraphs
    if len(buckets.parts) == 1:
        result = replace(buckets.parts[0].result, options=options)
    return replace(result, buckets=buckets), egraphs


def _at_its_sizes(
    model: Model,
    options: Options,
    rules: Sequence[RewriteRule],
    progress: Progress,
    explained: bool = False,
    parse_seconds: float = 0.0,
) -> tuple[Result, tuple[EGraph, ...]]:
    """The answer for all sizes of the model together."""
    machine = machine_of(options, model.graph, model.ops, model.onnx)
    earlier = None
    if machine is not None and model.onnx is not None and rules == model.rules:
        from tensat_dl.run.kept_search import KeptSearches

        earlier = KeptSearches.of(model.onnx, options, machine)
    return optimize(
        model.graph,
        model.ops,
        rules,
        options,
        progress=progress,
        parse_seconds=parse_seconds,
        machine=machine,
        unfit=model.unfit,
        explained=explained,
        sizes=sizes_of(model.onnx, options),
        opened=model.opened,
        earlier=earlier,
    )
