"""``tensat-dl extract``: extraction from any priced e-graph in egraph-serialize JSON."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from tensat_dl.cli.options import json_option, option, quiet_option, time_limit_option

if TYPE_CHECKING:
    from tensat_dl.extract.extraction import Extraction


@click.command("extract")
@click.argument("file")
@option("extract")
@click.option(
    "--n-best",
    default=1,
    show_default=True,
    type=click.IntRange(1),
    metavar="K",
    help="Find the K cheapest answers that pay for different e-nodes (with exact).",
)
@time_limit_option(help="Stop after S seconds, not after a fixed amount of work of about ten seconds.")
@click.option(
    "-o", "--out", metavar="ANSWER", help='Write the chosen e-nodes as JSON ("-": standard output).'
)
@json_option('Write cost, bound, gap and status as JSON ("-": standard output).')
@quiet_option
def command(
    file: str,
    extract: str,
    n_best: int,
    time_limit: float | None,
    out: str | None,
    json_path: str | None,
    quiet: bool,
) -> int:
    """Extract the cheapest acyclic term for the roots of the e-graph in FILE ("-": standard input).

    FILE is JSON in the format of egraph-serialize. ANSWER has the chosen e-node of each e-class of the term, by
    the names in FILE:

    \b
      {"root_eclasses": [CLASS, ..], "cost": COST, "choices": {CLASS: NODE, ..}}

    With --n-best above 1 "runners_up" is added, a list of {"cost": .., "choices": ..}, cheapest first.
    """
    from tensat_dl.cli.outputs import check_outputs, write_json
    from tensat_dl.core.egraph_json import loads_named
    from tensat_dl.core.words import counted
    from tensat_dl.extract import api
    from tensat_dl.extract.budget import ExtractLimits
    from tensat_dl.extract.extraction import ExtractionError
    from tensat_dl.files import native_output_elsewhere
    from tensat_dl.lang.load import read_source
    from tensat_dl.report.json import answer_to_json, extraction_to_json
    from tensat_dl.report.terminal import LiveProgress

    if n_best > 1 and extract != "exact":
        raise click.UsageError(f"--n-best is for --extract exact, not for {extract}")
    check_outputs([out, json_path], [file])
    source = read_source(file, data=True)
    try:
        egraph, classes, nodes = loads_named(source.text)
    except ValueError as e:
        print(f"{source.path}: error: {e}", file=sys.stderr)
        return 2
    try:
        with native_output_elsewhere(), LiveProgress(quiet) as progress:
            progress.phase("extract")
            found = api.extract(
                egraph, extract, ExtractLimits(seconds=time_limit), progress.extracting, n_best=n_best
            )
    except ExtractionError as e:
        print(f"{source.path}: error: {e.naming(classes, nodes)}", file=sys.stderr)
        return 2
    write_json(out, answer_to_json(found, egraph.roots, classes, nodes, n_best))
    write_json(json_path, extraction_to_json(found))
    if not quiet:
        in_classes = counted(egraph.num_classes, "e-class", "es")
        size = f"{counted(egraph.num_nodes, 'e-node')} in {in_classes}"
        print(_summary(found, n_best, size), file=sys.stderr if "-" in (out, json_path) else sys.stdout)
    return 130 if found.interrupted else 0


def _summary(found: Extraction, n_best: int, size: str) -> str:
    gap = "" if found.status == "optimal" else f", bound {found.bound:.6g}, gap {found.gap:.2%}"
    line = f"cost {found.cost:.6g} ({found.status}{gap}) by {found.method} in {found.seconds:.2f} s; {size}"
    if n_best > 1:
        others = ", ".join(f"{other.cost:.6g}" for other in found.runners_up)
        line += f"\nrunners-up {others or 'none'}"
    return line
