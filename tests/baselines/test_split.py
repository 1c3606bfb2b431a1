"""Cuts: as small as any, found by trying all; and searches in parts."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest

import tensat_dl
from tensat_dl.baselines.backtracking import Backtracking
from tensat_dl.baselines.split import END, cut, split
from tensat_dl.baselines.walk import Limit
from tensat_dl.cost import CostModel
from tensat_dl.ops.semantics import semantics_of
from tensat_dl.verify.equivalence import compare


def crossed(below: set[int], matches: list[set[int]]) -> int:
    return sum(bool(m & below) and bool(m - below) for m in matches)


@pytest.mark.parametrize("seed", range(30))
def test_no_cut_crosses_fewer_matches(seed: int) -> None:
    rng = Random(seed)
    nodes = list(range(rng.randint(4, 11)))
    operands = {n: rng.sample(range(n), min(n, rng.randint(0, 2))) for n in nodes}
    matches = [set(rng.sample(nodes, rng.randint(1, 3))) for _ in range(rng.randint(0, 12))]
    found = cut(nodes, operands, matches)
    size = max(1, int(len(nodes) * END))
    first, last = set(nodes[:size]), set(nodes[-size:])
    rest = [n for n in nodes if n not in first | last]
    allowed = [
        below
        for k in range(len(rest) + 1)
        for below in (first | set(chosen) for chosen in combinations(rest, k))
        if all(below.issuperset(operands[n]) for n in below)
    ]
    assert found in allowed
    assert crossed(found, matches) == min(crossed(b, matches) for b in allowed)


def test_parts_are_small_and_in_order() -> None:
    nodes = list(range(100))
    operands = {n: [n - 1] if n else [] for n in nodes}
    parts = split(nodes, operands, [{n, n + 1} for n in range(0, 98, 2)], 12)
    assert [n for part in parts for n in part] == nodes
    assert max(map(len, parts)) <= 12
    assert len(parts) > 8


def chain(layers: int) -> tensat_dl.Model:
    lines = ["input x0 : f32[8, 64]"]
    for i in range(layers):
        lines += [f"weight a{i} : f32[64, 64]", f"weight b{i} : f32[64, 64]"]
        lines.append(f"x{i + 1} = tanh(x{i} @ a{i}) + sigmoid(x{i} @ b{i})")
    body = "\n".join([*lines, f"output x{layers}"])
    return tensat_dl.load(text=f"graph g {{\n{body}\n}}", rules=["pairs"])


def test_a_search_in_parts_finds_what_is_inside_of_them_and_across() -> None:
    model = chain(6)
    costs = CostModel.of(model.ops, "h100")
    whole = Backtracking(model.graph, model.rules, costs, Limit(50)).run()
    parts = Backtracking(model.graph, model.rules, costs, Limit(50), split=8).run()
    assert len(set(parts.store.part)) > 2
    assert parts.best.cost == pytest.approx(whole.best.cost)
    assert len(parts.best.chain()) == 6
    after = parts.store.graph(parts.outputs)
    assert costs.price_graph(after).total == pytest.approx(parts.best.cost)
    assert compare(model.graph, after, semantics_of(model.ops), 0).status == "equivalent"


def test_steps_of_a_search_in_parts() -> None:
    model = chain(4)
    result = tensat_dl.optimize(model, search="backtracking", split=6, iterations=10)
    assert result.trace is not None
    explained = tensat_dl.explain(model, result)
    assert [s.step.rule.name for s in explained.steps] == list(result.trace.steps)
    assert not explained.unfinished
