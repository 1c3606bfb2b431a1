"""What the commands say where there is no GPU, and that measuring needs neither engine, solver nor parser."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from tensat_dl.cli.main import cli
from tensat_dl.cost.profile import Measurement, Profile, record
from tensat_dl.cost.signature import parse
from tests.cost.test_calibrate import REAL, made_up

pytestmark = pytest.mark.sampled(3)

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


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    sigs = tmp_path / "s.json"
    sigs.write_bytes(b"\x7fELF\xff\xfe")
    done = bare(set(), "profile", str(sigs), "-o", str(tmp_path / "p.json"))
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {sigs}: ")


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


def test_costs_as_json_alone(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    record(path, made_up(REAL, 0.1))
    done = CliRunner().invoke(cli, ["costs", str(path), "--json", "-"])
    assert json.loads(done.stdout)["device"] == "h100"
    assert "80 operators measured" in done.stderr


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


@pytest.fixture
def on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """`time` takes the CPU for a GPU, with few samples. Has the machines that it made."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("triton")
    from tensat_dl.cost import CostModel, load_device
    from tensat_dl.cost.device import Environment
    from tensat_dl.gpu import gpu_machine as machine

    monkeypatch.setattr(machine, "SAMPLE_SECONDS", 0.0)
    monkeypatch.setattr(machine, "ROUNDS", 1)
    monkeypatch.setattr("tensat_dl.gpu.this_gpu.at_hand", lambda device: None)
    made: list[Any] = []

    def here(ops: Any, values: Any, inputs: str = "random inputs") -> machine.GpuMachine:
        model = CostModel(ops, load_device("h100"))
        cpu = torch.device("cpu")
        made.append(machine.GpuMachine(model, Environment({}, {}), values, cpu, inputs=inputs))
        return made[-1]

    monkeypatch.setattr(machine, "this_machine", here)
    return made


def timed(*files: Path) -> tuple[int, list[Any]]:
    out = files[0].parent / "t.json"
    done = CliRunner().invoke(cli, ["time", *map(str, files), "--json", str(out)], standalone_mode=False)
    return done.return_value, json.loads(out.read_text())


@pytest.mark.usefixtures("on_the_cpu")
def test_two_graphs_are_compared(tmp_path: Path) -> None:
    """The second graph is wrong, which shows."""
    from tests.gpu.test_executor import APART, WRONG

    files = [tmp_path / "a.tsr", tmp_path / "b.tsr", tmp_path / "c.tsr"]
    opaque = (
        "opaque op f(x: tensor) { shape shape(x) }\ngraph g { input x : f32[4, 16]\n output f(x), tanh(x) }"
    )
    for file, text in zip(files, (APART, WRONG, opaque), strict=True):
        file.write_text(text)
    code, (first, second, third) = timed(*files)
    assert code == 1
    assert first["median_ms"] > 0
    assert first["ratio"] is None
    assert first["max_rel_error"] < 1e-5
    assert second["ratio"]["low"] <= second["ratio"]["median"] <= second["ratio"]["high"]
    assert second["max_rel_error"] > 0.1
    assert third["reason"] == "no kernel computes f, of which only types are known"


@pytest.mark.usefixtures("on_the_cpu")
@pytest.mark.parametrize(
    ("outputs", "says"),
    [
        ("a = relu(x)", r"the first graph has y, z, and graph 2 has a$"),
        (
            "y = relu(x), z = concat(x, x; axis = 0)",
            r"output z of graph 2 is f32\[8, 16\], the first graph's is f32\[4, 16\]",
        ),
    ],
)
def test_graphs_of_other_outputs_can_not_be_compared(outputs: str, says: str, tmp_path: Path) -> None:
    from tensat_dl.gpu.this_gpu import GpuError

    files = [tmp_path / "a.tsr", tmp_path / "b.tsr"]
    for file, text in zip(files, ("y = relu(x), z = tanh(x)", outputs), strict=True):
        file.write_text(f"graph g {{\n  input x : f32[4, 16]\n  output {text}\n}}\n")
    done = CliRunner().invoke(cli, ["time", *map(str, files)], standalone_mode=False)
    with pytest.raises(GpuError, match=says):
        raise done.exception or AssertionError(done.output)


@pytest.mark.usefixtures("on_the_cpu")
def test_models_are_compared_with_their_own_weights(tmp_path: Path) -> None:
    """The optimized one has other weights, computed of the original's."""
    make_node = pytest.importorskip("onnx.helper").make_node
    from tests.onnx_files.models import model, random, saved, value

    nodes = [make_node("MatMul", ["x", "w"], ["m"]), make_node("MatMul", ["m", "v"], ["y"])]
    weights = [random("w", 8, 16), random("v", 16, 4)]
    before = saved(tmp_path, model(nodes, [value("x", 4, 8)], [value("y", 4, 4)], weights), "before.onnx")
    after, rule = tmp_path / "after.onnx", tmp_path / "fold.tsr"
    rule.write_text("rule fold { (x @ w) @ v => x @ (w @ v) where weight(w), weight(v) }\n")
    options = ("--no-measure", "--rules", str(rule), "-q", "-o", str(after))
    assert CliRunner().invoke(cli, ["run", before, *options], standalone_mode=False).return_value == 0
    code, (first, second) = timed(Path(before), after)
    assert code == 0
    assert first["max_rel_error"] < 1e-5
    assert second["max_rel_error"] < 1e-5


def test_given_inputs_are_what_graphs_run_on(tmp_path: Path, on_the_cpu: list[Any]) -> None:
    make_node = pytest.importorskip("onnx.helper").make_node
    from tensat_dl.cli.inputs import open_file
    from tensat_dl.run.machines import machine_of
    from tensat_dl.run.options import Options
    from tests.onnx_files.models import model, random, saved, value

    x, nodes = np.arange(8, dtype=np.float32).reshape(2, 4), [make_node("Mul", ["x", "w"], ["y"])]
    path = saved(tmp_path, model(nodes, [value("x", 2, 4)], [value("y", 2, 4)], [random("w", 4)]))
    np.savez(tmp_path / "data.npz", x=x)
    for inputs in (str(tmp_path / "data.npz"), None):
        opened = open_file(path, None, ("inference",), {}, inputs)
        machine_of(Options(device="h100", measure=True), opened.graph, opened.ops, opened.onnx)
    given, drawn = on_the_cpu
    assert (given.inputs, drawn.inputs) == ("the given inputs", "random inputs")
    assert np.array_equal(given.values["x"], x)
    assert not np.array_equal(drawn.values["x"], x)
    assert np.array_equal(given.values["w"], drawn.values["w"])


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


#: In place of `timeout`: says for how long the command may run, and takes two seconds of it.
TIMEOUT = """#!/bin/sh
sleep 2
echo "$@" >> "$LOG"
"""


@pytest.mark.parametrize("step", ["check", "profile", "bench"])
@pytest.mark.parametrize("spent", [0, 500, 900])
def test_a_step_ends_when_its_time_is_over(step: str, spent: int, tmp_path: Path) -> None:
    checkout, programs, log = tmp_path / "checkout", tmp_path / "bin", tmp_path / "log"
    (checkout / "graphs" / "f32-1").mkdir(parents=True)
    (checkout / "benchmarks").mkdir()
    script = checkout / "benchmarks" / "gpu.sh"
    script.write_text((Path(__file__).parents[2] / "benchmarks" / "gpu.sh").read_text())
    programs.mkdir()
    for name, text in {"timeout": TIMEOUT, "python3": "#!/bin/sh\necho h100\n"}.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    known = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "LOG": str(log)}
    known.pop("LIMIT", None)
    started = {**known, "SECONDS": str(spent)}  # the shell counts on from here
    subprocess.run(["bash", script, step], check=True, env=started, capture_output=True)
    calls = [line.split() for line in log.read_text().splitlines()]
    limits = [
        int(next(word for word in call if word.isdigit() and word != "20")) for call in calls if "-k" in call
    ]
    assert len(limits) == {"check": 5, "profile": 3, "bench": 2}[step]
    assert all(n >= 1 for n in limits)
    # Each command begins two seconds later than the one before, and may be killed 20 seconds late.
    begins = [spent + 2 * i for i in range(len(limits))]
    ends = [begin + limit for begin, limit in zip(begins, limits, strict=True)]
    assert max(ends) <= max(540, spent + 2 * len(limits)) + 2
    assert step == "check" or spent or sum(limits) > 500
    if step == "check":
        assert sum(limits) < 550
