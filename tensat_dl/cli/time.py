"""``tensat-dl time``: times graphs on this machine, on its GPU or its CPU."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from tensat_dl.cli.options import DIM_HELP, Dim

if TYPE_CHECKING:
    from tensat_dl.cli.models import Opened
    from tensat_dl.measure.side_by_side import TimedRow
    from tensat_dl.report.progress import LiveProgress


@click.command("time")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option(
    "--device", default="cuda", show_default=True, metavar="NAME", help="The GPU of this machine, or cpu."
)
@click.option("--graph", "graph_name", metavar="NAME", help="Which graph, if a file has several.")
@click.option(
    "--seed",
    default=0,
    show_default=True,
    type=click.IntRange(0),
    metavar="N",
    help="Seed of inputs and weights.",
)
@click.option(
    "--threads",
    default=1,
    show_default=True,
    type=click.IntRange(1),
    metavar="N",
    help="Threads on the CPU.",
)
@click.option("--dim", "dims", multiple=True, type=Dim(), metavar="NAME=N", help=DIM_HELP)
@click.option("--json", "json_path", metavar="FILE", help="Write the table as JSON.")
@click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
def command(
    files: tuple[str, ...],
    device: str,
    graph_name: str | None,
    seed: int,
    threads: int,
    dims: tuple[tuple[str, int], ...],
    json_path: str | None,
    quiet: bool,
) -> int:
    """Time graphs as a whole, in turn: those of .tsr files, or models (.onnx).

    The others are compared with the first. All get the same random inputs. Models have their own weights; graphs of
    .tsr files have random weights, the same for the same name. On a GPU each graph is one CUDA graph, with the
    kernels that are fastest by the device's profile; on the CPU ONNX Runtime runs them. See docs/gpu.md.
    """
    from tensat_dl.cli.models import checked_dims, is_onnx, open_file
    from tensat_dl.cli.outputs import check_outputs
    from tensat_dl.files import check_writable, write

    outputs = [] if json_path is None else [json_path]
    check_writable(outputs)
    check_outputs(outputs, files, "which")
    sizes = checked_dims(dims)
    of_models = any(map(is_onnx, files))
    opened = [
        open_file(f, None if is_onnx(f) else graph_name, (), sizes if is_onnx(f) or not of_models else {})
        for f in files
    ]
    for o in opened:
        check_outputs(outputs, o.files, "which")
    if device != "cpu":
        from tensat_dl.cost import load_device
        from tensat_dl.gpu.environment import HERE, at_hand

        if device != HERE:
            load_device(device)  # which knows what is no device at all
        at_hand(device)
    from rich.console import Console
    from rich.table import Table

    from tensat_dl.report.progress import LiveProgress

    with LiveProgress(quiet) as progress:
        progress.phase("time")
        if device == "cpu":
            rows = _on_the_cpu(files, opened, threads, seed, progress)
        else:
            rows = _on_a_gpu(opened, seed, progress)
    table = Table("graph", "predicted", "measured", "x as fast", "off by", "kernels")
    for file, row in zip(files, rows, strict=True):
        if row.latency is None:
            table.add_row(file, f"{row.predicted_ms:.4g} ms", row.reason)
            continue
        took = f"{row.latency.median_ms:.4g} ± {row.latency.spread_ms:.2g} ms"
        r = row.ratio
        factor = "" if r is None else f"{1 / r.mid:.3f} ({1 / r.high:.3f} to {1 / r.low:.3f})"
        kernels = ", ".join(f"{n} {name}" for name, n in sorted(row.kernels.items(), key=lambda k: -k[1]))
        table.add_row(file, f"{row.predicted_ms:.4g} ms", took, factor, f"{row.error:.1e}", kernels)
    Console().print(table)
    if json_path is not None:
        write(
            json_path,
            json.dumps([{"file": f, **r.to_data()} for f, r in zip(files, rows, strict=True)], indent=1)
            + "\n",
        )
    return 1 if any(row.latency is None for row in rows) else 0


def _on_the_cpu(
    files: tuple[str, ...], opened: list[Opened], threads: int, seed: int, progress: LiveProgress
) -> list[TimedRow]:
    from tensat_dl.onnx.installed import need_onnx

    need_onnx(files[0])
    from tensat_dl.measure.comparison import TimedModel, compare

    entries = [
        TimedModel(file, o.graph, o.program.ops, o.model) for file, o in zip(files, opened, strict=True)
    ]
    return compare(entries, threads, seed, progress.measuring)


def _on_a_gpu(opened: list[Opened], seed: int, progress: LiveProgress) -> list[TimedRow]:
    from tensat_dl.gpu.comparison import TimedGraph, compare
    from tensat_dl.run.machines import weights_of

    entries = [TimedGraph(o.graph, o.program.ops, weights_of(o.model)) for o in opened]
    return compare(entries, seed, progress.measuring)
