"""``tensat-dl prove``: derives rules from other rules."""

from __future__ import annotations

import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING

import click

from tensat_dl.cli.options import json_option, option, quiet_option, time_limit_option, where_options

if TYPE_CHECKING:
    from tensat_dl.core.rule import RewriteRule
    from tensat_dl.verify.prove.goals import Proof
    from tensat_dl.verify.rules.verdict import Verdict


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
@option("max_nodes", default=20_000, help="E-nodes.")
@option("max_iters", default=8, type=click.IntRange(1), help="Iterations.")
@time_limit_option(help="Stop after S seconds, and report the proofs found so far.")
@where_options("as many as suit the rules, at most one for each core")
@json_option('Write a report as JSON ("-": standard output).')
@quiet_option
def command(
    file: str,
    packs: tuple[str, ...],
    assignments: int,
    max_nodes: int,
    max_iters: int,
    time_limit: float | None,
    jobs: int | None,
    ray: str | None,
    json_path: str | None,
    quiet: bool,
) -> int:
    """Derive the rules of RULES.tsr from the rules of PACK, whose equations make both sides of a rule equal.

    A rule is derived at several assignments of shapes and attributes. It never proves itself: axioms of its name
    are left out. Limits are for each e-graph. The rules are checked first, and a false one is not derived. Of the
    axioms, those with a proof for all sizes are preferred, and false ones are not used.

    Exits with 0 if every rule is derived, and with 1 if one is not. Such a rule need not be false: the axioms may say
    too little, or a limit was reached.
    """
    from rich.console import Console

    from tensat_dl.cli.inputs import warn
    from tensat_dl.cli.outputs import check_outputs, write_json
    from tensat_dl.core.diagnostics import Diagnostic, TsrError, plural
    from tensat_dl.engine.exploration import Limits
    from tensat_dl.jobs.run import Where
    from tensat_dl.lang.program import load_program
    from tensat_dl.ops.typing import Inference
    from tensat_dl.report.terminal import LiveProgress
    from tensat_dl.report.verdicts import print_proofs, proof_to_json, verdict_to_json
    from tensat_dl.verify.prove.goals import goal
    from tensat_dl.verify.prove.prove import AxiomStatus, Prover, axioms_of
    from tensat_dl.verify.prove.prove import proofs as found_proofs
    from tensat_dl.verify.rules.prover import prover as solver
    from tensat_dl.verify.rules.verdict import diagnostic
    from tensat_dl.verify.rules.verify import verify_rules

    started = time.perf_counter()
    check_outputs([json_path], [file])
    program = load_program(file, packs, option="--from")
    check_outputs([json_path], tuple(map(str, program.files)))
    rules = [r for r in program.rules if r.declared in program.own_rules]
    if not rules:
        hint = "imported ones are proved with their file"
        raise TsrError([Diagnostic("the file has no rules of its own", None, hint, path=program.path)])
    limits = Limits(max_nodes, max_iters, k_multi=None, seconds=time_limit)
    axioms = axioms_of(program, packs)
    status = AxiomStatus.of(axioms, program)
    where = Where(jobs, ray) if jobs or ray else None
    found: dict[int, Proof] = {}
    false: list[tuple[RewriteRule, Verdict]] = []
    interrupted = False
    with LiveProgress(quiet) as live:

        def progress(rule: str, what: str) -> None:
            live.detail(f"{rule}: {what}")

        try:
            live.phase("verify")
            verdicts = verify_rules(rules, program.ops, progress=live.checking, where=where)
            false = [(r, v) for r, v in zip(rules, verdicts, strict=True) if v.status == "refuted"]
            live.phase("prove")
            infer = Inference(program.ops)
            goals = []
            for rule in (r for r, v in zip(rules, verdicts, strict=True) if v.status != "refuted"):
                progress(rule.name, "assignments")
                goals.append(goal(rule, infer, assignments))
            prover = Prover(axioms, program.ops, limits, progress, status)
            with closing(found_proofs(prover, status, goals, where, progress)) as coming:
                for i, proof in coming:
                    found[i] = proof
        except KeyboardInterrupt:
            interrupted = True
    proofs = [found[i] for i in sorted(found)]
    interrupted = interrupted or any(p.stop == "interrupted" for p in proofs)
    derived = sum(p.derived for p in proofs)
    used = {name for p in proofs for name in p.axioms}
    proved = sum(status.known.get(name) == "proved" for name in used)
    summary = f"{file}: {derived} of {len(rules)} rules derived from {', '.join(packs)}"
    if not quiet:
        out = sys.stderr if json_path == "-" else sys.stdout
        print_proofs(proofs, [r.name for r, _ in false], program.ops, Console(file=out, highlight=False))
        if used:
            count = f"{proved} of the {len(used)} {plural(len(used), 'axiom')} used"
            without = "" if solver() else " (proofs need z3: pip install 'tensat-dl[prove]')"
            print(f"{count} {'is' if proved == 1 else 'are'} proved for all sizes{without}", file=out)
        seconds = time.perf_counter() - started
        print(f"{summary} in {seconds:.1f} s{', interrupted' if interrupted else ''}", file=out)
    for rule, verdict in false:
        problem = diagnostic(verdict, rule)
        assert problem is not None
        print(problem.render(), file=sys.stderr)
    for axiom in axioms:
        if axiom.name == axiom.declared and status.known.get(axiom.name) == "refuted":
            hint = "`tensat-dl check` shows a counterexample"
            warn(Diagnostic(f"axiom `{axiom.name}` is false: not used", axiom.span, hint, severity="warning"))
    report = {
        "file": file,
        "from": list(packs),
        "limits": {"nodes": max_nodes, "iterations": max_iters, "seconds": time_limit},
        "rules": [
            *(proof_to_json(p, program.ops) for p in proofs),
            *(verdict_to_json(v) for _, v in false),
        ],
        "axioms": {name: status.known.get(name, "tested") for name in sorted(used)},
        "derived": derived,
        "seconds": time.perf_counter() - started,
    }
    write_json(json_path, report)
    if interrupted:
        return 130
    return 0 if derived == len(rules) else 1
