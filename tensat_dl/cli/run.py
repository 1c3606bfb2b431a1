"""``tensat-dl run``: optimize a graph."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tensat_dl.cli.options import DIM_HELP, Count, Dim, Seconds, extract_method
from tensat_dl.measure.here import DEVICE, ONNX_DEVICE, aimed_at, machine_of

if TYPE_CHECKING:
    from tensat_dl.explore.types import Cycles
    from tensat_dl.result import Result


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
    from tensat_dl.files import check_writable, native_output_elsewhere, write
    from tensat_dl.onnx.installed import PACK, need_onnx
    from tensat_dl.report.progress import Progress

    paths = [
        p for p in (output, json_path, html_path, dot_path, signatures_path, egraph_path) if p is not None
    ]
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
    with native_output_elsewhere(), Progress(quiet) as progress:
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

        from tensat_dl.explore.types import Limits
        from tensat_dl.extract.types import Limits as ExtractLimits
        from tensat_dl.pipeline import Options, optimize

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
        from tensat_dl.report.text import print_row, print_summary

        console = Console(file=messages)
        with said.unless_gone():
            if verbose:
                from tensat_dl.report.iterations import print_iterations

                print_iterations(result.iterations, console)
                console.print()
            print_summary(result, console)
            if opened.model is not None:
                from tensat_dl.onnx.summary import opaque_line

                print_row("model", opaque_line(opened.model), console)
    # Reports say what happened whether or not the graphs agree; the graph itself is written only if they do.
    found = result.equivalence
    unverified = found is None and not no_verify  # interrupted
    refused = {v.rule: v for v in result.verdicts if v.failed}
    failed = unverified or bool(refused) or (found is not None and found.status == "different")
    wrong = "" if result.measured is None else result.measured.mismatch
    if wrong:
        pass
    elif output is not None and not failed and is_onnx(output):
        from tensat_dl.cli.write_onnx import write_onnx
        from tensat_dl.fuse.unfuse import unfused

        # Whatever runs the model fuses as it likes.
        plain = unfused(result.after.graph, program.ops, result.declared)
        written = write_onnx(opened, plain, output, seed)
        wrong = written.error
        if not quiet:
            with said.unless_gone():
                for label, text in written.rows:
                    print_row(label, text, console)
    elif output is not None and not failed:
        from tensat_dl.cli.recorded import arguments
        from tensat_dl.why.origin import Origin, digest

        recorded = arguments(click.get_current_context(), output, opened.dims)
        made = Origin(recorded, digest(graph, program.ops))
        write(output, opened.text(result.after.graph, [made.comment()]))
    if output is not None and not failed and not wrong and not quiet and output != "-":
        with said.unless_gone():
            print(f"written to {Path(output)}", file=messages)
    if dot_path is not None and not failed:
        from tensat_dl.report.diff import changed_nodes
        from tensat_dl.report.dot import graph_to_dot

        write(dot_path, graph_to_dot(result.after.graph, changed_nodes(graph, result.after.graph)[1]))
    model = None
    if opened.model is not None:
        from tensat_dl.onnx.summary import model_to_json

        model = model_to_json(opened.model)
    if json_path is not None:
        from tensat_dl.report.json import result_to_json

        report = result_to_json(result, None if failed or wrong else output)
        if model is not None:
            report["model"] = model
        write(json_path, json.dumps(report, indent=2, allow_nan=False) + "\n")
    if html_path is not None:
        from tensat_dl.report.html import result_to_html

        write(html_path, result_to_html(result, model))
    if signatures_path is not None:
        from tensat_dl.cost import CostModel, load_device
        from tensat_dl.cost.signature_file import dumps as signature_text
        from tensat_dl.cost.signature_file import job

        # In the order in which they matter, as measuring may be cut short.
        signatures = CostModel(program.ops, load_device(device)).unknown(egraph, [result.after.graph])
        write(signatures_path, signature_text(job(program.ops, s) for s in signatures))
    if egraph_path is not None:
        from tensat_dl.ir.egraph_json import dumps

        write(egraph_path, dumps(egraph))
    if refused:
        from tensat_dl.report.verdicts import diagnostic

        messages_of = (diagnostic(refused[r.name], r) for r in program.rules if r.name in refused)
        print("\n\n".join(d.render() for d in messages_of if d is not None), file=sys.stderr)
        return 1
    if found is not None and failed:
        print(f"error: the optimized graph computes something else: {found.message}", file=sys.stderr)
        print(f"  = hint: {_suspects(result, program.own_rules)}", file=sys.stderr)
        return 1
    if wrong:
        what = "the optimized model computes something else" if output is None else f"{output} is not written"
        print(f"error: {what}: {wrong}", file=sys.stderr)
        return 1
    if unverified and output is not None:
        print(f"{output} is not written: the result is not verified", file=sys.stderr)
    if quiet and found is not None and found.status == "inconclusive":
        print(f"warning: not verified: {found.message}", file=sys.stderr)
    if result.interrupted:
        return 130
    said.end()
    return 0


def _suspects(result: Result, own_rules: tuple[str, ...]) -> str:
    """Which rules may be at fault: those of the file itself, if any was applied, else all."""
    applied = dict.fromkeys(s.rule for step in result.iterations for s in step.rules if s.applied)
    own = [name for name in applied if name.removesuffix("-back") in own_rules]
    names = own or list(applied)
    shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    return f"a rule must be false; {'of this file ' if own else ''}these were applied: {shown}"
