"""The pack "taso" finds the rules that TENSAT published from their sources alone, and no false ones."""

from __future__ import annotations

from functools import cache

import pytest
from published import Published, Sides, published, taso_instances
from rule_instances import Instance, agree

from tensat_dl import resources
from tensat_dl.explore.loop import Explorer
from tensat_dl.explore.types import Limits
from tensat_dl.ir.egraph import EGraph
from tensat_dl.ir.graph import Graph
from tensat_dl.lang.program import Program, load_program

pytestmark = pytest.mark.skipif(not published(), reason="the published rules are not at hand")

#: Convolutions of sums by sums multiply out to nine terms in any order. Their rules are found early.
EXPLOSIVE = frozenset(f"converted-{i}" for i in (32, 33, 34, 35))
BATCH = 12


@cache
def taso() -> Program:
    return load_program(str(resources.rules() / "taso.tsr"))


def batches() -> list[tuple[Published, ...]]:
    """True single-pattern rules several at a time, which is faster; the others one by one."""
    together = [p for p in published() if p.is_true and p.rule.kind == "single" and p.name not in EXPLOSIVE]
    alone = [p for p in published() if p.is_true and p not in together]
    return [*(tuple(together[i : i + BATCH]) for i in range(0, len(together), BATCH)), *((p,) for p in alone)]


def explore(graph: Graph, limits: Limits) -> EGraph:
    steps = Explorer(graph, taso().ops, taso().rules, limits).run()
    return [step.egraph for step in steps][-1]


def found(egraph: EGraph, prefix: str, instance: Instance) -> list[int | None]:
    """The e-class of each output of the instance's target, None where the e-graph lacks an operator of it."""
    classes = {
        (egraph.op[n], egraph.attrs[n], tuple(egraph.children_of(n))): int(egraph.node_class[n])
        for n in range(egraph.num_nodes)
    }
    inputs = {dict(attrs)["name"]: c for (op, attrs, _), c in classes.items() if op == "input"}
    known: dict[str, int | None] = {v: inputs.get(f"{prefix}_{v}") for v in instance.variables}
    for a in instance.target:
        given = dict(a.attrs)
        attrs = tuple((d.name, given[d.name]) for d in taso().ops[a.op].attrs)
        children = tuple(known[x] for x in a.args)
        known[a.result] = None if None in children else classes.get((a.op, attrs, children))  # type: ignore[arg-type]
    return [known[target] for _, target in instance.outputs]


def test_all_are_read() -> None:
    """120 and 13 rules, less those that repeat another."""
    assert [p.rule.kind for p in published()] == ["single"] * 116 + ["multi"] * 12
    assert len([p for p in published() if not p.is_true]) == 8


@pytest.mark.parametrize("item", published(), ids=lambda p: p.name)
def test_true_or_false(item: Published) -> None:
    checked = taso_instances(item, 2)
    assert len(checked) == 2
    for seed, instance in enumerate(checked):
        assert agree(instance, seed) == item.is_true, str(instance)


@pytest.mark.parametrize("items", batches(), ids=lambda items: f"{items[0].name}..{items[-1].name}")
def test_found_from_the_source(items: tuple[Published, ...]) -> None:
    sides = Sides("sources", taso().ops)
    examples = {p.name: taso_instances(p, 1)[0] for p in items}
    for name, instance in examples.items():
        sides.add(name, instance, "source")
    graph = sides.graph()
    multi = any(p.rule.kind == "multi" for p in items)
    limits = Limits(iterations=2 if items[0].name in EXPLOSIVE else 15, k_multi=int(multi))
    egraph = explore(graph, limits)
    roots = {name: c for (name, _), c in zip(graph.outputs, egraph.roots, strict=True)}
    missed = []
    for name, instance in examples.items():
        expected = [roots[f"{name}_source_{i}"] for i in range(len(instance.outputs))]
        if found(egraph, name, instance) != expected:
            missed.append(name)
    assert not missed


@pytest.mark.parametrize("item", [p for p in published() if not p.is_true], ids=lambda p: p.name)
def test_false_rule_is_not_found(item: Published) -> None:
    """Both sides are in the e-graph and stay apart."""
    (instance,) = taso_instances(item, 1)
    sides = Sides("both", taso().ops)
    sides.add(item.name, instance, "source")
    sides.add(item.name, instance, "target")
    graph = sides.graph()
    egraph = explore(graph, Limits(k_multi=1))
    half = len(egraph.roots) // 2
    assert all(a != b for a, b in zip(egraph.roots[:half], egraph.roots[half:], strict=True))
