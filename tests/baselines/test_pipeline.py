"""`search="backtracking"` from the API and the command line: answers, explanations, limits, Ctrl-C, messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensat_dl
from tensat_dl.baselines.graphs import Current
from tensat_dl.core.egraph import BoolArray, EGraph
from tensat_dl.core.graph import Graph
from tensat_dl.core.progress import Progress
from tensat_dl.run.beginning import Setup
from tensat_dl.run.options import Options
from tensat_dl.run.sequential import walked
from tests.cli.running import Done, invoke

EXAMPLES = Path(__file__).parents[2] / "examples"
SHARED = str(EXAMPLES / "tiny_share_input.tsr")
SEARCHES = ("backtracking", "sampling")


def run(*arguments: str) -> Done:
    return invoke(*arguments, joined=True)


@pytest.mark.parametrize("search", SEARCHES)
def test_an_answer_is_verified_and_explained(search: Any, tmp_path: Path) -> None:
    model = tensat_dl.load(SHARED)
    result = tensat_dl.optimize(model, search=search, iterations=20)
    assert result.after.total < result.before.total
    assert result.equivalence is not None
    assert result.equivalence.status == "equivalent"
    assert result.trace is not None
    assert result.trace.search == search
    assert result.trace.steps
    assert {v.rule for v in result.verdicts} == set(result.trace.steps)
    gains = [g.cost for g in result.trace.gains]
    assert gains == sorted(gains, reverse=True)
    assert gains[-1] == pytest.approx(result.after.total)
    explained = tensat_dl.explain(model, result)
    assert not explained.unfinished
    assert [s.step.rule.name for s in explained.steps] == list(result.trace.steps)
    assert {s.verdict for s in explained.steps} == {"equal"}
    whole = [s.whole for s in explained.steps]
    assert whole[0] is not None
    assert whole[-1] is not None
    assert whole[0][0].total == pytest.approx(result.before.total)
    assert whole[-1][1].total == pytest.approx(result.after.total)
    for a, b in zip(explained.steps, explained.steps[1:], strict=False):
        assert a.step.after == b.step.before


@pytest.mark.parametrize("search", SEARCHES)
def test_the_command_line(search: str, tmp_path: Path) -> None:
    out, report, page = (str(tmp_path / name) for name in ("out.tsr", "report.json", "page.html"))
    done = run("run", SHARED, "--search", search, "-o", out, "--json", report, "--html", page)
    assert done.code == 0, done.out
    assert f"{search}: " in done.out
    assert "substitutions a second" in done.out
    found = json.loads(Path(report).read_text())
    assert found["search"] == search
    assert found["trace"]["expanded"] <= 100
    assert found["cost"]["after"] < found["cost"]["before"]
    assert search in Path(page).read_text()
    why = run("why", out)
    assert why.code == 0, why.out
    assert "replayed and evaluated: equal" in why.out


def three_products() -> tensat_dl.Model:
    text = """
        graph g {
          input x : f32[1, 512]
          weight a : f32[512, 512]
          weight b : f32[512, 512]
          weight c : f32[512, 512]
          output x @ a, x @ b, x @ c
        }"""
    return tensat_dl.load(text=text, rules=["groups"])


def test_groups_of_all_members_in_one_step() -> None:
    model = three_products()
    result = tensat_dl.optimize(model, search="backtracking", iterations=1)
    assert result.trace is not None
    assert result.trace.steps == ("group-matmul-left",)
    assert result.after.graph.count()["matmul"] == 1
    (step,) = tensat_dl.explain(model, result).steps
    assert step.step.members == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--alpha", "1.1"], "Error: --alpha is an option of the search backtracking, not of saturation"),
        (
            ["--iterations", "5"],
            "Error: --iterations is an option of the search backtracking or sampling, not of saturation",
        ),
        (
            ["--search", "sampling", "--alpha", "1.1"],
            "Error: --alpha is an option of the search backtracking",
        ),
        (
            ["--search", "backtracking", "--k-multi", "2"],
            "Error: --k-multi is an option of the search saturation",
        ),
        (["--search", "backtracking", "--fuse"], "Error: --fuse is an option of the search saturation"),
        (
            ["--search", "sampling", "--extract-time-limit", "1"],
            "Error: --extract-time-limit is an option of",
        ),
        (["--search", "backtracking", "--alpha", "0.9"], "0.9 is not in the range x>=1"),
        (
            ["--search", "backtracking", "--alpha", "nan"],
            "Error: --alpha is nan: expected a number of at least 1",
        ),
        (["--search", "annealing"], "'annealing' is not one of"),
        (["--search", "backtracking", "--save-egraph", "e.json"], "--save-egraph needs an e-graph"),
    ],
)
def test_options_that_do_not_go_together(options: list[str], message: str) -> None:
    done = run("run", SHARED, *options)
    assert done.code == 2
    assert message in done.out


def test_no_time_and_no_graphs_leave_the_input() -> None:
    for limit in ({"time_limit": 0.0}, {"iterations": 0}):
        result = tensat_dl.optimize(tensat_dl.load(SHARED), search="backtracking", **limit)  # type: ignore[arg-type]
        assert result.after.graph == result.before.graph
        assert result.trace is not None
        assert result.trace.tried == 0
        assert result.stop == ("time" if "time_limit" in limit else "iterations")


@pytest.mark.parametrize("at", [0, 1])
def test_ctrl_c_keeps_the_best_graph(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    after, calls = Current.after, iter(range(10**6))

    def interrupted(*given: Any) -> Any:
        if next(calls) == at:
            raise KeyboardInterrupt
        return after(*given)

    monkeypatch.setattr(Current, "after", interrupted)
    result = tensat_dl.optimize(three_products(), search="backtracking")
    assert result.interrupted
    assert result.stop == "interrupted"
    assert "interrupted: the cheapest graph found until then is used" in result.notes
    assert result.equivalence is not None
    assert result.equivalence.status == "equivalent"
    assert (result.after.graph == result.before.graph) == (at == 0)


@pytest.mark.parametrize("search", SEARCHES)
def test_graphs_that_do_not_fit_are_no_answers(search: Any) -> None:
    """New products of any kind are forbidden, as if they held at one size of a model only."""
    model = three_products()

    def unfit(egraph: EGraph, graph: Graph) -> BoolArray:
        assert graph == model.graph
        assert len(egraph.source) == len(graph.nodes)
        old = set(egraph.source.tolist())
        assert all(egraph.op[n] == node.op for n, node in zip(egraph.source, graph.nodes, strict=True))
        new = [n not in old and op == "matmul" for n, op in enumerate(egraph.op)]
        return np.array(new, dtype=np.bool_)

    options = Options(search=search, iterations=10)
    for setup in (
        Setup.of(options, model.graph, model.rules, model.ops),
        Setup.of(options, model.graph, model.rules, model.ops, unfit=unfit),
    ):
        walk = walked(model.graph, model.rules, setup, options, Progress())
        assert (walk.outputs == walk.store.outputs) == (setup.unfit is not None)
