"""``tensat-dl why-not``: what keeps a rule from firing on a graph."""

from __future__ import annotations

from typing import Any

import click

from tensat_dl.cli.options import chosen, option
from tensat_dl.run.machines import DEVICE

AS_FOR_RUN = "As for `run`."


@click.command("why-not")
@click.argument("rule")
@click.argument("file")
@click.option("--graph", "graph_name", metavar="NAME", help="Which graph, if the file has several.")
@click.option(
    "--rules", multiple=True, metavar="PACK", help="Also use a rule pack or .tsr file; may be repeated."
)
@option("device", default=DEVICE, show_default=True, help=AS_FOR_RUN)
@option("k_multi", help=AS_FOR_RUN)
@option("max_nodes", help=AS_FOR_RUN)
@option("max_iters", help=AS_FOR_RUN)
def command(rule: str, file: str, graph_name: str | None, rules: tuple[str, ...], **given: Any) -> int:
    """Show where RULE comes nearest to firing on the graph of FILE, and what fails there; or where it fires."""
    from tensat_dl.cli.common import choose_graph, warn
    from tensat_dl.core.diagnostics import Diagnostic, TsrError, did_you_mean
    from tensat_dl.files import native_output_elsewhere
    from tensat_dl.lang.imports import packs_with
    from tensat_dl.lang.node_names import node_names
    from tensat_dl.lang.program import load_program
    from tensat_dl.report.progress import LiveProgress
    from tensat_dl.report.whynot import answer_lines
    from tensat_dl.why.whynot import why_not

    with native_output_elsewhere(), LiveProgress() as progress:
        progress.phase("parse")
        program = load_program(file, rules)
        for w in program.warnings:
            warn(w)
        by_name = {r.name: r for r in program.rules}
        if rule not in by_name:
            holders = packs_with(rule)
            hint = f"it is in the pack `{holders[0]}`: add --rules {holders[0]}" if holders else ""
            hint = (
                hint
                or did_you_mean(rule, by_name)
                or "`tensat-dl show --rules FILE` lists the rules of a file"
            )
            raise TsrError([Diagnostic(f"no rule `{rule}`", None, hint, path=file)])
        graph = choose_graph(program, graph_name)
        names = node_names(graph, program.ops)
        setup = chosen(given).setup(program.ops)
        answer = why_not(by_name[rule], graph, names, program.rules, setup.model, setup.limits, progress)
    for line in answer_lines(answer, graph, names):
        click.echo(line)
    return 0
