"""Large weights that are drawn where they are used, and large matrices that are put together there."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tensat_dl.core.graph import Graph, TensorType
from tensat_dl.ops.semantics import SEMANTICS
from tensat_dl.verify import equivalence, late, weights
from tensat_dl.verify.equivalence import compare, expected
from tensat_dl.verify.execute import execute
from tensat_dl.verify.late import LateConcat, LateWeight, late_weights, taking_late
from tensat_dl.verify.weights import Distribution, draw, draw_values

from .making import Maker


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights of 100 numbers are drawn late, concatenations of 200 are, and blocks have 40."""
    monkeypatch.setattr(weights, "LARGE", 40)
    monkeypatch.setattr(late, "LATE", 100)
    monkeypatch.setattr(late, "LATE_CONCAT", 200)
    for module in (late, weights):
        monkeypatch.setattr(module, "BLOCK", 40)


@pytest.mark.parametrize("shape", [(16, 10), (17, 9), (1, 120), (2, 90), (120, 1), (3, 40), (40, 3), (7, 39)])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("rows", [(), (1,), (5,), (2, 3)])
def test_products_are_those_with_the_weight_that_is_drawn(
    shape: tuple[int, int], turned: bool, rows: tuple[int, ...]
) -> None:
    weight = LateWeight("w", TensorType("f32", shape), Distribution(0.1, 0.7), 3)
    drawn = draw("w", TensorType("f32", shape), Distribution(0.1, 0.7), 3)
    np.testing.assert_array_equal(np.asarray(weight), drawn)
    if turned:
        weight, drawn = replace(weight, turned=True), drawn.T
    assert weight.shape == drawn.shape
    x = np.random.default_rng(0).standard_normal((*rows, drawn.shape[0]))
    found = weight.multiplied(x)
    np.testing.assert_allclose(found, x @ drawn, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(found, weight.multiplied(x))


def layer(build: Callable[[Maker, int, int], int], *shape: int) -> Graph:
    m = Maker()
    return m.graph(y=build(m, m.input("x", 2, 12), m.weight("w", *(shape or (12, 10)))))


def times(m: Maker, x: int, w: int) -> int:
    return m.op("matmul", x, w)


def turned(m: Maker, x: int, w: int) -> int:
    return m.op("matmul", x, m.op("transpose", w, perm=(1, 0)))


@pytest.mark.parametrize(
    ("graph", "is_late"),
    [
        (layer(times), True),
        (layer(turned, 10, 12), True),
        (layer(times, 12, 8), False),  # small
        (layer(lambda m, x, w: m.op("matmul", m.op("matmul", x, w), w), 12, 12), False),  # drawn twice
        (layer(lambda m, x, w: m.op("matmul", x, m.op("relu", w))), False),
        (layer(lambda m, x, w: m.op("matmul", w, m.op("transpose", x, perm=(1, 0))), 10, 12), False),
    ],
)
def test_only_what_one_product_takes_is_late(graph: Graph, is_late: bool) -> None:
    assert list(late_weights(graph, 0)) == ["w"] * is_late
    known = expected(graph, SEMANTICS, 0)
    assert isinstance(known.values["w"], LateWeight) == is_late
    values = draw_values([graph], 0, {})
    np.testing.assert_allclose(known.outputs, execute(graph, values, SEMANTICS), rtol=1e-12, atol=1e-12)


def test_an_output_is_not_late() -> None:
    m = Maker()
    x, w = m.input("x", 2, 12), m.weight("w", 12, 10)
    assert not late_weights(m.graph(y=m.op("matmul", x, w), w=w), 0)


@pytest.mark.parametrize("share", [0.0, 1.0])
@pytest.mark.parametrize(
    ("build", "status"),
    [
        (times, "equivalent"),
        (lambda m, x, w: turned(m, x, m.op("transpose", w, perm=(1, 0))), "equivalent"),
        (lambda m, x, w: m.op("matmul", m.op("relu", x), w), "different"),
        (lambda m, x, w: m.op("matmul", x, m.op("relu", w)), "different"),
        (lambda m, x, w: m.op("matmul", x, m.op("ewadd", w, w)), "different"),
        (lambda m, x, w: m.op("slice", m.op("matmul", x, m.op("concat", w, w, axis=1)), axis=1, start=0, stop=10),
         "equivalent"),
        (lambda m, x, w: m.op("slice", m.op("matmul", x, m.op("relu", m.op("concat", w, w, axis=1))), axis=1, start=0,
                              stop=10), "different"),
        (lambda m, x, w: m.op("slice", m.op("concat", x, w, axis=0), axis=0, start=0, stop=2), "different"),
    ],
)  # fmt: skip
def test_any_operator_of_the_answer_may_take_a_late_weight(
    build: Callable[[Maker, int, int], int], status: str, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(equivalence, "RECALLED_SHARE", share)
    before = layer(times)
    if status == "different" and "concat" in {n.op for n in layer(build, 12, 12).nodes}:
        before, after = layer(times, 12, 12), layer(build, 12, 12)
    else:
        after = layer(build)
    assert list(late_weights(before, 0)) == ["w"]
    assert compare(before, after, SEMANTICS).status == status


def test_an_answer_that_gives_the_weight_is_different() -> None:
    m, n = Maker(), Maker()
    x, w = m.input("x", 12, 12), m.weight("w", 12, 12)
    before = m.graph(y=m.op("matmul", x, w))
    n.input("x", 12, 12)
    assert compare(before, n.graph(y=n.weight("w", 12, 12)), SEMANTICS).status == "different"


def test_surrogates_take_late_weights() -> None:
    m, n = Maker(), Maker()
    graphs = [
        g.graph(
            y=g.op("matmul", g.input("x", 2, 12), w), z=g.opaque("strange", w, shapes=[(2,)])
        ) if g is n else g.graph(y=g.op("matmul", g.input("x", 2, 12), w))
        for g in (m, n)
        for w in [g.weight("w", 12, 10)]
    ]  # fmt: skip
    known = expected(graphs[0], SEMANTICS, 0)
    assert isinstance(known.values["w"], LateWeight)
    _, z = execute(graphs[1], known.values, known.again(SEMANTICS))
    np.testing.assert_array_equal(z, execute(graphs[1], draw_values(graphs, 0, {}), SEMANTICS)[1])


def test_a_large_weight_is_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (late, weights):
        monkeypatch.setattr(module, "BLOCK", 1 << 12)
    m, size = Maker(), 8 * 12 * (1 << 16)
    graph = m.graph(y=turned(m, m.input("x", 1, 1 << 16), m.weight("w", 12, 1 << 16)))
    tracemalloc.start()
    try:
        known = expected(graph, SEMANTICS, 0)
        assert compare(graph, graph, SEMANTICS, known=known).status == "equivalent"
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < size / 2
    assert known.size < size / 2


def test_other_operators_are_called_as_they_are() -> None:
    seen: list[object] = []
    taking = taking_late({"matmul": lambda *operands: seen.extend(operands)})  # type: ignore[dict-item]
    taking["matmul"](np.ones(2), LateWeight("w", TensorType("f32", (2, 50)), Distribution(), 0))
    assert [type(x) for x in seen] == [np.ndarray, np.ndarray]


# ---- side by side ----------------------------------------------------------------------------------------


def test_a_product_with_matrices_side_by_side_is_that_with_the_whole() -> None:
    rng = np.random.default_rng(0)
    x, a, b = (rng.standard_normal(shape) for shape in ((2, 3, 12), (12, 9), (12, 4)))
    c = LateWeight("c", TensorType("f32", (12, 10)), Distribution(), 0)
    taking = taking_late(SEMANTICS)
    inner = taking["concat"](a, c, axis=1)
    assert inner.shape == (12, 19)
    outer = taking["concat"](b, inner, a, axis=1)
    assert isinstance(outer, LateConcat)
    assert outer.shape == (12, 32)
    whole = np.concatenate([b, a, np.asarray(c), a], axis=1)
    np.testing.assert_array_equal(np.asarray(outer), whole)
    np.testing.assert_allclose(taking["matmul"](x, outer, act="none"), x @ whole, rtol=1e-12, atol=1e-12)
    bias = rng.standard_normal(32)
    expected = np.maximum(x @ whole + bias, 0)
    np.testing.assert_allclose(taking["matmul"](x, outer, bias, act="relu"), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(taking["relu"](outer), np.maximum(whole, 0))
    np.testing.assert_array_equal(taking["matmul"](outer, bias[:, None], act="none"), whole @ bias[:, None])


@pytest.mark.parametrize(
    ("shapes", "axis", "dtype"),
    [
        (((12, 8), (12, 8)), 1, np.float64),  # small
        (((12, 10), (12, 10)), 0, np.float64),
        (((12, 10), (12, 10)), 1, np.int64),
        (((12, 10, 1), (12, 10, 1)), 1, np.float64),
    ],
)
def test_others_are_put_together(shapes: tuple[tuple[int, ...], ...], axis: int, dtype: type) -> None:
    operands: list[Any] = [np.ones(shape, dtype) for shape in shapes]
    assert isinstance(taking_late(SEMANTICS)["concat"](*operands, axis=axis), np.ndarray)


def test_outputs_are_arrays() -> None:
    m = Maker()
    x, y = m.input("x", 10, 20), m.input("y", 10, 20)
    known = expected(m.graph(z=m.op("concat", x, y, axis=1)), SEMANTICS, 0)
    (z,) = known.outputs
    assert isinstance(z, np.ndarray)
    assert z.shape == (10, 40)


@pytest.mark.parametrize("share", [0.0, 1.0])
@pytest.mark.parametrize(("start", "status"), [(0, "equivalent"), (1, "different")])
def test_merged_products_are_compared(
    start: int, status: str, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(equivalence, "RECALLED_SHARE", share)
    m, n = Maker(), Maker()
    x, *ws = m.input("x", 3, 10), *(m.weight(f"w{i}", 10, 10) for i in range(3))
    before = m.graph(**{f"y{i}": m.op("matmul", x, w) for i, w in enumerate(ws)})
    x, *ws = n.input("x", 3, 10), *(n.weight(f"w{i}", 10, 10) for i in range(3))
    merged = n.op("matmul", x, n.op("concat", *ws, axis=1))
    parts = ((i * 10 + (start if i == 1 else 0)) for i in range(3))
    after = n.graph(
        **{f"y{i}": n.op("slice", merged, axis=1, start=p, stop=p + 10) for i, p in enumerate(parts)}
    )
    assert compare(before, after, SEMANTICS).status == status
