"""``tensat-dl show``: graphs, rules and operators as text."""

from __future__ import annotations

import click


@click.command("show")
@click.argument("file")
@click.option("--graph", "graph_name", metavar="NAME", help="Which graph, if the file has several.")
@click.option(
    "--rules", "rules", is_flag=True, help="The rules, imported ones included, with their equations."
)
@click.option("--ops", "ops", is_flag=True, help="The operators, with their forms.")
@click.option("--dot", is_flag=True, help="The graph for Graphviz.")
@click.option("--egglog", is_flag=True, help="The egglog program that `run` explores with.")
def command(file: str, graph_name: str | None, rules: bool, ops: bool, dot: bool, egglog: bool) -> int:
    """Print the graph of FILE with blocks and loops unrolled, or what an option names."""
    from tensat_dl.cli.common import choose_graph
    from tensat_dl.files import write
    from tensat_dl.lang.program import load_program

    if sum((rules, ops, dot, egglog)) > 1:
        raise click.UsageError("--rules, --ops, --dot and --egglog exclude one another")
    if graph_name is not None and (rules or ops):
        raise click.UsageError("--graph chooses a graph, and --rules and --ops show none")
    program = load_program(file)
    if rules:
        for rule in program.rules:
            click.echo(f"{rule.name}  ({rule.kind})")
            for line in rule.doc.splitlines():
                click.echo(f"    {line}".rstrip())
    elif ops:
        for decl in program.ops.values():
            click.echo(decl.signature)
            for line in decl.doc.splitlines():
                click.echo(f"    {line}".rstrip())
    elif dot:
        from tensat_dl.report.dot import graph_to_dot

        write("-", graph_to_dot(choose_graph(program, graph_name)))
    elif egglog:
        from tensat_dl.datalog.listing import listing
        from tensat_dl.datalog.program import Program as Datalog

        graph = choose_graph(program, graph_name)
        write("-", listing(Datalog(program.ops, program.rules, graph), graph))
    else:
        from tensat_dl.cli.declarations import header
        from tensat_dl.report.tsr import graph_to_tsr

        graph = choose_graph(program, graph_name)
        write("-", graph_to_tsr(graph, program.ops, header(program, graph)))
    return 0
