"""``tensat-dl check``: type-check files, verify their rules and run their tests."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tensat_dl.cli.options import json_option, quiet_option, where_options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tensat_dl.core.diagnostics import Diagnostic
    from tensat_dl.core.progress import Progress
    from tensat_dl.core.rule import RewriteRule
    from tensat_dl.jobs.run import Where
    from tensat_dl.lang.program import Program
    from tensat_dl.ops.table import OpTable
    from tensat_dl.verify.rules.verdict import Verdict

#: So many warnings of a kind are printed, and how many others there are.
FEW = 3


@dataclass
class _File:
    """The findings about one file: ``problems`` are errors in it, ``failures`` failed rules and tests."""

    path: str
    program: Program | None = None
    problems: list[Diagnostic] = field(default_factory=list)
    failures: list[Diagnostic] = field(default_factory=list)
    rules: list[RewriteRule] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    failed_tests: int = 0


@click.command("check")
@click.argument("files", nargs=-1, required=True)
@click.option("--again", is_flag=True, help="Verify rules whose verdicts are known, too.")
@where_options("as many as suit the rules, at most one for each core")
@json_option("Write a report as JSON.")
@quiet_option
def command(
    files: tuple[str, ...], again: bool, jobs: int | None, ray: str | None, json_path: str | None, quiet: bool
) -> int:
    """Type-check every graph and rule of FILES, verify their rules, and run the tests of their rules.

    FILES are .tsr files or names of packs. Imported rules are not verified: check their files. The verdicts on rules
    of the library come with it, and others are kept. Exits with 1 if a rule is false or never applies, or if a test
    fails; with 2 if a file has errors.
    """
    from tensat_dl.cli.outputs import check_outputs, write_json
    from tensat_dl.jobs.run import Where
    from tensat_dl.lang.imports import files_of
    from tensat_dl.report.terminal import LiveProgress

    check_outputs([json_path], files)
    for path in files if json_path is not None else ():
        check_outputs([json_path], tuple(map(str, files_of(_file_of(path)))))
    found = [_read(path) for path in files]
    out = sys.stderr if json_path == "-" else sys.stdout
    with LiveProgress(quiet) as progress:
        progress.phase("verify")
        try:
            _verify(found, again, Where(jobs, ray) if jobs or ray else None, progress)
        except KeyboardInterrupt:
            for file in () if again else found:
                _print_kept(file, out, quiet)
            raise
    for file in found:
        _run_tests(file)
        _print(file, out, quiet)
    if json_path is not None:
        write_json(json_path, {"files": [_report(f) for f in found]})
    if any(f.problems for f in found):
        return 2
    return 1 if any(f.failures for f in found) else 0


def _file_of(name: str) -> str:
    """The path of a file ("-": standard input), or of the pack of this name. Raises `TsrError` for what looks like
    the name of a pack."""
    from tensat_dl.core.diagnostics import Diagnostic, TsrError
    from tensat_dl.core.words import did_you_mean
    from tensat_dl.lang.library import folder, packs

    if name == "-" or Path(name).exists() or Path(name).name != name or Path(name).suffix:
        return name
    if name not in packs():
        hint = did_you_mean(name, packs()) or "files of rules and graphs end in .tsr"
        raise TsrError([Diagnostic("no such file, and no pack of this name", None, hint, path=name)])
    return str(folder() / f"{name}.tsr")


def _read(path: str) -> _File:
    """A file, with the errors in its graphs and in the types of its rules."""
    from tensat_dl.cli.inputs import warn
    from tensat_dl.core.diagnostics import collected
    from tensat_dl.lang.named_sizes import graph_of
    from tensat_dl.lang.program import load_program

    file = _File(path)
    with collected(file.problems):
        program = file.program = load_program(_file_of(path))
        for item in program.graphs.values():
            with collected(file.problems):
                graph_of(item, program.ops, program.blocks, warn)
        file.rules = [r for r in program.rules if r.declared in program.own_rules]
        for warning in _mirrored(file.rules, program.ops):
            warn(warning)
    return file


def _mirrored(rules: list[RewriteRule], ops: OpTable) -> Iterator[Diagnostic]:
    """Warnings about rules that say what an earlier rule says, perhaps in another order of operands or with other
    names, and about rules that only change that order."""
    from tensat_dl.core.diagnostics import Diagnostic
    from tensat_dl.rewrite.orders import mirror_form, nameless, only_reorders

    earlier: dict[object, RewriteRule] = {}
    exchanging: list[Diagnostic] = []
    repeating: list[Diagnostic] = []
    for rule in rules:
        if only_reorders(rule, ops):
            message = f"rule `{rule.name}` only exchanges the operands of commutative operators"
            hint = "patterns match either order without it"
            exchanging.append(Diagnostic(message, rule.span, hint, severity="warning"))
            continue
        form = mirror_form(rule, ops)
        other = rule if form is None else earlier.setdefault(form, rule)
        if other is not rule:
            message = f"rule `{rule.name}` says the same as rule `{other.name}`"
            hint = "patterns match the operands of `+`, `*` and other commutative operators in either order"
            hint = "one of them is enough" if nameless(rule, ops) == nameless(other, ops) else hint
            repeating.append(Diagnostic(message, rule.span, hint, severity="warning"))
    yield from _few(exchanging, "only exchange the operands of commutative operators")
    yield from _few(repeating, "say the same as earlier rules")


def _few(warnings: list[Diagnostic], common: str) -> Iterator[Diagnostic]:
    """The first warnings, and one for the others, which say of their rules what is ``common`` to them."""
    shown = FEW if len(warnings) > FEW + 1 else len(warnings)
    yield from warnings[:shown]
    if left := warnings[shown:]:
        yield replace(left[0], message=f"{len(left):,} more rules {common}, this one first", hint="")


def _verify(files: list[_File], again: bool, where: Where | None, progress: Progress) -> None:
    """The verdicts on the rules of files without errors. Files with equal operators are verified together."""
    left = [f for f in files if f.program is not None and not f.problems and f.rules]
    while left:
        from tensat_dl.verify.rules.verdict import diagnostic
        from tensat_dl.verify.rules.verify import verify_rules

        assert left[0].program is not None
        ops = left[0].program.ops
        same = [f for f in left if f.program is not None and dict(f.program.ops) == dict(ops)]
        left = [f for f in left if f not in same]
        rules = [r for f in same for r in f.rules]
        verdicts = iter(
            verify_rules(rules, ops, proofs=True, again=again, progress=progress.checking, where=where)
        )
        for file in same:
            for rule in file.rules:
                verdict = next(verdicts)
                # A rule that never type-checks is an error of the file, and its message has a place.
                wrong = _mistyped(rule, ops) if verdict.status == "vacuous" else []
                file.problems += wrong
                file.verdicts += [] if wrong else [verdict]
                failure = diagnostic(verdict, rule)
                file.failures += [] if wrong or failure is None else [failure]


def _mistyped(rule: RewriteRule, ops: OpTable) -> list[Diagnostic]:
    """Errors of a rule that never type-checks."""
    from tensat_dl.verify.rules.rule_types import check_rule_types  # takes a while to load

    return check_rule_types(rule, ops)


def _run_tests(file: _File) -> None:
    if file.program is None or file.problems or not file.program.tests:
        return
    from tensat_dl.core.diagnostics import Diagnostic, collected
    from tensat_dl.lang.elaborate import elaborate_test
    from tensat_dl.verify.rule_tests import run_test

    for test in file.program.tests:
        with collected(file.problems):
            failure = run_test(elaborate_test(test, file.program.ops, file.program.blocks), file.program)
            if failure:
                file.failed_tests += 1
                message = f"test of rule `{test.rule}` failed: {failure}"
                file.failures.append(Diagnostic(message, test.name_span))


def _print(file: _File, out: Any, quiet: bool) -> None:
    from tensat_dl.core.diagnostics import TsrError
    from tensat_dl.core.words import plural

    _print_verdicts(file, out, quiet)
    for failure in file.failures:
        print(failure.render(), file=sys.stderr)
    if file.problems:
        print(TsrError(file.problems).render(), file=sys.stderr)
    elif not quiet and file.program is not None:
        program = file.program
        counts = (
            (len(program.graphs), "graph"),
            (len(program.own_rules), "rule"),
            (len(program.tests), "test"),
        )
        shown = ", ".join(f"{n} {plural(n, what)}" for n, what in counts)
        imported = len(program.rules) - len(program.own_rules)
        if imported and not any(n for n, _ in counts):  # "ok" would say that they were checked
            shown += f"; {imported} imported {plural(imported, 'rule')}, not checked here"
        print(f"{file.path}: {shown}: {_outcome(file)}", file=out)


def _print_kept(file: _File, out: Any, quiet: bool) -> None:
    """The verdicts that were there before an interrupt."""
    from tensat_dl.core.words import plural
    from tensat_dl.verify.rules.verify import kept_verdicts

    if file.program is None or file.problems or not file.rules:
        return
    file.verdicts = [*kept_verdicts(file.rules, file.program.ops).values()]
    _print_verdicts(file, out, quiet)
    if not quiet:
        count = f"{len(file.verdicts)} of {len(file.rules)} {plural(len(file.rules), 'rule')}"
        print(f"{file.path}: {count} verified", file=out)


def _print_verdicts(file: _File, out: Any, quiet: bool) -> None:
    if not quiet and file.verdicts:
        from rich.console import Console

        from tensat_dl.report.verdicts import print_verdicts

        print_verdicts(file.verdicts, Console(file=out, highlight=False))


def _outcome(file: _File) -> str:
    """``ok``, or what failed."""
    from tensat_dl.core.words import plural

    kinds = [v.status for v in file.verdicts]
    parts = [f"{kinds.count(kind)} {kind}" for kind in ("refuted", "vacuous") if kind in kinds]
    if file.failed_tests:
        parts.append(f"{file.failed_tests} {plural(file.failed_tests, 'test')} failed")
    return ", ".join(parts) or "ok"


def _report(file: _File) -> dict[str, Any]:
    from tensat_dl.report.verdicts import verdict_to_json

    return {
        "file": file.path,
        "errors": [d.render() for d in file.problems],
        "failures": [d.render() for d in file.failures],
        "tests": {
            "run": len(file.program.tests) if file.program is not None and not file.problems else 0,
            "failed": file.failed_tests,
        },
        "rules": [verdict_to_json(v) for v in file.verdicts],
    }
