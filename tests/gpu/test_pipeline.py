"""A measured run from end to end, with a GPU that answers what it is told to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from tensat_dl.cost import CostModel, Measurement, Profile, load_device, record
from tensat_dl.cost.application import OpApplication
from tensat_dl.cost.device import Environment
from tensat_dl.gpu import gpu_machine as machine
from tensat_dl.gpu.gpu_machine import GpuMachine
from tensat_dl.measure import contest as contests
from tensat_dl.report.facts import measured
from tensat_dl.run.options import Options
from tensat_dl.run.pipeline import optimize
from tensat_dl.verify.weights import draw_values
from tests.gpu.test_bench import MODEL
from tests.gpu.test_executor import CPU, loaded

HERE = Environment({"gpu": "NVIDIA H100", "f32": "ieee"}, {"torch": "2.11"})


@pytest.mark.parametrize("ratio", [0.5, 1.5])
def test_the_measured_winner_is_the_answer(
    ratio: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By measured operators the merged and fused graph is cheaper; as a whole it is faster, or is not."""
    monkeypatch.setenv("TENSAT_DL_PROFILES", str(tmp_path))
    monkeypatch.setattr(contests, "MOST", 8)
    asked: list[OpApplication] = []

    def profile(jobs: Sequence[OpApplication], path: Path, *_: Any) -> None:
        asked.extend(jobs)
        entries = {j.signature.text: Measurement(0.002, 0.0, 25, "triton 256") for j in jobs}
        record(path, Profile("h100", HERE.hardware, HERE.versions, entries))

    def times(self: GpuMachine, entrants: Sequence[machine.Runs]) -> list[list[float]]:
        for entrant in entrants:
            entrant.run()
        return [[1.0] + [ratio] * (len(entrants) - 1)] * 3

    monkeypatch.setattr(machine, "profile", profile)
    monkeypatch.setattr(GpuMachine, "times", times)
    program, graph = loaded(MODEL, tmp_path)
    model = CostModel(program.ops, load_device("h100"))
    here = GpuMachine(model, HERE, draw_values([graph], 0, {}), CPU)
    result, _ = optimize(graph, program.ops, program.rules, Options(fuse=True), machine=here)
    assert len(asked) == len({j.signature for j in asked})
    assert any(j.definition is not None for j in asked), "fused operators are measured, too"
    assert result.measured is not None
    assert "CUDA graphs on NVIDIA H100" in measured(result.measured)
    assert (result.after.graph.nodes != graph.nodes) == (ratio < 1)
    assert result.equivalence is not None
    assert result.equivalence.status == "equivalent"
    if ratio < 1:
        assert result.after.measured_share == 1.0
        assert any(n.op.startswith("fused_") for n in result.after.graph.nodes)
