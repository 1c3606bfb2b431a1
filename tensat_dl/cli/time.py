"""``tensat-dl time``: times graphs on this machine, on its GPU or its CPU."""

from __future__ import annotations

import sys

import click

from tensat_dl.cli.options import dims_option, json_option, option
from tensat_dl.sizes.dim_sizes import DimSizes


@click.command("time")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@option("device", default="cuda", show_default=True, help="The GPU of this machine, or cpu.")
@click.option("--graph", "graph_name", metavar="NAME", help="The graph to use, if a file has several.")
@option("seed", help="Seed of inputs and weights.")
@option("threads", help="Threads on the CPU.")
@dims_option
@json_option("Write the table as JSON.")
@click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
def command(
    files: tuple[str, ...],
    device: str,
    graph_name: str | None,
    seed: int,
    threads: int,
    dims: tuple[tuple[str, DimSizes], ...],
    json_path: str | None,
    quiet: bool,
) -> int:
    """Time whole graphs, of .tsr files or ONNX models, in turn.

    Each is compared with the first. All get the same random inputs. Models have their own weights; graphs of .tsr
    files have random weights, the same for the same name. On a GPU each graph is one CUDA graph, with the kernels
    that are fastest by the device's profile; on the CPU ONNX Runtime runs them. See docs/gpu.md.
    """
    from tensat_dl.cli.inputs import checked_dims, open_file
    from tensat_dl.cli.outputs import check_outputs, write_json
    from tensat_dl.measure.machine import TimedGraph
    from tensat_dl.onnx import is_onnx, need_onnx
    from tensat_dl.run.machines import gpu_of

    check_outputs([json_path], files)
    if threads != 1 and device != "cpu":
        raise click.UsageError("--threads is for --device cpu")
    sizes = checked_dims(dims)
    of_models = any(map(is_onnx, files))
    opened = [
        open_file(f, None if is_onnx(f) else graph_name, (), sizes if is_onnx(f) or not of_models else {})
        for f in files
    ]
    for o in opened:
        check_outputs([json_path], o.files)
    if device != "cpu":
        gpu_of(device)
    from rich.console import Console
    from rich.table import Table

    from tensat_dl.report.facts import latency
    from tensat_dl.report.terminal import LiveProgress

    entries = [TimedGraph(o.graph, o.ops, o.onnx, f) for f, o in zip(files, opened, strict=True)]
    with LiveProgress(quiet) as progress:
        progress.phase("time")
        if device == "cpu":
            need_onnx(files[0])
            from tensat_dl.measure.cpu import compare

            rows = compare(entries, threads, seed, progress.measuring)
        else:
            from tensat_dl.gpu.gpu_machine import compare as compare_on_gpu

            rows = compare_on_gpu(entries, seed, progress.measuring)
    table = Table("graph", "predicted", "measured", "x as fast", "off by", "kernels")
    for file, row in zip(files, rows, strict=True):
        if row.latency is None:
            table.add_row(file, latency(row.predicted_ms), row.reason)
            continue
        took = f"{latency(row.latency.median_ms)} ± {latency(row.latency.spread_ms, row.latency.median_ms)}"
        r = row.ratio
        factor = "" if r is None else f"{1 / r.mid:.3f} ({1 / r.high:.3f} to {1 / r.low:.3f})"
        kernels = ", ".join(f"{n} {name}" for name, n in sorted(row.kernels.items(), key=lambda k: -k[1]))
        table.add_row(file, latency(row.predicted_ms), took, factor, f"{row.error:.1e}", kernels)
    Console(file=sys.stderr if json_path == "-" else sys.stdout).print(table)
    write_json(json_path, [{"file": f, **r.to_data()} for f, r in zip(files, rows, strict=True)], indent=1)
    return 1 if any(row.latency is None for row in rows) else 0
