"""``tensat-dl run``: optimize a graph."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tensat_dl.cli.options import DIM_HELP, Dim, chosen, options
from tensat_dl.run.machines import aimed, device_of, machine_of

if TYPE_CHECKING:
    from rich.console import Console

    from tensat_dl.cli.models import Opened
    from tensat_dl.cli.readers import Said
    from tensat_dl.cli.refusal import Refusal
    from tensat_dl.cli.reports import Reports
    from tensat_dl.core.egraph import EGraph
    from tensat_dl.report.progress import LiveProgress
    from tensat_dl.run.options import Options
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
@options("aim")
@click.option("--dim", "dims", multiple=True, type=Dim(), metavar="NAME=N", help=DIM_HELP)
@click.option(
    "--input",
    "input_path",
    metavar="FILE.npz",
    help="Inputs of an ONNX model, by name: it is compared and timed on these.",
)
@options("search")
@click.option("--json", "json_path", metavar="FILE", help="Write a report as JSON.")
@click.option("--html", "html_path", metavar="FILE", help="Write a report as one HTML page.")
@click.option("--dot", "dot_path", metavar="FILE", help="Write the optimized graph for Graphviz.")
@click.option(
    "--signatures", "signatures_path", metavar="FILE", help="Write the operator signatures to be priced."
)
@click.option(
    "--save-egraph", "egraph_path", metavar="FILE", help="Write the priced e-graph (egraph-serialize)."
)
@options("check")
@click.option("-v", "--verbose", is_flag=True, help="Print what each rule did in each iteration.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
def command(file: str, output: str | None, verbose: bool, quiet: bool, **given: Any) -> int:
    """Optimize the graph of FILE (.tsr, .onnx, or "-" for standard input) and verify the result.

    A .tsr file imports its rules; for an ONNX model they are the pack `inference`, unless --rules names others.
    """
    started = time.perf_counter()
    if verbose and quiet:
        raise click.UsageError("--verbose and --quiet exclude each other")
    from rich.console import Console

    from tensat_dl.cli.readers import Said
    from tensat_dl.cli.refusal import refusal
    from tensat_dl.files import native_output_elsewhere
    from tensat_dl.report.progress import LiveProgress

    asked = _asked(file, output, given)
    with native_output_elsewhere(), LiveProgress(quiet) as progress:
        progress.phase("parse")
        opened = _open(asked)
        result, egraph = _optimize(asked, opened, progress, started)
    opened = opened.with_operators(result.declared)
    messages = sys.stderr if "-" in asked.outputs else sys.stdout
    console = Console(file=messages)
    said = Said()
    if not quiet:
        with said.unless_gone():
            _summarize(result, opened, verbose, console)
    # Reports say what happened whether or not the graphs agree; the graph itself is written only if they do.
    refused = refusal(result, opened.program, output, asked.options.verify)
    if output is not None and refused is None:
        refused, rows = _write_answer(output, opened, result, asked.options.seed)
        if not quiet:
            with said.unless_gone():
                _tell_written(output if refused is None else "-", rows, console)
    asked.reports.write(opened, result, egraph, output if refused is None else None, refused is None)
    return _end(result, refused, quiet, said)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a command line asks for, besides what it wants to be told."""

    file: str
    output: str | None
    graph_name: str | None
    rules: tuple[str, ...]
    sizes: Mapping[str, int]  #: of a model's open dimensions
    input_path: str | None
    options: Options
    reports: Reports

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.file, *self.rules, *([self.input_path] if self.input_path else []))

    @property
    def outputs(self) -> tuple[str, ...]:
        return (*([] if self.output is None else [self.output]), *self.reports.paths())

    def check_outputs(self, inputs: Sequence[str]) -> None:
        """Raises `click.UsageError` if a file is to be written that is needed."""
        from tensat_dl.cli.models import is_onnx
        from tensat_dl.cli.outputs import check_outputs

        check_outputs(self.outputs, inputs, "which" if is_onnx(self.file) else "whose rules and comments")


def _asked(file: str, output: str | None, given: Mapping[str, Any]) -> _Asked:
    """What is asked for, as far as it can be checked before a file is read. Raises `click.UsageError`, OSError,
    `UnknownDeviceError`, `GpuError`."""
    from tensat_dl.cli.models import checked_dims, is_onnx
    from tensat_dl.cli.reports import Reports
    from tensat_dl.files import check_writable
    from tensat_dl.onnx.installed import PACK

    reports = Reports(*(given[f"{f.name}_path"] for f in fields(Reports)))
    check_writable([*([] if output is None else [output]), *reports.paths()])
    sizes, model = checked_dims(given["dims"]), is_onnx(file)
    if given["fuse"] and device_of(given["device"], model) == "cpu":
        raise click.UsageError(
            "--fuse is for GPUs: on the CPU ONNX Runtime runs graphs, with kernels of its own"
        )
    rules = given["rules"] or ((PACK,) if model else ())
    aim = aimed(chosen(given), model)
    asked = _Asked(file, output, given["graph_name"], rules, sizes, given["input_path"], aim, reports)
    asked.check_outputs(asked.inputs)
    return asked


def _open(asked: _Asked) -> Opened:
    """Reads the graph. Raises `TsrError`, `click.UsageError`."""
    from tensat_dl.cli.models import is_onnx, open_file
    from tensat_dl.cli.outputs import check_weights
    from tensat_dl.onnx.installed import need_onnx

    output, options = asked.output, asked.options
    if (options.measure and options.target == "cpu") or (output is not None and is_onnx(output)):
        need_onnx(output or asked.file)
    if output is not None and is_onnx(output):
        check_weights(output, (*asked.outputs, *asked.inputs))
    opened = open_file(asked.file, asked.graph_name, asked.rules, asked.sizes, asked.input_path)
    asked.check_outputs(opened.files)
    if output is not None:
        opened.check_output(output)
    return opened


def _optimize(asked: _Asked, opened: Opened, progress: LiveProgress, started: float) -> tuple[Result, EGraph]:
    """What a run finds, and the e-graph that it is from; on the machine that measures, if one is to."""
    from tensat_dl.run.pipeline import optimize

    options, graph, program = asked.options, opened.graph, opened.program
    machine = None
    if options.measure:
        machine = machine_of(options.target, graph, program.ops, opened.model, options.threads, options.seed)
    parsed, explained = time.perf_counter() - started, asked.reports.html is not None
    return optimize(
        *(graph, program.ops, program.rules, options, progress, parsed, machine, opened.fixed_sizes),
        explained=explained,
    )


def _tell_written(output: str, rows: Sequence[tuple[str, str]], console: Console) -> None:
    """Lines on the graph, and where it is, unless that is standard output."""
    from tensat_dl.report.text import print_row

    for label, text in rows:
        print_row(label, text, console)
    if output != "-":
        print(f"written to {Path(output)}", file=console.file)


def _end(result: Result, refused: Refusal | None, quiet: bool, said: Said) -> int:
    """The exit code, once all files are written."""
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
