"""``tensat-dl why``: the rules that made an optimized graph, step by step; and ``why-not``: the reason why a rule
does not fire on a graph."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tensat_dl.cli.options import chosen, graph_option, option, quiet_option, rules_option
from tensat_dl.run.options import DEVICE, sizes_of

if TYPE_CHECKING:
    from tensat_dl.cli.recorded import Recorded
    from tensat_dl.core.diagnostics import TsrError
    from tensat_dl.why.steps import Explanation


@click.command("why")
@click.argument("out")
@click.option("--from", "source", metavar="FILE", help="The original, if it has moved.")
@click.option("--html", "html_path", metavar="FILE", help="Write the steps as one HTML page.")
@click.option("-v", "--verbose", is_flag=True, help="Print every step, also repeated steps.")
@quiet_option
def why(out: str, source: str | None, html_path: str | None, verbose: bool, quiet: bool) -> int:
    """Show the steps that led to OUT, a graph that `tensat-dl run -o OUT` wrote, and evaluate each of them."""
    from rich.console import Console

    from tensat_dl.cli.inputs import open_file, warn
    from tensat_dl.cli.outputs import check_outputs
    from tensat_dl.core.diagnostics import Diagnostic
    from tensat_dl.files import native_output_elsewhere, write
    from tensat_dl.fuse.fuse import unfused
    from tensat_dl.onnx import is_onnx
    from tensat_dl.report.steps import print_steps
    from tensat_dl.report.terminal import LiveProgress
    from tensat_dl.run.pipeline import explain
    from tensat_dl.run.reading import read_tsr

    if verbose and quiet:
        raise click.UsageError("--verbose and --quiet exclude each other")
    paths = [] if html_path is None else [html_path]
    check_outputs(paths, (out,) if source is None else (out, source))
    given, made_of = _origin(out, source)
    file = given.file
    with native_output_elsewhere(), LiveProgress(quiet) as progress:
        progress.phase("parse")
        optimized = read_tsr(out, None, (), warn=warn)
        opened = open_file(file, None if is_onnx(file) else given.graph_name, given.rules, given.dims)
        program, before = opened.program, opened.graph
        check_outputs(paths, (file, *opened.files, *optimized.files))
        # Rules know nothing of fused operators, which only the output declares.
        fused = set(optimized.program.declared) - set(program.declared)
        after = unfused(optimized.graph, optimized.ops, fused)
        sizes = sizes_of(opened.onnx, given.options)
        found = explain(
            before, after, program.ops, program.rules, given.options, progress, opened.unfit, sizes
        )
    changed = opened.digest != made_of
    known = bool(found.steps) or not found.unfinished
    if changed and known:
        note = f"the graph of {file} has changed since {out} was made; the steps start at its present graph"
        warn(Diagnostic(note, None, severity="warning", path=out))
    if not quiet and known:
        print_steps(found, Console(file=sys.stderr if html_path == "-" else sys.stdout), verbose)
    if html_path is not None:
        from tensat_dl.report.html import steps_to_html

        write(html_path, steps_to_html(found))
    hint = "the optimized graph, the rules or tensat-dl may have changed since, or a time limit was reached"
    if changed:
        hint = f"the graph of {file} has changed since {out} was made"
    return _end(out, found, hint)


def _recorded(out: str) -> tuple[Recorded, str]:
    """The run that made a graph, and the digest of the original. Raises `TsrError` if these can't be known."""
    from tensat_dl.cli.recorded import recorded
    from tensat_dl.cli.run import command as run
    from tensat_dl.lang.load import read_source
    from tensat_dl.onnx import is_onnx
    from tensat_dl.why.origin import read_origin

    if is_onnx(out) and Path(out).is_file():
        hint = "`tensat-dl run FILE -o OUT.tsr` writes a graph that `why` explains; `--html` of `run` has the steps"
        raise _refusal(out, "an ONNX model does not record its origin", hint)
    origin = read_origin(read_source(out).text)
    if origin is None:
        hint = "`tensat-dl run FILE -o OUT` writes graphs with a comment that records their origin"
        raise _refusal(out, "no comment records the origin of this graph", hint)
    try:
        return recorded(run, origin.arguments, out), origin.digest
    except click.ClickException as e:
        message = f"the comment about the origin of this graph is damaged: {e.message}"
        raise _refusal(out, message) from None


def _refusal(out: str, message: str, hint: str = "") -> TsrError:
    from tensat_dl.core.diagnostics import Diagnostic, TsrError

    return TsrError([Diagnostic(message, None, hint, path=out)])


def _origin(out: str, source: str | None) -> tuple[Recorded, str]:
    """The run that made a graph, of the original at ``source`` if that is given, and the original's digest then.
    Raises `TsrError` if these can't be known."""
    from tensat_dl.onnx import is_onnx

    given, digest = _recorded(out)
    if source is not None:
        # A text of a model has one size of each dimension.
        as_text = is_onnx(given.file) and not is_onnx(source)
        given = replace(given, file=source, dims={} if as_text else given.dims)
    if given.file == "-":
        raise _refusal(
            out, "the original was read from standard input", "name the original's file: --from FILE"
        )
    if source is None and not Path(given.file).exists():
        hint = "say where it is: --from FILE"
        raise _refusal(out, f"the original, {given.file}, is not there", hint)
    return given, digest


def _end(out: str, found: Explanation, hint: str) -> int:
    """Prints errors and missing steps, with a hint at the reason. Returns the exit code."""
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


def _recorded_rules(file: str) -> tuple[str, ...]:
    """The rules of the run that made the graph of a file, also those of the original; none if that is not known.
    (An optimized graph imports nothing.)"""
    from tensat_dl.core.diagnostics import TsrError
    from tensat_dl.onnx import is_onnx

    try:
        given, _ = _recorded(file)
    except TsrError:
        return ()
    original = Path(given.file).is_file() and not is_onnx(given.file)
    return (*given.rules, given.file) if original else given.rules


@click.command("why-not")
@click.argument("rule")
@click.argument("file")
@graph_option
@rules_option
@option("device", default=DEVICE, show_default=True, help="As for `run`.")
@option("k_multi", help="As for `run`.")
@option("max_nodes", help="As for `run`.")
@option("max_iters", help="As for `run`.")
def why_not(rule: str, file: str, graph_name: str | None, rules: tuple[str, ...], **given: Any) -> int:
    """Show where RULE fires on the graph of FILE; else the place where it comes nearest, and the condition or
    difference that prevents it there.

    If FILE was made by `run`, and no --rules are given, the rules of that run are used."""
    from tensat_dl.cli.inputs import warn
    from tensat_dl.core.diagnostics import Diagnostic, TsrError
    from tensat_dl.core.words import did_you_mean
    from tensat_dl.files import native_output_elsewhere
    from tensat_dl.lang.library import packs_with
    from tensat_dl.lang.node_names import node_names
    from tensat_dl.lang.program import load_program
    from tensat_dl.report.terminal import LiveProgress
    from tensat_dl.report.whynot import answer_lines
    from tensat_dl.run.beginning import Setup
    from tensat_dl.run.reading import choose_graph
    from tensat_dl.why.whynot import why_not as find

    with native_output_elsewhere(), LiveProgress() as progress:
        progress.phase("parse")
        program = load_program(file, rules or _recorded_rules(file))
        by_name = {r.name: r for r in program.rules}
        if rule not in by_name:
            holders = packs_with(rule)
            there = f"it is in the pack `{holders[0]}`: add --rules {holders[0]}" if holders else ""
            listed = "`tensat-dl show --list rules FILE` lists the rules of a file"
            hint = there or did_you_mean(rule, by_name) or listed
            raise TsrError([Diagnostic(f"no rule `{rule}`", None, hint, path=file)])
        graph = choose_graph(program, graph_name, warn)
        names = node_names(graph, program.ops)
        setup = Setup.of(chosen(given), graph, program.rules, program.ops)
        answer = find(by_name[rule], graph, names, program.rules, setup.model, setup.limits, progress)
    for line in answer_lines(answer, graph, names):
        click.echo(line)
    return 0
