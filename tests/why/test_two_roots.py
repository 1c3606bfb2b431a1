"""`why-not` for a rule with two outputs whose second root is nearer to a match than its first."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import invoke

RULE = """rule two-roots {
  a = relu(matmul(x, u))
  b = tanh(matmul(x, v))
  =>
  m = matmul(x, concat(u, v; axis = 1))
  (p, q) = split(m; axis = 1, sizes = [dim(u, 1), dim(v, 1)])
  a = relu(p)
  b = tanh(q)
}
"""
GRAPH = """graph g {{
  input x : f32[4, 8]
  weight u : f32[8, 8]
  weight v : f32[8, 8]
  output {}
}}
"""


def said(folder: Path, outputs: str) -> str:
    path = folder / "g.tsr"
    path.write_text(RULE + GRAPH.format(outputs))
    done = invoke("why-not", "two-roots", path)
    assert done.code == 0, done.err
    return done.out


def test_a_second_root_that_is_nearer(tmp_path: Path) -> None:
    """It ended in a `KeyError`."""
    assert said(tmp_path, "tanh(x @ v), sigmoid(x @ u)") == (
        "two-roots\n"
        "does not fire on graph g, nor on any graph that the rules make of it\n"
        "  7 e-nodes after 1 iteration; saturated: no rule adds anything\n"
        "  there is no relu in the graph\n"
        "  nearest is `tanh(matmul(x, v))` at out0 (f32[4, 8])\n"
        "  but there is no other relu (for `relu(matmul(x, u))`)\n"
    )


@pytest.mark.parametrize("outputs", ["tanh(x @ v)", "relu(x), tanh(x @ v)", "relu(x @ u), tanh(x)"])
def test_one_root_that_is_nearer(outputs: str, tmp_path: Path) -> None:
    assert "does not fire on graph g" in said(tmp_path, outputs)
