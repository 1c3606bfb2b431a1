"""``tensat-dl why``: which rules made an optimized graph, step by step."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tensat_dl.cli.models import Opened
    from tensat_dl.cli.recorded import Recorded
    from tensat_dl.core.graph import Graph
    from tensat_dl.core.progress import Progress
    from tensat_dl.run.options import Options
    from tensat_dl.why.steps import Explanation


@click.command("why")
@click.argument("out")
@click.option("--from", "source", metavar="FILE", help="The original, if it is not where it was.")
@click.option("--html", "html_path", metavar="FILE", help="Write the steps as one HTML page.")
@click.option("-v", "--verbose", is_flag=True, help="Print every step, also many alike.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
def command(out: str, source: str | None, html_path: str | None, verbose: bool, quiet: bool) -> int:
    """Show the steps that led to OUT, a graph that `tensat-dl run -o OUT` wrote, and evaluate each of them."""
    from rich.console import Console

    from tensat_dl.cli.common import choose_graph, warn
    from tensat_dl.cli.models import is_onnx, open_file
    from tensat_dl.cli.outputs import check_outputs
    from tensat_dl.core.diagnostics import Diagnostic
    from tensat_dl.files import check_writable, native_output_elsewhere, write
    from tensat_dl.fuse.unfuse import unfused
    from tensat_dl.lang.program import load_program
    from tensat_dl.report.progress import LiveProgress
    from tensat_dl.report.steps import print_steps
    from tensat_dl.why.origin import digest

    if verbose and quiet:
        raise click.UsageError("--verbose and --quiet exclude each other")
    paths = [] if html_path is None else [html_path]
    check_writable(paths)
    check_outputs(paths, (out,) if source is None else (out, source), "which")
    given, made_of = _origin(out, source)
    file = given.file
    with native_output_elsewhere(), LiveProgress(quiet) as progress:
        progress.phase("parse")
        optimized = load_program(out)
        dims, name = (given.dims, None) if is_onnx(file) else ({}, given.graph_name)
        opened = open_file(file, name, given.rules, dims)
        program, before = opened.program, opened.graph
        check_outputs(paths, (file, *opened.files, *map(str, optimized.files)), "which")
        # Rules know nothing of fused operators, which only the output declares.
        fused = set(optimized.declared) - set(program.declared)
        after = unfused(choose_graph(optimized, None), optimized.ops, fused)
        found = _explain(opened, after, given.options, progress)
    changed = digest(before, program.ops) != made_of
    known = bool(found.steps) or not found.unfinished
    if changed and known:
        note = f"the graph of {file} has changed since {out} was made; the steps start at what it is now"
        warn(Diagnostic(note, None, severity="warning", path=out))
    if not quiet and known:
        print_steps(before.name, found, given.options.target, Console(), verbose)
    if html_path is not None:
        from tensat_dl.report.steps_html import steps_to_html

        write(html_path, steps_to_html(before.name, found, given.options.target))
    hint = "the optimized graph, the rules or tensat-dl may have changed since, or a time limit bound"
    if changed:
        hint = f"{file} is not what {out} was made of: its graph has changed since"
    return _end(out, found, hint)


def _origin(out: str, source: str | None) -> tuple[Recorded, str]:
    """How a graph was made, of the original at ``source`` if that is given, and the original's digest then. Raises
    `TsrError` if that can't be known."""
    from tensat_dl.cli.models import is_onnx
    from tensat_dl.cli.recorded import recorded
    from tensat_dl.cli.run import command as run
    from tensat_dl.core.diagnostics import Diagnostic, TsrError
    from tensat_dl.lang.load import read_source
    from tensat_dl.why.origin import read_origin

    def refuse(message: str, hint: str) -> TsrError:
        return TsrError([Diagnostic(message, None, hint, path=out)])

    if is_onnx(out) and Path(out).is_file():
        hint = "`tensat-dl run FILE -o OUT.tsr` writes a graph that `why` explains; `--html` of `run` has the steps"
        raise refuse("an ONNX model does not say what it was made of", hint)
    origin = read_origin(read_source(out).text)
    if origin is None:
        hint = "`tensat-dl run FILE -o OUT` writes graphs with a comment that says what they were made of"
        raise refuse("no comment says what this graph was made of", hint)
    try:
        given = recorded(run, origin.arguments, out)
    except click.ClickException as e:
        raise refuse(
            f"the comment that says what this graph was made of is damaged: {e.message}", ""
        ) from None
    given = given if source is None else replace(given, file=source)
    if given.file == "-":
        raise refuse("this graph was made of standard input", "name the original's file: --from FILE")
    if source is None and not Path(given.file).exists():
        raise refuse(f"the original, {given.file}, is not there", "say where it is: --from FILE")
    return given, origin.digest


def _explain(opened: Opened, after: Graph, options: Options, progress: Progress) -> Explanation:
    """The steps from a graph to another one, as a run with these options found them."""
    from tensat_dl.run.explain import explain
    from tensat_dl.verify.rules import rounding_alike
    from tensat_dl.why.steps import Explanation
    from tensat_dl.why.way import NoWay

    ops, rules = opened.program.ops, opened.program.rules
    setup = options.setup(ops, unfit=opened.fixed_sizes)
    if not options.reassociate:
        rules = rounding_alike(rules, ops, progress.checking)
    try:
        return explain(opened.graph, after, rules, setup, progress)
    except NoWay as e:
        return Explanation((), e.message)


def _end(out: str, found: Explanation, hint: str) -> int:
    """Says what is wrong or missing, and why that may be; the exit code."""
    if found.unfinished:
        ends = "the steps end before the optimized graph: " if found.steps else ""
        hint = "" if found.interrupted else f"\n  = hint: {hint}"
        print(f"{out}: error: {ends}{found.unfinished}{hint}", file=sys.stderr)
    wrong = [e for e in found.steps if e.verdict == "different"]
    for step in wrong[:1]:
        print(f"error: rule {step.step.rule.name} is false: {step.message}", file=sys.stderr)
    if wrong:
        return 1
    if found.interrupted:
        return 130
    return 3 if found.unfinished else 0
