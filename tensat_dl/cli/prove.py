"""``tensat-dl prove``: derives rules from other rules."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

import click

from tensat_dl.cli.options import json_option, option, quiet_option, time_limit_option, where_options

if TYPE_CHECKING:
    from tensat_dl.core.rule import RewriteRule
    from tensat_dl.engine.exploration import Limits
    from tensat_dl.jobs.run import Where
    from tensat_dl.ops.table import OpTable
    from tensat_dl.verify.prove.goals import Proof
    from tensat_dl.verify.prove.prove import AxiomStatus
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
    from tensat_dl.cli.inputs import warn
    from tensat_dl.cli.outputs import check_outputs, write_json
    from tensat_dl.core.diagnostics import Diagnostic, TsrError
    from tensat_dl.engine.exploration import Limits
    from tensat_dl.jobs.run import Where
    from tensat_dl.lang.program import load_program
    from tensat_dl.verify.prove.prove import AxiomStatus, axioms_of
    from tensat_dl.verify.rules.verdict import diagnostic

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
    derived = _derived(rules, axioms, status, program.ops, assignments, limits, where, quiet)
    seconds = time.perf_counter() - started
    if not quiet:
        out = sys.stderr if json_path == "-" else sys.stdout
        _print(
            derived,
            f"{file}: {derived.count} of {len(rules)} rules derived from {', '.join(packs)}",
            seconds,
            out,
        )
    for rule, verdict in derived.false:
        problem = diagnostic(verdict, rule)
        assert problem is not None
        print(problem.render(), file=sys.stderr)
    for axiom in axioms:
        if axiom.name == axiom.declared and status.known.get(axiom.name) == "refuted":
            hint = "`tensat-dl check` shows a counterexample"
            warn(Diagnostic(f"axiom `{axiom.name}` is false: not used", axiom.span, hint, severity="warning"))
    write_json(
        json_path,
        {
            "file": file,
            "from": list(packs),
            "limits": {"nodes": max_nodes, "iterations": max_iters, "seconds": time_limit},
            **derived.to_json(),
            "seconds": seconds,
        },
    )
    if derived.interrupted:
        return 130
    return 0 if derived.count == len(rules) else 1


@dataclass(frozen=True)
class _Derived:
    """The proofs of rules, in order, and the rules that are false, which are not derived."""

    proofs: Sequence[Proof]
    false: Sequence[tuple[RewriteRule, Verdict]]
    status: AxiomStatus
    ops: OpTable
    interrupted: bool

    @property
    def count(self) -> int:
        """How many rules are derived."""
        return sum(p.derived for p in self.proofs)

    @property
    def axioms(self) -> Mapping[str, str]:
        """What is known of each axiom that a proof uses."""
        used = {name for p in self.proofs for name in p.axioms}
        return {name: self.status.known.get(name, "tested") for name in sorted(used)}

    def to_json(self) -> dict[str, object]:
        from tensat_dl.report.verdicts import proof_to_json, verdict_to_json

        proofs = [proof_to_json(p, self.ops) for p in self.proofs]
        false = [verdict_to_json(v) for _, v in self.false]
        return {"rules": proofs + false, "axioms": self.axioms, "derived": self.count}


def _derived(
    rules: Sequence[RewriteRule],
    axioms: tuple[RewriteRule, ...],
    status: AxiomStatus,
    ops: OpTable,
    assignments: int,
    limits: Limits,
    where: Where | None,
    quiet: bool,
) -> _Derived:
    """Checks rules, and derives those that are not false. Ctrl-C ends it with the proofs that are there."""
    from tensat_dl.ops.typing import Inference
    from tensat_dl.report.terminal import LiveProgress
    from tensat_dl.verify.prove.goals import goal
    from tensat_dl.verify.prove.prove import Prover, proofs
    from tensat_dl.verify.rules.verify import verify_rules

    found: dict[int, Proof] = {}
    false: list[tuple[RewriteRule, Verdict]] = []
    interrupted = False
    with LiveProgress(quiet) as live:

        def progress(rule: str, what: str) -> None:
            live.detail(f"{rule}: {what}")

        try:
            live.phase("verify")
            verdicts = verify_rules(rules, ops, progress=live.checking, where=where)
            false = [(r, v) for r, v in zip(rules, verdicts, strict=True) if v.status == "refuted"]
            live.phase("prove")
            infer = Inference(ops)
            goals = []
            for rule in (r for r, v in zip(rules, verdicts, strict=True) if v.status != "refuted"):
                progress(rule.name, "assignments")
                goals.append(goal(rule, infer, assignments))
            prover = Prover(axioms, ops, limits, progress, status)
            with closing(proofs(prover, status, goals, where, progress)) as coming:
                for i, proof in coming:
                    found[i] = proof
        except KeyboardInterrupt:
            interrupted = True
    ordered = [found[i] for i in sorted(found)]
    return _Derived(ordered, false, status, ops, interrupted or any(p.stop == "interrupted" for p in ordered))


def _print(derived: _Derived, summary: str, seconds: float, out: TextIO) -> None:
    """The proofs, how much the axioms are to be trusted, and a summary."""
    from rich.console import Console

    from tensat_dl.core.words import plural
    from tensat_dl.report.verdicts import print_proofs
    from tensat_dl.verify.rules.prover import prover

    names = [r.name for r, _ in derived.false]
    print_proofs(derived.proofs, names, derived.ops, Console(file=out, highlight=False))
    if used := derived.axioms:
        proved = list(used.values()).count("proved")
        count = f"{proved} of the {len(used)} {plural(len(used), 'axiom')} used"
        without = "" if prover() else " (proofs need z3: pip install 'tensat-dl[prove]')"
        print(f"{count} {'is' if proved == 1 else 'are'} proved for all sizes{without}", file=out)
    print(f"{summary} in {seconds:.1f} s{', interrupted' if derived.interrupted else ''}", file=out)
