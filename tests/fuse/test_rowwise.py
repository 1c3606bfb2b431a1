"""Normalisations, and what is computed before and after them, as one e-node."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tensat_dl.ops.semantics import semantics_of
from tensat_dl.verify.execute import execute
from tensat_dl.verify.weights import draw_values
from tests.fuse.fused import fused_graph

LAYER_NORM = """
  c = x - reduce_mean(x; axis = 1)
  output c * rsqrt(reduce_mean(c * c; axis = 1) + 0.001) * scale + bias"""
SOFTMAX = """
  e = exp(x - reduce_max(x; axis = 1))
  output e / reduce_sum(e; axis = 1)"""


@pytest.mark.parametrize(
    ("body", "kernels"),
    [
        (LAYER_NORM, 1),
        (SOFTMAX, 1),
        ("output layernorm(x + z, scale, bias)", 1),
        ("output softmax(x * 0.125; axis = 1)", 1),
        ("output reduce_sum(tanh(x) * z; axis = 1)", 1),
        ("output softmax(x * 0.125; axis = 0)", 2),  # along columns
        ("output softmax(tanh(scale) + x; axis = 1)", 1),  # of weights alone: computed before
        ("output softmax(x; axis = 1) @ x", 2),
    ],
)
def test_what_is_computed_of_rows_is_one_kernel(body: str, kernels: int, tmp_path: Path) -> None:
    head = "graph g {\n  input x : f32[24, 24]\n  input z : f32[24, 24]\n"
    text = f"{head}  weight scale : f32[24]\n  weight bias : f32[24]\n  {body}\n}}"
    graph, ops_before, fused, ops_after = fused_graph(text, tmp_path)
    known = fused.weights_only()
    assert sum(not k and n.op != "input" for n, k in zip(fused.nodes, known, strict=True)) == kernels
    values = draw_values([graph], 0, {})
    before = execute(graph, values, semantics_of(ops_before))
    after = execute(fused, values, semantics_of(ops_after))
    for x, y in zip(before, after, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12)
