"""``tensat-dl show``: graphs, rules and operators as text."""

from __future__ import annotations

import click

from tensat_dl.cli.options import DIM_HELP, Dim


@click.command("show")
@click.argument("file")
@click.option("--graph", "graph_name", metavar="NAME", help="Which graph, if the file has several.")
@click.option(
    "--rules", "rules", is_flag=True, help="The rules, imported ones included, with their equations."
)
@click.option("--ops", "ops", is_flag=True, help="The operators, with their forms.")
@click.option("--dot", is_flag=True, help="The graph for Graphviz.")
@click.option("--egglog", is_flag=True, help="The egglog program that `run` explores with.")
@click.option("--dim", "dims", multiple=True, type=Dim(), metavar="NAME=N", help=DIM_HELP)
def command(
    file: str,
    graph_name: str | None,
    rules: bool,
    ops: bool,
    dot: bool,
    egglog: bool,
    dims: tuple[tuple[str, int], ...],
) -> int:
    """Print the graph of FILE (.tsr or .onnx) with blocks and loops unrolled, or what an option names.

    An ONNX model is printed in the language: `tensat-dl show model.onnx > model.tsr`. Values of weights are left out.
    """
    from tensat_dl.cli.models import checked_dims, is_onnx, open_file
    from tensat_dl.files import write
    from tensat_dl.lang.program import load_program
    from tensat_dl.onnx.installed import PACK

    if sum((rules, ops, dot, egglog)) > 1:
        raise click.UsageError("--rules, --ops, --dot and --egglog exclude one another")
    if graph_name is not None and (rules or ops):
        raise click.UsageError("--graph chooses a graph, and --rules and --ops show none")
    sizes = checked_dims(dims)
    if rules or ops:
        program = open_file(file, None, (PACK,), sizes).program if is_onnx(file) else load_program(file)
        if rules:
            for rule in program.rules:
                click.echo(f"{rule.name}  ({rule.kind})")
                for line in rule.doc.splitlines():
                    click.echo(f"    {line}".rstrip())
        else:
            for decl in program.ops.values():
                click.echo(decl.signature)
                for line in decl.doc.splitlines():
                    click.echo(f"    {line}".rstrip())
        return 0
    opened = open_file(file, graph_name, (PACK,) if egglog and is_onnx(file) else (), sizes)
    if dot:
        from tensat_dl.report.dot import graph_to_dot

        write("-", graph_to_dot(opened.graph))
    elif egglog:
        from tensat_dl.engine.listing import listing
        from tensat_dl.engine.program import EgglogProgram as Datalog

        datalog = Datalog(opened.program.ops, opened.program.rules, opened.graph)
        write("-", listing(datalog, opened.graph))
    else:
        write("-", opened.text(opened.graph))
    return 0
