"""Every rule of the library, applied by the engine and by plain Python: the e-graphs are the same.

For each rule some sources are drawn that type-check, some with and some without regard to the rule's conditions
and target, all into one graph. The compiled rule then fires exactly where the concrete evaluator says that it
may: a missing guard would give an e-node too many, a false or superfluous one an e-node too few.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace

import pytest

from tensat_dl.explore.cycles import ClassGraph, Output, Reached
from tensat_dl.explore.filtered import CHECKERS
from tensat_dl.explore.types import Limits
from tensat_dl.ir.egraph import EGraph
from tensat_dl.ir.graph import Graph, GraphBuilder
from tensat_dl.ir.rule import RewriteRule, Side
from tests.explore.graphs import explored, library
from tests.explore.reference import Reference, counterparts
from tests.rules.rule_instances import Instance, instances

RULES = {r.name: r for r in library().rules if r.kind != "group"}
ROUNDS = 2


def drawn_graph(rule: RewriteRule) -> Graph:
    """Sources of a rule side by side: half of them meet its conditions and have a target, the others may not."""
    source_alone = replace(rule, source=Side(rule.source.nodes, ()), target=Side((), ()), conditions=())
    ops = library().ops
    meeting = instances(rule, ops, 1, 3, 3000)
    others = instances(source_alone, ops, 2, 4, 40)
    assert meeting, f"no instance of {rule.name} was found"
    rng = random.Random(rule.name)
    builder = GraphBuilder("drawn")
    outputs = []
    for k, instance in enumerate(meeting):
        outputs += add_source(builder, instance, f"meeting{k}", True, rng)
    for k, instance in enumerate(others):
        outputs += add_source(builder, instance, f"other{k}", rng.random() < 0.7, rng)
    return builder.finish([(f"out{i}", node) for i, node in enumerate(outputs)])


def add_source(
    builder: GraphBuilder, instance: Instance, prefix: str, weights: bool, rng: random.Random
) -> list[int]:
    """Adds the source of an instance; its results. Variables are inputs, weights or, where known, constants."""
    index: dict[str, int] = {}
    for name, t in instance.variables.items():
        common = (("dtype", t.dtype), ("shape", t.shape))
        if name in instance.constants:
            op, own = "fill", ("value", instance.constants[name])
        else:
            # Inputs of one type and name are one node: sources share operands now and then.
            first = name == next(iter(instance.variables))
            op = "weight" if weights and not (first and rng.random() < 0.5) else "input"
            own = ("name", f"{rng.choice((prefix, 'shared'))}.{name}.{t}.{op}")
        index[name] = builder.add(op, (), (own, *common), (t,))
    results = []
    for a in instance.source:
        decl = library().ops[a.op]
        attrs = tuple((d.name, dict(a.attrs)[d.name]) for d in decl.attrs)
        inputs = [index[x] for x in a.args]
        index[a.result] = builder.add(a.op, inputs, attrs, (instance.types[a.result],))
        results.append(index[a.result])
    return results


@pytest.mark.parametrize("name", sorted(RULES))
def test_the_engine_builds_what_the_concrete_evaluator_allows(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = RULES[name]
    graph = drawn_graph(rule)
    reference = Reference(graph, library().ops)
    rounds = 1 if rule.kind == "multi" else ROUNDS
    applied = sum(reference.round(rule) for _ in range(rounds))
    egraph = explored(graph, [rule], Limits(iterations=rounds))
    compare(rule, egraph, reference, applied)
    # With the stages that cycle filtering needs, and no match skipped, it is the same.
    monkeypatch.setitem(CHECKERS, "efficient", Careless)
    monkeypatch.setattr("tensat_dl.explore.filtered.has_cycle", lambda graph: False)
    compare(rule, explored(graph, [rule], Limits(iterations=rounds, cycles="efficient")), reference, applied)


class Careless:
    """A check that knows of no cycle."""

    def __init__(self, graph: ClassGraph) -> None:
        pass

    def find(self, c: int) -> int:
        return c

    def reach(self, goals: tuple[int, ...]) -> Reached:
        return lambda c: 0

    def accept(self, outputs: Iterable[Output]) -> None:
        pass


def compare(rule: RewriteRule, egraph: EGraph, reference: Reference, applied: int) -> None:
    missing, found = counterparts(egraph, reference)
    assert applied > 0
    assert not missing
    if rule.kind == "single":
        assert egraph.num_nodes == len(reference.nodes)
        assert egraph.num_classes == len(set(reference.nodes.values()))
        assert all(egraph.types[c] == (reference.types[r],) for c, r in found.items())
        known = reference.weights()
        assert all(egraph.weights_only[c] == (r in known) for c, r in found.items())
