"""``tensat-dl run``: optimize a graph."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tensat_dl.cli.options import (
    chosen,
    dims_option,
    graph_option,
    json_option,
    options,
    quiet_option,
    rules_option,
)
from tensat_dl.onnx import is_onnx
from tensat_dl.run.early import worker_ahead

if TYPE_CHECKING:
    from rich.console import Console

    from tensat_dl.cli.outputs import Said
    from tensat_dl.cli.reports import Reports
    from tensat_dl.cli.written import Refusal, Rows
    from tensat_dl.run.model import Model
    from tensat_dl.run.options import Options
    from tensat_dl.run.result import Result
    from tensat_dl.sizes.dim_sizes import DimSizes


@click.command("run")
@click.argument("file")
@click.option(
    "-o",
    "--output",
    metavar="OUT",
    help='Write the optimized graph: a file .tsr or .onnx ("-": .tsr to standard output).',
)
@graph_option
@rules_option
@options("aim")
@dims_option
@click.option(
    "--input",
    "input_path",
    metavar="FILE.npz",
    help="Compare and time an ONNX model on these inputs, given by name.",
)
@options("search")
@json_option("Write a report as JSON.")
@click.option("--html", "html_path", metavar="FILE", help="Write a report as one HTML page.")
@click.option("--dot", "dot_path", metavar="FILE", help="Write the optimized graph for Graphviz.")
@click.option(
    "--signatures", "signatures_path", metavar="FILE", help="Write the operator signatures to be priced."
)
@click.option(
    "--save-egraph", "egraph_path", metavar="FILE", help="Write the priced e-graph (egraph-serialize)."
)
@options("check")
@click.option("-v", "--verbose", is_flag=True, help="Print the work of each rule in each iteration.")
@quiet_option
def command(file: str, output: str | None, verbose: bool, quiet: bool, **given: Any) -> int:
    """Optimize the graph of FILE (.tsr, .onnx, or "-" for standard input) and verify the result.

    A .tsr file imports its rules. An ONNX model gets the rules of the pack `inference`, unless --rules names others.
    """
    started = time.perf_counter()
    if verbose and quiet:
        raise click.UsageError("--verbose and --quiet exclude each other")
    with worker_ahead(given["search"]):
        return _run(file, output, verbose, quiet, given, started)


def _run(
    file: str, output: str | None, verbose: bool, quiet: bool, given: Mapping[str, Any], started: float
) -> int:
    """Optimizes a graph, says so, and writes what was asked for. Returns the exit code."""
    from tensat_dl.files import native_output_elsewhere
    from tensat_dl.report.terminal import LiveProgress

    asked = _asked(file, output, given)
    options, explained = asked.options, asked.reports.html is not None
    with native_output_elsewhere(), LiveProgress(quiet) as progress:
        progress.phase("parse")
        opened = _open(asked)
        # not before: errors in files come at once
        from tensat_dl.run.of_model import check_fit, optimize_model

        try:
            check_fit(opened, options)
        except ValueError as e:
            raise click.UsageError(str(e)) from None
        so_far = time.perf_counter() - started
        result, egraphs = optimize_model(opened, options, progress, explained=explained, parse_seconds=so_far)
    from tensat_dl.cli.outputs import Said
    from tensat_dl.cli.written import refusal, write_answer

    said = Said()
    shown = None if quiet else _shown(asked.outputs)
    if shown is not None:
        with said.unless_gone():
            _summarize(result, opened, verbose, shown)
    # Reports say what happened whether or not the graphs agree; the graph itself is written only if they do.
    refused = refusal(result, opened, output)
    answers = [] if output is None else opened.answers(result, output)
    if len(answers) > 1:
        asked.check_buckets([path for path, _, _ in answers], (*asked.inputs, *opened.files))
    written: list[str] = []
    for path, of, answer in answers:
        if refused is not None:
            break
        refused, rows = write_answer(path, of, answer)
        written += [path] if refused is None else []
        if shown is not None:
            with said.unless_gone():
                _print_written(path, rows, refused, shown)
    asked.reports.write(opened.with_operators(result.declared), result, egraphs, written, refused is None)
    return _end(result, refused, quiet, said)


@dataclass(frozen=True, slots=True)
class _Asked:
    """The contents of a command line, but for the options about messages."""

    file: str
    output: str | None
    graph_name: str | None
    rules: tuple[str, ...]
    sizes: Mapping[str, DimSizes]  #: of a model's open dimensions
    input_path: str | None
    options: Options
    reports: Reports

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.file, *self.rules, *([self.input_path] if self.input_path else []))

    @property
    def outputs(self) -> tuple[str | None, ...]:
        return (self.output, *astuple(self.reports))

    def check_outputs(self, inputs: Sequence[str]) -> None:
        """Raises `click.UsageError` if an output would overwrite a needed file or has an unknown ending, OSError if
        it can't be written."""
        from tensat_dl.cli.outputs import check_ending, check_outputs

        check_outputs(self.outputs, inputs, "which" if is_onnx(self.file) else "whose rules and comments")
        if self.output is not None:
            check_ending(self.output)

    def check_buckets(self, paths: Sequence[str], inputs: Sequence[str]) -> None:
        """The same for the answers of buckets."""
        from tensat_dl.cli.outputs import check_outputs

        check_outputs((*paths, *astuple(self.reports)), inputs)


def _asked(file: str, output: str | None, given: Mapping[str, Any]) -> _Asked:
    """The contents of a command line, after all checks that need no file. Raises `click.UsageError`, OSError,
    `UnknownDeviceError`, `GpuError`."""
    from tensat_dl.cli.inputs import checked_dims
    from tensat_dl.cli.reports import Reports
    from tensat_dl.cost import UnknownDeviceError
    from tensat_dl.onnx import PACK
    from tensat_dl.run.machines import aimed

    reports = Reports(*(given[f"{f.name}_path"] for f in fields(Reports)))
    sizes, model = checked_dims(given["dims"]), is_onnx(file)
    rules = given["rules"] or ((PACK,) if model else ())
    try:
        aim = aimed(chosen(given), model)
    except UnknownDeviceError:
        raise
    except ValueError as e:
        raise click.UsageError(str(e)) from None
    if aim.search != "saturation" and reports.egraph is not None:
        raise click.UsageError(f"--save-egraph needs an e-graph, and the search {aim.search} has none")
    if aim.buckets and not (model and (output is None or is_onnx(output))):
        raise click.UsageError("--buckets is for ONNX models, and writes ONNX models")
    asked = _Asked(file, output, given["graph_name"], rules, sizes, given["input_path"], aim, reports)
    asked.check_outputs(asked.inputs)
    return asked


def _open(asked: _Asked) -> Model:
    """Reads the graph. Raises `TsrError`, `click.UsageError`."""
    from tensat_dl.cli.inputs import open_file
    from tensat_dl.cli.outputs import check_weights
    from tensat_dl.onnx import need_onnx

    output, options = asked.output, asked.options
    model = output if output is not None and is_onnx(output) else None
    if (options.measure and options.target == "cpu") or model is not None:
        need_onnx(output or asked.file)
    if model is not None:
        check_weights(model, (*asked.outputs, *asked.inputs))
    opened = open_file(asked.file, asked.graph_name, asked.rules, asked.sizes, asked.input_path)
    asked.check_outputs(opened.files)
    if model is not None and opened.onnx is not None:
        from tensat_dl.onnx.write import check_data

        check_data(opened.onnx, model)  # its weights may be in the file that is to be written
    return opened


def _end(result: Result, refused: Refusal | None, quiet: bool, said: Said) -> int:
    """The exit code, once all files are written."""
    from tensat_dl.cli.outputs import all_is_done

    all_is_done()
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


def _shown(outputs: Sequence[str | None]) -> Console:
    """Where the result is shown. Standard output may be the place of a file."""
    from rich.console import Console

    return Console(file=sys.stderr if "-" in outputs else sys.stdout)


def _summarize(result: Result, opened: Model, verbose: bool, console: Console) -> None:
    from tensat_dl.report.text import print_iterations, print_row, print_summary

    if verbose:
        print_iterations(result.iterations, console)
        console.print()
    print_summary(result, console)
    if opened.onnx is not None:
        print_row("model", opened.onnx.summary(), console)
        if opened.onnx.dims:
            print_row("sizes", opened.onnx.sizes(), console)


def _print_written(path: str, rows: Rows, refused: Refusal | None, console: Console) -> None:
    from tensat_dl.report.text import print_row

    for label, text in rows:
        print_row(label, text, console)
    if path != "-" and refused is None:
        print(f"written to {Path(path)}", file=console.file)
