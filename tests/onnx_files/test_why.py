"""``why`` of graphs that were made of ONNX models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnx_ir")

import numpy as np
from onnx.helper import make_node

from tests.cli.running import Done, invoke
from tests.cli.test_options import refused

from .models import model, random, saved, tensor, value

pytestmark = pytest.mark.sampled(4)


def odd() -> Any:
    """An open dimension, an opaque operator between things to rewrite, and names that the language does not have."""
    nodes = [
        make_node("MatMul", ["the input:0", "w.1"], ["m/1"]),
        make_node("Add", ["m/1", "w_1"], ["m/2"]),
        make_node("TopK", ["m/2", "k"], ["best", "where"]),
        make_node("Relu", ["best"], ["r/1"]),
        make_node("Relu", ["r/1"], ["out/0"]),
    ]
    weights = [random("w.1", 64, 32), random("w_1", 32), tensor("k", [2], np.int64)]
    return model(nodes, [value("the input:0", "batch", 64)], [value("out/0", "batch", 2)], weights)


def test_why_begins_with_the_model(tmp_path: Path) -> None:
    """With sizes of its dimensions, wherever they were given."""
    path, out, inputs = saved(tmp_path, odd()), tmp_path / "out.tsr", tmp_path / "data.npz"
    np.savez(inputs, **{"the input:0": np.ones((4, 64), np.float32)})
    for sizes in (("--dim", "batch=4"), ("--input", inputs)):
        assert invoke("run", path, "-o", out, "--device", "h100", *sizes, "-q") == Done(0, "", "")
        assert "// made by: tensat-dl run model.onnx --device h100 --dim batch=4\n" in out.read_text()
    done = invoke("why", out)
    assert (done.code, done.err) == (0, "")
    for rule in ("matmul-bias", "relu-relu"):
        assert f"{rule}   " in done.out
    assert "estimated for h100\n2 steps, each replayed and evaluated: equal (exactly)" in done.out


def test_the_device_and_the_rules_of_a_model_are_its_defaults(tmp_path: Path) -> None:
    """Also where the original is read as text."""
    path, out, text = saved(tmp_path, odd()), tmp_path / "out.tsr", tmp_path / "model.tsr"
    assert invoke("run", path, "-o", out, "--dim", "batch=4", "--no-measure", "-q") == Done(0, "", "")
    assert "// made by: tensat-dl run model.onnx --dim batch=4\n" in out.read_text()
    text.write_text(invoke("show", path, "--dim", "batch=4").out)
    Path(path).rename(tmp_path / "moved.onnx")
    refused(invoke("why", out), "model.onnx, is not there", "--from FILE")
    for original in (tmp_path / "moved.onnx", text):
        done = invoke("why", out, "--from", original)
        assert (done.code, done.err) == (0, "")
        assert "relu-relu" in done.out
        assert "estimated for cpu" in done.out


def test_costs_that_were_measured_are_said_to_be(tmp_path: Path) -> None:
    path, out = saved(tmp_path, odd()), tmp_path / "out.tsr"
    options = ("--dim", "batch=4", "-o", out, "-q", "--rules", "activation")
    assert invoke("run", path, *options).code == 0  # which fills the profile
    assert invoke("run", path, *options, "--no-measure").code == 0
    assert "measured on cpu" in invoke("why", out).out


def test_a_model_says_how_to_get_an_explanation(tmp_path: Path) -> None:
    path = saved(tmp_path, odd())
    refused(invoke("why", path), "an ONNX model does not record its origin", "-o OUT.tsr")
    refused(invoke("why", tmp_path / "none.onnx"), "none.onnx", "no such file")
