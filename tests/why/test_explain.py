"""From a graph to the optimized graph: the chain is whole, and every step is one application of a rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import tensat_dl
from tensat_dl.core.graph import Graph
from tensat_dl.core.progress import Progress
from tensat_dl.cost import CostModel, load_device
from tensat_dl.engine.exploration import Limits
from tensat_dl.engine.explore import exploring
from tensat_dl.fuse.fuse import extended, unfused
from tensat_dl.ops.semantics import semantics_of
from tensat_dl.run.beginning import Setup
from tensat_dl.run.rounds import search_again
from tensat_dl.verify.equivalence import compare
from tensat_dl.verify.exact.compare import compare_exactly
from tensat_dl.why import shorten, way
from tensat_dl.why.ledger import Ledger
from tensat_dl.why.steps import Explained
from tensat_dl.why.way import way_between
from tests.cli.running import EXAMPLES
from tests.run.graphs import gru

pytestmark = pytest.mark.sampled(6)

SMALL = ["tiny_associativity", "tiny_enlarge", "tiny_fuse_relu", "tiny_own_rule", "tiny_share_input"]
MODELS = ["squeezenet", "nasrnn", "inception_v3"]


def explained(path: Path, limits: Limits | None = None) -> tuple[tensat_dl.Model, Graph, Sequence[Explained]]:
    """A model, what it is optimized to, and the steps."""
    limits = limits or Limits()
    model = tensat_dl.load(str(path))
    result = tensat_dl.optimize(model, verify=False, k_multi=limits.k_multi)
    costs = CostModel(model.ops, load_device("h100"))
    found = search_again(
        *(model.graph, result.after.graph, model.rules, Setup(costs, limits)),
        Progress(),
    )
    assert not found.unfinished
    return model, result.after.graph, found.steps


def expressions(graph: Graph, numbers: dict[object, int]) -> set[int]:
    """What a graph computes, node by node, as numbers that two graphs share."""
    own: list[int] = []
    for n in graph.nodes:
        own.append(numbers.setdefault((n.op, n.attrs, tuple(own[j] for j in n.inputs)), len(numbers)))
    return set(own)


@pytest.mark.parametrize("name", SMALL + MODELS)
def test_the_chain_leads_from_the_original_to_the_result(name: str) -> None:
    model, after, steps = explained(EXAMPLES / f"{name}.tsr")
    assert steps
    assert {e.verdict for e in steps} == {"equal"}
    numbers: dict[object, int] = {}
    current = expressions(model.graph, numbers)
    for e in steps:
        assert e.step.before is not None
        assert e.step.after is not None
        before, made = (expressions(g, numbers) for g in (e.step.before, e.step.after))
        assert before == current or e.step.turned
        assert before != made
        current = made
    assert current == expressions(after, numbers)


@pytest.mark.parametrize("name", SMALL)
def test_every_graph_of_the_chain_computes_the_same(name: str) -> None:
    model, _, steps = explained(EXAMPLES / f"{name}.tsr")
    for e in steps:
        assert e.step.after is not None
        assert compare(model.graph, e.step.after, semantics_of(model.ops)).status == "equivalent"


def test_a_rule_that_takes_lists_is_one_step(tmp_path: Path) -> None:
    path = tmp_path / "lists.tsr"
    path.write_text("""
    /// [f(x w1) f(x w2) ..] = f([x w1, x w2, ..]).
    rule outside { concat(relu(xs[i]) for i in 0..len(xs); axis = k) => relu(concat(xs[..]; axis = k)) }
    rule wide { concat(matmul(x, w[i]) for i in 0..len(w); axis = 1) => matmul(x, concat(w[..]; axis = 1)) }
    graph g {
      input x : f32[4, 8]
      for i in 0..5 { weight w[i] : f32[8, 3]; y[i] = relu(x @ w[i]) }
      output concat(y[..]; axis = 1)
    }
    """)
    _, _, steps = explained(path)
    assert [(e.step.rule.name, e.verdict) for e in steps] == [("outside", "equal"), ("wide", "equal")]
    assert steps[0].step.rule.doc == "[f(x w1) f(x w2) ..] = f([x w1, x w2, ..])."


def test_a_false_rule_is_the_step_that_differs(tmp_path: Path) -> None:
    path = tmp_path / "false.tsr"
    path.write_text(
        """import "activation"
/// Not true.
rule no-relu { relu(ewadd(a, b)) => ewadd(relu(a), b) }
rule drop { ewadd(relu(a), b) => ewadd(a, b) }
graph g {
  input x : f32[4, 4]
  input y : f32[4, 4]
  weight w : f32[4, 4]
  output relu(relu(x + y) @ w)
}
"""
    )
    _, _, steps = explained(path)
    wrong = {e.step.rule.name for e in steps if e.verdict == "different"}
    assert wrong == {"no-relu", "drop"}
    assert "matmul-relu" in {e.step.rule.name for e in steps if e.verdict == "equal"}


def test_a_rule_about_opaque_operators_is_assumed(tmp_path: Path) -> None:
    path = tmp_path / "opaque.tsr"
    path.write_text(
        """opaque op f(x: tensor) { shape shape(x) }
rule f-once { f(f(x)) => f(x) }
graph g {
  input x : f32[4, 4]
  output f(f(x))
}
"""
    )
    _, _, steps = explained(path)
    assert [(e.step.rule.name, e.verdict) for e in steps] == [("f-once", "assumed")]


def test_a_graph_that_the_rules_do_not_lead_to(tmp_path: Path) -> None:
    model = tensat_dl.load(str(EXAMPLES / "tiny_fuse_relu.tsr"))
    other = tensat_dl.load(str(EXAMPLES / "tiny_associativity.tsr"))
    costs = CostModel(model.ops, load_device("h100"))
    found = search_again(
        *(model.graph, other.graph, model.rules, Setup(costs)),
        Progress(),
    )
    assert found.unfinished


def test_the_original_itself_needs_no_step() -> None:
    model = tensat_dl.load(str(EXAMPLES / "tiny_fuse_relu.tsr"))
    costs = CostModel(model.ops, load_device("h100"))
    found = search_again(
        *(model.graph, model.graph, model.rules, Setup(costs)),
        Progress(),
    )
    assert (found.steps, found.unfinished) == ((), "")


LAYERS = """import "activation"
graph g {
  input x : f32[4, 4]
  weight a : f32[4, 4]
  weight b : f32[4, 4]
  output relu(x @ a), relu(relu(x @ a) @ b)
}
"""


def test_ctrl_c_keeps_the_steps_until_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "layers.tsr"
    path.write_text(LAYERS)
    model = tensat_dl.load(str(path))
    after = tensat_dl.optimize(model, verify=False).after.graph
    costs = CostModel(model.ops, load_device("h100"))
    with exploring(model.graph, model.ops, model.rules, Limits()) as worker:
        exploration, history = worker.run(), worker.history()
    calls = when = 0

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == when:
                raise KeyboardInterrupt
            return function(*args)

        return call

    # in the midst of finding the way, of making it short, of making graphs and of evaluating them
    monkeypatch.setattr(Ledger, "_join", counted(Ledger._join))
    monkeypatch.setattr(shorten, "_enough", counted(shorten._enough))
    monkeypatch.setattr(way, "compare_exactly", counted(compare_exactly))
    lengths = set()
    while calls >= when:
        calls, when = 0, when + 1
        found = way_between(*(model.graph, after, model.rules, costs, exploration, history), Progress())
        assert found.interrupted == (calls >= when)
        assert len(found.steps) == 2 or found.unfinished == "interrupted"
        lengths.add(len(found.steps))
        assert found.interrupted or {e.verdict for e in found.steps} == {"equal"}
        assert {e.verdict for e in found.steps} <= {"equal", "inconclusive"}
        for e in found.steps:
            assert e.step.after is not None
            assert compare(model.graph, e.step.after, semantics_of(model.ops)).status == "equivalent"
    assert lengths == {0, 1, 2}


def test_the_chain_goes_on_in_the_e_graph_of_the_next_round(tmp_path: Path) -> None:
    path = tmp_path / "gru.tsr"
    path.write_text(f'import "standard"\ngraph g {{\n{gru(1, 64)}\n}}\n')
    model = tensat_dl.load(str(path))
    setup = Setup(CostModel(model.ops, load_device("h100")), fusing=True)
    result = tensat_dl.optimize(model, verify=False, fuse=True)
    assert result.rounds.gained == 2
    after = unfused(result.after.graph, extended(model.ops, result.declared), result.declared)
    found = search_again(model.graph, after, model.rules, setup, Progress())
    assert not found.unfinished
    assert {e.verdict for e in found.steps} == {"equal"}
    numbers: dict[object, int] = {}
    last = found.steps[-1].step.after
    assert last is not None
    assert expressions(last, numbers) == expressions(after, numbers)
