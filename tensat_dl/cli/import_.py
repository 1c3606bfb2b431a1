"""``tensat-dl import``: rules from S-expressions."""

from __future__ import annotations

import sys

import click


@click.command("import")
@click.argument("file", metavar="RULES.txt")
@click.option(
    "-o", "--out", required=True, metavar="RULES.tsr", help='Where to write ("-": standard output).'
)
@click.option("--multi", is_flag=True, help="Every two lines are one multi-pattern rule.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
def command(file: str, out: str, multi: bool, quiet: bool) -> int:
    """Translate the rewrite rules in RULES.txt ("-": standard input) to the .tsr language.

    RULES.txt has a rule `(..)=>(..)` in each line, in the S-expressions of TENSAT and TASO's operators, such as

    \b
      (relu (conv2d 1 1 0 0 ?x ?w))=>(conv2d 1 1 0 2 ?x ?w)

    With --multi every two lines are one rule with two outputs. Rules are called by their file and line. Check them
    with `tensat-dl check`: published sets have false ones.
    """
    from tensat_dl.cli.common import warn
    from tensat_dl.cli.outputs import check_outputs
    from tensat_dl.files import check_writable, write
    from tensat_dl.lang.library import library_operators
    from tensat_dl.lang.load import read_source
    from tensat_dl.lang.sexpr.importer import import_rules

    check_writable([out])
    check_outputs([out], [file], "which")
    found = import_rules(read_source(file), multi, library_operators())
    write(out, found.text)
    if not quiet:
        for note in found.notes:
            warn(note)
        left_out = f", {len(found.notes)} left out" if found.notes else ""
        rules = f"{found.rules} rule{'s' if found.rules != 1 else ''}"
        print(f"{file}: {rules}{left_out}", file=sys.stderr if out == "-" else sys.stdout)
    return 0
