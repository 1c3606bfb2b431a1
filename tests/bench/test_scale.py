"""``tensat-dl bench scale``: what it measures, and the simulation against schedules by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tensat_dl.bench.scale import Simulated, simulate
from tests.cli.running import EXAMPLES, invoke


@pytest.mark.parametrize(
    ("seconds", "workers", "start", "job", "makespan"),
    [
        ([1.0, 1.0, 1.0, 1.0], 1, 0.0, 0.0, 4.0),
        ([1.0, 1.0, 1.0, 1.0], 2, 0.5, 0.0, 2.5),
        ([3.0, 1.0, 1.0, 1.0], 2, 0.0, 0.0, 3.0),
        ([1.0, 1.0, 1.0, 3.0], 2, 0.0, 0.0, 4.0),  # the long one came last
        ([0.0, 0.0, 0.0], 9, 0.0, 2.0, 6.0),  # handing out takes all the time
        ([], 2, 0.0, 0.0, 0.0),
    ],
)
def test_makespan(seconds: list[float], workers: int, start: float, job: float, makespan: float) -> None:
    found = simulate(seconds, workers, start, job)
    assert found.makespan == pytest.approx(makespan)
    assert found == Simulated(found.makespan, sum(seconds) / (workers * makespan) if makespan else 0.0)


def test_a_small_run(tmp_path: Path) -> None:
    model, path = EXAMPLES / "tiny_fuse_relu.tsr", tmp_path / "out.json"
    done = invoke("bench", "scale", model, "--workers", 1, "--nothing", 20, "--nodes", 3, "--json", path)
    assert done.code == 0, done.err
    measured, simulated = json.loads(path.read_text())["rows"]
    assert measured["workers"] == 1
    assert "error" not in measured
    assert len(measured["seconds"]) == 1
    assert simulated["makespan"] >= max(simulated["bound"].values())
    assert "1,000 models on 3 nodes of 8 cores" in done.out
