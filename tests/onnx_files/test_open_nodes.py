"""What rules make of a model with open dimensions holds for all sizes, whichever answer is chosen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.helper import make_node

from tensat_dl.core.egraph import EGraph, NodeKey
from tensat_dl.core.graph import TensorType
from tensat_dl.cost import CostModel
from tensat_dl.extract.api import extract
from tensat_dl.extract.rebuild import rebuild
from tensat_dl.onnx.importer import Imported, import_model
from tensat_dl.sizes.open_shapes import REST, SAME, OfInput, OfOperand, asked_shape, keeps_runs, reshaped
from tests.cli.running import invoke
from tests.explore.graphs import explored
from tests.onnx_files.models import (
    model,
    operators,
    random,
    read,
    rewriting,
    round_trip,
    saved,
    tensor,
    value,
)

pytestmark = pytest.mark.sampled(2)

WIDTH, HEADS = 128, 2


def attention() -> onnx.ModelProto:
    """Attention of tokens [batch, time, 128], with a projection before and one behind, and a sum."""
    nodes = []
    for name, perm in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        nodes += [
            make_node("MatMul", ["x", f"w{name}"], [f"{name}1"]),
            make_node("Reshape", [f"{name}1", "parts"], [f"{name}2"]),
            make_node("Transpose", [f"{name}2"], [f"{name}3"], perm=perm),
        ]
    nodes += [
        make_node("MatMul", ["q3", "k3"], ["scores"]),
        make_node("Softmax", ["scores"], ["share"], axis=-1),
        make_node("MatMul", ["share", "v3"], ["mixed"]),
        make_node("Transpose", ["mixed"], ["rows"], perm=[0, 2, 1, 3]),
        make_node("Reshape", ["rows", "whole"], ["joined"]),
        make_node("MatMul", ["joined", "wo"], ["out"]),
        make_node("Add", ["out", "x"], ["y"]),
    ]
    weights = [random(f"w{name}", WIDTH, WIDTH) for name in "qkvo"]
    weights.append(tensor("parts", [0, 0, HEADS, WIDTH // HEADS], np.int64))
    weights.append(tensor("whole", [0, 0, WIDTH], np.int64))
    return model(
        nodes, [value("x", "batch", "time", WIDTH)], [value("y", "batch", "time", WIDTH)], weights, 17
    )


def images() -> onnx.ModelProto:
    """Images [1, 4, height, width], and half as large ones enlarged again, added."""
    nodes = [
        make_node("MaxPool", ["x"], ["half"], kernel_shape=[2, 2], strides=[2, 2]),
        make_node("Resize", ["half", "", "scales"], ["large"], mode="nearest"),
        make_node("Add", ["large", "x"], ["y"]),
    ]
    shape = (1, 4, "height", "width")
    scales = [tensor("scales", [1, 1, 2, 2])]
    return model(nodes, [value("x", *shape)], [value("y", *shape)], scales, 17)


def patches() -> onnx.ModelProto:
    """Images [1, 4, height, width], shifted, in patches of two by two, by a shape that the model computes."""
    nodes = [
        make_node("Add", ["x", "shift"], ["moved"]),
        make_node("Shape", ["x"], ["size"], start=2),
        make_node("Div", ["size", "two"], ["halves"]),
        make_node("Split", ["halves"], ["rows", "columns"], axis=0, num_outputs=2),
        make_node("Concat", ["four", "rows", "two", "columns", "two"], ["parts"], axis=0),
        make_node("Reshape", ["moved", "parts"], ["y"]),
    ]
    constants = [tensor("two", [2], np.int64), tensor("four", [4], np.int64), random("shift", 4, 1, 1)]
    outputs = [value("y", 4, "half the height", 2, "half the width", 2)]
    return model(nodes, [value("x", 1, 4, "height", "width")], outputs, constants, 18)


def priced(imported: Imported) -> EGraph:
    """The e-graph that the rules make of a model."""
    program = imported.program
    egraph = explored(imported.graph, program.rules, ops=program.ops)
    return CostModel.of(program.ops, "cpu").price(egraph)[0]


def drawn(imported: Imported, egraph: EGraph, seed: int, tmp_path: Path) -> str:
    """How an answer by random prices compares with the model."""
    prices = np.random.default_rng(seed).uniform(1, 2, egraph.num_nodes)
    priced = replace(egraph, cost=np.where(egraph.cost >= 0, prices, egraph.cost))
    graph, _ = rebuild(priced, extract(priced, "greedy-dag"), imported.graph)
    return round_trip(tmp_path, imported, graph).status


@pytest.mark.parametrize("batch", [1, 3])
def test_no_answer_is_for_one_size_only(batch: int, tmp_path: Path) -> None:
    rules = ("mirror", "transpose")
    imported = import_model(saved(tmp_path, attention()), {"batch": batch, "time": 5}, rules)
    egraph = priced(imported)
    fixed = imported.fixed_sizes(egraph, imported.graph)
    assert not fixed[egraph.source].any()
    open_ones = egraph.without(fixed)
    assert {drawn(imported, open_ones, seed, tmp_path) for seed in range(12)} == {"agrees"}
    # It is not that nothing were left: products have several forms, and all of them would have been too many.
    assert {"conv2d", "matmul"} <= set(open_ones.op)
    if batch == 1:
        assert "narrow" in {drawn(imported, egraph, seed, tmp_path) for seed in range(12)}


def test_sizes_that_are_halves_are_not_written_down(tmp_path: Path) -> None:
    imported = import_model(saved(tmp_path, images()), {"height": 8, "width": 12}, ("images", "transpose"))
    egraph = priced(imported)
    fixed = imported.fixed_sizes(egraph, imported.graph)
    assert not fixed[egraph.source].any()
    height, width = imported.elsewhere
    for sizes, are in (((height, width), True), ((height,), False), ((width,), False)):
        found = replace(imported, elsewhere=sizes).fixed_sizes(egraph, imported.graph)
        assert ("reshape" in {egraph.op[n] for n in np.flatnonzero(found).tolist()}) == are
    assert {drawn(imported, egraph.without(fixed), seed, tmp_path) for seed in range(6)} == {"agrees"}


def test_a_reshape_to_halves_keeps_the_shape_that_the_model_computes(tmp_path: Path) -> None:
    imported = import_model(saved(tmp_path, patches()), {"height": 8, "width": 12})
    assert "reshape" in operators(imported.graph)
    assert rewriting(tmp_path, imported).status == "agrees"
    for height, width in ((8, 12), (4, 10), (16, 2)):
        session = onnxruntime.InferenceSession(tmp_path / "out.onnx")
        (y,) = session.run(None, {"x": np.zeros((1, 4, height, width), np.float32)})
        assert y.shape == (4, height // 2, 2, width // 2, 2)


def test_an_expansion_keeps_the_shape_that_the_model_computes(tmp_path: Path) -> None:
    """The sum of all rows, shifted, in the place of each row."""
    nodes = [
        make_node("Add", ["x", "shift"], ["moved"]),
        make_node("ReduceSum", ["moved", "axis"], ["total"], keepdims=1),
        make_node("Shape", ["x"], ["rows"], start=1, end=2),
        make_node("Concat", ["axis", "rows", "axis"], ["parts"], axis=0),
        make_node("Expand", ["total", "parts"], ["y"]),
    ]
    constants = [tensor("axis", [1], np.int64), random("shift", 8)]
    made = model(nodes, [value("x", "batch", "rows", 8)], [value("y", "batch", "rows", 8)], constants, 18)
    imported = import_model(saved(tmp_path, made), {"batch": 2, "rows": 6})
    assert "expand" in operators(imported.graph)
    assert rewriting(tmp_path, imported).status == "agrees"
    session = onnxruntime.InferenceSession(tmp_path / "out.onnx")
    for batch, rows in ((2, 6), (1, 9), (3, 1)):
        (y,) = session.run(None, {"x": np.ones((batch, rows, 8), np.float32)})
        assert y.shape == (batch, rows, 8)


def test_an_expansion_of_another_operand_keeps_no_shape_that_the_model_computes(tmp_path: Path) -> None:
    """[1, 64, 1] makes [16, 64, 8] of what is expanded to [16, 1, 8] before, and [1, 64, 8] of what is not."""
    nodes = [
        make_node("Expand", ["row", "first"], ["part"]),
        make_node("Expand", ["part", "second"], ["y"]),
        make_node("Add", ["x", "shift"], ["moved"]),
    ]
    shapes = [
        tensor("first", [16, 1, 1], np.int64),
        tensor("second", [1, 64, 1], np.int64),
        random("shift", 8),
    ]
    inputs, outputs = (
        [value("row", 1, 1, 8), value("x", "batch", 8)],
        [value("y", 16, 64, 8), value("moved", "batch", 8)],
    )
    imported = import_model(saved(tmp_path, model(nodes, inputs, outputs, shapes, 17)), {"batch": 2})
    graph = imported.graph
    (whole,) = (k for k, n in enumerate(graph.nodes) if n.op == "expand" and n.type.shape == (16, 64, 8))
    (row,) = (k for k, n in enumerate(graph.nodes) if n.type.shape == (1, 1, 8))
    at_once = tuple(replace(n, inputs=(row,)) if k == whole else n for k, n in enumerate(graph.nodes))
    assert round_trip(tmp_path, imported, replace(graph, nodes=at_once)).status == "agrees"


def test_a_constant_of_open_size_is_no_weight(tmp_path: Path) -> None:
    """As many zeros as there are elements, plus 5, less the zeros, halved: 2.5 for each, however many there are."""
    nodes = [
        make_node("Shape", ["x"], ["n"]),
        make_node("Expand", ["zero", "n"], ["zeros"]),
        make_node("Add", ["zeros", "five"], ["a"]),
        make_node("Sub", ["a", "zeros"], ["b"]),
        make_node("Div", ["b", "two"], ["c"]),
        make_node("Sub", ["c", "x"], ["d"]),
        make_node("Add", ["zeros", "d"], ["e"]),
        make_node("Mul", ["e", "two"], ["y"]),
    ]
    numbers = [tensor("zero", 0.0), tensor("five", 5.0), tensor("two", 2.0)]
    path = saved(tmp_path, model(nodes, [value("x", "n")], ["y"], numbers, 17))
    done = invoke("run", path, "--no-measure", "-o", tmp_path / "out.onnx")
    assert (done.code, done.err) == (0, "")
    session = onnxruntime.InferenceSession(tmp_path / "out.onnx")
    for n in (1, 2, 9):
        (y,) = session.run(None, {"x": np.arange(n, dtype=np.float32)})
        np.testing.assert_array_equal(y, 5 - 2 * np.arange(n, dtype=np.float32))


def test_a_reshape_is_fixed_if_it_would_be_written_for_another_shape(tmp_path: Path) -> None:
    """The rows of all sequences, [batch 40, 12], as [1, 40, 4, 3]: written by itself, this becomes
    [1, batch 40, 4, 3], although an equal e-node, of the input as [batch, 40, 4, 3], tells what would be right."""
    nodes = [make_node("Reshape", ["x", "rows"], ["a"]), make_node("Relu", ["a"], ["y"])]
    weights = [tensor("rows", [-1, 12], np.int64)]
    imported = read(tmp_path, model(nodes, [value("x", "batch", 40, 12)], ["y"], weights), {"batch": 1})
    graph = imported.graph
    x, a, y = graph.nodes
    parts = (TensorType("f32", (1, 40, 4, 3)),)
    reshape = ("reshape", (("shape", parts[0].shape),))
    keys: list[NodeKey] = [
        (x.op, x.attrs, ()),
        (a.op, a.attrs, (0,)),
        (y.op, y.attrs, (1,)),
        (*reshape, (0,)),
        (y.op, y.attrs, (3,)),
        (*reshape, (2,)),
    ]
    types = (x.types, a.types, y.types, parts, parts)
    egraph = EGraph.of(
        keys, [0, 1, 2, 3, 4, 4], types=types, weights_only=[False] * 5, roots=(2,), source=[0, 1, 2]
    )
    assert imported.fixed_sizes(egraph, graph).tolist() == [False] * 5 + [True]


def test_a_reshape_elsewhere() -> None:
    assert reshaped((1, 5, 6), (1, 9, 6), (5, 6), {}) == (9, 6)
    assert reshaped((5, 6), (9, 6), (1, 5, 2, 3), {}) == (1, 9, 2, 3)
    assert reshaped((1, 5, 6), (4, 5, 6), (5, 6), {}) == (20, 6)
    assert reshaped((2, 5), (2, 7), (10,), {}) == (14,)
    assert reshaped((10,), (7,), (2, 5), {}) is None
    assert reshaped((5, 6), (20, 6), (1, 5, 6), {((5, 6), (1, 5, 6), (20, 6)): (4, 5, 6)}) == (4, 5, 6)
    assert reshaped((32, 64), (16, 64), (2, 16, 64), {}) == (1, 16, 64)
    assert reshaped((32, 64), (16, 64), (2, 16, 64), {}, {(2, 2), (16, 8)}) == (2, 8, 64)


def test_a_reshape_that_takes_elements_from_elsewhere() -> None:
    assert keeps_runs((1, 5, 6), (4, 5, 6), (5, 6), (20, 6))
    assert not keeps_runs((1, 6, 5), (4, 6, 5), (6, 5), (6, 20))
    assert keeps_runs((2, 12), (3, 12), (2, 3, 4), (3, 3, 4))
    assert keeps_runs((1, 6), (1, 8), (6, 1), (8, 1))
    assert not keeps_runs((1, 6), (2, 6), (6, 1), (6, 2))  # it is a transpose
    assert keeps_runs((4, 6), (5, 6), (6, 4), (6, 5))  # as irregular as it was
    assert keeps_runs((0, 6), (0, 6), (6, 0), (6, 0))
    assert not keeps_runs((1, 5, 6), (4, 5, 6), (5, 6), (5, 6))


def test_what_is_asked_of_a_reshape() -> None:
    assert asked_shape((1, 5, 6), (5, 6), [((4, 5, 6), (20, 6)), ((1, 9, 6), (9, 6))]) == [REST, 6]
    assert asked_shape((5, 6), (5, 2, 3), [((20, 6), (20, 2, 3)), ((9, 6), (9, 2, 3))]) == [SAME, 2, 3]
    assert asked_shape((2, 5), (5, 1, 2), [((2, 7), (7, 1, 2))]) == [REST, 1, 2]
    both = [((4, 5), (5, 1, 4)), ((2, 7), (7, 1, 2))]
    assert asked_shape((2, 5), (5, 1, 2), both) == [REST, 1, OfOperand(0)]
    # Rows of a batch, or of a longer time: the batch is the input's, so that the time is what is left.
    pairs = [((20, 6), (4, 5, 6)), ((9, 6), (1, 9, 6))]
    inputs = [[(1, 5), (4, 5), (1, 9)]]
    assert asked_shape((5, 6), (1, 5, 6), pairs, [[(1, 50), (4, 50), (1, 90)]]) == [OfInput(0, 0), REST, 6]
    assert asked_shape((5, 6), (1, 5, 6), pairs, inputs) == [REST, OfInput(0, 1), 6]
    assert asked_shape((5, 6), (1, 5, 6), pairs) is None
    # Halves of two open dimensions are no dimensions of anything.
    halves = [((40, 20), (20, 2, 10, 2)), ((20, 40), (10, 2, 20, 2))]
    assert asked_shape((20, 20), (10, 2, 10, 2), halves) is None
    assert asked_shape((20, 20), (10, 2, 10, 2), halves[:1]) == [REST, 2, 10, 2]


def test_a_size_that_is_the_largest(tmp_path: Path) -> None:
    """Twice as large, shapes are not known: there are as many places. What is written fits smaller sizes."""
    proto = attention()
    places = [
        make_node("Shape", ["x"], ["length"], start=1, end=2),
        make_node("Slice", ["table", "zero", "length", "zero"], ["places"]),
        make_node("Add", ["x", "places"], ["placed"]),
    ]
    for node in proto.graph.node:
        node.input[:] = ["placed" if name == "x" else name for name in node.input]
    nodes = [*places, *proto.graph.node]
    weights = [*proto.graph.initializer, random("table", 8, WIDTH), tensor("zero", [0], np.int64)]
    path = saved(tmp_path, model(nodes, proto.graph.input, proto.graph.output, weights))
    imported = import_model(path, {"batch": 2, "time": 8})
    assert [known.get("placed") for known in imported.elsewhere] == [(4, 8, WIDTH), (2, 4, WIDTH)]
    egraph = priced(imported)
    egraph = egraph.without(imported.fixed_sizes(egraph, imported.graph))
    assert {drawn(imported, egraph, seed, tmp_path) for seed in range(12)} == {"agrees"}


def test_what_a_rule_makes_constant_may_still_have_an_open_size(tmp_path: Path) -> None:
    """Times 0 it is zeros, of as many rows as the input has: no weight has these at all sizes."""
    gemm = make_node("Gemm", ["x", "w", "c"], ["y"], alpha=0.0)
    proto = model(
        [gemm], [value("x", "rows", 4)], [value("y", "rows", 5)], [random("w", 4, 5), random("c", 5)]
    )
    path = tmp_path / "out.onnx"
    done = invoke("run", saved(tmp_path, proto), "--no-measure", "-o", path)
    assert done.code == 0, done.err
    session = onnxruntime.InferenceSession(path)
    for rows in (1, 2, 7):
        (y,) = session.run(None, {"x": np.ones((rows, 4), np.float32)})
        assert y.shape == (rows, 5)
