"""``tensat-dl discover``: finds rules over given operators."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from tensat_dl.cli.options import json_option, quiet_option, where_options

if TYPE_CHECKING:
    from tensat_dl.core.rule import RewriteRule
    from tensat_dl.discover.discover import Discovery
    from tensat_dl.lang.program import Program

#: Operators that laws of one's own operators are looked for with, beside those that these are composed of.
COMPANIONS = ("ewadd", "concat", "relu")
#: Variables of a rule, if `--leaves` does not say: so many; with `--op` and three operands or more, as many as two
#: applications with three operands have that share one, so that merges are among the laws.
LEAVES, LEAVES_OF_THREE = 4, 5


@click.command("discover")
@click.argument("file", metavar="[FILE.tsr]", required=False)
@click.option("--ops", metavar="OP,..", help="The operators, and numbers, separated by commas.")
@click.option(
    "--op",
    "about",
    multiple=True,
    metavar="OP",
    help="Find laws of this operator; may be repeated. Without --ops: with those it is composed of, and "
    + ", ".join(COMPANIONS)
    + ".",
)
@click.option(
    "--with",
    "packs",
    multiple=True,
    metavar="PACK",
    help="Leave out what follows from this pack or file; may be repeated.",
)
@click.option(
    "-o", "--out", required=True, metavar="FOUND.tsr", help='Where to write ("-": standard output).'
)
@click.option(
    "--size",
    default=3,
    show_default=True,
    type=click.IntRange(1),
    metavar="N",
    help="Operators on each side of a rule.",
)
@click.option(
    "--leaves",
    type=click.IntRange(1, 6),
    metavar="N",
    show_default=f"{LEAVES}; {LEAVES_OF_THREE} for an --op of three operands or more",
    help="Variables of a rule.",
)
@where_options()
@click.option(
    "--resume", is_flag=True, help="Go on with an interrupted discovery that has the same arguments."
)
@json_option('Write a report as JSON ("-": standard output).')
@quiet_option
def command(
    file: str | None,
    ops: str | None,
    about: tuple[str, ...],
    packs: tuple[str, ...],
    out: str,
    size: int,
    leaves: int | None,
    jobs: int | None,
    ray: str | None,
    resume: bool,
    json_path: str | None,
    quiet: bool,
) -> int:
    """Find rules between terms of the given operators, the library's and those of FILE.tsr, and write them as a pack.

    Every rule is the most general form that was found to be true, has passed `tensat-dl check`, and does not follow
    from the others. Those that save most come first.

    Ctrl-C writes the rules that were found by then, if any, and exits with 130; the same command with --resume goes
    on. What is known so far is kept in FOUND.tsr.partial until the discovery is complete.
    """
    from tensat_dl.cli.outputs import check_outputs, write_json
    from tensat_dl.cost.device import load_device
    from tensat_dl.cost.model import CostModel
    from tensat_dl.discover.corpus import Corpus, corpus
    from tensat_dl.discover.discover import Settings, discover
    from tensat_dl.discover.memo import Memo, key_of
    from tensat_dl.discover.menu import menu
    from tensat_dl.discover.pack import pack_text
    from tensat_dl.files import write
    from tensat_dl.jobs.run import Where
    from tensat_dl.report.terminal import LiveProgress

    if not ops and not about:
        raise click.UsageError("name the operators: --ops matmul,ewadd,relu or --op gemm")
    started = time.perf_counter()
    check_outputs([out, json_path], [file] if file else [])
    program = _program(file, packs)
    check_outputs([out, json_path], tuple(map(str, program.files)))
    chosen = menu(program.ops, [*about, *_listed(ops, about, program)])
    if leaves is None:
        leaves = LEAVES_OF_THREE if any(chosen.arity(op) >= 3 for op in about) else LEAVES
    settings = Settings(size, leaves, frozenset(about))
    known = tuple(_known(program, packs))
    parts = (*chosen.names, *(f"{n:g}" for n in chosen.numbers))
    arguments = (chosen.names, chosen.numbers, settings, [r.content for r in known], sorted(packs))
    partial = None if out == "-" else Path(f"{out}.partial")
    memo = Memo.at(partial, key_of(arguments), resume)
    if resume and not memo.known and not quiet:
        print("note: nothing of this discovery is there to go on with: it begins anew", file=sys.stderr)
    with LiveProgress(quiet) as live:
        costs = CostModel(program.ops, load_device("h100"))
        models = Corpus(corpus(), costs)
        found = discover(chosen, known, settings, costs, memo, Where(jobs, ray), live, models)
    nothing = found.interrupted and not found.rules  # what stands there may be of use
    if not nothing:
        own = file if file and any(op in program.declared for op in chosen.names) else None
        imports = [_relative(own, out)] if own else []
        write(out, pack_text(found.rules, _header(found, parts), imports))
    if not found.interrupted:
        memo.remove()
    if not quiet:
        place = f"{out} is not written" if nothing else out
        stream = sys.stderr if "-" in (out, json_path) else sys.stdout
        _print(found, place, time.perf_counter() - started, stream)
    write_json(json_path, _report(found, parts, time.perf_counter() - started))
    return 130 if found.interrupted else 0


def _program(file: str | None, packs: tuple[str, ...]) -> Program:
    """The file, or an empty one, with the packs."""
    from tensat_dl.core.diagnostics import Source
    from tensat_dl.lang.program import load_program

    if file:
        return load_program(file, packs, option="--with")
    return load_program("discover.tsr", packs, Source("discover.tsr", ""), option="--with")


def _listed(ops: str | None, about: tuple[str, ...], program: Program) -> list[str]:
    """The operators of --ops; without it those that belong to --op."""
    if ops:
        return [name.strip() for name in ops.split(",") if name.strip()]
    parts = program.ops.closure(about) - set(about)
    return [*(name for name in program.ops if name in parts and program.ops[name].inputs), *COMPANIONS]


def _known(program: Program, packs: tuple[str, ...]) -> list[RewriteRule]:
    """The rules of the packs, and the definitions of compositions."""
    from tensat_dl.verify.prove.prove import axioms_of

    return [r for r in axioms_of(program, packs) if r.index is None]


def _relative(path: str, out: str) -> str:
    return path if out == "-" else os.path.relpath(path, Path(out).resolve().parent)


def _header(found: Discovery, parts: tuple[str, ...]) -> list[str]:
    lines = [f"Found by `tensat-dl discover` over {', '.join(parts)}."]
    if found.interrupted:
        lines.append("Interrupted: not all was tried, and some rules may follow from others.")
    return lines


def _print(found: Discovery, place: str, seconds: float, stream: TextIO) -> None:
    """A line of counts, and one about an interrupt."""
    from tensat_dl.core.words import plural

    count = len(found.rules)
    proved = sum(r.status == "proved" for r in found.rules)
    rules = f"{count} {plural(count, 'rule')} of {found.candidates:,} candidates"
    print(f"{place}: {rules}, {proved} proved for all sizes in {seconds:.0f} s", file=stream)
    if found.interrupted:
        print("interrupted: not all was tried; --resume goes on", file=stream)


def _report(found: Discovery, parts: tuple[str, ...], seconds: float) -> dict[str, object]:
    from tensat_dl.report.verdicts import verdict_to_json

    return {
        "ops": list(parts),
        "candidates": found.candidates,
        "derived": found.dropped,
        "interrupted": found.interrupted,
        "seconds": seconds,
        "rules": [
            {
                "name": r.name,
                "text": r.text,
                "saves_on_models_ms": r.worth.corpus,
                "saves_by_side_ms": r.worth.sides,
                "verdicts": [verdict_to_json(v) for v in r.verdicts],
            }
            for r in found.rules
        ],
    }
