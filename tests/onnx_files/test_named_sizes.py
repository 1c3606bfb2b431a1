"""Graphs with named sizes as ONNX models: open dimensions, or a reason why they are fixed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import tensat_dl
from tensat_dl.onnx.session import Session
from tensat_dl.onnx.write import Fresh

HEADS = """
input x : f32[n, 12]
weight w : f32[12, 12]
h = transpose(reshape(x @ w; shape = [n, 3, 4]); perm = [1, 0, 2])
output y = relu(h), z = reshape(relu(x); shape = [n * 3, 4])
"""
BATCH = "input x : f32[b, n, 4]\nweight w : f32[4, 4]\noutput y = relu(x @ w)"


def written(sizes: str, body: str, path: Path) -> Fresh:
    model = tensat_dl.load(text=f'import "standard"\ngraph g({sizes}) {{\n{body}\n}}')
    found = model.write_answer(tensat_dl.optimize(model), str(path))
    assert isinstance(found, Fresh)
    return found


def dims(value: onnx.ValueInfoProto) -> list[str | int]:
    return [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]


def test_sizes_stay_open(tmp_path: Path) -> None:
    path = tmp_path / "heads.onnx"
    assert written("n: 1..64 = 8", HEADS, path).fixed == ""
    graph = onnx.load(path).graph
    assert dims(graph.input[0]) == ["n", 12]
    assert [dims(y) for y in graph.output] == [[3, "n", 4], ["n * 3", 4]]
    for n in (1, 5, 64):
        x = np.arange(n * 12, dtype=np.float32).reshape(n, 12) - 30
        y, z = Session(path).outputs({"x": x})
        assert y.shape == (3, n, 4)
        assert np.array_equal(z, np.maximum(x, 0).reshape(n * 3, 4))


def test_two_sizes_stay_open(tmp_path: Path) -> None:
    path = tmp_path / "batch.onnx"
    assert written("b: 1..4 = 2, n: 1..9 = 3", BATCH, path).fixed == ""
    (y,) = Session(path).outputs({"x": np.ones((4, 7, 4), np.float32)})
    assert y.shape == (4, 7, 4)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            "input x : f32[n, 4]\nweight p : f32[n, 4]\noutput y = x + p",
            "the weight `p` has a size that is open",
        ),
        ("input x : f32[n, 4]\noutput y = slice(x; axis = 0, start = 0, stop = n / 2)", " for n = 2"),
    ],
)
def test_sizes_that_are_fixed(body: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "fixed.onnx"
    assert reason in written("n: 2..64 = 8", body, path).fixed
    assert dims(onnx.load(path).graph.input[0]) == [8, 4]
