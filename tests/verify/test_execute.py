from __future__ import annotations

import subprocess
import sys
import tracemalloc
from typing import Any

import numpy as np
import pytest

from tensat_dl.core.graph import Graph, Node, TensorType
from tensat_dl.ops.semantics import SEMANTICS
from tensat_dl.verify.execute import ExecutionError, execute, surrogate, surrogates

from .making import Maker

Array = np.ndarray[Any, Any]


def test_outputs_come_in_order_and_may_repeat() -> None:
    m = Maker()
    x, w = m.input("x", 2, 3), m.weight("w", 3, 4)
    y = m.op("matmul", x, w, act="relu")
    rng = np.random.default_rng(0)
    values = {"x": rng.standard_normal((2, 3)), "w": rng.standard_normal((3, 4))}
    a, b, c = execute(m.graph(b=m.op("tanh", y), a=y, again=y), values, SEMANTICS)
    expected = np.maximum(values["x"] @ values["w"], 0)
    np.testing.assert_array_equal(a, np.tanh(expected))
    np.testing.assert_array_equal(b, expected)
    np.testing.assert_array_equal(c, expected)


def test_compositions_come_with_the_semantics() -> None:
    m = Maker()
    graph = m.graph(y=m.op("silu", m.input("x", 5)))
    x = np.linspace(-2, 2, 5)

    def silu(x: Array) -> Array:
        return np.asarray(x / (1 + np.exp(-x)))

    (y,) = execute(graph, {"x": x}, {**SEMANTICS, "silu": silu})
    np.testing.assert_allclose(y, x / (1 + np.exp(-x)))
    assert surrogates(graph, {**SEMANTICS, "silu": silu}) == ()
    assert surrogates(graph, SEMANTICS) == ("silu",)


def test_values_are_dropped_after_their_last_use() -> None:
    size = 1 << 17
    m = Maker()
    x = m.input("x", size)
    first = y = m.op("relu", x)
    for _ in range(30):
        y = m.op("tanh", m.op("ewadd", y, x))
    graph = m.graph(y=m.op("ewadd", y, first))
    values = {"x": np.ones(size)}
    tracemalloc.start()
    try:
        execute(graph, values, SEMANTICS)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # `first`, an operand and a result: 61 would be alive if nothing were dropped
    assert peak < 3.5 * size * 8


def test_what_no_output_needs_is_not_computed() -> None:
    m = Maker()
    x, unused = m.input("x", 3), m.input("unused", 3)
    m.op("exp", unused)
    assert len(execute(m.graph(y=m.op("relu", x)), {"x": np.ones(3)}, SEMANTICS)) == 1


def test_errors_say_which_node() -> None:
    m = Maker()
    graph = m.graph(y=m.op("relu", m.input("x", 3)))
    with pytest.raises(ExecutionError, match="no value is given for input x"):
        execute(graph, {}, SEMANTICS)
    with pytest.raises(ExecutionError, match=r"node 0 \(input\) is declared f32\[3\] .* \(4,\)"):
        execute(graph, {"x": np.ones(4)}, SEMANTICS)
    wrong = Graph("g", (graph.nodes[0], Node("relu", (0,), (), (TensorType("f32", (1,)),), "r")), (("y", 1),))
    with pytest.raises(ExecutionError, match=r"node 1 \(relu r\)"):
        execute(wrong, {"x": np.ones(3)}, SEMANTICS)
    missing = Graph("g", (graph.nodes[0], Node("softmax", (0,), (), graph.nodes[0].types)), (("y", 1),))
    with pytest.raises(
        ExecutionError, match=r"softmax cannot be computed: softmax\(\) missing .* argument: 'axis'"
    ):
        execute(missing, {"x": np.ones(3)}, SEMANTICS)


def test_a_node_with_several_outputs_is_read_by_proj() -> None:
    m = Maker()
    node = m.opaque("lstm", m.input("x", 4), shapes=[(2, 3), (), (5,)])
    outputs = {f"y{k}": m.proj(node, k) for k in range(3)}
    a, b, c = execute(m.graph(**outputs), {"x": np.ones(4)}, SEMANTICS)
    assert (a.shape, b.shape, c.shape) == ((2, 3), (), (5,))
    whole = Graph("g", m.graph(**outputs).nodes, (("y", 1),))
    with pytest.raises(ExecutionError, match="3 outputs is used without proj"):
        execute(whole, {"x": np.ones(4)}, SEMANTICS)


def opaque(**attrs: Any) -> Node:
    return Node("gather", (0, 1), tuple(attrs.items()), (TensorType("f32", (3, 4)), TensorType("f32", ())))


def test_a_surrogate_is_a_function_of_operator_attributes_and_operands() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 50, 2))
    base = surrogate(opaque(a=1, b="s"), [x, y])
    for same in (surrogate(opaque(a=1, b="s"), [x.copy(), y]), surrogate(opaque(b="s", a=1), [x, y])):
        for one, other in zip(base, same, strict=True):
            np.testing.assert_array_equal(one, other)
    for node, operands in (
        (opaque(a=2, b="s"), [x, y]),
        (opaque(a=1), [x, y]),
        (opaque(a=1, b="s"), [y, x]),
        (opaque(a=1, b="s"), [x[::-1], y]),
        (opaque(a=1, b="s"), [2 * x, y]),
        (opaque(a=1, b="s"), [1e9 * x, y]),
        (opaque(a=1, b="s"), [1e9 * x + 1e6, y]),
    ):
        for one, other in zip(base, surrogate(node, operands), strict=True):
            assert np.abs(one - other).max() > 1e-3


def test_a_surrogate_depends_on_every_element() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 6, 5))
    base = surrogate(opaque(), [x, y])[0]
    for position in range(2):
        for index in np.ndindex(6, 5):
            operands = [x.copy(), y.copy()]
            operands[position][index] += 1
            assert np.abs(surrogate(opaque(), operands)[0] - base).max() > 1e-4


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e3, 1e9])
def test_a_surrogate_is_continuous(scale: float) -> None:
    rng = np.random.default_rng(0)
    x, y = scale * rng.standard_normal((2, 400))
    base = surrogate(opaque(), [x, y])
    for step in (1e-11, 1e-8, 1e-4):
        moved = surrogate(opaque(), [x + step * scale * rng.uniform(-1, 1, 400), y])
        for one, other in zip(base, moved, strict=True):
            difference = np.abs(one - other).max() / np.abs(one).max()
            assert 1e-3 * step < difference < 40 * step


def test_a_surrogate_of_a_surrogate_stays_in_range() -> None:
    m = Maker()
    x = m.input("x", 100)
    for layer in range(40):
        x = m.opaque("deep", x, shapes=[(100,)], layer=layer)
    for scale in (1e-3, 1.0, 1e6):
        (y,) = execute(m.graph(y=x), {"x": np.full(100, scale)}, SEMANTICS)
        assert 1e-3 < np.abs(y).max() < 1e2


def test_a_surrogate_without_operands_is_a_constant() -> None:
    (value,) = surrogate(Node("random", (), (("seed", 3),), (TensorType("f32", (4,)),)), [])
    assert (value != 0).all()


def test_a_surrogate_is_the_same_in_every_process() -> None:
    code = (
        "import numpy as np; from tensat_dl.core.graph import Node, TensorType\n"
        "from tensat_dl.verify.execute import surrogate\n"
        "n = Node('o', (0,), (('a', 1),), (TensorType('f32', (4,)),))\n"
        "print(surrogate(n, [np.arange(3.0)])[0].tolist())"
    )
    runs = {
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        for _ in "ab"
    }
    assert len(runs) == 1
