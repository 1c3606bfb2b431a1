"""The tutorial's rules and operators change the result, and do so by their declarations alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from snippets import ROOT, blocks

import tensat_dl
from tensat_dl.run.result import Result

pytestmark = pytest.mark.sampled(4)


@dataclass(frozen=True)
class Case:
    """``rules`` adds ``rule`` to ``graph``; ``gone`` and ``used`` count operators without and with it."""

    graph: str
    rules: str
    rule: str
    gone: dict[str, int]
    used: dict[str, int]
    verdict: str = "equivalent"  #: laws of opaque operators are taken on trust


CASES = [
    Case("dense", "./fuse.tsr", "fuse-relu", {"relu": 1, "matmul": 1}, {"relu": 0, "matmul": 1}),
    Case("likelihood", "./exponents.tsr", "add-exponents", {"exp": 3, "ewmul": 2}, {"exp": 1, "ewadd": 2}),
    Case("adapter", "./adapter_rules.tsr", "sum-of-gemms", {"gemm": 2}, {"gemm": 1, "matmul": 0}),
    Case(
        "embedding", "./lookup_rules.tsr", "add-lookups", {"lookup": 2}, {"lookup": 1}, verdict="inconclusive"
    ),
]
#: Graphs whose file has the rule.
OWN = [("share", "merge-products"), ("group", "merge-all")]


@pytest.fixture(autouse=True)
def _tutorial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for block in blocks((ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")):
        if block.language == "tsr":
            Path(block.name).write_text(block.text, encoding="utf-8")


def run_time_operators(result: Result) -> dict[str, int]:
    """How many applications of each operator are left to run time."""
    graph = result.after.graph
    ahead = graph.weights_only()
    counts: dict[str, int] = {}
    for node, done in zip(graph.nodes, ahead, strict=True):
        if not done and node.op != "input":
            counts[node.op] = counts.get(node.op, 0) + 1
    return counts


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.rule)
def test_rule_of_another_file(case: Case) -> None:
    without = tensat_dl.optimize(tensat_dl.load(f"{case.graph}.tsr"))
    with_it = tensat_dl.optimize(tensat_dl.load(f"{case.graph}.tsr", rules=[case.rules]))
    before, after = run_time_operators(without), run_time_operators(with_it)
    assert {op: before.get(op, 0) for op in case.gone} == case.gone
    assert {op: after.get(op, 0) for op in case.used} == case.used
    assert with_it.after.total < 0.99 * without.after.total
    assert case.rule in dict(with_it.rules_used)
    assert case.rule not in dict(without.rules_used)
    assert with_it.equivalence is not None
    assert with_it.equivalence.status == case.verdict


@pytest.mark.parametrize(("graph", "rule"), OWN)
def test_rule_beside_the_graph(graph: str, rule: str) -> None:
    model = tensat_dl.load(f"{graph}.tsr")
    with_it = tensat_dl.optimize(model)
    without = tensat_dl.optimize(model, [r for r in model.rules if r.name != rule])
    assert len(with_it.rules_used) == 1
    assert rule in dict(with_it.rules_used)
    assert run_time_operators(without)["matmul"] > run_time_operators(with_it)["matmul"] == 1
    assert with_it.after.total < 0.99 * without.after.total
