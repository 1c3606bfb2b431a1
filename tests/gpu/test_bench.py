"""The benchmark on a GPU, as far as it goes without one: its graphs, and torch's side of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch

from tensat_dl.bench import gpu_cell
from tensat_dl.cli.main import cli
from tensat_dl.cost import CostModel, load_device
from tensat_dl.cost.device import Environment
from tensat_dl.gpu import gpu_machine as machine
from tensat_dl.gpu.executor import TorchGraph, in_double, input_tensors
from tensat_dl.processes import Overran
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
    assert {p.name for p in folder.iterdir()} == {f"small.{g}.tsr" for g in gpu_cell.GRAPHS} | {
        "small.sigs.json"
    }
    assert "bf16[4, 16]" in (folder / "small.original.tsr").read_text()

    sigs = [
        s if isinstance(s, str) else s["signature"]
        for s in json.loads((folder / "small.sigs.json").read_text())
    ]
    assert any(s.startswith("fused_") for s in sigs)
    # The graphs' own operators come first: of the input, and of the answers, which have one product in place of two.
    assert {s for s in sigs[:4] if s.startswith("matmul")} >= {
        "matmul(bf16[4, 16], bf16[16, 16]; act=none) -> bf16[4, 16] @ h100",
        "matmul(bf16[4, 16], bf16[16, 32]; act=none) -> bf16[4, 32] @ h100",
    }

    on_the_cpu(monkeypatch)
    timed = gpu_cell.time_graphs(str(model), str(folder), True, 0)
    assert set(timed["cells"]) == {*gpu_cell.GRAPHS, "original, eager", "ours, eager"}
    for cell in timed["cells"].values():
        assert cell["median_ms"] > 0
        assert cell["ratio"]["low"] > 0
        assert cell["max_rel_error"] < 0.03
    monkeypatch.setattr(torch, "compile", uncompiled)
    compiled = gpu_cell.time_compiled(str(model), str(folder), "max-autotune", 0)["cells"]
    assert set(compiled) == {"original, max-autotune", "ours, max-autotune"}
    assert compiled["original, max-autotune"]["ratio"]["low"] > 0
    assert compiled["ours, max-autotune"] == {"error": "no compiler"}


def uncompiled(module: torch.nn.Module, mode: str, fullgraph: bool) -> torch.nn.Module:
    """In place of torch's compiler, which takes long; it fails where products were merged."""
    assert (mode, fullgraph) == ("max-autotune-no-cudagraphs", True)
    if any(x.shape == (16, 32) for x in module.ahead.values()):
        raise LookupError("no compiler")
    return module


def on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs are timed on the CPU, and not for long."""
    monkeypatch.setattr(machine, "SAMPLE_SECONDS", 0.0)
    monkeypatch.setattr(machine, "ROUNDS", 1)

    def here(ops: object, values: object, tf32: bool) -> machine.GpuMachine:
        assert not tf32
        where = Environment({"gpu": "none"}, {})
        return machine.GpuMachine(CostModel(ops, load_device("h100")), where, values, CPU)  # type: ignore[arg-type]

    monkeypatch.setattr(machine, "this_machine", here)


def prepared(folder: Path) -> list[str]:
    """Two models, a and b, with their graphs beside them."""
    models = [str(folder / f"{m}.tsr") for m in "ab"]
    for model in models:
        Path(model).write_text(MODEL)
        for graph in gpu_cell.GRAPHS:
            gpu_cell.file_of(folder, model, graph).write_text(MODEL)
    return models


def test_the_table_is_filled_breadth_first_and_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """.. with what failed last of all."""
    monkeypatch.setattr("tensat_dl.bench.gpu.circumstances", lambda: {"gpu": "1", "profile": "2"})
    asked: list[tuple[str, str]] = []
    broken = {("b", "graphs"), ("a", "compile")}

    def apart(function: str, seconds: float, **job: Any) -> dict[str, Any]:
        stage = job.get("mode", "graphs")
        asked.append((Path(job["model"]).stem, stage))
        if asked[-1] in broken:
            raise Overran(f"no answer within {seconds:g} s")
        if len(asked) == 5:
            raise KeyboardInterrupt
        return {"cells": {f"original, {stage}": {"median_ms": 1.0}}}

    monkeypatch.setattr("tensat_dl.processes.apart", apart)
    out, models = tmp_path / "t.json", prepared(tmp_path)
    command = ["bench", "gpu", *models, "--graphs", str(tmp_path), "--json", str(out), "--patience", "7"]
    done = CliRunner().invoke(cli, command, standalone_mode=False)
    assert done.return_value == 130
    assert "graphs: no answer within 7 s" in done.output
    assert asked == [(m, s) for s in ("graphs", "compile", "max-autotune") for m in "ab"][:5]
    asked.clear()
    broken.clear()
    done = CliRunner().invoke(cli, [*command, "--resume"], standalone_mode=False)
    assert done.return_value == 0, done.output
    assert asked == [("a", "max-autotune"), ("b", "max-autotune"), ("b", "graphs"), ("a", "compile")]
    for row in json.loads(out.read_text())["rows"]:
        assert len(row["cells"]) == len(row["done"]) == 3
        assert not row["failed"]
    done = CliRunner().invoke(cli, [*command, "--resume", "--dtype", "f16"], standalone_mode=False)
    assert "is of dtype f32" in str(done.exception)


@pytest.mark.parametrize("what", ["graphs", "gpu", "profile"])
def test_results_of_something_else_are_dropped(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = {"gpu": "1", "profile": "2"}
    monkeypatch.setattr("tensat_dl.bench.gpu.circumstances", lambda: here)
    asked: list[str] = []

    def apart(function: str, seconds: float, **job: Any) -> dict[str, Any]:
        asked.append(Path(job["model"]).stem)
        return {"cells": {"original": {"median_ms": float(len(asked))}}, "versions": {}}

    monkeypatch.setattr("tensat_dl.processes.apart", apart)
    out, models = tmp_path / "t.json", prepared(tmp_path)
    command = [
        "bench",
        "gpu",
        *models,
        "--graphs",
        str(tmp_path),
        "--json",
        str(out),
        "--torch",
        "eager",
        "--resume",
    ]
    for _ in range(2):
        done = CliRunner().invoke(cli, command, standalone_mode=False)
        assert done.return_value == 0, done.output
        assert asked == ["a", "b"]
        assert "measured anew" not in done.output
    if what == "graphs":
        gpu_cell.file_of(tmp_path, models[1], "fused").write_text(MODEL + "\n")
    else:
        here[what] = "3"
    done = CliRunner().invoke(cli, command, standalone_mode=False)
    assert done.return_value == 0, done.output
    again = ["b"] if what == "graphs" else ["a", "b"]
    assert asked == ["a", "b", *again]
    (line,) = [s for s in done.output.splitlines() if "measured anew" in s]
    says = {"graphs": "graphs", "gpu": "hardware or versions", "profile": "measured operators"}[what]
    assert f"with other {says}: {', '.join(str(tmp_path / f'{m}.tsr') for m in again)}" in line
    found = [row["cells"]["original"]["median_ms"] for row in json.loads(out.read_text())["rows"]]
    assert found == ([1.0, 3.0] if what == "graphs" else [3.0, 4.0])


def test_graphs_that_are_gone_are_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a folder they are in one that is gone by the time the benchmark goes on."""
    monkeypatch.setattr("tensat_dl.bench.gpu.circumstances", lambda: {"gpu": "1", "profile": "2"})
    made: list[str] = []

    def prepare(function: str, jobs: list[dict[str, str]], *_: Any, **options: Any) -> list[dict[str, Any]]:
        ((model, folder),) = [(j["model"], j["folder"]) for j in jobs]
        made.append(model)
        for graph in gpu_cell.GRAPHS:
            gpu_cell.file_of(folder, model, graph).write_text(MODEL)
        return [{"model": model, "costs": {"ours": 1.0}}]

    def apart(function: str, seconds: float, **job: Any) -> dict[str, Any]:
        if len(made) == 1:
            raise Overran("no answer")
        return {"cells": {}}

    monkeypatch.setattr("tensat_dl.bench.gpu.measure_all", prepare)
    monkeypatch.setattr("tensat_dl.processes.apart", apart)
    out = tmp_path / "t.json"
    command = ["bench", "gpu", "bert", "--json", str(out), "--torch", "eager", "--resume"]
    codes = [CliRunner().invoke(cli, command, standalone_mode=False).return_value for _ in range(2)]
    assert codes == [1, 0]
    assert made == ["bert", "bert"]
    (row,) = json.loads(out.read_text())["rows"]
    assert row["done"] == ["graphs"]
    done = CliRunner().invoke(cli, [*command, "--device", "h200"], standalone_mode=False)
    assert "is of device h100" in str(done.exception)


def test_a_model_in_another_type_and_batch() -> None:
    text = "graph g {\n  input x[i] : f32[1, 10]\n  weight w : f32[1, 10]\n}"
    assert gpu_cell.variant(text, "bf16", 8) == text.replace("f32", "bf16").replace(": bf16[1", ": bf16[8", 1)
    assert gpu_cell.variant(text, "f32", 1) == text
    with pytest.raises(gpu_cell.NoBatch):
        gpu_cell.variant("graph g { input x : f32[10] }", "f32", 8)


def test_what_is_not_prepared_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tensat_dl.bench.gpu.circumstances", lambda: {"gpu": "1", "profile": "2"})
    done = CliRunner().invoke(cli, ["bench", "gpu", "bert", "--graphs", str(tmp_path)], standalone_mode=False)
    assert done.return_value == 1
    assert "has no original graph" in done.output
