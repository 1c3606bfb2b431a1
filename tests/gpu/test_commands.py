"""What the commands say where there is no GPU, and that measuring needs neither engine, solver nor parser."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tensat_dl.cli.main import cli
from tensat_dl.cost.profile import Measurement, Profile, record
from tensat_dl.cost.signature import parse
from tests.cost.test_calibrate import REAL, made_up

SIGNATURES = json.dumps(["relu(f32[4]) -> f32[4] @ h100"])

#: Runs the command line in a process where what stands first can't be imported.
BARE = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {missing}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
from tensat_dl.cli.main import main
sys.argv[0] = "tensat-dl"
main()
"""


def bare(missing: set[str], *args: str) -> subprocess.CompletedProcess[str]:
    code = BARE.replace("{missing}", repr(missing))
    hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-c", code, *args]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=hidden)


def test_profiling_needs_a_gpu(tmp_path: Path) -> None:
    """.. and nothing that optimizing needs."""
    sigs = tmp_path / "s.json"
    sigs.write_text(SIGNATURES)
    done = bare({"lark", "egglog", "pyscipopt"}, "profile", str(sigs), "-o", str(tmp_path / "p.json"))
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("error: "), done.stderr
    assert "GPU" in done.stderr
    assert "hint" in done.stderr
    assert not (tmp_path / "p.json").exists()


def test_bad_signatures_are_refused(tmp_path: Path) -> None:
    sigs = tmp_path / "s.json"
    sigs.write_text('["relu(f32[4]"]')
    done = bare(set(), "profile", str(sigs), "-o", str(tmp_path / "p.json"))
    assert done.returncode == 2
    assert f"error: {sigs}: expected" in done.stderr


@pytest.mark.parametrize("content", ["{", '{"format": 1}', '{"format": 1, "device": "h100", "protocol": 99}'])
def test_costs_refuses_what_is_no_profile(content: str, tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text(content)
    done = bare(set(), "costs", str(path))
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {path}: ")


def test_costs_shows_what_was_measured(tmp_path: Path) -> None:
    path, out = tmp_path / "p.json", tmp_path / "t.json"
    record(path, made_up(REAL, 0.1))
    done = CliRunner().invoke(cli, ["costs", str(path), "--json", str(out)])
    assert done.exit_code == 0, done.output
    assert "80 operators measured on NVIDIA H100" in done.output
    assert "calibrated: launch 3." in done.output
    table = json.loads(out.read_text())
    assert [(row["op"], row["count"]) for row in table["operators"]] == [("matmul", 64), ("relu", 16)]
    assert table["calibration"]["calibrated"]["median"] < table["calibration"]["data_sheet"]["median"]


def test_costs_of_a_small_profile(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    text = parse(json.loads(SIGNATURES)[0]).text
    record(path, Profile("h100", {}, {}, {text: Measurement(0.002, 0.0, 25, "triton 256", {"torch": 0.003})}))
    done = CliRunner().invoke(cli, ["costs", str(path)])
    assert done.exit_code == 0, done.output
    assert "not calibrated" in done.output
    assert "triton 1" in done.output


@pytest.mark.parametrize(
    "args",
    [
        ("time", "examples/tiny_share_input.tsr"),
        ("run", "examples/tiny_share_input.tsr", "--device", "cuda"),
        ("run", "examples/tiny_share_input.tsr", "--device", "h100", "--measure"),
    ],
)
def test_measuring_graphs_needs_a_gpu(args: tuple[str, ...]) -> None:
    done = bare({"egglog", "pyscipopt"}, *args)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("error: ")
    assert "GPU" in done.stderr


def test_measuring_on_no_device(tmp_path: Path) -> None:
    done = bare(set(), "run", "examples/tiny_share_input.tsr", "--device", "h10", "--measure")
    assert done.returncode == 2
    assert "unknown device `h10`" in done.stderr


def test_two_graphs_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the CPU, with few samples; the second graph is wrong, which shows."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("triton")
    from tensat_dl.cost import CostModel, load_device
    from tensat_dl.cost.environment import Environment
    from tensat_dl.gpu import comparison, machine
    from tests.gpu.test_executor import APART, WRONG

    monkeypatch.setattr(machine, "SAMPLE_SECONDS", 0.0)
    monkeypatch.setattr(machine, "ROUNDS", 1)
    monkeypatch.setattr("tensat_dl.gpu.environment.at_hand", lambda device: None)

    def here(ops: object, values: object) -> machine.GpuMachine:
        model = CostModel(ops, load_device("h100"))  # type: ignore[arg-type]
        return machine.GpuMachine(model, Environment({}, {}), values, torch.device("cpu"))  # type: ignore[arg-type]

    monkeypatch.setattr(comparison, "this_machine", here)
    files = [tmp_path / "a.tsr", tmp_path / "b.tsr", tmp_path / "c.tsr"]
    opaque = "opaque op f(x: tensor) { shape shape(x) }\ngraph g { input x : f32[4, 16]\n output f(x) }"
    for file, text in zip(files, (APART, WRONG, opaque), strict=True):
        file.write_text(text)
    out = tmp_path / "t.json"
    done = CliRunner().invoke(cli, ["time", *map(str, files), "--json", str(out)], standalone_mode=False)
    assert done.return_value == 1, done.output
    first, second, third = json.loads(out.read_text())
    assert first["median_ms"] > 0
    assert first["ratio"] is None
    assert first["max_rel_error"] < 1e-5
    assert second["ratio"]["low"] <= second["ratio"]["median"] <= second["ratio"]["high"]
    assert second["max_rel_error"] > 0.1
    assert third["reason"] == "no kernel computes f, of which only types are known"


@pytest.mark.parametrize("step", ["check", "profile", "bench"])
def test_what_is_to_be_measured_on_a_gpu_says_so_where_there_is_none(step: str, tmp_path: Path) -> None:
    script = Path(__file__).parents[2] / "benchmarks" / "gpu.sh"
    here = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OUT": str(tmp_path / "out"), "PATH": here}
    done = subprocess.run(["bash", script, step], capture_output=True, text=True, check=False, env=hidden)
    assert done.returncode == 2, done.stderr
    assert "GPU" in done.stderr
    assert "hint" in done.stderr
    assert "Traceback" not in done.stderr
