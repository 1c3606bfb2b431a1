"""``tensat-dl check``: type-check files and run their tests."""

from __future__ import annotations

import sys

import click


@click.command("check")
@click.argument("files", nargs=-1, required=True)
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
def command(files: tuple[str, ...], quiet: bool) -> int:
    """Type-check every graph and rule of FILES, and run the tests of their rules.

    Exits with 1 if a test fails, with 2 if a file has errors.
    """
    from tensat_dl.cli.common import warn
    from tensat_dl.lang.diagnostics import Diagnostic, TsrError
    from tensat_dl.lang.elaborate import elaborate
    from tensat_dl.lang.program import load_program

    code = 0
    for file in files:
        problems: list[Diagnostic] = []
        try:
            program = load_program(file)
        except TsrError as e:
            print(e.render(), file=sys.stderr)
            code = 2
            continue
        for w in program.warnings:
            warn(w)
        for item in program.graphs.values():
            try:
                elaborate(item, program.ops, program.blocks, warn)
            except TsrError as e:
                problems += e.diagnostics
        from tensat_dl.verify.rule_types import check_rule_types

        for rule in program.rules:
            if rule.name.removesuffix("-back") in program.own_rules:
                problems += check_rule_types(rule, program.ops)
        failures = 0
        if not problems and program.tests:
            from tensat_dl.verify.rule_tests import run_test

            for test in program.tests:
                try:
                    result = run_test(test, program)
                except TsrError as e:
                    problems += e.diagnostics
                    continue
                if result.failure:
                    failures += 1
                    message = f"test of rule `{test.rule}` failed: {result.failure}"
                    print(Diagnostic(message, test.name_span).render(), file=sys.stderr)
        if problems:
            print(TsrError(problems).render(), file=sys.stderr)
            code = 2
        elif failures:
            code = max(code, 1)
        if not quiet and not problems:
            counts = (
                (len(program.graphs), "graph"),
                (len(program.own_rules), "rule"),
                (len(program.tests), "test"),
            )
            shown = ", ".join(f"{n} {what}{'s' if n != 1 else ''}" for n, what in counts)
            print(f"{file}: {shown}: {f'{failures} failed' if failures else 'ok'}")
    return code
