"""``tensat-dl fmt``, ``show`` and ``import``: files of the language, formatted, printed, or made of S-expressions."""

from __future__ import annotations

import sys

import click

from tensat_dl.cli.options import dims_option, graph_option, quiet_option, rules_option
from tensat_dl.sizes.dim_sizes import DimSizes


@click.command("fmt")
@click.argument("files", nargs=-1, required=True)
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if a file is not formatted.")
def fmt(files: tuple[str, ...], check: bool) -> int:
    """Rewrite FILES in the canonical format ("-": standard input to standard output)."""
    from tensat_dl.core.diagnostics import TsrError
    from tensat_dl.files import write
    from tensat_dl.lang.load import read_source
    from tensat_dl.lang.parser import parse
    from tensat_dl.lang.printer import print_file

    code = 0
    for file in files:
        try:
            source = read_source(file)
            text = print_file(parse(source))
        except TsrError as e:
            print(e.render(), file=sys.stderr)
            code = 2
            continue
        if check:
            if text != source.text:
                print(f"{file}: not formatted", file=sys.stderr)
                code = max(code, 1)
        elif file == "-" or text != source.text:
            write(file, text)
    return code


@click.command("show")
@click.argument("file")
@graph_option
@rules_option
@click.option(
    *("--list", "listed"),
    type=click.Choice(("rules", "ops")),
    help="The rules, imported ones included; or the operators with their forms.",
)
@click.option("--dot", is_flag=True, help="The graph for Graphviz.")
@click.option("--egglog", is_flag=True, help="The egglog program that `run` explores with.")
@dims_option
def show(
    file: str,
    graph_name: str | None,
    rules: tuple[str, ...],
    listed: str | None,
    dot: bool,
    egglog: bool,
    dims: tuple[tuple[str, DimSizes], ...],
) -> int:
    """Print the graph of FILE (.tsr or .onnx) with blocks and loops unrolled, or its rules, operators or egglog
    program.

    An ONNX model is printed in the language: `tensat-dl show model.onnx > model.tsr`. Values of weights are left out.
    """
    from tensat_dl.cli.inputs import checked_dims, open_file
    from tensat_dl.files import write
    from tensat_dl.lang.program import load_program
    from tensat_dl.onnx import PACK, is_onnx

    if sum((listed is not None, dot, egglog)) > 1:
        raise click.UsageError("--list, --dot and --egglog exclude one another")
    if graph_name is not None and listed:
        raise click.UsageError("--graph chooses a graph, and --list shows none")
    if rules and not (listed or egglog):
        raise click.UsageError("--rules adds rules, and a graph shows none: see --list rules")
    sizes = checked_dims(dims)
    packs = rules or ((PACK,) if is_onnx(file) else ())
    if listed:
        program = open_file(file, None, packs, sizes).program if is_onnx(file) else load_program(file, packs)
        documented = (
            [(f"{rule.name}  ({rule.kind})", rule.doc) for rule in program.rules]
            if listed == "rules"
            else [(decl.signature, decl.doc) for decl in program.ops.values()]
        )
        for title, doc in documented:
            click.echo(title)
            for line in doc.splitlines():
                click.echo(f"    {line}".rstrip())
        return 0
    opened = open_file(file, graph_name, packs if egglog else (), sizes)
    if dot:
        from tensat_dl.report.graphs import graph_to_dot

        write("-", graph_to_dot(opened.graph))
    elif egglog:
        from tensat_dl.engine.listing import listing
        from tensat_dl.engine.program import EgglogProgram as Datalog
        from tensat_dl.engine.syntax import written

        datalog = Datalog(opened.program.ops, opened.program.rules, opened.graph)
        write("-", written(listing(datalog, opened.graph)))
    else:
        write("-", opened.text(opened.graph, opened=opened.opened))
    return 0


@click.command("import")
@click.argument("file", metavar="RULES.txt")
@click.option(
    "-o", "--out", required=True, metavar="RULES.tsr", help='Where to write ("-": standard output).'
)
@click.option("--multi", is_flag=True, help="Every two lines are one multi-pattern rule.")
@quiet_option
def translate(file: str, out: str, multi: bool, quiet: bool) -> int:
    """Translate the rewrite rules in RULES.txt ("-": standard input) to the .tsr language.

    RULES.txt has a rule `(..)=>(..)` in each line, in the S-expressions of TENSAT and TASO's operators, such as

    \b
      (relu (conv2d 1 1 0 0 ?x ?w))=>(conv2d 1 1 0 2 ?x ?w)

    With --multi every two lines are one rule with two outputs. Rules are called by their file and line. Check them
    with `tensat-dl check`: published sets have false ones.

    A rule that can't be translated is left out, and the reason is printed. Exits with 0 if there are none, with 1 if
    the other rules were written, and with 2 if there is no other rule.
    """
    from tensat_dl.cli.inputs import warn
    from tensat_dl.cli.outputs import check_outputs
    from tensat_dl.core.words import plural
    from tensat_dl.files import write
    from tensat_dl.lang.library import library_operators
    from tensat_dl.lang.load import read_source
    from tensat_dl.lang.sexpr.importer import import_rules

    check_outputs([out], [file])
    found = import_rules(read_source(file), multi, library_operators())
    write(out, found.text)
    for problem in found.problems:
        print(problem.render(), file=sys.stderr)
    if not quiet:
        for note in found.notes:
            warn(note)
        left_out = f", {found.left_out} left out" if found.left_out else ""
        rules = f"{found.rules} {plural(found.rules, 'rule')}"
        print(f"{file}: {rules}{left_out}", file=sys.stderr if out == "-" else sys.stdout)
    return 1 if found.problems else 0
