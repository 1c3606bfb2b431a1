"""`tensat-dl time --device cpu`: graphs beside one another in ONNX Runtime."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("onnxruntime")

from tensat_dl.cli.main import cli
from tensat_dl.measure import timing

APART = """
graph siblings {
  input x : f32[4, 64]
  weight a : f32[64, 64]
  weight b : f32[64, 64]
  output tanh(x @ a), tanh(x @ b)
}
"""
MERGED = """
graph siblings {
  input x : f32[4, 64]
  weight a : f32[64, 64]
  weight b : f32[64, 64]
  (left, right) = split(x @ concat(a, b; axis = 1); axis = 1, sizes = [64, 64])
  output tanh(left), tanh(right)
}
"""
OTHERS = {
    APART.replace("tanh(x @ b)", "tanh(x @ a)"): "differs by",
    APART.replace(", tanh(x @ b)", ""): "its number of outputs differs from the first graph's",
    APART.replace("[4, 64]", "[5, 64]"): "x is f32[4, 64] in one place and f32[5, 64] in another",
    "opaque op f(x: tensor) { shape shape(x) }\n"
    + APART.replace("tanh(x @ b)", "f(x @ b)"): "can't be written",
}


def test_graphs_are_timed_that_compute_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tensat_dl.measure.contest.STARTS", 2)
    monkeypatch.setattr(timing, "MODEL_SECONDS", 0.01)
    files = [tmp_path / f"{i}.tsr" for i in range(2 + len(OTHERS))]
    for file, text in zip(files, (APART, MERGED, *OTHERS), strict=True):
        file.write_text(text)
    out = tmp_path / "t.json"
    command = ["time", *map(str, files), "--device", "cpu", "--json", str(out)]
    done = CliRunner().invoke(cli, command, standalone_mode=False)
    assert done.return_value == 1, done.output
    first, second, *others = json.loads(out.read_text())
    assert first["median_ms"] > 0
    assert first["ratio"] is None
    assert second["ratio"]["low"] <= second["ratio"]["median"] <= second["ratio"]["high"]
    assert second["max_rel_error"] < 1e-5
    for row, reason in zip(others, OTHERS.values(), strict=True):
        assert row["median_ms"] is None
        assert reason in row["reason"]


@pytest.mark.parametrize(
    ("options", "says"),
    [(["--device", "h10"], "unknown device `h10`"), (["--device", "cpu", "--dim", "n=3"], "has no size `n`")],
)
def test_what_makes_no_sense_is_refused(options: list[str], says: str, tmp_path: Path) -> None:
    file = tmp_path / "a.tsr"
    file.write_text(APART)
    done = CliRunner().invoke(cli, ["time", str(file), *options], standalone_mode=False)
    assert says in str(done.exception)
