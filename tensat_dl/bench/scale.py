"""``tensat-dl bench scale``: what a job costs, what several workers gain, and what a cluster would."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import click

from tensat_dl.bench.common import (
    MODELS,
    Results,
    Row,
    device_option,
    json_option,
    models_argument,
    new_table,
    number_option,
    path_of,
)
from tensat_dl.cli.options import ray_option

NODES = (1, 2, 5, 10, 20, 50, 100, 200, 500)
NOTES = (
    "start: until all workers have done a first job of nothing. job: wall-clock time of a further job of nothing.",
    "models: wall-clock time of all models, with workers that have started. simulated: the models above, in turn, on",
    "workers that start as here and take as long as one worker does here; one process hands them out, as here.",
)


@click.command("scale")
@models_argument
@number_option("--workers", (1, 2, 4), "Workers; may be repeated.")
@number_option("--nothing", 1000, "Jobs of nothing.")
@number_option("--count", 1000, "Models of the simulation.")
@number_option("--nodes", NODES, "Nodes of the simulation; may be repeated.")
@number_option("--cores", 8, "Cores of each of these nodes.")
@device_option
@ray_option
@json_option
def command(
    models: tuple[str, ...],
    workers: tuple[int, ...],
    nothing: int,
    count: int,
    nodes: tuple[int, ...],
    cores: int,
    device: str,
    ray: str | None,
    json_path: str | None,
) -> int:
    """What a job costs, how long the models take with several workers, and how long many models would take on a
    cluster, by a simulation with the times that were measured here.

    Nothing else should run. With --ray the workers are Ray's; "local" starts a cluster for each number of workers.
    """
    from tensat_dl.jobs.run import Where
    from tensat_dl.report.facts import seconds as duration

    models = models or tuple(m for m in MODELS if m != "nasnet_a")  # which takes longer than all others
    results = Results("scale", json_path, models)
    table = new_table(f"{len(models)} models", "workers", "start s", "job ms", "models s", "speedup", left=())
    alone: Row | None = None
    for number in workers:
        row = measure(Where(number, ray), number, nothing, models, device)
        alone = alone or row
        row["speedup"] = alone["models"] / row["models"]
        results.add([row])
        cells = (
            f"{row['start']:.2f}",
            f"{1000 * row['job']:.2f}",
            f"{row['models']:.1f}",
            f"{row['speedup']:.2f}x",
        )
        table.add_row(str(number), *cells)
    assert alone is not None
    each = [alone["seconds"][i % len(models)] for i in range(count)]
    notes = list(NOTES)
    for number in nodes:
        found = simulate(each, number * cores, alone["start"], alone["job"])
        row = {
            "nodes": number,
            "cores": cores,
            "count": count,
            "makespan": found.makespan,
            "busy": found.busy,
        }
        row["bound"] = {
            "work": sum(each) / (number * cores),
            "longest": max(each),
            "handing out": count * alone["job"],
        }
        results.add([row])
        notes.append(
            f"simulated: {count:,} models on {number:,} nodes of {cores} cores: {duration(found.makespan)}, "
            f"{sum(each) / found.makespan:,.0f}x, workers busy {found.busy:.0%}"
        )
    return results.finish(table, notes)


def measure(where: Any, number: int, nothing: int, models: Sequence[str], device: str) -> Row:
    """Seconds: of starting workers, of a job of nothing, of all models, and of each."""
    from tensat_dl.jobs.job import Job, Work
    from tensat_dl.jobs.run import done
    from tensat_dl.run.one_of_many import ToOptimize
    from tensat_dl.run.options import Options

    work = Work("tensat_dl.bench.scale:nothing", retries=0)
    row: Row = {"workers": number, "ray": where.ray, "jobs": nothing}
    started = time.perf_counter()
    with where.workers(work) as workers:
        list(done(workers, [Job(f"first {i}", 0.5) for i in range(number)]))  # so that each has one
        row["start"] = time.perf_counter() - started - 0.5
        started = time.perf_counter()
        list(done(workers, [Job(str(i), 0.0) for i in range(nothing)]))
        row["job"] = (time.perf_counter() - started) / nothing
    work = Work("tensat_dl.run.one_of_many:optimizer", (Options(device=device), (), None), retries=0)
    paths = [str(path_of(m).resolve()) for m in models]
    with where.workers(work) as workers:
        tiny = str(path_of("tiny_fuse_relu").resolve())
        list(done(workers, [Job(f"first {i}", ToOptimize(tiny, tiny, tiny)) for i in range(number)]))
        started = time.perf_counter()
        found = dict(done(workers, [Job(p, ToOptimize(p, p, p)) for p in paths]))
        row["models"] = time.perf_counter() - started
    row["seconds"] = [found[i].reply.seconds for i in range(len(paths))]
    if any(e.failed for e in found.values()):
        row["error"] = next(e.reply.reason for e in found.values() if e.failed)
    return row


def nothing() -> Callable[[float], None]:
    """A job of nothing but some seconds."""
    return lambda seconds: time.sleep(seconds) if seconds else None


@dataclass(frozen=True, slots=True)
class Simulated:
    """Seconds until all jobs are done, and the share of the workers' time in which they have one."""

    makespan: float
    busy: float


def simulate(seconds: Sequence[float], workers: int, start: float, job: float) -> Simulated:
    """Jobs of these seconds, in their order, each for the worker that is free first. Workers have to ``start``, all
    at a time; one process hands out jobs, for each of which it takes ``job`` seconds."""
    free = [start] * workers
    heapq.heapify(free)
    handed, last = 0.0, 0.0
    for took in seconds:
        handed += job
        ended = max(heapq.heappop(free), handed) + took
        last = max(last, ended)
        heapq.heappush(free, ended)
    return Simulated(last, sum(seconds) / (workers * last) if last else 0.0)
