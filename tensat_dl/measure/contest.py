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

from tensat_dl.apart import Failed, apart
from tensat_dl.cost.environment import Environment
from tensat_dl.cost.priced import PricedGraph
from tensat_dl.lang.diagnostics import TsrError
from tensat_dl.measure.outcome import Candidate, Outcome
from tensat_dl.measure.runnable import Runnable
from tensat_dl.measure.statistics import Samples, latency, ratio_to_first, rough_ratio, settled
from tensat_dl.onnx.agreement import Agreement, Incomparable
from tensat_dl.onnx.staging import save

#: Processes of the first heat, and after how many of the second one it is looked at whether that is enough.
HEAT, LOOKS = 2, (4, 8, 16)
#: A process that takes longer is ended.
PATIENCE = 900.0

#: Times models, the original first, in so many fresh processes: by process, by round, the seconds of each.
Timer = Callable[[Sequence[Path], int], Samples]


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
    with TemporaryDirectory(prefix="tensat-dl-") as name:
        folder = Path(name)
        try:
            reference = runnable.reference(folder)
            np.savez(folder / "feeds.npz", allow_pickle=False, **reference.feeds)
        except (TsrError, Incomparable, OSError) as e:
            return replace(outcome, reason=f"the original can't be timed: {_said(e)}")
        paths: dict[int, Path] = {}
        for i, candidate in enumerate(candidates):
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
                progress(done, max(done + processes, HEAT * (len(paths) > 1) + LOOKS[-2:][0]))
                samples.append(
                    time_in_fresh_process(models, folder / "feeds.npz", threads, backwards=done % 2 == 1)
                )
                done += 1
            return samples

        try:
            return decide(outcome, entrants, Path(reference.path), paths, reference.check, timer)
        except Failed as e:
            return replace(outcome, candidates=tuple(entrants), reason=f"timing failed: {e}")


def decide(
    outcome: Outcome,
    entrants: list[Candidate],
    original: Path,
    paths: Mapping[int, Path],
    check: Callable[[str], Agreement],
    timer: Timer,
) -> Outcome:
    """The outcome, given the candidates that compute the same as the original, by position, and how to check a model
    at all sizes, and how to time."""
    order = list(paths)
    if len(paths) > 1:
        heat = timer([original, *paths.values()], HEAT)
        for k, i in enumerate(paths, 1):
            entrants[i] = replace(entrants[i], ratio=rough_ratio(heat, k))
        order.sort(key=lambda i: entrants[i].ratio or 1.0)
    for best in order:
        found = check(str(paths[best]))
        if found.status == "agrees":
            break
        entrants[best] = replace(entrants[best], reason=found.message)
    else:
        return replace(outcome, candidates=tuple(entrants), reason="no candidate could be compared")
    final: list[Sequence[Sequence[float]]] = []
    for look in LOOKS:
        final += timer([original, paths[best]], look - len(final))
        if settled(final, 1, LOOKS[-1]):
            break
    ratio = ratio_to_first(final, 1)
    return replace(
        outcome,
        candidates=tuple(entrants),
        best=best,
        reason="" if ratio.high < 1 else "no candidate is faster beyond noise",
        before=latency(final, 0),
        after=latency(final, 1),
        ratio=ratio,
        agreement=found,
    )


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
