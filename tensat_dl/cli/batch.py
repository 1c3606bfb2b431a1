"""``tensat-dl batch``: optimize many models."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tensat_dl.cli.options import (
    Seconds,
    chosen,
    dims_option,
    options,
    quiet_option,
    rules_option,
    where_options,
)
from tensat_dl.jobs.job import RETRIES

if TYPE_CHECKING:
    from tensat_dl.jobs.job import Job
    from tensat_dl.jobs.run import Where
    from tensat_dl.report.terminal import LiveProgress
    from tensat_dl.run.batch import Batch, Facts, Listed, Manifest


@click.command("batch")
@click.argument("models", nargs=-1, required=True, metavar="MODELS...")
@click.option("-o", "--out", required=True, metavar="DIR", help="The folder for the answers; made if needed.")
@where_options("one for each core; one where models are measured")
@click.option(
    "--retries",
    default=RETRIES,
    show_default=True,
    type=click.IntRange(0),
    metavar="N",
    help="Try a model N times more.",
)
@click.option("--job-time", type=Seconds(), metavar="S", help="End a model's job after S seconds.")
@click.option("--job-memory", type=click.IntRange(1), metavar="MiB", help="End a job that takes more memory.")
@rules_option
@options("aim")
@dims_option
@options("search")
@options("check")
@quiet_option
def command(
    models: tuple[str, ...],
    out: str,
    jobs: int | None,
    ray: str | None,
    retries: int,
    job_time: float | None,
    job_memory: int | None,
    quiet: bool,
    **given: Any,
) -> int:
    """Optimize many models, as `tensat-dl run` does each: .tsr and .onnx files, all of them in a folder, or those
    that a file .txt lists, a path in each line.

    DIR gets an answer for each model, under the same name, and manifest.json, which says what was found. Models that
    are done are not done again, unless a file or an option has changed on which their answer depends: the same
    command goes on where one was stopped. A model that fails does not stop the others; its log is in DIR. Exits with
    1 if one failed or was refused.
    """
    from tensat_dl.cli.inputs import checked_dims
    from tensat_dl.cost import UnknownDeviceError
    from tensat_dl.jobs.run import Where
    from tensat_dl.report.terminal import LiveProgress
    from tensat_dl.run.batch import Batch, Manifest, alone_in
    from tensat_dl.why.origin import is_path

    started = time.perf_counter()
    packs = tuple(os.path.abspath(p) if is_path(p) else p for p in given["rules"])
    unwritten: OSError | None = None
    with ExitStack() as held:
        try:
            batch = Batch(chosen(given), packs, checked_dims(given["dims"]))
            named = _named(batch, models, Path(out), here=ray is None)
            Path(out).mkdir(parents=True, exist_ok=True)
            held.enter_context(alone_in(Path(out)))
            live = held.enter_context(LiveProgress(quiet))
            manifest = Manifest.of(Path(out))
            todo = _todo(batch, named, manifest, live)
        except UnknownDeviceError:
            raise
        except ValueError as e:
            raise click.UsageError(str(e)) from None
        left = {job.title for job in todo}
        before = sum(m.name not in left and "key" in manifest.entries[m.name] for m in named)
        interrupted = False
        limits = job_time, None if job_memory is None else job_memory << 20, retries
        try:
            _optimize(batch, todo, manifest, Where(jobs, ray), limits, live)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            try:
                manifest.write()
            except OSError as e:
                unwritten = e
    rows = {m.name: manifest.entries[m.name] for m in named if m.name in manifest.entries}
    if not quiet:
        _print(rows, len(named), before, out, time.perf_counter() - started)
    if unwritten is not None:
        raise unwritten
    return _exit_code(rows, interrupted)


def _named(batch: Batch, models: Sequence[str], out: Path, here: bool) -> Sequence[Listed]:
    """The models of the arguments. Raises ValueError if there are none, and what `aimed` raises if they are optimized
    ``here``: elsewhere there may be what this machine lacks."""
    from tensat_dl.onnx import is_onnx
    from tensat_dl.run.batch import models_in
    from tensat_dl.run.machines import aimed

    named = models_in(models, out)
    if here:
        for onnx in {is_onnx(m.name) for m in named}:
            aimed(batch.options, onnx)
    if not named:
        raise ValueError(f"no models (.tsr with a graph, .onnx) in {', '.join(models)}")
    return named


def _exit_code(rows: Mapping[str, Facts], interrupted: bool) -> int:
    """The exit code, after a line for whatever it is not 0 for."""
    if interrupted:
        print("interrupted: the same command goes on", file=sys.stderr)
        return 130
    bad = {name: facts for name, facts in rows.items() if facts["status"] in ("failed", "refused")}
    for name, facts in bad.items():
        print(f"{facts['status']}: {name}: {facts['message']}", file=sys.stderr)
    return 1 if bad else 0


def _todo(batch: Batch, named: Sequence[Listed], manifest: Manifest, live: LiveProgress) -> list[Job]:
    """The jobs of models that are not done. Raises ValueError if an answer would overwrite an input."""
    live.phase("read")
    jobs = []
    for i, model in enumerate(named):
        live.counting(i, len(named))
        try:
            jobs.append(batch.job(model, manifest.folder))
        except OSError as e:
            message = f"{model.path}: {e.strerror or e}"
            manifest.entries[model.name] = {"status": "refused", "message": message}
    batch.check(jobs)
    return [job for job in jobs if not manifest.is_done(job.title, job.name)]


def _optimize(
    batch: Batch,
    todo: Sequence[Job],
    manifest: Manifest,
    where: Where,
    limits: tuple[float | None, int | None, int],
    live: LiveProgress,
) -> None:
    """Does the jobs, each within limits: seconds, bytes, and how often it is tried again."""
    from tensat_dl.jobs.job import Work
    from tensat_dl.jobs.run import done
    from tensat_dl.onnx import is_onnx

    live.phase("optimize")
    seconds, memory, retries = limits
    for onnx in (False, True):
        some = [job for job in todo if is_onnx(job.title) == onnx]
        if not some:
            continue
        work = Work(
            "tensat_dl.run.one_of_many:optimizer",
            (batch.options, batch.packs, batch.profiles(onnx)),
            batch.place(onnx),
            seconds=seconds,
            memory=memory,
            retries=retries,
        )
        with where.workers(work) as workers:
            if not workers.room and where.ray is None:
                raise click.UsageError("no GPU is found on this machine to measure on")
            for i, ended in done(workers, some, live.jobs):
                manifest.take(some[i].title, some[i].name, ended)


def _print(rows: Mapping[str, Facts], count: int, before: int, out: str, seconds: float) -> None:
    """The table, and a line of counts."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from tensat_dl.core.words import counted
    from tensat_dl.report.facts import latency
    from tensat_dl.report.facts import seconds as duration

    console = Console()
    if not console.is_terminal:
        console = Console(width=200)
    table = Table("model", "nodes", "before", "after", "faster", "seconds", "")
    for column in table.columns[1:6]:
        column.justify = "right"
    for name, facts in rows.items():
        table.add_row(Text(name), *_cells(facts, latency), f"{facts.get('seconds', 0):.1f}", facts["status"])
    console.print(table)
    counts = Counter(facts["status"] for facts in rows.values())
    parts = [f"{n:,} {status}" for status, n in counts.most_common()]
    if count > len(rows):
        parts.insert(0, f"{count - len(rows):,} not done")
    models = counted(count, "model")
    print(f"{out}: {models}: {', '.join(parts)}; {before:,} done before; in {duration(seconds)}")


def _cells(facts: Facts, latency: Any) -> Sequence[str]:
    if "cost_ms" not in facts:
        return "", "", "", ""
    kind = "measured_ms" if "measured_ms" in facts else "cost_ms"
    mark = "" if kind == "measured_ms" else "~"  # estimated, or the sum of its operators
    before, after = facts[kind]
    if facts["status"] == "unchanged":
        after = before
    first, last = facts["nodes"]
    faster = f"{before / after:.2f}x" if after else "-"
    return f"{first:,} -> {last:,}", mark + latency(before), mark + latency(after, before), faster
