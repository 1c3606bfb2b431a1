"""Graphs: runs blocks and loops, resolves names, checks types, and yields a typed `Graph`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tensat_dl.core.diagnostics import Diagnostic, TsrError
from tensat_dl.core.graph import Graph, needed
from tensat_dl.core.source import Span
from tensat_dl.lang import ast
from tensat_dl.lang.assembly import Assembly, Endless
from tensat_dl.lang.scope import Scope
from tensat_dl.lang.statements import Statements
from tensat_dl.ops.table import OpTable

Warn = Callable[[Diagnostic], None]


def elaborate(
    item: ast.GraphItem, ops: OpTable, blocks: Mapping[str, ast.Block], warn: Warn | None = None
) -> Graph:
    """The typed graph of a graph item. Raises `TsrError` with every problem; warnings go to ``warn``."""
    return _graph(item.name, f"graph `{item.name}`", item.name_span, item.body, ops, blocks, warn)


@dataclass(frozen=True, slots=True)
class RuleTest:
    """A test of a rule: what it is applied to, and what it makes of that; None if it must change nothing."""

    rule: str
    before: Graph
    after: Graph | None


def elaborate_test(test: ast.Test, ops: OpTable, blocks: Mapping[str, ast.Block]) -> RuleTest:
    """The typed graphs of a test. Raises `TsrError` with the problems of both."""

    problems: list[Diagnostic] = []

    def side(name: str, body: Sequence[ast.Stmt]) -> Graph | None:
        what = f"the graph {name} the arrow of this test"
        try:
            return _graph(f"{test.rule}_{name}", what, test.name_span, body, ops, blocks, None)
        except TsrError as e:
            problems.extend(e.diagnostics)
            return None

    before = side("before", test.before)
    after = None if test.after is None else side("after", test.after)
    if before is None or problems:
        raise TsrError(problems)
    return RuleTest(test.rule, before, after)


def _graph(
    name: str,
    what: str,
    at: Span,
    body: Sequence[ast.Stmt],
    ops: OpTable,
    blocks: Mapping[str, ast.Block],
    warn: Warn | None,
) -> Graph:
    assembly = Assembly(ops, name)
    statements = Statements(assembly, blocks)
    try:
        statements.run(body, Scope("", body))
    except Endless as e:
        raise TsrError([*assembly.problems.values(), *e.diagnostics]) from None
    if not statements.outputs and not statements.failed_outputs:
        for d in statements.empty_outputs or [Diagnostic(f"{what} has no output", at, "add `output x`")]:
            assembly.report(d)
    if assembly.problems:
        raise TsrError(assembly.problems.values())
    outputs = [(name, node) for name, (node, _) in statements.outputs.items()]
    if warn is not None:
        for warning in (*assembly.warnings, *_unused(assembly, [node for _, node in outputs])):
            warn(warning)
    return assembly.builder.finish(outputs)


def _unused(assembly: Assembly, outputs: Sequence[int]) -> Iterator[Diagnostic]:
    """A warning for each statement none of whose nodes takes part in any output."""
    nodes = assembly.builder.nodes
    reached = needed(nodes, outputs)
    for span, bound in assembly.bindings.items():
        if not any(node in reached for _, node in bound):
            name, node = bound[0]
            leaf = nodes[node].op in ("input", "weight")
            message = f"{nodes[node].op} `{name}` is never used" if leaf else f"`{name}` reaches no output"
            yield Diagnostic(message, span, severity="warning")
