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
