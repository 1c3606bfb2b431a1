"""Models that are optimized for several sizes of a dimension."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnx_ir")

import onnxruntime
from onnx.helper import make_node

import tensat_dl
from tensat_dl.core.diagnostics import TsrError
from tensat_dl.cost import CostModel
from tensat_dl.engine.exploration import Limits
from tensat_dl.engine.explore import exploring
from tensat_dl.measure import cpu
from tensat_dl.measure.cpu import Cpu
from tensat_dl.measure.machine import Outcome, TimedGraph
from tensat_dl.onnx.importer import Imported, import_model
from tensat_dl.ops.typing import Inference
from tensat_dl.sizes.open_shapes import Elsewhere
from tensat_dl.sizes.resized import Resized
from tests.cli.running import invoke

from .models import model, read, saved, value
from .open_models import attention


def priced(imported: Imported) -> CostModel:
    return CostModel.of(imported.program.ops, "cpu")


def test_costs_are_means_over_the_sizes(tmp_path: Path) -> None:
    path = saved(tmp_path, attention(2))
    mixed = import_model(path, {"seq": [16, 64, 100]})
    assert dict(mixed.dims) == {"seq": 64}
    alone = [import_model(path, {"seq": n}) for n in (16, 64, 100)]
    totals = [priced(one).price_graph(one.graph).total for one in alone]
    found = replace(priced(mixed), sizes=mixed.sizes_of_mix()).price_graph(mixed.graph).total
    assert found == pytest.approx(sum(totals) / 3, rel=1e-9)
    assert totals[0] < totals[1] < totals[2]


def test_sums_of_dimensions_follow(tmp_path: Path) -> None:
    nodes = [make_node("Concat", ["past", "x"], ["whole"], axis=0), make_node("Relu", ["whole"], ["r"])]
    nodes.append(make_node("Add", ["r", "bias"], ["y"]))
    inputs = [value("past", "past", 4), value("x", 1, 4), value("bias", "past + 1", 4)]
    imported = read(tmp_path, model(nodes, inputs, ["y"]), {"past": [8, 16, 32]})
    assert [dict(dims) for dims, _ in imported.mix] == [{"past": n, "past + 1": n + 1} for n in (8, 16, 32)]


@pytest.mark.parametrize("dims", [{"seq": [16, 64]}, {"batch": "1..4=1,4"}])
def test_an_explored_e_graph_has_the_types_of_other_sizes(dims: dict[str, Any], tmp_path: Path) -> None:
    """Each e-node that holds there has operands and attributes of which its type follows."""
    imported = import_model(saved(tmp_path, attention()), dims, ("inference",))
    program, graph = imported.program, imported.graph
    with exploring(graph, program.ops, program.rules, Limits(nodes=2_000, iterations=3)) as worker:
        egraph = worker.run().egraph
    egraph = egraph.without(imported.fixed_sizes(egraph, graph))
    infer = Inference(program.ops)
    (other,) = (one for one in imported.sizes_of_mix() if one is not None)
    sized = other.egraph(egraph, graph)
    assert sized.types != egraph.types
    looked_at = 0
    for n, op in enumerate(sized.op):
        c = int(sized.node_class[n])
        if op in ("input", "weight") or sized.weights_only[c]:
            continue
        operands = [sized.types[d][0] for d in sized.children_of(n)]
        (found,) = infer(op, operands, dict(sized.attrs[n])).concrete()
        assert found == sized.types[c][0], (op, sized.attrs[n])
        looked_at += 1
    assert looked_at > 50


class Clock:
    """Stands for timing: the seconds of a model by the length of its input. The second model is the candidate."""

    def __init__(self, factors: dict[int, float]) -> None:
        self.factors = factors
        self.lengths: list[int] = []

    def __call__(self, models: Sequence[Path], feeds: Path, *_: Any, **__: Any) -> Sequence[Sequence[float]]:
        with np.load(feeds) as arrays:
            length = arrays["x"].shape[1]
        self.lengths.append(length)
        seconds = [1e-3 * length, *(1e-3 * length * self.factors[length] for _ in models[1:])]
        return [seconds] * 4


def test_sizes_that_do_not_fit_together_cost_as_here(tmp_path: Path) -> None:
    imported = read(tmp_path, attention(2), {"seq": 16})
    graph, ops = imported.graph, imported.program.ops
    wrong = Resized(Elsewhere(graph, ops, {"x": (2, 16, 65)}))
    model = priced(imported)
    assert replace(model, sizes=(wrong,)).price_graph(graph) == model.price_graph(graph)


def contest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock, dims: Any) -> Outcome:
    """Times the model's own graph as a candidate."""
    imported = read(tmp_path, attention(2), {"seq": dims})
    monkeypatch.setattr(cpu, "time_in_fresh_process", clock)
    monkeypatch.setenv("TENSAT_DL_PROFILES", str(tmp_path))
    graph, ops = imported.graph, imported.program.ops
    machine = Cpu(TimedGraph(graph, ops, imported), 1, 0)
    costs = priced(imported).price_graph(graph)
    return machine.contest(costs, [replace(costs, graph=replace(graph))], lambda done, total: None)


def test_the_geometric_mean_over_the_sizes_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock({8: 0.5, 16: 1.0, 32: 0.9})
    found = contest(tmp_path, monkeypatch, clock, [8, 16, 32])
    assert set(clock.lengths) == {8, 16, 32}, "and at no other sizes"
    assert found.winner == 0
    assert found.ratio is not None
    assert found.ratio.mid == pytest.approx((0.5 * 1.0 * 0.9) ** (1 / 3))
    assert [(there.sizes, round(there.ratio.mid, 6)) for there in found.elsewhere] == [
        ("seq = 8", 0.5),
        ("seq = 16", 1.0),
        ("seq = 32", 0.9),
    ]
    assert found.mix == ("seq = 8", "seq = 16", "seq = 32")


def test_what_is_slower_at_one_of_them_is_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = contest(tmp_path, monkeypatch, Clock({8: 0.5, 16: 1.0, 32: 1.1}), [8, 16, 32])
    assert found.winner is None
    assert found.candidates[0].reason == "with seq = 32 it takes 1.10 times as long as the original"


def test_a_range_is_timed_at_two_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock({32: 0.5, 16: 1.1})
    found = contest(tmp_path, monkeypatch, clock, "1..32=32")
    assert set(clock.lengths) == {16, 32}
    assert found.winner is None


def test_a_run_for_several_sizes(tmp_path: Path) -> None:
    """The answer computes the same at these sizes and at others, and the same command writes the same bytes."""
    path, report = saved(tmp_path, attention()), tmp_path / "report.json"
    outs = [tmp_path / "first.onnx", tmp_path / "second.onnx"]
    for out in outs:
        done = invoke(
            "run",
            path,
            "-o",
            out,
            "--no-measure",
            "--max-iters",
            3,
            "--json",
            report,
            "--dim",
            "seq=4..64=8,16,64",
        )
        assert (done.code, done.err) == (0, "")
    assert outs[0].read_bytes() == outs[1].read_bytes()
    assert "seq = 8, 16, 64 (typical: batch; --dim gives others)" in done.out
    told = json.loads(report.read_text())["model"]
    assert (told["mix"], told["ranges"]) == ({"seq": [8, 16, 64]}, {"seq": [4, 64]})
    before, after = (onnxruntime.InferenceSession(str(p)) for p in (path, outs[0]))
    for shape in ((1, 4), (2, 8), (3, 17), (1, 64)):
        x = np.random.default_rng(0).standard_normal((*shape, 64)).astype(np.float32)
        np.testing.assert_allclose(after.run(None, {"x": x})[0], before.run(None, {"x": x})[0], atol=1e-4)


def test_what_knows_one_size_only(tmp_path: Path) -> None:
    path = saved(tmp_path, attention())
    with pytest.raises(TsrError, match="batch and seq have several sizes each"):
        import_model(path, {"batch": [1, 2], "seq": [8, 16]})
    done = invoke("run", path, "--no-measure", "--dim", "seq=8,16", "--search", "sampling")
    assert done.code == 2
    assert "dimensions with several sizes are for the search saturation, not for sampling" in done.err
    loaded = tensat_dl.load(path, dims={"seq": (8, 16)})
    with pytest.raises(ValueError, match="are for the search saturation"):
        tensat_dl.optimize(loaded, search="backtracking", measure=False)
