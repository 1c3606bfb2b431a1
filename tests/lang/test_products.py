"""`@` of operands whose leading dimensions differ: NumPy's results, at the cost of one product."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tensat_dl.core.diagnostics import TsrError
from tensat_dl.core.graph import Graph
from tensat_dl.cost import CostModel, load_device
from tensat_dl.lang.elaborate import elaborate
from tensat_dl.lang.library import library_operators
from tensat_dl.lang.program import load_program
from tensat_dl.ops.semantics import SEMANTICS
from tensat_dl.verify.execute import execute
from tests.cli.running import invoke

OPS = library_operators()


def product(folder: Path, x: tuple[int, ...], y: tuple[int, ...], written: str = "x @ y") -> Graph:
    path = folder / "g.tsr"
    path.write_text(
        f"graph g {{\n  input x : f32{list(x)}\n  weight y : f32{list(y)}\n  weight b : f32[{y[-1]}]\n"
        f"  output {written}\n}}\n"
    )
    program = load_program(str(path))
    return elaborate(program.graphs["g"], program.ops, program.blocks)


def operators(graph: Graph) -> list[str]:
    return [n.op for n in graph.nodes if n.op not in ("input", "weight")]


@pytest.mark.parametrize(
    ("x", "y", "made"),
    [
        ((8, 128, 16), (16, 4), "reshape matmul reshape"),
        ((2, 3, 5, 6), (6, 7), "reshape matmul reshape"),
        ((2, 3, 5, 6), (1, 6, 7), "reshape reshape matmul reshape"),
        ((5, 6), (1, 1, 6, 7), "reshape matmul reshape"),
        ((5, 6), (2, 3, 6, 7), "expand matmul"),
        ((2, 1, 5, 6), (3, 6, 7), "expand expand matmul"),
        ((2, 3, 5, 6), (2, 1, 6, 7), "expand matmul"),
        ((2, 3, 5, 6), (2, 3, 6, 7), "matmul"),
        ((6,), (6, 7), "reshape matmul reshape"),
        ((5, 6), (6,), "reshape matmul reshape"),
        ((6,), (6,), "reshape reshape matmul reshape"),
        ((6,), (3, 6, 7), "expand matmul reshape"),
        ((3, 5, 6), (6,), "reshape reshape matmul reshape"),
    ],
)
def test_products_are_numpys(x: tuple[int, ...], y: tuple[int, ...], made: str, tmp_path: Path) -> None:
    graph = product(tmp_path, x, y)
    rng = np.random.default_rng(0)
    left, right = rng.standard_normal(x), rng.standard_normal(y)
    (result,) = execute(graph, {"x": left, "y": right}, SEMANTICS)
    np.testing.assert_allclose(result, left @ right, rtol=1e-12)
    assert operators(graph) == made.split()


def test_a_bias_and_an_activation_stay_in_the_product(tmp_path: Path) -> None:
    graph = product(tmp_path, (3, 5, 6), (6, 7), "matmul(x, y, b; act = relu)")
    assert operators(graph) == ["reshape", "matmul", "reshape"]
    rng = np.random.default_rng(0)
    x, y, b = (rng.standard_normal(s) for s in ((3, 5, 6), (6, 7), (7,)))
    (result,) = execute(graph, {"x": x, "y": y, "b": b}, SEMANTICS)
    np.testing.assert_allclose(result, np.maximum(x @ y + b, 0), rtol=1e-12)


def test_a_batch_times_a_matrix_costs_one_product(tmp_path: Path) -> None:
    model = CostModel(OPS, load_device("h100"))
    batch = model.price_graph(product(tmp_path, (8, 128, 768), (768, 768)))
    rows = model.price_graph(product(tmp_path, (1024, 768), (768, 768)))
    assert batch.total == rows.total


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ((2, 5, 6), (3, 6, 7), "`matmul` requires that leading dimensions broadcast"),
        ((8, 5, 6), (7, 7), "`matmul` requires that the inner dimensions agree"),
        ((), (7, 7), "`matmul` requires that the operands are no scalars"),
    ],
)
def test_other_products_are_errors(
    x: tuple[int, ...], y: tuple[int, ...], message: str, tmp_path: Path
) -> None:
    with pytest.raises(TsrError) as caught:
        product(tmp_path, x, y)
    assert message in caught.value.render()
    assert f"f32{list(x)}" in caught.value.render()  # as it was written, not as it was reshaped


def test_rules_of_the_standard_pack_apply(tmp_path: Path) -> None:
    """Bias and activation are fused, and products that share an operand merge."""
    path, out = tmp_path / "g.tsr", tmp_path / "out.tsr"
    path.write_text("""import "standard"
graph layer {
  input x : f32[8, 128, 768]
  weight w : f32[768, 768]
  weight b : f32[768]
  output relu(x @ w + b)
}
graph shared {
  input x : f32[1, 16, 64]
  weight u : f32[64, 64]
  weight v : f32[64, 64]
  output (x @ u) * (x @ v)
}
""")
    assert invoke("run", path, "-q", "--graph", "layer", "-o", out).code == 0
    assert "matmul(reshape_1, w, b; act = relu)" in out.read_text()
    assert invoke("run", path, "-q", "--graph", "shared", "-o", out).code == 0
    assert out.read_text().count("@") == 1
