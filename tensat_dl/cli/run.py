"""``tensat-dl run``: optimize a graph."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tensat_dl.cli.options import DIM_HELP, Count, Dim, Seconds, extract_method
from tensat_dl.run.machines import DEVICE, ONNX_DEVICE, aimed_at, machine_of

if TYPE_CHECKING:
    from rich.console import Console

    from tensat_dl.cli.models import Opened
    from tensat_dl.cli.refusal import Refusal
    from tensat_dl.engine.types import Cycles
    from tensat_dl.run.result import Result


@click.command("run")
@click.argument("file")
@click.option(
    "-o",
    "--output",
    metavar="OUT",
    help='Write the optimized graph: .onnx if OUT ends in that, else .tsr ("-": standard output).',
)
@click.option("--graph", "graph_name", metavar="NAME", help="Which graph, if the file has several.")
@click.option(
    "--rules", multiple=True, metavar="PACK", help="Also use a rule pack or .tsr file; may be repeated."
)
@click.option(
    "--device",
    metavar="NAME",
    help=f"Minimise latency on this device; cuda: this machine's GPU.  [default: {DEVICE}; {ONNX_DEVICE} for .onnx]",
)
@click.option(
    "--measure/--no-measure",
    default=None,
    help="Measure operators and candidates on this machine (device cpu or cuda); keep what is faster beyond noise.  "
    "[default: for .onnx]",
)
@click.option(
    "--threads",
    default=1,
    show_default=True,
    type=click.IntRange(1),
    metavar="N",
    help="Threads of a device that this machine measures.",
)
@click.option("--dim", "dims", multiple=True, type=Dim(), metavar="NAME=N", help=DIM_HELP)
@click.option(
    "--input",
    "input_path",
    metavar="FILE.npz",
    help="Inputs of an ONNX model, by name: it is compared and timed on these.",
)
@click.option(
    "--k-multi",
    default=1,
    show_default=True,
    type=Count(),
    metavar="N",
    help='Iterations in which multi-pattern rules are applied, or "unlimited".',
)
@click.option(
    "--max-nodes",
    default=50_000,
    show_default=True,
    type=click.IntRange(1),
    metavar="N",
    help="Stop growing the e-graph at this many e-nodes.",
)
@click.option(
    "--max-iters",
    default=15,
    show_default=True,
    type=click.IntRange(0),
    metavar="N",
    help="Stop exploring after this many iterations.",
)
@click.option("--time-limit", type=Seconds(), metavar="S", help="Stop exploring after S seconds.")
@click.option(
    "--max-memory", type=click.IntRange(1), metavar="MB", help="Stop exploring at this resident memory."
)
@click.option(
    "--cycles",
    default="none",
    show_default=True,
    type=click.Choice(["none", "vanilla", "efficient", "incremental"]),
    help="Keep cycles out of the e-graph, for ilp-none: not at all, or by one of three checks of matches.",
)
@click.option(
    "--no-reassociate",
    is_flag=True,
    help="Leave out rules that change how results are rounded, as far as their tests show.",
)
@click.option(
    "--fuse", is_flag=True, help="Chains of elementwise operators may become operators of one kernel each."
)
@extract_method
@click.option("--extract-time-limit", type=Seconds(), metavar="S", help="Stop extracting after S seconds.")
@click.option("--json", "json_path", metavar="FILE", help="Write a report as JSON.")
@click.option("--html", "html_path", metavar="FILE", help="Write a report as one HTML page.")
@click.option("--dot", "dot_path", metavar="FILE", help="Write the optimized graph for Graphviz.")
@click.option(
    "--signatures", "signatures_path", metavar="FILE", help="Write the operator signatures to be priced."
)
@click.option(
    "--save-egraph", "egraph_path", metavar="FILE", help="Write the priced e-graph (egraph-serialize)."
)
@click.option("--no-verify", is_flag=True, help="Do not execute the two graphs against each other.")
@click.option(
    "--seed", default=0, show_default=True, type=click.IntRange(0), metavar="N", help="Seed of verification."
)
@click.option("-v", "--verbose", is_flag=True, help="Print what each rule did in each iteration.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
def command(
    file: str,
    output: str | None,
    graph_name: str | None,
    rules: tuple[str, ...],
    device: str | None,
    measure: bool | None,
    threads: int,
    dims: tuple[tuple[str, int], ...],
    input_path: str | None,
    k_multi: int | None,
    max_nodes: int,
    max_iters: int,
    time_limit: float | None,
    max_memory: int | None,
    cycles: Cycles,
    no_reassociate: bool,
    fuse: bool,
    method: str,
    extract_time_limit: float | None,
    json_path: str | None,
    html_path: str | None,
    dot_path: str | None,
    signatures_path: str | None,
    egraph_path: str | None,
    no_verify: bool,
    seed: int,
    verbose: bool,
    quiet: bool,
) -> int:
    """Optimize the graph of FILE (.tsr, .onnx, or "-" for standard input) and verify the result.

    A .tsr file imports its rules; for an ONNX model they are the pack `inference`, unless --rules names others.
    """
    started = time.perf_counter()
    if verbose and quiet:
        raise click.UsageError("--verbose and --quiet exclude each other")
    from rich.console import Console

    from tensat_dl.cli.models import checked_dims, is_onnx, open_file
    from tensat_dl.cli.outputs import check_outputs, check_weights
    from tensat_dl.cli.readers import Said
    from tensat_dl.cli.refusal import refusal
    from tensat_dl.cli.reports import Reports
    from tensat_dl.files import check_writable, native_output_elsewhere
    from tensat_dl.onnx.installed import PACK, need_onnx
    from tensat_dl.report.progress import LiveProgress

    reports = Reports(json_path, html_path, dot_path, signatures_path, egraph_path)
    paths = [*([] if output is None else [output]), *reports.paths()]
    check_writable(paths)
    sizes = checked_dims(dims)
    if is_onnx(file):
        rules = rules or (PACK,)
    device, measure = aimed_at(device, measure, is_onnx(file))
    if fuse and device == "cpu":
        raise click.UsageError(
            "--fuse is for GPUs: on the CPU ONNX Runtime runs graphs, with kernels of its own"
        )
    lost = "which" if is_onnx(file) else "whose rules and comments"
    inputs = (file, *rules, *([input_path] if input_path else []))
    check_outputs(paths, inputs, lost)
    with native_output_elsewhere(), LiveProgress(quiet) as progress:
        progress.phase("parse")
        if (measure and device == "cpu") or (output is not None and is_onnx(output)):
            need_onnx(output or file)
        if output is not None and is_onnx(output):
            check_weights(output, (*paths, *inputs))
        opened = open_file(file, graph_name, rules, sizes, input_path)
        program, graph = opened.program, opened.graph
        check_outputs(paths, opened.files, lost)
        if output is not None:
            opened.check_output(output)

        from tensat_dl.engine.types import Limits
        from tensat_dl.extract.types import Limits as ExtractLimits
        from tensat_dl.run.pipeline import Options, optimize

        memory = None if max_memory is None else max_memory * 1024 * 1024
        options = Options(
            device,
            Limits(max_nodes, max_iters, k_multi, time_limit, memory, cycles),
            method,
            ExtractLimits(seconds=extract_time_limit),
            not no_verify,
            seed,
            threads,
            html_path is not None,
            fuse,
        )
        machine = None
        if measure:
            machine = machine_of(device, graph, program.ops, opened.model, threads, seed)
        parsed = time.perf_counter() - started
        chosen = program.rules
        if no_reassociate:
            from tensat_dl.verify.rules import rounding_alike

            progress.phase("verify")
            chosen = rounding_alike(chosen, program.ops, progress.checking)
        result, egraph = optimize(
            graph, program.ops, chosen, options, progress, parsed, machine, opened.fixed_sizes
        )
    opened = opened.with_operators(result.declared)
    program = opened.program
    messages = sys.stderr if "-" in paths else sys.stdout
    said = Said()
    if not quiet:
        from tensat_dl.report.text import print_row

        console = Console(file=messages)
        with said.unless_gone():
            _summarize(result, opened, verbose, console)
    # Reports say what happened whether or not the graphs agree; the graph itself is written only if they do.
    refused = refusal(result, program, output, not no_verify)
    if output is not None and refused is None:
        refused, rows = _write_answer(output, opened, result, seed)
        if not quiet:
            with said.unless_gone():
                for label, text in rows:
                    print_row(label, text, console)
                if refused is None and output != "-":
                    print(f"written to {Path(output)}", file=messages)
    reports.write(opened, result, egraph, output if refused is None else None, refused is None)
    if refused is not None:
        if refused.message:
            print(refused.message, file=sys.stderr)
        return refused.code
    found = result.equivalence
    if quiet and found is not None and found.status == "inconclusive":
        print(f"warning: not verified: {found.message}", file=sys.stderr)
    if result.interrupted:
        return 130
    said.end()
    return 0


def _summarize(result: Result, opened: Opened, verbose: bool, console: Console) -> None:
    from tensat_dl.report.text import print_row, print_summary

    if verbose:
        from tensat_dl.report.iterations import print_iterations

        print_iterations(result.iterations, console)
        console.print()
    print_summary(result, console)
    if opened.model is not None:
        from tensat_dl.onnx.summary import opaque_line

        print_row("model", opaque_line(opened.model), console)


def _write_answer(
    output: str, opened: Opened, result: Result, seed: int
) -> tuple[Refusal | None, Sequence[tuple[str, str]]]:
    """Writes the graph, if ONNX Runtime does not find that it computes something else; with lines on what was
    written. Raises `TsrError`, OSError."""
    from tensat_dl.cli.models import is_onnx

    graph, program = result.after.graph, opened.program
    if is_onnx(output):
        from tensat_dl.cli.refusal import not_the_same
        from tensat_dl.cli.write_onnx import write_onnx
        from tensat_dl.fuse.unfuse import unfused

        # Whatever runs the model fuses as it likes.
        written = write_onnx(opened, unfused(graph, program.ops, result.declared), output, seed)
        return (not_the_same(output, written.error) if written.error else None), written.rows
    from tensat_dl.cli.recorded import arguments
    from tensat_dl.files import write
    from tensat_dl.why.origin import Origin, digest

    recorded = arguments(click.get_current_context(), output, opened.dims)
    made = Origin(recorded, digest(opened.graph, program.ops))
    write(output, opened.text(graph, [made.comment()]))
    return None, ()
