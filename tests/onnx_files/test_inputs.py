"""Inputs from a file: what is said of those that do not fit, and what becomes of those that do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx_ir")

import numpy as np
import onnx_ir as ir
from onnx.helper import make_node

from tensat_dl.onnx.agreement import Reference
from tests.cli.running import invoke

from .models import model, saved, tensor, value


def two_inputs() -> Any:
    nodes = [
        make_node("Gather", ["table", "i"], ["rows"]),
        make_node("Add", ["rows", "x"], ["sum"]),
        make_node("Relu", ["sum"], ["r"]),
        make_node("Relu", ["r"], ["y"]),
    ]
    inputs = [value("i", "n", dtype=7), value("x", "n", 4)]
    return model(nodes, inputs, [value("y", "n", 4)], [tensor("table", np.arange(12).reshape(3, 4))])


X, ROWS = np.ones((2, 4), np.float32), np.array([2, 0])

WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"x": X}, "no value for the input `i` : int64[n]", "np.savez('data.npz', i=array, x=array)"),
    ({"x": X, "j": ROWS}, "the model has no input `j`", ""),
    ({"x": X, "i": ROWS, "xx": X}, "the model has no input `xx`", ""),
    ({"x": X.astype(np.float64), "i": ROWS}, "`x` is float64, and the model takes float32[n, 4]", "x.astype"),
    ({"x": X[:, :3], "i": ROWS}, "`x` has the shape [2, 3], and the model takes float32[n, 4]", ""),
    ({"x": X[0], "i": ROWS}, "`x` has the shape [4], and", ""),
    ({"x": X, "i": ROWS[:1]}, "n is 2 in `x`, and 1 by `i`", "give each dimension one size"),
]


@pytest.mark.parametrize(("arrays", "say", "hint"), WRONG)
def test_inputs_that_do_not_fit(arrays: dict[str, Any], say: str, hint: str, tmp_path: Path) -> None:
    path, data = saved(tmp_path, two_inputs()), tmp_path / "data.npz"
    np.savez(data, **arrays)
    done = invoke("run", path, "--input", data, "-q")
    assert done.code == 2
    assert f"{data}: error: {say}" in done.err
    assert hint in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize("content", [b"", b"nonsense", b"PK\x03\x04 and so on"])
def test_files_that_are_not_of_arrays(content: bytes, tmp_path: Path) -> None:
    path, data = saved(tmp_path, two_inputs()), tmp_path / "data.npz"
    data.write_bytes(content)
    done = invoke("run", path, "--input", data, "-q")
    assert (done.code, "this is not an .npz file" in done.err) == (2, True)
    np.save(data.with_suffix(".npy"), X)
    done = invoke("run", path, "--input", data.with_suffix(".npy"), "-q")
    assert (done.code, "this is a single array" in done.err) == (2, True)
    done = invoke("run", path, "--input", tmp_path / "none.npz", "-q")
    assert (done.code, "no such file" in done.err) == (2, True)


def test_inputs_say_how_large_open_dimensions_are(tmp_path: Path) -> None:
    path, data, report = saved(tmp_path, two_inputs()), tmp_path / "data.npz", tmp_path / "r.json"
    np.savez(data, x=X, i=ROWS)
    done = invoke("run", path, "--input", data, "--json", report)
    assert (done.code, done.err) == (0, "")
    told = json.loads(report.read_text())
    assert told["model"]["dims"] == {"n": 2}
    assert told["measured"]["inputs"] == "the given inputs and random inputs, seed 0"
    assert told["measured"]["tolerance"] == 1e-4
    done = invoke("run", path, "--input", data, "--dim", "n=3", "-q")
    assert (done.code, "n is 2 in `x`, and 3 by --dim" in done.err.replace("`i`", "`x`")) == (2, True)


def test_models_are_compared_on_the_given_inputs(tmp_path: Path) -> None:
    """Random ones miss that they differ."""
    shape, zero = value("x", 1), tensor("zero", 0.0)

    def clipped(high: float) -> Any:
        nodes = [make_node("Clip", ["x", "zero", "high"], ["y"])]
        return model(nodes, [shape], [value("y", 1)], [zero, tensor("high", high)])

    first, second = saved(tmp_path, clipped(100.0), "a.onnx"), saved(tmp_path, clipped(200.0), "b.onnx")
    loaded = ir.load(first)
    assert Reference(loaded, first, {}).check(second).status == "agrees"
    given = Reference(loaded, first, {}, given={"x": np.array([150.0], np.float32)})
    assert given.feeds["x"].tolist() == [150.0]
    found = given.check(second)
    assert found.status == "differs"
    assert "output y differs by 3.3e-01 on the given inputs" in found.message


def test_inputs_are_for_models(tmp_path: Path) -> None:
    text = tmp_path / "g.tsr"
    text.write_text("graph g {\n  input x : f32[2]\n  output relu(x)\n}\n")
    done = invoke("run", text, "--input", tmp_path / "data.npz")
    assert (done.code, "--input is for ONNX models" in done.err) == (2, True)
