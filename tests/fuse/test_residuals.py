"""Products and what is added to them as one e-node."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tensat_dl.fuse.fuse import unfused
from tensat_dl.ops.semantics import semantics_of
from tensat_dl.verify.execute import execute
from tensat_dl.verify.weights import draw_values
from tensat_dl.why.steps import missing
from tests.fuse.fused import fused_graph

HEAD = "graph g {{\n  input x : f32[8, 8]\n  input z : f32[8, 8]\n  weight w : f32[8, 8]\n  {}\n}}"
IMAGE = "graph g {{\n  input x : f32[1, 4, 6, 6]\n  weight w : f32[4, 4, 3, 3]\n  weight b : f32[4]\n  {}\n}}"


@pytest.mark.parametrize(
    ("text", "ops"),
    [
        (HEAD.format("output z + x @ w"), ["fused_ewadd"]),
        (HEAD.format("output tanh(x @ w + x)"), ["fused_tanh"]),
        (HEAD.format("output x @ w + z @ w"), ["matmul", "fused_ewadd"]),
        (IMAGE.format("output relu(conv2d(x, w, b; pads = same) + x)"), ["fused_relu"]),
        # The product has an activation of its own, is read by another operator, or what is added is stretched.
        (HEAD.format("output z + matmul(x, w; act = relu)"), ["matmul", "ewadd"]),
        (HEAD.format("y = x @ w\n  output y, y + z"), ["matmul", "ewadd"]),
        (HEAD.format("output x @ w + slice(z; axis = 0, start = 0, stop = 1)"), ["slice", "matmul", "ewadd"]),
    ],
)
def test_one_kernel_computes_the_sum_of_a_product(text: str, ops: list[str], tmp_path: Path) -> None:
    graph, ops_before, fused, ops_after = fused_graph(text, tmp_path)
    names = [n.op for n in fused.nodes if n.op not in ("input", "weight")]
    assert sorted(n.rpartition("_")[0] if n.startswith("fused") else n for n in names) == sorted(ops)
    values = draw_values([graph], 0, {})
    before, after = (
        execute(graph, values, semantics_of(ops_before)),
        execute(fused, values, semantics_of(ops_after)),
    )
    for x, y in zip(before, after, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12)


@pytest.mark.parametrize("sum", ["x @ w + z", "z + x @ w", "tanh(x @ w + z)", "tanh(z + x @ w)"])
def test_taken_apart_it_is_the_graph_again(sum: str, tmp_path: Path) -> None:
    """With its operands in their order: whoever looks for it in an e-graph finds it there."""
    graph, _, fused, ops = fused_graph(HEAD.format(f"output {sum}"), tmp_path)
    assert not missing(unfused(fused, ops, {n.op for n in fused.nodes if n.op.startswith("fused")}), graph)
