"""Runs the tests that stand beside rules in .tsr files."""

from __future__ import annotations

from dataclasses import replace

from tensat_dl.core.egraph import EGraph, find
from tensat_dl.core.graph import Graph, Node
from tensat_dl.core.words import counted
from tensat_dl.engine.exploration import Limits
from tensat_dl.engine.loop import Explorer
from tensat_dl.lang.elaborate import RuleTest
from tensat_dl.lang.program import Program
from tensat_dl.ops.semantics import semantics_of
from tensat_dl.ops.table import OpTable
from tensat_dl.verify.equivalence import compare

#: A test is about one rule on a small graph; what it asks for is there after few iterations or never.
LIMITS = Limits(nodes=2_000, iterations=10, k_multi=3)


def run_test(test: RuleTest, program: Program) -> str:
    """The difference between the expected and the found, or "" if the test passes: the named rule alone is applied to
    the test's first graph.

    ``unchanged`` asks that nothing is added; a second graph asks that each of its outputs is found equal to the
    output of the first at its place, and that both compute the same.
    """
    before, after = test.before, test.after
    rules = tuple(r for r in program.rules if r.declared == test.rule)
    if after is not None:
        if len(after.outputs) != len(before.outputs):
            return f"{len(before.outputs)} outputs before the arrow, {len(after.outputs)} after it"
        if failure := _other_types(before, after):
            return failure
    failure = ""
    for number, step in enumerate(Explorer(before, program.ops, rules, LIMITS).run()):
        failure = (
            _changed(before, step.egraph) if after is None else _missing(after, step.egraph, program.ops)
        )
        if number == 0 and not failure and after is not None:
            return "both graphs are the same, so that the rule has nothing to do"
        if bool(failure) == (after is None):  # no later step can change the verdict
            break
    if not failure and after is not None:
        failure = _different(before, after, program)
    return failure


def _other_types(before: Graph, after: Graph) -> str:
    """The first input or weight that has the same name in both graphs and another type, as a sentence, or ""."""
    known = {n.name: n for n in before.nodes if n.op in ("input", "weight")}
    for n in after.nodes:
        first = known.get(n.name)
        if n.op not in ("input", "weight") or first is None or (first.op, first.type) == (n.op, n.type):
            continue
        return f"`{n.name}` is {_leaf(first)} before the arrow and {_leaf(n)} after it"
    return ""


def _leaf(node: Node) -> str:
    return f"{'an input' if node.op == 'input' else 'a weight'} of type {node.type}"


def _different(before: Graph, after: Graph, program: Program) -> str:
    """The difference between the values of a test's two graphs, or "". Nothing is said of opaque operators."""
    renamed = tuple((name, node) for (name, _), (_, node) in zip(before.outputs, after.outputs, strict=True))
    found = compare(before, replace(after, outputs=renamed), semantics_of(program.ops))
    if found.status != "different" or found.surrogates:
        return ""
    return f"the rule is false: it made the second graph of the first, but {found.message}"


def _changed(before: Graph, egraph: EGraph) -> str:
    """What was added to a graph or found equal in it, as a sentence, or "" if nothing was."""
    added = egraph.num_nodes - len(before.nodes)
    if added > 0:
        return f"the rule fired ({counted(added, 'new e-node')}), but the graph should stay unchanged"
    if egraph.num_classes < len(before.nodes):
        return "the rule fired (two tensors were found equal), but the graph should stay unchanged"
    return ""


def _missing(after: Graph, egraph: EGraph, ops: OpTable) -> str:
    """The first output of a graph that was not found in its place, as a sentence, or "". Operands of commutative
    operators may stand in either order."""
    found = find(after, egraph, ops.commutative)
    for i, ((name, node), root) in enumerate(zip(after.outputs, egraph.roots, strict=True)):
        if found[node] is None:
            missing = next(k for k in range(node + 1) if found[k] is None)
            n = after.nodes[missing]
            what = f"{n.op} ({n.name})" if n.name else n.op
            return f"output {i} ({name}) was not found: the rule did not build its {what}"
        if found[node] != root:
            return f"output {i} ({name}) was built, but not found equal to output {i} before"
    return ""
