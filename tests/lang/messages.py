"""Everything that is said about a file: by the parser, the checker of rules and operators, and for each graph."""

from __future__ import annotations

from tensat_dl.core.diagnostics import Diagnostic, TsrError
from tensat_dl.lang.elaborate import elaborate_test
from tensat_dl.lang.named_sizes import graph_of
from tensat_dl.lang.program import Program, load_program
from tensat_dl.verify.rules.rule_types import check_rule_types


def diagnostics(path: str) -> tuple[Diagnostic, ...]:
    """Errors and warnings of a file and all that is in it."""
    try:
        program = load_program(path)
    except TsrError as e:
        return e.diagnostics
    return (*_graphs(program), *_rules(program))


def _graphs(program: Program) -> list[Diagnostic]:
    found: list[Diagnostic] = []
    for item in program.graphs.values():
        try:
            graph_of(item, program.ops, program.blocks, found.append)
        except TsrError as e:
            found += e.diagnostics
    for test in program.tests:
        try:
            elaborate_test(test, program.ops, program.blocks)
        except TsrError as e:
            found += e.diagnostics
    return found


def _rules(program: Program) -> list[Diagnostic]:
    own = [r for r in program.rules if r.name.removesuffix("-back") in program.own_rules]
    return [d for rule in own for d in check_rule_types(rule, program.ops)]


def messages(path: str) -> str:
    """The same as text."""
    return TsrError(diagnostics(path)).render()
