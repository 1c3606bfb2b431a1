"""``tensat-dl extract``: extraction from any priced e-graph in egraph-serialize JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from tensat_dl.cli.options import Seconds, extract_method


@click.command("extract")
@click.argument("file")
@extract_method
@click.option("--time-limit", type=Seconds(), metavar="S", help="Stop after S seconds.")
@click.option("--json", "json_path", metavar="FILE", help="Write cost, bound and the chosen nodes as JSON.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
def command(file: str, method: str, time_limit: float | None, json_path: str | None, quiet: bool) -> int:
    """Extract the cheapest acyclic term for the roots of the e-graph in FILE ("-": standard input)."""
    from tensat_dl.extract.api import extract
    from tensat_dl.extract.types import Limits
    from tensat_dl.files import check_writable, native_output_elsewhere, same_file, write
    from tensat_dl.ir.egraph_json import loads_named
    from tensat_dl.lang.load import read_source
    from tensat_dl.report.progress import Progress

    if json_path is not None:
        if json_path != "-" and same_file(json_path, file):
            raise click.UsageError(f"{json_path} is the input: choose another name")
        check_writable([json_path])
    source = read_source(file)
    try:
        egraph, classes, nodes = loads_named(source.text)
    except ValueError as e:
        print(f"{source.path}: error: {e}", file=sys.stderr)
        return 2
    limits = Limits() if time_limit is None else Limits(seconds=time_limit)
    with native_output_elsewhere(), Progress(quiet) as progress:
        progress.phase("extract")
        found = extract(egraph, method, limits, progress.extracting)
    if json_path is not None:
        report: dict[str, Any] = {
            "extract": {
                "method": found.method,
                "status": found.status,
                "cost": found.cost,
                "bound": found.bound,
                "gap": found.gap,
                "seconds": found.seconds,
            },
            "choices": {classes[c]: nodes[n] for c, n in found.choices.items()},
        }
        write(json_path, json.dumps(report, indent=2) + "\n")
    if not quiet:
        size = f"{egraph.num_nodes:,} e-nodes in {egraph.num_classes:,} e-classes"
        gap = "" if found.status == "optimal" else f", bound {found.bound:.6g}, gap {found.gap:.2%}"
        line = (
            f"cost {found.cost:.6g} ({found.status}{gap}) by {found.method} in {found.seconds:.2f} s; {size}"
        )
        print(line, file=sys.stderr if json_path == "-" else sys.stdout)
    return 130 if found.interrupted else 0
