"""Times several graphs as a whole in ONNX Runtime, in turn, in fresh processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from tensat_dl.apart import Failed
from tensat_dl.core.diagnostics import Diagnostic, TsrError
from tensat_dl.core.graph import Graph
from tensat_dl.cost import CostModel
from tensat_dl.measure.contest import time_in_fresh_process
from tensat_dl.measure.runnable import reference
from tensat_dl.measure.side_by_side import STARTS, TimedRow
from tensat_dl.measure.statistics import latency, ratio_to_first
from tensat_dl.onnx.agreement import Incomparable, Reference
from tensat_dl.onnx.fresh import build, random_weights
from tensat_dl.onnx.importer import Imported
from tensat_dl.onnx.staging import save
from tensat_dl.ops.table import OpTable
from tensat_dl.verify.weights import draw_values


@dataclass(frozen=True, slots=True)
class TimedModel:
    """A graph with the file that it is from, and the model if that is one: then this is what runs."""

    path: str
    graph: Graph
    ops: OpTable
    model: Imported | None = None


def compare(
    entries: Sequence[TimedModel], threads: int, seed: int, progress: Callable[[int, int], None]
) -> list[TimedRow]:
    """A row for each. Graphs share weights of the same name. What computes something else than the first one is not
    timed. Raises `TsrError` if the first one can't be run, `ProfileError`."""
    rows = [TimedRow(CostModel.of(e.ops, "cpu", threads).price_graph(e.graph).total) for e in entries]
    with TemporaryDirectory(prefix="tensat-dl-") as name:
        folder = Path(name)
        try:
            first = _reference(entries[0], folder, seed)
        except Incomparable as e:
            raise _error(entries[0], str(e)) from None
        np.savez(folder / "feeds.npz", allow_pickle=False, **first.feeds)
        paths = {0: Path(first.path)}
        for i, entry in enumerate(entries[1:], 1):
            try:
                path = _path(entry, entries[0], folder / f"{i}.onnx", seed)
            except (TsrError, ValueError) as e:
                reason = e.diagnostics[0].message if isinstance(e, TsrError) else str(e)
                rows[i] = replace(rows[i], reason=reason)
                continue
            if len(entry.graph.outputs) != len(entries[0].graph.outputs):
                rows[i] = replace(rows[i], reason="it has another number of outputs")
                continue
            found = first.check(str(path), sizes=False)
            reason = found.message.replace("the optimized model", "it")
            rows[i] = replace(rows[i], error=found.max_rel, reason=reason)
            if found.status == "agrees":
                paths[i] = path
        samples = []
        for start in range(STARTS):
            progress(start, STARTS)
            turns, backwards = list(paths.values()), start % 2 == 1
            try:
                samples.append(time_in_fresh_process(turns, folder / "feeds.npz", threads, backwards))
            except Failed as e:
                raise _error(entries[0], f"it can't be timed: {e}") from None
    for k, i in enumerate(paths):
        ratio = ratio_to_first(samples, k) if k else None
        rows[i] = replace(rows[i], latency=latency(samples, k), ratio=ratio)
    return rows


def _reference(entry: TimedModel, folder: Path, seed: int) -> Reference:
    """What the others are compared with. Raises `Incomparable`, `TsrError`."""
    if entry.model is not None:
        return reference(entry.model, seed)
    model = build(entry.graph, entry.ops, random_weights(entry.graph, seed))
    return Reference(model, str(save(model, folder / "0.onnx")), {}, seed)


def _path(entry: TimedModel, first: TimedModel, path: Path, seed: int) -> Path:
    """The model to run. Raises `TsrError` for a graph that ONNX has no operators for, ``ValueError`` if it has a
    weight of another type than the first graph."""
    if entry.model is not None:
        return Path(entry.model.path)
    values = draw_values([e.graph for e in (first, entry) if e.model is None], seed, {})
    return save(build(entry.graph, entry.ops, values.__getitem__), path)


def _error(entry: TimedModel, message: str) -> TsrError:
    return TsrError([Diagnostic(message, None, path=entry.path)])
