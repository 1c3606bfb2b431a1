"""``tensat-dl prove``: derives rules from other rules."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from tensat_dl.cli.options import Seconds

if TYPE_CHECKING:
    from tensat_dl.verify.prove.types import Proof


@click.command("prove")
@click.argument("file", metavar="RULES.tsr")
@click.option(
    "--from",
    "packs",
    required=True,
    multiple=True,
    metavar="PACK",
    help="Rules to derive from: a pack or file.",
)
@click.option(
    "--assignments",
    default=6,
    show_default=True,
    type=click.IntRange(1),
    metavar="N",
    help="Derive each rule at N assignments of shapes and attributes.",
)
@click.option(
    "--max-nodes", default=20_000, show_default=True, type=click.IntRange(1), metavar="N", help="E-nodes."
)
@click.option(
    "--max-iters", default=8, show_default=True, type=click.IntRange(1), metavar="N", help="Iterations."
)
@click.option(
    "--time-limit",
    type=Seconds(),
    metavar="S",
    help="Stop after S seconds, and report the proofs found so far.",
)
@click.option("--json", "json_path", metavar="FILE", help='Write a report as JSON ("-": standard output).')
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
def command(
    file: str,
    packs: tuple[str, ...],
    assignments: int,
    max_nodes: int,
    max_iters: int,
    time_limit: float | None,
    json_path: str | None,
    quiet: bool,
) -> int:
    """Derive the rules of RULES.tsr from the rules of PACK, whose equations make both sides of a rule equal.

    A rule is derived at several assignments of shapes and attributes. It never proves itself: axioms of its name
    are left out. Limits are for each e-graph.

    Exits with 0 if every rule is derived, and with 1 if one is not. Such a rule need not be false: the axioms may say
    too little, or a limit was reached. `tensat-dl check` looks for counterexamples.
    """
    from rich.console import Console

    from tensat_dl.cli.common import warn
    from tensat_dl.cli.outputs import check_outputs
    from tensat_dl.core.diagnostics import Diagnostic, TsrError
    from tensat_dl.engine.types import Limits
    from tensat_dl.files import check_writable, write
    from tensat_dl.lang.program import load_program
    from tensat_dl.ops.typing import Inference
    from tensat_dl.report.proofs import print_proofs, proof_to_json
    from tensat_dl.verify.prove.axioms import axioms_of
    from tensat_dl.verify.prove.goals import goal
    from tensat_dl.verify.prove.prove import Prover

    started = time.perf_counter()
    outputs = [] if json_path is None else [json_path]
    check_writable(outputs)
    program = load_program(file, packs, option="--from")
    check_outputs(outputs, (file, *map(str, program.files)), "which")
    for w in program.warnings:
        warn(w)
    rules = [r for r in program.rules if r.declared in program.own_rules]
    if not rules:
        hint = "imported ones are proved with their file"
        raise TsrError([Diagnostic("the file has no rules of its own", None, hint, path=program.path)])
    limits = Limits(max_nodes, max_iters, k_multi=None, seconds=time_limit)
    proofs: list[Proof] = []
    interrupted = False
    with _progress(quiet) as progress:
        try:
            infer = Inference(program.ops)
            goals = []
            for rule in rules:
                progress(rule.name, "assignments")
                goals.append(goal(rule, infer, assignments))
            for proof in Prover(axioms_of(program, packs), program.ops, limits, progress).run(goals):
                proofs.append(proof)
        except KeyboardInterrupt:
            interrupted = True
    interrupted = interrupted or any(p.stop == "interrupted" for p in proofs)
    derived = sum(p.derived for p in proofs)
    summary = f"{file}: {derived} of {len(rules)} rules derived from {', '.join(packs)}"
    if not quiet:
        out = sys.stderr if json_path == "-" else sys.stdout
        print_proofs(proofs, program.ops, Console(file=out, highlight=False))
        seconds = time.perf_counter() - started
        print(f"{summary} in {seconds:.1f} s{', interrupted' if interrupted else ''}", file=out)
    if json_path is not None:
        report = {
            "file": file,
            "from": list(packs),
            "limits": {"nodes": max_nodes, "iterations": max_iters, "seconds": time_limit},
            "rules": [proof_to_json(p, program.ops) for p in proofs],
            "derived": derived,
            "seconds": time.perf_counter() - started,
        }
        write(json_path, json.dumps(report, indent=2) + "\n")
    if interrupted:
        return 130
    return 0 if derived == len(rules) else 1


@contextmanager
def _progress(quiet: bool) -> Iterator[Callable[[str, str], None]]:
    """Shows the rule that is tried, on a terminal only."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(file=sys.stderr)
    if quiet or not console.is_terminal:
        yield lambda what, detail: None
        return
    detail = TextColumn("{task.fields[detail]}", style="dim", markup=False)
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn(), detail)
    with Progress(*columns, console=console, transient=True) as display:
        task = display.add_task("", total=None, detail="")

        def show(what: str, detail: str) -> None:
            display.update(task, description=what, detail=detail)

        yield show
