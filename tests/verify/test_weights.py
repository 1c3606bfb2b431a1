from __future__ import annotations

import hashlib
import random

import numpy as np
import pytest

from tensat_dl.core.graph import Graph, TensorType
from tensat_dl.ops.semantics import SEMANTICS
from tensat_dl.verify.execute import execute
from tensat_dl.verify.weights import Distribution, draw, draw_block, draw_values

from .making import Maker


def test_graphs_share_values_by_name_whatever_the_order() -> None:
    one, two = Maker(), Maker()
    x, a, b = one.input("x", 2, 30), one.weight("a", 30, 30), one.weight("b", 30, 30)
    first = one.graph(y=one.op("matmul", one.op("matmul", x, a), b))
    b, a, x = two.weight("b", 30, 30), two.weight("a", 30, 30), two.input("x", 2, 30)
    second = two.graph(y=two.op("matmul", x, two.op("matmul", a, b)))
    values, others = draw_values([first], 0, {}), draw_values([second], 0, {})
    both = draw_values([first, second], 0, {})
    assert set(values) == {"x", "a", "b"}
    for name, value in values.items():
        np.testing.assert_array_equal(value, both[name])
        if name != "b":
            np.testing.assert_array_equal(value, others[name])
    assert not np.array_equal(values["a"], values["b"])
    assert not np.array_equal(values["a"], draw_values([first], 1, {})["a"])


def test_the_first_graph_decides_the_distribution() -> None:
    before, after = Maker(), Maker()
    x, var = before.input("x", 2, 300), before.weight("var", 300)
    others = [before.weight(name, 300) for name in ("scale", "bias", "mean")]
    graph = before.graph(y=before.op("batchnorm", x, *others, var))
    folded = after.graph(y=after.op("ewmul", after.input("x", 2, 300), after.weight("var", 300)))
    values = draw_values([graph, folded], 0, {})
    assert values["var"].min() >= 0.5
    assert abs(values["scale"].mean() - 1) < 0.1
    assert np.abs(values["mean"]).max() < 0.5
    assert draw_values([folded], 0, {})["var"].min() < 0


def test_positive_where_the_domain_asks_for_it() -> None:
    m = Maker()
    x, w, d, free = m.input("x", 4, 50), m.weight("w", 50), m.weight("d", 50), m.input("free", 4, 50)
    eps = m.op("fill", value=1e-5, dtype="f32", shape=())
    deviation = m.op("sqrt", m.op("ewadd", m.op("reshape", w, shape=(1, 50)), eps))
    square = m.op("rsqrt", m.op("reduce_mean", m.op("ewmul", x, x), axis=1))
    y = m.op("ewdiv", m.op("ewmul", m.op("ewdiv", x, deviation), square), m.op("concat", d, axis=0))
    graph = m.graph(y=y, z=m.op("ewdiv", x, free))
    values = draw_values([graph], 0, {})
    assert values["w"].min() > 0
    assert values["d"].min() > 0
    assert values["x"].min() < 0
    assert values["free"].min() < 0
    assert all(np.isfinite(v).all() for v in execute(graph, values, SEMANTICS))


def test_activations_stay_in_range_through_many_layers() -> None:
    m = Maker()
    x = m.input("x", 1, 8, 12, 12)
    for i in range(20):
        w, b = m.weight(f"w{i}", 16, 8 if i == 0 else 16, 3, 3), m.weight(f"b{i}", 16)
        x = m.op("conv2d", x, w, b, pads=(1, 1, 1, 1), act="relu")
    x = m.op("reshape", x, shape=(1, 16 * 144))
    for i in range(20):
        w = m.weight(f"v{i}", 16 * 144 if i == 0 else 100, 100)
        x = m.op("matmul", x, w, act="relu")
    graph = m.graph(y=x)
    (y,) = execute(graph, draw_values([graph], 0, {}), SEMANTICS)
    assert 0.01 < np.abs(y).max() < 100


def test_a_weight_on_the_left_and_a_batched_one() -> None:
    m = Maker()
    x = m.input("x", 2, 3, 400, 50)
    left, right = m.weight("left", 2, 3, 50, 400), m.weight("right", 2, 3, 50, 60)
    graph = m.graph(y=m.op("matmul", m.op("matmul", left, x), right))
    values = draw_values([graph], 0, {})
    assert values["left"].std() == pytest.approx((2 / 400) ** 0.5, rel=0.05)
    assert values["right"].std() == pytest.approx((2 / 50) ** 0.5, rel=0.05)


def test_element_types() -> None:
    values = {
        dtype: draw("t", TensorType(dtype, (500,)), Distribution(), 0)
        for dtype in ("f16", "i8", "u8", "bool")
    }
    assert values["f16"].dtype == np.float64
    assert values["i8"].dtype == np.int64
    assert set(values["i8"].tolist()) == set(range(-4, 5))
    assert set(values["u8"].tolist()) == set(range(5))
    assert set(values["bool"].tolist()) == {False, True}
    positive = draw("t", TensorType("i32", (500,)), Distribution(positive=True), 0)
    assert set(positive.tolist()) == {1, 2, 3, 4}


def test_integer_divisors_are_not_zero() -> None:
    m = Maker()
    x, y = (m.input(name, 50, dtype="i64") for name in "xy")
    graph = m.graph(z=m.op("ewdiv", x, y))
    assert draw_values([graph], 0, {})["y"].min() > 0


def test_known_values_are_taken() -> None:
    m = Maker()
    graph = m.graph(y=m.op("ewadd", m.input("x", 3), m.weight("w", 3)))
    values = draw_values([graph], 0, {"w": np.array([1, 2, 3], np.float16), "other": np.zeros(9)})
    assert values["w"].dtype == np.float64
    assert values["w"].tolist() == [1, 2, 3]
    assert set(values) == {"x", "w"}


def test_one_name_has_one_type() -> None:
    m = Maker()
    graph = m.graph(y=m.op("ewadd", m.input("x", 3), m.weight("x", 1)))
    with pytest.raises(ValueError, match=r"x is f32\[3\] in one place and f32\[1\] in another"):
        draw_values([graph], 0, {})


def test_values_do_not_change_between_platforms_and_versions() -> None:
    value = draw("w", TensorType("f32", (2, 3)), Distribution(), 7)
    digest = hashlib.sha256(np.ascontiguousarray(value.round(9)).astype("<f8").tobytes()).hexdigest()
    assert digest[:16] == "df70267e5d3d5fc0"
    block = np.empty(6)
    draw_block(block, 0, "w", Distribution())
    digest = hashlib.sha256(block.round(9).astype("<f8").tobytes()).hexdigest()
    assert digest[:16] == "e98d2b1fc08e7943"


def test_blocks_of_large_tensors_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BLOCK", "LARGE"):
        monkeypatch.setattr(f"tensat_dl.verify.weights.{name}", 1000)
    monkeypatch.setattr("tensat_dl.verify.weights.spare_cores", lambda: 2)
    value = draw("w", TensorType("f32", (3, 1100)), Distribution(2.0, 0.5), 7).reshape(-1)
    blocks = [value[k : k + 1000] for k in range(0, 3000, 1000)]
    for block in (*blocks, value[3000:]):
        assert block.mean() == pytest.approx(2.0, abs=0.1)
        assert block.std() == pytest.approx(0.5, abs=0.1)
    shared = np.corrcoef(blocks) - np.eye(3)
    assert abs(shared).max() < 0.15
    monkeypatch.setattr("tensat_dl.verify.weights.spare_cores", lambda: 1)
    again = draw("w", TensorType("f32", (3, 1100)), Distribution(2.0, 0.5), 7).reshape(-1)
    assert np.array_equal(value, again)


# ---- what random graphs compute on drawn values -----------------------------------------------------------


def random_graph(rng: random.Random, depth: int) -> Graph:
    """A chain with branches, of operators that keep what goes in visible: no graph computes x - x, or zeros alone."""
    g = Maker()
    nodes = [g.input("x", 8, 16), g.input("y", 8, 16)]
    for i in range(depth):
        op = rng.choice(
            ("ewadd", "ewmul", "matmul", "tanh", "sigmoid", "gelu", "softmax", "layernorm", "scale")
        )
        x = nodes[-1] if rng.random() < 0.7 else rng.choice(nodes[-4:])
        if op in ("ewadd", "ewmul"):
            nodes.append(g.op(op, x, rng.choice([n for n in nodes[-4:] if n != x])))
        elif op == "matmul":
            act = rng.choice(("none", "relu", "tanh"))
            nodes.append(g.op("matmul", x, g.weight(f"w{i}", 16, 16), act=act))
        elif op == "layernorm":
            nodes.append(g.op(op, x, g.weight(f"s{i}", 16), g.weight(f"b{i}", 16)))
        elif op == "scale":
            nodes.append(g.op("ewmul", x, g.weight(f"d{i}", 16)))
        else:
            nodes.append(g.op(op, x, **({"axis": 1} if op == "softmax" else {})))
    return g.graph(y=nodes[-1])


@pytest.mark.parametrize("depth", [3, 8, 16])
def test_outputs_neither_vanish_nor_saturate(depth: int) -> None:
    """They are finite and vary, and every input and weight that they depend on shows in them."""
    rng = random.Random(depth)
    for _ in range(60):
        graph = random_graph(rng, depth)
        values, others = draw_values((graph,), 0, {}), draw_values((graph,), 1, {})
        (y,) = execute(graph, values, SEMANTICS)
        largest = np.abs(y).max()
        assert 1e-30 < largest < 1e30
        assert y.std() > 1e-6 * largest
        for name in values:
            if name in _used(graph):
                (z,) = execute(graph, {**values, name: others[name]}, SEMANTICS)
                assert np.abs(y - z).max() > 1e-8 * largest, (name, [n.op for n in graph.nodes])


def _used(graph: Graph) -> set[str]:
    needed = {i for _, i in graph.outputs}
    for i in range(len(graph.nodes) - 1, -1, -1):
        if i in needed:
            needed.update(graph.nodes[i].inputs)
    return {str(graph.nodes[i].attr("name")) for i in needed if graph.nodes[i].op in ("input", "weight")}
