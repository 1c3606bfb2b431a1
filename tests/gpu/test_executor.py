"""Graphs run by kernels compute what they mean; on the CPU, Triton's in its interpreter."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch

from tensat_dl.core.egraph import without_choices
from tensat_dl.core.graph import Graph
from tensat_dl.cost import CostModel, Measurement, Profile, load_device
from tensat_dl.cost.device import Environment
from tensat_dl.gpu.executor import Executor, NotExecutable, in_double, input_tensors
from tensat_dl.gpu.gpu_machine import GpuMachine
from tensat_dl.lang.elaborate import elaborate
from tensat_dl.lang.program import Program, load_program
from tensat_dl.measure import contest as contests
from tensat_dl.measure.machine import Outcome
from tensat_dl.ops.semantics import semantics_of
from tensat_dl.verify.execute import execute
from tensat_dl.verify.weights import draw_values

CPU = torch.device("cpu")

ATTENTION = """
op scaled(x: tensor; by: float) = tanh(smul(x, by)) + 1.0

graph attention {
  input x : f32[6, 16]
  for i in 0..3 { weight w[i] : f32[16, 16] }
  weight b : f32[16]
  weight scale : f32[16]
  y = matmul(x, concat(w[..]; axis = 1))
  (q, k, v) = split(y; axis = 1, sizes = [16, 16, 16])
  for i in 0..3 {
    part = slice(y; axis = 1, start = 16 * i, stop = 16 * i + 16)
    h[i] = transpose(reshape(part; shape = [6, 2, 8]); perm = [1, 0, 2])
  }
  scores = softmax(matmul(h[0], transpose(h[1]; perm = [0, 2, 1])) * 0.35; axis = 2)
  heads = reshape(transpose(matmul(scores, h[2]); perm = [1, 0, 2]); shape = [6, 16])
  output out = layernorm(x + matmul(heads, w[0], b; act = gelu), scale + 1.0, b), q, scaled(k; by = 0.5) * sigmoid(v)
}
"""  # fmt: skip

NETWORK = """
graph network {
  input x : f32[1, 3, 12, 12]
  weight w : f32[8, 3, 3, 3]
  weight d : f32[8, 1, 3, 3]
  weight p : f32[8, 8, 1, 1]
  weight b : f32[8]
  a = poolmax(conv2d(x, w, b; pads = same, act = relu); kernel = 2, stride = 2)
  c = conv2d(conv2d(a, d; pads = same), p; act = sigmoid)
  (left, right) = split(concat(a, c; axis = 1); axis = 1, sizes = [6, 10])
  output left, poolavg(hardswish(right); kernel = 3, pads = same), dropout(c)
}
"""


def loaded(text: str, tmp_path: Path) -> tuple[Program, Graph]:
    file = tmp_path / "graph.tsr"
    file.write_text(text)
    program = load_program(str(file))
    (item,) = program.graphs.values()
    return program, elaborate(item, program.ops, program.blocks)


@pytest.mark.parametrize("text", [ATTENTION, NETWORK], ids=["attention", "network"])
def test_a_graph_computes_what_it_means(text: str, tmp_path: Path) -> None:
    program, graph = loaded(text, tmp_path)
    values = draw_values([graph], 0, {})
    want = execute(graph, values, semantics_of(program.ops))
    executor = Executor(graph, CostModel(program.ops, load_device("h100")), values, CPU)
    got = executor(input_tensors(graph, values, CPU))
    for found, wanted in zip(got, want, strict=True):
        assert found.is_contiguous()
        assert np.max(np.abs(found.double().numpy() - wanted)) <= 1e-5 * np.max(np.abs(wanted))
    for found, wanted in zip(in_double(graph, program.ops, values, CPU), want, strict=True):
        # constants have their element type's precision
        assert np.max(np.abs(found.numpy() - wanted)) <= 1e-7 * np.max(np.abs(wanted))


def test_views_that_are_free_move_nothing(tmp_path: Path) -> None:
    """The heads of a merged product are read in place; the heads that are put together again are copied once."""
    program, graph = loaded(ATTENTION, tmp_path)
    model = CostModel(program.ops, load_device("h100"))
    executor = Executor(graph, model, draw_values([graph], 0, {}), CPU)
    priced = model.price_graph(graph)
    for step in executor.steps:
        if program.ops[graph.nodes[step.i].op].view:
            assert (step.name == "view") == (priced.cost[step.i] == 0)
    names = [s.name for s in executor.steps if graph.nodes[s.i].op == "transpose"]
    assert names.count("view") == 4
    assert len(names) == 5


def test_the_profile_chooses(tmp_path: Path) -> None:
    program, graph = loaded(NETWORK, tmp_path)
    model = CostModel(program.ops, load_device("h100"))
    entries = {
        s.text: Measurement(0.1, 0.0, 9, "triton 512")
        for s in model.signatures(without_choices(graph))
        if s.op in ("poolmax", "poolavg")
    }
    measured = CostModel(program.ops, load_device("h100"), Profile("h100", {}, {}, entries))
    names = {
        graph.nodes[s.i].op: s.name for s in Executor(graph, measured, draw_values([graph], 0, {}), CPU).steps
    }
    assert (names["poolmax"], names["poolavg"], names["conv2d"]) == ("triton 512", "triton 512", "cudnn")


def test_weights_are_computed_once(tmp_path: Path) -> None:
    program, graph = loaded(ATTENTION, tmp_path)
    executor = Executor(graph, CostModel(program.ops, load_device("h100")), draw_values([graph], 0, {}), CPU)
    assert "concat" not in {graph.nodes[s.i].op for s in executor.steps}


def test_what_has_no_kernel_is_named(tmp_path: Path) -> None:
    text = "opaque op mystery(x: tensor) { shape shape(x) }\ngraph g { input x : f32[4]\n output relu(mystery(x)) }"
    program, graph = loaded(text, tmp_path)
    with pytest.raises(NotExecutable, match="mystery"):
        Executor(graph, CostModel(program.ops, load_device("h100")), {}, CPU)


MERGED = """
graph siblings {
  input x : f32[4, 16]
  weight a : f32[16, 16]
  weight b : f32[16, 16]
  m = x @ concat(a, b; axis = 1)
  (left, right) = split(m; axis = 1, sizes = [16, 16])
  output tanh(left), tanh(right)
}
"""
APART = """
graph siblings {
  input x : f32[4, 16]
  weight a : f32[16, 16]
  weight b : f32[16, 16]
  output tanh(x @ a), tanh(x @ b)
}
"""
WRONG = APART.replace("tanh(x @ b)", "tanh(x @ a)")


def contest(texts: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Outcome:
    """The first graph against the others, which are all faster."""
    monkeypatch.setattr(contests, "HEAT", 1)
    monkeypatch.setattr(contests, "MOST", 8)
    graphs = []
    for text in texts:
        program, graph = loaded(text, tmp_path)
        graphs.append(graph)
    values = draw_values(graphs[:1], 0, {})
    model = CostModel(program.ops, load_device("h100"))
    machine = GpuMachine(model, Environment({"gpu": "none"}, {}), values, CPU)
    monkeypatch.setattr(machine, "times", lambda all: [[1.0] + [0.8] * (len(all) - 1)] * 3)
    original, *candidates = map(model.price_graph, graphs)
    return machine.contest(original, candidates, lambda done, total: None)


def test_only_graphs_that_compute_the_same_are_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = contest((APART, WRONG, MERGED), tmp_path, monkeypatch)
    assert outcome.winner == 1
    assert outcome.candidates[0].differs
    assert "off by" in outcome.mismatch
    assert outcome.agreement is not None
    assert outcome.agreement.max_rel < 1e-5


TWO_TYPES = """
graph g {
  input x : f32[4, 16]
  input y : bf16[4, 16]
  output x * 2.0, y * 2.0
}
"""


def test_each_output_has_its_own_tolerance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is rounding of bf16 is none of f32."""
    off = [TWO_TYPES.replace(f"{name} * 2.0", f"{name} * 2.03125") for name in ("x", "y")]
    outcome = contest((TWO_TYPES, *off), tmp_path, monkeypatch)
    assert [c.differs for c in outcome.candidates] == [True, False]
    assert "is off by 1.6e-02 (tolerance 1e-04)" in outcome.candidates[0].reason


@pytest.mark.filterwarnings("ignore:overflow")
def test_an_original_that_overflows_excuses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "graph g {\n  input x : f16[4, 16]\n  output (x * 60000.0) * 60000.0\n}"
    outcome = contest((text, text.replace("x *", "relu(x) *")), tmp_path, monkeypatch)
    assert outcome.winner is None
    assert "the original's own outputs are not finite" in outcome.reason


def test_graphs_are_timed_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tensat_dl.gpu.gpu_machine.SAMPLE_SECONDS", 0.0)
    monkeypatch.setattr("tensat_dl.gpu.gpu_machine.ROUNDS", 2)
    program, graph = loaded(APART, tmp_path)
    machine = GpuMachine(
        CostModel(program.ops, load_device("h100")), Environment({}, {}), draw_values([graph], 0, {}), CPU
    )
    contender = machine.contender(graph)
    samples = machine.times([contender, contender])
    assert [len(round_) for round_ in samples] == [2, 2]
    assert all(s > 0 for round_ in samples for s in round_)


@pytest.mark.parametrize("body", ["reduce_mean(x; axis = 0)", "reduce_mean(x + x; axis = 0)"])
def test_what_torch_computes_of_floats_alone_is_named(body: str, tmp_path: Path) -> None:
    program, graph = loaded(f"graph g {{ input x : i32[16, 4]\n output {body} }}", tmp_path)
    model, values = CostModel(program.ops, load_device("h100")), draw_values([graph], 0, {})
    for run in (
        lambda: Executor(graph, model, values, CPU),
        lambda: in_double(graph, program.ops, values, CPU),
    ):
        with pytest.raises(NotExecutable, match="no kernel computes reduce_mean of i32"):
            run()
