"""Times whole graphs against the original in ONNX Runtime, and says which one is the answer.

First all take turns, in a few processes, and the best one is picked. Being the best of several makes it look better
than it is. So it meets the original again, in fresh processes without the others, and only these decide.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx_ir as ir

from tensat_dl.apart import Failed, apart
from tensat_dl.cost.environment import Environment
from tensat_dl.cost.priced import PricedGraph
from tensat_dl.ir.graph import Graph
from tensat_dl.lang.diagnostics import TsrError
from tensat_dl.measure.outcome import Candidate, Outcome
from tensat_dl.measure.statistics import Samples, latency, ratio_to_first, rough_ratio
from tensat_dl.onnx.agreement import Incomparable, accepted_inputs, agreement
from tensat_dl.onnx.staging import LARGE, external

#: Processes of the first heat, and of the second: enough to be 99% sure even if one of them says something else.
HEAT, FINAL = 2, 12
#: A process that takes longer is ended.
PATIENCE = 900.0

#: Times models, the original first: by process, by round, the seconds of each.
Timer = Callable[[Sequence[Path], int], Samples]


def contest(
    original: PricedGraph,
    candidates: Sequence[PricedGraph],
    to_model: Callable[[Graph], ir.Model],
    dims: Mapping[str, int],
    environment: Environment,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Outcome:
    """Which of the graphs is the answer.

    They run as what ``to_model`` makes of them, at ``dims``, on random inputs, with as many threads as the
    environment says. ``progress`` is told how many of how many processes are done. Raises OSError.
    """
    threads = int(environment.hardware["threads"])
    with TemporaryDirectory(prefix="tensat-dl-") as name:
        folder = Path(name)
        entrants = [Candidate(c.total) for c in candidates]
        outcome = Outcome(environment, original.total, tuple(entrants))
        try:
            model = to_model(original.graph)
            first = _save(model, folder / "original")
            feeds = accepted_inputs(model, str(first), dims, seed)
        except (TsrError, Incomparable) as e:
            return replace(outcome, reason=f"the original can't be timed: {_said(e)}")
        np.savez(folder / "feeds.npz", allow_pickle=False, **feeds)
        paths: dict[int, Path] = {}
        errors: dict[int, float] = {}
        for i, candidate in enumerate(candidates):
            try:
                path = _save(to_model(candidate.graph), folder / f"candidate-{i}")
            except TsrError as e:
                entrants[i] = replace(entrants[i], reason=_said(e))
                continue
            found = agreement(model, str(first), str(path), dims, seed)
            if found.status == "agrees":
                paths[i], errors[i] = path, found.max_rel
            else:
                entrants[i] = replace(entrants[i], reason=found.message)
        total = HEAT * (len(paths) > 1) + FINAL
        done = 0

        def timer(models: Sequence[Path], processes: int) -> Samples:
            nonlocal done
            samples = []
            for _ in range(processes):
                progress(done, total)
                samples.append(_process(models, folder / "feeds.npz", threads))
                done += 1
            return samples

        try:
            return decide(outcome, entrants, first, paths, errors, timer)
        except Failed as e:
            return replace(outcome, candidates=tuple(entrants), reason=f"timing failed: {e}")


def decide(
    outcome: Outcome,
    entrants: list[Candidate],
    original: Path,
    paths: Mapping[int, Path],
    errors: Mapping[int, float],
    timer: Timer,
) -> Outcome:
    """The outcome, given the candidates that compute the same as the original, by position, and how to time."""
    if not paths:
        reason = "no candidate could be compared" if entrants else "no other graph was found"
        return replace(outcome, candidates=tuple(entrants), reason=reason)
    best = next(iter(paths))
    if len(paths) > 1:
        heat = timer([original, *paths.values()], HEAT)
        for k, i in enumerate(paths, 1):
            entrants[i] = replace(entrants[i], ratio=rough_ratio(heat, k))
        best = min(paths, key=lambda i: entrants[i].ratio or 1.0)
    final = timer([original, paths[best]], FINAL)
    ratio = ratio_to_first(final, 1)
    faster = ratio.high < 1
    return replace(
        outcome,
        candidates=tuple(entrants),
        best=best,
        reason="" if faster else "no candidate is faster beyond noise",
        before=latency(final, 0),
        after=latency(final, 1),
        ratio=ratio,
        max_rel=errors[best],
    )


def _said(e: Exception) -> str:
    """An error in a few words."""
    return e.diagnostics[0].message if isinstance(e, TsrError) else str(e)


def _save(model: ir.Model, folder: Path) -> Path:
    folder.mkdir()
    path = folder / "model.onnx"
    if external(model):
        ir.save(model, path, external_data="model.onnx.data", size_threshold_bytes=LARGE)
    else:
        ir.save(model, path)
    return path


def _process(models: Sequence[Path], feeds: Path, threads: int) -> Sequence[Sequence[float]]:
    """Times models in a fresh process. Raises `Failed`."""
    function = "tensat_dl.measure.process:time_models"
    answer = apart(function, PATIENCE, models=[str(p) for p in models], feeds=str(feeds), threads=threads)
    if "error" in answer:
        raise Failed(answer["error"])
    samples: list[list[float]] = answer["samples"]
    return samples
