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

from tensat_dl.core.egraph import EGraph
from tensat_dl.core.graph import Graph, GraphBuilder
from tensat_dl.core.rule import RewriteRule, Side
from tensat_dl.engine.applying import LONGEST
from tensat_dl.engine.exploration import Limits
from tensat_dl.ops.typing import Inference
from tensat_dl.paper.checkers import CHECKERS
from tensat_dl.paper.cycles import ClassGraph, OutputEffect, Reached
from tensat_dl.rewrite.source import MAX_RANK
from tensat_dl.verify.rules.instance import Instance
from tensat_dl.verify.rules.sampling import instances
from tests.explore.graphs import explored, library
from tests.explore.reference import Reference, counterparts

pytestmark = pytest.mark.sampled(20)

RULES = {r.name: r for r in library().rules if r.kind != "group"}
ROUNDS = 2


def drawn_graph(rule: RewriteRule) -> Graph:
    """Sources of a rule side by side: half of them meet its conditions and have a target, the others may not."""
    itself = replace(rule, target=Side((), rule.source.outputs), conditions=())
    rng = random.Random(rule.name)
    meeting, others = drawn(rule, 3), drawn(itself, 4)
    assert meeting, f"no instance of {rule.name} was found"
    builder = GraphBuilder("drawn")
    outputs: list[int] = []
    for k, instance in enumerate(meeting):
        outputs += add_source(builder, instance.before, f"meeting{k}", 0.0, rng)
    for k, instance in enumerate(others):
        outputs += add_source(builder, instance.before, f"other{k}", 0.5, rng)
    return builder.finish([(f"out{i}", node) for i, node in enumerate(dict.fromkeys(outputs))])


def drawn(rule: RewriteRule, count: int) -> list[Instance]:
    """Instances whose source has no tensor of more dimensions than rules match (6: the language reference)."""
    every = [i for _, _, i in instances(rule, Inference(library().ops), 2 * count, 300, high=0)]
    return [i for i in every if all(n.type.rank <= MAX_RANK for n in i.before.nodes)][:count]


def add_source(
    builder: GraphBuilder, source: Graph, prefix: str, weights: float, rng: random.Random
) -> list[int]:
    """Adds a source; its results. Inputs become weights with the given probability. Leaves of one type and name are
    one node, so that sources share operands now and then."""
    index: list[int] = []
    for n in source.nodes:
        attrs, op = n.attrs, n.op
        if op in ("input", "weight"):
            op = "weight" if op == "weight" or rng.random() < weights else "input"
            name = f"{rng.choice((prefix, 'shared'))}.{n.attr('name')}.{n.type}.{op}"
            attrs = tuple((key, name if key == "name" else value) for key, value in n.attrs)
        index.append(builder.add(op, [index[j] for j in n.inputs], attrs, n.types))
    return [index[i] for _, i in source.outputs]


@pytest.mark.parametrize("name", sorted(RULES))
def test_the_engine_builds_what_the_concrete_evaluator_allows(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    agree(RULES[name], monkeypatch)


def agree(rule: RewriteRule, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine and the reference apply a rule to the same sources."""
    graph = drawn_graph(rule)
    rounds = 1 if rule.kind == "multi" else ROUNDS
    compare(
        rule, explored(graph, [rule], Limits(iterations=rounds)), *by_reference(rule, graph, rounds, LONGEST)
    )
    # With the stages that cycle filtering needs, and no match skipped, it is the same, but for steps along chains.
    monkeypatch.setitem(CHECKERS, "efficient", Careless)
    monkeypatch.setattr("tensat_dl.paper.filtered.has_cycle", lambda graph: False)
    egraph = explored(graph, [rule], Limits(iterations=rounds, cycles="efficient"))
    compare(rule, egraph, *by_reference(rule, graph, rounds, 1))


def by_reference(rule: RewriteRule, graph: Graph, rounds: int, steps: int) -> tuple[Reference, int]:
    """The reference after so many rounds, with at most so many steps along a chain in each; how often the rule was
    applied."""
    reference = Reference(graph, library().ops)
    return reference, sum(reference.round(rule, steps) for _ in range(rounds))


class Careless:
    """A check that knows of no cycle."""

    def __init__(self, graph: ClassGraph) -> None:
        pass

    def find(self, c: int) -> int:
        return c

    def reach(self, goals: tuple[int, ...]) -> Reached:
        return lambda c: 0

    def accept(self, outputs: Iterable[OutputEffect]) -> None:
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
