"""``tensat-dl coverage``: how operators and transformations pass each other."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tensat_dl.cli.options import json_option, quiet_option, where_options

if TYPE_CHECKING:
    from typing import TextIO

    from tensat_dl.coverage.cells import Axioms
    from tensat_dl.coverage.work import Covered
    from tensat_dl.lang.program import Program

#: The pack for models, which equations are derived from if they can be.
FIRST = "inference"
#: What is said of a cell.
STATUS = {
    "rule": "rule",
    "derived": "derived",
    "true": "true, but no rule derives it",
    "false": "false",
    "none": "does not apply",
}


@click.command("coverage")
@click.argument("file", metavar="[FILE.tsr]", required=False)
@click.option("--ops", metavar="OP,..", help="The operators, separated by commas.  [default: all]")
@click.option(
    "--by",
    metavar="NAME,..",
    help="The transformations, separated by commas, such as transpose.  [default: all]",
)
@click.option(
    "--from",
    "packs",
    multiple=True,
    metavar="PACK",
    help="Derive equations from this pack or file; may be repeated.  [default: the library]",
)
@click.option(
    "-o", "--out", metavar="PAGE.md", help='Write a page with all equations ("-": standard output).'
)
@click.option(
    "--holes", metavar="RULES.tsr", help="Write the true equations that no rules derive, as a pack."
)
@where_options()
@click.option("--again", is_flag=True, help="Examine cells that are known, too.")
@json_option('Write a report as JSON ("-": standard output).')
@quiet_option
def command(
    file: str | None,
    ops: str | None,
    by: str | None,
    packs: tuple[str, ...],
    out: str | None,
    holes: str | None,
    jobs: int | None,
    ray: str | None,
    again: bool,
    json_path: str | None,
    quiet: bool,
) -> int:
    """Say for operators and transformations how the two pass each other: by which rule, by a derivation from which
    rules, or not at all, with a counterexample.

    The operators are those of the library, or those that FILE.tsr declares. An equation that is true but follows from
    no rules is a hole; --holes writes these as a pack.

    Ctrl-C prints the cells that are complete, and exits with 130. What was found is kept, so that the same command
    goes on. Exits with 1 if there is a hole.
    """
    from tensat_dl.cli.outputs import check_outputs, write_json
    from tensat_dl.coverage.holes import holes_text
    from tensat_dl.coverage.page import cells_to_json, page
    from tensat_dl.coverage.work import coverage
    from tensat_dl.files import write
    from tensat_dl.jobs.run import Where
    from tensat_dl.report.terminal import LiveProgress

    started = time.perf_counter()
    check_outputs([out, holes, json_path], [file] if file else [])
    program = _program(file, packs)
    check_outputs([out, holes, json_path], tuple(map(str, program.files)))
    operators = _operators(ops, program, file is not None)
    transformations = _transformations(by)
    wanted = [(op, t) for op in operators for t in transformations]
    with LiveProgress(quiet) as live:
        found = coverage(wanted, program.ops, _sources(packs, program), Where(jobs, ray), live, again)
    if out:
        write(out, page(found.cells))
    if holes:
        write(holes, holes_text(found.cells, _imported(file, holes)))
    if not quiet:
        stream = sys.stderr if "-" in (out, holes, json_path) else sys.stdout
        _print(found, stream)
        seconds = time.perf_counter() - started
        print(f"{_summary(found)} in {seconds:.0f} s", file=stream)
        if found.interrupted:
            print("interrupted: the same command goes on", file=stream)
    write_json(json_path, {"interrupted": found.interrupted, "cells": cells_to_json(found.cells)})
    if found.interrupted:
        return 130
    return int(any(a.status == "true" for c in found.cells for a in c.findings))


def _program(file: str | None, packs: tuple[str, ...]) -> Program:
    """The file, or an empty one, with the packs: without any, with the whole library."""
    from tensat_dl.core.diagnostics import Source
    from tensat_dl.lang.library import packs as library
    from tensat_dl.lang.program import load_program

    wanted = packs or tuple(library())
    if file:
        return load_program(file, wanted, option="--from")
    return load_program("coverage.tsr", wanted, Source("coverage.tsr", ""), option="--from")


def _sources(packs: tuple[str, ...], program: Program) -> list[Axioms]:
    """The rules to derive from: the packs together; or the library's, those of the largest pack for models first."""
    from tensat_dl.coverage.cells import Axioms
    from tensat_dl.lang.library import packs as library
    from tensat_dl.verify.prove.prove import axioms_of

    if packs:
        return [Axioms(", ".join(packs), axioms_of(program, packs))]
    return [Axioms(FIRST, axioms_of(program, [FIRST])), Axioms("library", axioms_of(program, library()))]


def _operators(ops: str | None, program: Program, own: bool) -> list[str]:
    """The operators of --ops; without it those of the file, or of the library, that have operands."""
    from tensat_dl.core.diagnostics import Diagnostic, TsrError

    if ops is None:
        found = program.declared if own else program.ops
        names = [name for name in found if program.ops[name].inputs]
        if not names:
            hint = "name some of the library's: --ops matmul,relu"
            raise TsrError(
                [Diagnostic("the file declares no operator with operands", None, hint, path=program.path)]
            )
        return names
    names = [name.strip() for name in ops.split(",") if name.strip()]
    for name in names:
        problem = ""
        if name not in program.ops:
            problem = f"no operator `{name}` is declared"
        elif not program.ops[name].inputs:
            problem = f"operator `{name}` has no operands"
        elif program.ops[name].opaque:
            problem = f"operator `{name}` is opaque: only its types are known"
        if problem:
            raise TsrError([Diagnostic(problem, None, path="--ops")])
    return list(dict.fromkeys(names))


def _transformations(by: str | None) -> list[str]:
    """The transformations of --by; without it all."""
    from tensat_dl.core.diagnostics import Diagnostic, TsrError
    from tensat_dl.coverage.transformations import TRANSFORMATIONS

    names = [t.name for t in TRANSFORMATIONS]
    if by is None:
        return names
    chosen = [name.strip() for name in by.split(",") if name.strip()]
    for name in chosen:
        if name not in names:
            hint = f"one of {', '.join(names)}"
            raise TsrError([Diagnostic(f"no transformation is called `{name}`", None, hint, path="--by")])
    return list(dict.fromkeys(chosen))


def _imported(file: str | None, out: str) -> list[str]:
    """The files that a pack beside ``out`` imports for its operators."""
    if file is None:
        return []
    return [file if out == "-" else os.path.relpath(file, Path(out).resolve().parent)]


def _print(found: Covered, stream: TextIO) -> None:
    """A heading for each cell, and two lines for each equation."""
    from tensat_dl.coverage.page import known, shortest

    for cell in found.cells:
        reason = f": {cell.reason}" if cell.reason else ""
        print(f"{cell.op}, {cell.transformation}: {STATUS[cell.status]}{reason}", file=stream)
        for finding in cell.findings:
            law = finding.law
            where = f" where {', '.join(law.where)}" if law.where else ""
            print(f"  {law.left} = {law.right}{where}", file=stream)
            notes = shortest(finding) if finding.status == "false" else [known(finding)]
            for note in notes:
                print(f"      {note}", file=stream)


def _summary(found: Covered) -> str:
    from collections import Counter

    from tensat_dl.core.words import counted

    counts = Counter(c.status for c in found.cells)
    told = ", ".join(f"{counts[s]:,} {word}" for s, word in STATUS.items() if counts[s])
    return f"{counted(len(found.cells), 'cell')}: {told}" if told else "0 cells"
