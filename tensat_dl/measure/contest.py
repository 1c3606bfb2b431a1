"""Times whole graphs against the original in ONNX Runtime, each heat in fresh processes (`heats`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from tensat_dl.apart import Failed, apart
from tensat_dl.core.diagnostics import TsrError
from tensat_dl.cost.environment import Environment
from tensat_dl.cost.priced import PricedGraph
from tensat_dl.measure import winner
from tensat_dl.measure.outcome import Candidate, Outcome
from tensat_dl.measure.runnable import Runnable
from tensat_dl.measure.statistics import Samples
from tensat_dl.onnx.agreement import Incomparable
from tensat_dl.onnx.staging import save
from tensat_dl.verify.memory import available

#: A process that takes longer is ended.
PATIENCE = 900.0
#: Bytes that a loaded model takes for each byte of its weights; models of which all fit.
LOADED, MANY = 3, 1000


def contest(
    original: PricedGraph,
    candidates: Sequence[PricedGraph],
    runnable: Runnable,
    environment: Environment,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Outcome:
    """Which of the graphs is the answer, with as many threads as the environment says.

    ``progress`` is told how many of how many processes are done. Whatever keeps graphs from being timed is the
    outcome's reason for the original.
    """
    threads = int(environment.hardware["threads"])
    entrants = [Candidate(c.total) for c in candidates]
    outcome = Outcome(environment, original.total, tuple(entrants))
    if not candidates:
        return replace(outcome, reason="no other graph was found")
    # While models are timed, the original is loaded to compare with, and again to be timed.
    most = room(original.weight_bytes) - 2
    if most < 1:
        return replace(outcome, reason="there is not enough memory to time graphs of this size")
    with TemporaryDirectory(prefix="tensat-dl-") as name:
        folder = Path(name)
        try:
            reference = runnable.reference(folder)
            np.savez(folder / "feeds.npz", allow_pickle=False, **reference.feeds)
        except (TsrError, Incomparable, OSError) as e:
            return replace(outcome, reason=f"the original can't be timed: {_said(e)}")
        paths: dict[int, Path] = {}
        for i, candidate in enumerate(candidates):
            if len(paths) == most:
                entrants[i] = replace(entrants[i], reason="there is no memory left to time it")
                continue
            try:
                path = save(runnable.model(candidate.graph), folder / f"candidate-{i}.onnx")
            except (TsrError, OSError) as e:
                entrants[i] = replace(entrants[i], reason=_said(e))
                continue
            found = reference.check(str(path), sizes=False)
            if found.status == "agrees":
                paths[i] = path
            else:
                entrants[i] = replace(entrants[i], reason=found.message, differs=found.status == "differs")
        done = 0

        def timer(models: Sequence[Path], processes: int) -> Samples:
            nonlocal done
            samples = []
            for _ in range(processes):
                progress(done, winner.expected(len(paths), done))
                samples.append(
                    time_in_fresh_process(models, folder / "feeds.npz", threads, backwards=done % 2 == 1)
                )
                done += 1
            return samples

        try:
            first = Path(reference.path)
            return winner.decide(outcome, entrants, first, paths, lambda p: reference.check(str(p)), timer)
        except Failed as e:
            return replace(outcome, candidates=tuple(entrants), reason=f"timing failed: {e}")


def room(weight_bytes: int) -> int:
    """How many models with so many bytes of weights can be loaded at a time. Packed weights are held beside those of
    the file."""
    left = available()
    return MANY if left is None or not weight_bytes else min(MANY, left // (LOADED * weight_bytes))


def _said(e: Exception) -> str:
    """An error in a few words."""
    if isinstance(e, OSError):
        return e.strerror or str(e)
    return e.diagnostics[0].message if isinstance(e, TsrError) else str(e)


def time_in_fresh_process(
    models: Sequence[Path], feeds: Path, threads: int, backwards: bool = False
) -> Sequence[Sequence[float]]:
    """Times models in a fresh process, which takes them in their order, or backwards. Raises `Failed`."""
    function = "tensat_dl.measure.process:time_models"
    step = -1 if backwards else 1
    paths = [str(p) for p in models][::step]
    answer = apart(function, PATIENCE, models=paths, feeds=str(feeds), threads=threads)
    if "error" in answer:
        raise Failed(answer["error"])
    samples: list[list[float]] = answer["samples"]
    return [seconds[::step] for seconds in samples]
