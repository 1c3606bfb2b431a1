"""Models of f64: operators that ONNX Runtime has for smaller floats alone, and attributes, which are f32."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnx_ir")

import numpy as np
from onnx import TensorProto
from onnx.helper import make_node

from tests.cli.running import invoke

from .models import model, saved, tensor, value

#: Activations in parts, as models have them, and the operators that they become.
ACTIVATIONS: list[tuple[list[Any], str]] = [
    ([make_node("PRelu", ["x", "a"], ["y"])], "leakyrelu"),
    ([make_node("Mul", ["x", "a"], ["ax"]), make_node("Max", ["ax", "x"], ["y"])], "leakyrelu"),
    (
        [
            make_node("Mul", ["x", "a"], ["ax"]),
            make_node("Add", ["ax", "half"], ["line"]),
            make_node("Clip", ["line", "zero", "one"], ["y"]),
        ],
        "hardsigmoid",
    ),
    (
        [
            make_node("Exp", ["x"], ["e"]),
            make_node("Sub", ["e", "one"], ["below"]),
            make_node("Min", ["below", "zero"], ["negative"]),
            make_node("Relu", ["x"], ["positive"]),
            make_node("Add", ["positive", "negative"], ["y"]),
        ],
        "elu",
    ),
    (
        [
            make_node("Neg", ["x"], ["minus"]),
            make_node("Sigmoid", ["minus"], ["s"]),
            make_node("Log", ["s"], ["l"]),
            make_node("Neg", ["l"], ["y"]),
        ],
        "softplus",
    ),
    (
        [
            make_node("Relu", ["x"], ["positive"]),
            make_node("Neg", ["x"], ["minus"]),
            make_node("Relu", ["minus"], ["negative"]),
            make_node("Mul", ["negative", "slopes"], ["scaled"]),
            make_node("Sub", ["positive", "scaled"], ["y"]),
        ],
        "prelu",
    ),
]


def doubles(nodes: list[Any]) -> Any:
    numbers = [tensor(n, v, np.float64) for n, v in (("a", 0.86), ("half", 0.5), ("zero", 0), ("one", 1))]
    numbers.append(tensor("slopes", np.linspace(0.1, 0.9, 8).tolist(), np.float64))
    x, y = (value(name, 4, 8, dtype=TensorProto.DOUBLE) for name in "xy")
    return model(nodes, [x], [y], numbers, 17)


@pytest.mark.parametrize(("nodes", "becomes"), ACTIVATIONS)
def test_activations_are_written_in_parts(nodes: list[Any], becomes: str, tmp_path: Path) -> None:
    out = tmp_path / "out.onnx"
    done = invoke("run", saved(tmp_path, doubles(nodes)), "-o", out, "--no-measure", "--device", "h100")
    assert (done.code, done.err) == (0, "")
    assert f"{becomes} 0 -> 1" in " ".join(done.out.split())


def test_attributes_are_the_numbers_that_are_computed_with(tmp_path: Path) -> None:
    """An f32 is 1e-8 of it away from 0.86: so much would the answer differ."""
    nodes = [
        make_node("Transpose", ["x"], ["xt"], perm=[1, 0]),
        make_node("LeakyRelu", ["xt"], ["yt"], alpha=0.86),
        make_node("Transpose", ["yt"], ["y"], perm=[1, 0]),
    ]
    out = tmp_path / "out.onnx"
    done = invoke("run", saved(tmp_path, doubles(nodes)), "-o", out, "--no-measure", "--device", "h100")
    assert (done.code, done.err) == (0, "")
    assert "transpose 2 -> 0" in " ".join(done.out.split())


def test_an_epsilon_that_is_no_f32_is_written_in_full(tmp_path: Path) -> None:
    nodes = [
        make_node("ReduceMean", ["x"], ["mean"], axes=[-1]),
        make_node("Sub", ["x", "mean"], ["d"]),
        make_node("Mul", ["d", "d"], ["square"]),
        make_node("ReduceMean", ["square"], ["variance"], axes=[-1]),
        make_node("Add", ["variance", "a"], ["more"]),
        make_node("Sqrt", ["more"], ["deviation"]),
        make_node("Div", ["d", "deviation"], ["normal"]),
        make_node("Mul", ["normal", "slopes"], ["scaled"]),
        make_node("Add", ["scaled", "slopes"], ["y"]),
    ]
    out = tmp_path / "out.onnx"
    done = invoke("run", saved(tmp_path, doubles(nodes)), "-o", out, "--no-measure", "--device", "h100")
    assert (done.code, done.err) == (0, "")
    assert "layernorm 0 -> 1" in " ".join(done.out.split())
