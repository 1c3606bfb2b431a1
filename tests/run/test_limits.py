"""When an exploration stops by itself."""

from __future__ import annotations

import pytest

import tensat_dl
from tensat_dl.core.graph import Graph
from tensat_dl.run.options import Options

PAIR = """rule pair {
  y = matmul(x, a)
  z = matmul(x, b)
  where rank(a) == 2, rank(b) == 2
  =>
  m = matmul(x, concat(a, b; axis = 1))
  y = slice(m; axis = rank(x) - 1, start = 0, stop = dim(a, 1))
  z = slice(m; axis = rank(x) - 1, start = dim(a, 1), stop = dim(a, 1) + dim(b, 1))
}
"""


def chain(length: int) -> Graph:
    lines = ["y0 = relu(x)", *(f"y{i} = y{i - 1} + x" for i in range(1, length))]
    text = "\n".join(["graph g {", "input x : f32[4]", *lines, f"output y{length - 1}", "}"])
    return tensat_dl.load(text=text).graph


def test_memory_is_limited_unless_said_otherwise() -> None:
    assert Options().limits(chain(1), ()).memory == 4096 * 1024 * 1024
    assert Options(max_memory=None).limits(chain(1), ()).memory is None


@pytest.mark.parametrize(("operators", "nodes"), [(1, 10_000), (166, 10_000), (200, 12_000), (900, 50_000)])
def test_large_graphs_may_have_large_e_graphs(operators: int, nodes: int) -> None:
    pair = tensat_dl.load(text=PAIR + "graph g {\ninput x : f32[4]\noutput relu(x)\n}").rules
    assert Options().limits(chain(operators), ()).nodes == nodes
    assert Options().limits(chain(operators), pair).nodes == 50_000
    assert Options(max_nodes=7).limits(chain(operators), pair).nodes == 7
