"""``tensat-dl time``: what graphs take on the GPU of this machine."""

from __future__ import annotations

import json

import click


@click.command("time")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--device", default="cuda", show_default=True, metavar="NAME", help="The GPU of this machine.")
@click.option("--graph", "graph_name", metavar="NAME", help="Which graph, if a file has several.")
@click.option(
    "--seed",
    default=0,
    show_default=True,
    type=click.IntRange(0),
    metavar="N",
    help="Seed of inputs and weights.",
)
@click.option("--json", "json_path", metavar="FILE", help="Write the table as JSON.")
@click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
def command(
    files: tuple[str, ...], device: str, graph_name: str | None, seed: int, json_path: str | None, quiet: bool
) -> int:
    """Time the graphs of .tsr files as a whole, in turn, each as one CUDA graph.

    The first one is what the others are compared with. They run with the same random inputs and weights, which are
    told by their names, and with the kernels that the device's profile finds fastest. See docs/gpu.md.
    """
    from tensat_dl.cli.models import open_file
    from tensat_dl.files import check_writable, write
    from tensat_dl.gpu.environment import at_hand

    if json_path is not None:
        check_writable([json_path])
    opened = [open_file(file, graph_name, (), {}) for file in files]
    at_hand(device)
    from rich.console import Console
    from rich.table import Table

    from tensat_dl.gpu.comparison import compare
    from tensat_dl.report.progress import Progress

    with Progress(quiet) as progress:
        progress.phase("time")
        rows = compare([(o.graph, o.program.ops) for o in opened], seed, progress.measuring)
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
