"""``tensat-dl fmt``: format files."""

from __future__ import annotations

import sys

import click


@click.command("fmt")
@click.argument("files", nargs=-1, required=True)
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if a file is not formatted.")
def command(files: tuple[str, ...], check: bool) -> int:
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
