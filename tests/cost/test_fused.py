"""What costs nothing after a convolution, and what does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tensat_dl.core.egraph import without_choices
from tensat_dl.cost import CostModel
from tensat_dl.cost.model import fused
from tensat_dl.cost.profile import Measurement, Profile
from tests.report.results import read_text

HEAD = """
graph g {
  input x : f32[1, 16, 8, 8]
  weight w : f32[16, 16, 3, 3]
  weight scale : f32[16]
  weight shift : f32[16, 1, 1]
  weight column : f32[8]
  y = conv2d(x, w; pads = [1, 1, 1, 1])
"""

CASES = {
    "relu": ("output relu(y)", ["relu"]),
    "batchnorm": ("output relu(batchnorm(y, scale, scale, scale, scale))", ["batchnorm", "relu"]),
    "a term for each channel": ("output y + shift", ["ewadd"]),
    "a factor": ("output relu(y * 2.0)", ["ewmul", "relu"]),
    "a number as a term": ("output relu(y + 2.0)", []),
    "one activation": ("output relu(relu(y))", ["relu"]),
    "another activation": ("output tanh(y)", []),
    "a residual": ("output y + x", []),
    "another reader": ("output relu(y), tanh(y)", []),
    "an output": ("output relu(y), y", []),
    "a term for each column": ("output y + column", []),
    "a product of two results": ("output y * x", []),
    "an activation of a pool": ("output relu(poolmax(y; kernel = [2, 2], stride = [2, 2]))", []),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_free(name: str, tmp_path: Path) -> None:
    tail, wanted = CASES[name]
    graph, ops = read_text(f"{HEAD}  {tail}\n}}\n", tmp_path)
    assert [graph.nodes[i].op for i in fused(graph)] == wanted
    here, there = (CostModel.of(ops, device).price_graph(graph) for device in ("cpu", "h100"))
    free = [n.op for n, c in zip(graph.nodes, here.cost, strict=True) if c == 0 and n.op in wanted]
    assert free == wanted
    runs = [c for n, c in zip(graph.nodes, there.cost, strict=True) if n.op in wanted]
    assert all(c > 0 for c in runs), "other devices pay for it"


def test_both_forms_of_a_convolution_with_a_relu_cost_the_same(tmp_path: Path) -> None:
    apart, ops = read_text(f"{HEAD}  output relu(y)\n}}\n", tmp_path)
    whole, _ = read_text(HEAD.replace("pads", "act = relu, pads") + "  output y\n}\n", tmp_path)
    model = CostModel.of(ops, "cpu")
    (signature,) = (s for s in model.signatures(without_choices(whole)) if s.op == "conv2d")
    assert signature in model.signatures(without_choices(apart)), "one measurement is for both"
    profile = Profile("cpu", {}, {}, {signature.text: Measurement(7.0, 0.1, 9)})
    priced = [model.measured_by(profile).price_graph(g) for g in (apart, whole)]
    assert [p.total for p in priced] == [7.0, 7.0]
