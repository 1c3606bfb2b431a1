"""The benchmark on a GPU, as far as it goes without one: its graphs, and torch's side of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch

from tensat_dl.bench import gpu_cell
from tensat_dl.cli.main import cli
from tensat_dl.cost import CostModel, load_device
from tensat_dl.cost.environment import Environment
from tensat_dl.gpu import machine
from tensat_dl.gpu.executor import in_double, input_tensors
from tensat_dl.gpu.torch_module import TorchGraph
from tensat_dl.verify.weights import draw_values
from tests.gpu.test_executor import ATTENTION, CPU, NETWORK, loaded

MODEL = """
rule merge {
  left = matmul(x, a)
  right = matmul(x, b)
  =>
  y = matmul(x, concat(a, b; axis = 1))
  (left, right) = split(y; axis = 1, sizes = [dim(a, 1), dim(b, 1)])
}
graph small {
  input x : f32[4, 16]
  weight a : f32[16, 16]
  weight b : f32[16, 16]
  output silu(x @ a) + tanh(x @ b)
}
"""


@pytest.mark.parametrize("text", [ATTENTION, NETWORK], ids=["attention", "network"])
def test_torch_computes_the_same_and_can_trace_it(text: str, tmp_path: Path) -> None:
    program, graph = loaded(text, tmp_path)
    values = draw_values([graph], 0, {})
    module = TorchGraph(graph, program.ops, values, CPU)
    inputs = input_tensors(graph, values, CPU)
    traced = torch.compile(module, backend="eager", fullgraph=True)
    with torch.no_grad():
        for found in (module(*inputs), traced(*inputs)):
            for x, y in zip(found, in_double(graph, program.ops, values, CPU), strict=True):
                torch.testing.assert_close(x.double(), y, rtol=1e-4, atol=1e-5)


def test_graphs_are_prepared_and_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, folder, out = tmp_path / "small.tsr", tmp_path / "graphs", tmp_path / "gpu.json"
    model.write_text(MODEL)
    command = ["bench", "gpu", str(model), "--prepare", str(folder), "--dtype", "bf16", "--json", str(out)]
    done = CliRunner().invoke(cli, command, standalone_mode=False)
    assert done.return_value == 0, done.output
    (row,) = json.loads(out.read_text())["rows"]
    assert row["costs"]["fused"] < row["costs"]["ours"] < row["costs"]["original"]
    assert {p.name for p in folder.iterdir()} == {f"small.{g}.tsr" for g in gpu_cell.GRAPHS}
    assert "bf16[4, 16]" in (folder / "small.original.tsr").read_text()

    monkeypatch.setattr(machine, "SAMPLE_SECONDS", 0.0)
    monkeypatch.setattr(machine, "ROUNDS", 1)

    def here(ops: object, values: object) -> machine.GpuMachine:
        where = Environment({"gpu": "none"}, {})
        return machine.GpuMachine(CostModel(ops, load_device("h100")), where, values, CPU)  # type: ignore[arg-type]

    monkeypatch.setattr(machine, "this_machine", here)
    timed = gpu_cell.time_model(str(model), str(folder), ["eager"], 0)
    assert set(timed["cells"]) == {*gpu_cell.GRAPHS, "original, eager", "ours, eager"}
    for cell in timed["cells"].values():
        assert cell["median_ms"] > 0
        assert cell["max_rel_error"] < 0.03


def test_what_is_not_prepared_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tensat_dl.gpu.environment.this_gpu", lambda: None)
    done = CliRunner().invoke(cli, ["bench", "gpu", "bert", "--graphs", str(tmp_path)], standalone_mode=False)
    assert done.return_value == 1
    assert "has no original graph" in done.output
