"""Every operator that is read: in all its versions it becomes the expected operators, and comes back as a model that
computes the same in ONNX Runtime."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnx_ir")

import numpy as np
import onnx
import onnxruntime
from onnx.helper import make_node

from tensat_dl.core.graph import Graph, Node, TensorType
from tests.cli.running import invoke

from .cases import CASES, I64, Case, X, ints, scales
from .models import model, operators, random, read, rewriting, rewritten, round_trip, saved, tensor, value

pytestmark = pytest.mark.sampled(8)


@pytest.mark.parametrize(
    ("case", "opset"), [pytest.param(c, v, id=f"{c.name}, {v}") for c in CASES for v in c.opsets]
)
def test_is_read_and_written(case: Case, opset: int, tmp_path: Path) -> None:
    node = make_node(case.op, ["x", *(w.name for w in case.weights)], ["y"], **case.attrs)
    imported = read(tmp_path, model([node], [value("x", *case.x)], ["y"], case.weights, opset))
    assert dict(imported.unmapped) == {}
    assert operators(imported.graph) == case.becomes
    found = rewriting(tmp_path, imported)
    assert (found.status, found.message) == ("agrees", "")


#: name -> (node, inputs, weights, why it is opaque)
OPAQUE: dict[str, tuple[Any, list[Any], list[Any], str]] = {
    "Conv of volumes": (
        make_node("Conv", ["x", "w"], ["y"]),
        [value("x", 1, 3, 8, 8, 8)],
        [random("w", 4, 3, 3, 3, 3)],
        "three dim",
    ),
    "ConvTranspose that overlaps": (
        make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2]),
        [value("x", *X)],
        [random("w", 6, 3, 3, 3)],
        "overlap",
    ),
    "Pad that cuts": (
        make_node("Pad", ["x", "p"], ["y"]),
        [value("x", *X)],
        [ints("p", 0, 0, 1, -1, 0, 0, 0, 0)],
        "negative pads",
    ),
    "Resize cubic": (
        make_node("Resize", ["x", "no", "f"], ["y"], mode="cubic"),
        [value("x", *X)],
        scales(2, 2),
        "cubic",
    ),
    "MaxPool dilated": (
        make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], dilations=[2, 2]),
        [value("x", *X)],
        [],
        "dilated",
    ),
    "Softmax over two": (make_node("Softmax", ["x"], ["y"], axis=1), [value("x", *X)], [], "more than one"),
    "Slice backwards": (
        make_node("Slice", ["x", "s", "e", "a", "t"], ["y"]),
        [value("x", *X)],
        [ints("s", 5), ints("e", 0), ints("a", 1), ints("t", -2)],
        "step",
    ),
    "Powers": (make_node("Pow", ["x", "e"], ["y"]), [value("x", *X)], [random("e", 8)], "one number"),
    "Unknown": (make_node("Sign", ["x"], ["y"]), [value("x", *X)], [], "no such operator"),
    "OneHot of other values": (
        make_node("OneHot", ["i", "n", "v"], ["y"]),
        [value("i", 4, dtype=7)],
        [tensor("n", 6, I64), tensor("v", [-1, 1])],
        "0 and 1",
    ),
    "OneHot in the first dimension": (
        make_node("OneHot", ["i", "n", "v"], ["y"], axis=0),
        [value("i", 4, dtype=7)],
        [tensor("n", 6, I64), tensor("v", [0, 1])],
        "not the last",
    ),
    "Batch by matrix": (
        make_node("MatMul", ["w", "x"], ["y"]),
        [value("x", 2, 3, 4)],
        [random("w", 5, 3)],
        "a leading dimension is stretched",
    ),
}


@pytest.mark.parametrize("case", OPAQUE)
def test_is_opaque(case: str, tmp_path: Path) -> None:
    """What the language can't say passes through, and its reason is kept."""
    node, inputs, weights, reason = OPAQUE[case]
    imported = read(tmp_path, model([node], inputs, ["y"], weights, 12))
    ((op, why),) = imported.unmapped
    assert op == node.op_type
    assert reason in why
    assert operators(imported.graph) == [op]
    assert rewriting(tmp_path, imported).status == "agrees"
    assert round_trip(tmp_path, imported).status == "agrees"


@pytest.mark.parametrize("opset", [11, 13, 18, 22])
def test_several_results(opset: int, tmp_path: Path) -> None:
    """Split, whose sizes became an input, and a second use of a part."""
    sizes = [ints("s", 1, 3, 2)] if opset >= 13 else []
    attrs = {} if sizes else {"split": [1, 3, 2]}
    nodes = [
        make_node("Split", ["x", *(s.name for s in sizes)], ["a", "b", "c"], axis=1, **attrs),
        make_node("Concat", ["c", "a", "c"], ["y"], axis=1),
    ]
    imported = read(tmp_path, model(nodes, [value("x", *X)], ["y", "b"], sizes, opset))
    assert operators(imported.graph) == ["slice", "slice", "slice", "concat"]
    assert rewriting(tmp_path, imported).status == "agrees"


def test_what_does_nothing_is_dropped(tmp_path: Path) -> None:
    """Identity, a cast to the same type, dropout: aliases, one of them an output."""
    nodes = [
        make_node("Identity", ["x"], ["a"]),
        make_node("Cast", ["a"], ["b"], to=1),
        make_node("Dropout", ["b"], ["c"]),
        make_node("Relu", ["c"], ["y"]),
        make_node("Identity", ["y"], ["z"]),
        make_node("Relu", ["x"], ["again"]),
        make_node("Exp", ["again"], ["e"]),
    ]
    imported = read(tmp_path, model(nodes, [value("x", 4)], ["y", "z", "a", "e"]))
    assert operators(imported.graph) == ["relu", "exp"]
    assert imported.aliases == {"a": "x", "b": "x", "c": "x", "z": "y", "again": "y"}
    assert round_trip(tmp_path, imported).status == "agrees"
    assert sorted(n.op_type for n in onnx.load(tmp_path / "out.onnx").graph.node) == [
        "Exp",
        "Identity",
        "Identity",
        "Relu",
    ]


@pytest.mark.parametrize(
    ("op", "weights", "attrs"),
    [
        ("ConvTranspose", (random("w", 6, 3, 2, 2), random("b", 3)), {"strides": [2, 2]}),
        ("InstanceNormalization", (random("s", 6), random("b", 6)), {}),
    ],
)
def test_parameters_may_have_more_dimensions(
    op: str, weights: tuple[Any, ...], attrs: dict[str, Any], tmp_path: Path
) -> None:
    """Rules find other shapes of as many elements for those of compositions; ONNX takes lists alone."""
    node = make_node(op, ["x", *(w.name for w in weights)], ["y"], **attrs)
    imported = read(tmp_path, model([node], [value("x", *X)], ["y"], weights))
    *nodes, last = imported.graph.nodes
    inputs = list(last.inputs)
    for at, i in enumerate(last.inputs):
        if len(shape := imported.graph.nodes[i].type.shape) == 1:
            wide = (*shape, 1, 1)
            inputs[at] = len(nodes)
            nodes.append(Node("reshape", (i,), (("shape", wide),), (TensorType("f32", wide),)))
    graph = Graph("g", (*nodes, replace(last, inputs=tuple(inputs))), (("y", len(nodes)),))
    assert len(nodes) >= len(imported.graph.nodes)
    assert round_trip(tmp_path, rewritten(imported), graph).status == "agrees"


def test_several_axes_are_reduced_at_once(tmp_path: Path) -> None:
    """The language has an operator for each axis."""
    nodes = [
        make_node("ReduceMean", ["x"], ["m"], axes=[1, 3]),
        make_node("ReduceMax", ["m"], ["y"], axes=[2]),
    ]
    imported = read(tmp_path, model(nodes, [value("x", *X)], ["y"]))
    assert operators(imported.graph) == ["reduce_mean", "reduce_mean", "reduce_max"]
    assert rewriting(tmp_path, imported).status == "agrees"
    assert [n.op_type for n in onnx.load(tmp_path / "out.onnx").graph.node] == ["ReduceMean", "ReduceMax"]


def test_casts_comparisons_and_choices(tmp_path: Path) -> None:
    """What has operands of several types."""
    nodes = [
        make_node("Less", ["x", "w"], ["c"]),
        make_node("Where", ["c", "x", "w"], ["a"]),
        make_node("Cast", ["c"], ["d"], to=1),
        make_node("Cast", ["x"], ["i"], to=7),
        make_node("Equal", ["i", "one"], ["e"]),
        make_node("Where", ["e", "d", "a"], ["y"]),
        make_node("Greater", ["y", "x"], ["z"]),
    ]
    weights = [random("w", 8), tensor("one", 0, I64)]
    imported = read(tmp_path, model(nodes, [value("x", 2, 8)], ["y", value("z", 2, 8, dtype=9)], weights))
    assert operators(imported.graph) == ["greater", "select", "cast", "cast", "equal", "select", "greater"]
    assert rewriting(tmp_path, imported).status == "agrees"


@pytest.mark.parametrize("opset", [13, 22])
def test_maxima_of_integers(opset: int, tmp_path: Path) -> None:
    """They are relu in the language, and Relu takes no integers of 64 bits."""
    nodes = [make_node("Max", ["x", "zero"], ["m"]), make_node("Max", ["zero", "m"], ["y"])]
    x, y = value("x", 2, 8, dtype=7), value("y", 2, 8, dtype=7)
    source = saved(tmp_path, model(nodes, [x], [y], [tensor("zero", 0, I64)], opset))
    done = invoke("run", source, "--no-measure", "-q", "-o", tmp_path / "out.onnx")
    assert (done.code, done.err) == (0, "")
    assert [n.op_type for n in onnx.load(tmp_path / "out.onnx").graph.node] == ["Max"]


@pytest.mark.parametrize("opset", [11, 12, 22])
def test_truth_values(opset: int, tmp_path: Path) -> None:
    nodes = [
        make_node("Greater", ["x", "w"], ["g"]),
        make_node("Less", ["x", "v"], ["l"]),
        make_node("And", ["g", "l"], ["a"]),
        make_node("Not", ["a"], ["n"]),
        make_node("Or", ["n", "g"], ["o"]),
        make_node("And", ["o", "l"], ["y"]),
    ]
    becomes = ["greater", "greater", "logical_and", "logical_not", "logical_or", "logical_and"]
    if opset >= 12:
        nodes += [make_node("GreaterOrEqual", ["x", "w"], ["p"]), make_node("LessOrEqual", ["x", "w"], ["q"])]
        becomes += ["greater_equal", "greater_equal"]
    outputs = [value(name, 2, 8, dtype=9) for name in ("y", "p", "q")][: 1 if opset < 12 else 3]
    imported = read(
        tmp_path, model(nodes, [value("x", 2, 8)], outputs, [random("w", 8), random("v", 8)], opset)
    )
    assert operators(imported.graph) == becomes
    assert rewriting(tmp_path, imported).status == "agrees"


def test_constants_are_the_numbers_that_were_meant(tmp_path: Path) -> None:
    """To the left or right, of any rank, known weights come last; the file has the same f32 again."""
    numbers = {"tenth": 0.1, "sixth": 1 / 6, "root": np.sqrt(0.5), "other": 0.7234871, "three": [[3.0]]}
    nodes, last = [], "x"
    for name in numbers:
        nodes.append(make_node("Mul", [name, last], [f"m{name}"]))
        last = f"m{name}"
    nodes.append(make_node("Add", ["w", last], ["y"]))
    weights = [*(tensor(k, v) for k, v in numbers.items()), random("w", 8)]
    imported = read(tmp_path, model(nodes, [value("x", 2, 8)], ["y"], weights))
    found = [n.attr("value") for n in imported.graph.nodes if n.op == "fill"]
    assert found == [0.1, 1 / 6, np.sqrt(0.5), float(np.float32(0.7234871)), 3.0]
    assert operators(imported.graph) == ["smul"] * 5 + ["ewadd"]
    (add,) = (n for n in imported.graph.nodes if n.op == "ewadd")
    assert imported.graph.nodes[add.inputs[1]].op == "weight"
    assert rewriting(tmp_path, imported).max_rel == 0


@pytest.mark.parametrize("dtype", ["float16", "float64", "int32", "int64"])
def test_element_types(dtype: str, tmp_path: Path) -> None:
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    w = tensor("w", [[1, 2], [3, 5], [7, 11]], np.dtype(dtype))
    nodes = [make_node("MatMul", ["x", "w"], ["m"]), make_node("Add", ["m", "one"], ["y"])]
    proto = model(
        nodes,
        [value("x", 4, 3, dtype=kind)],
        [value("y", 4, 2, dtype=kind)],
        [w, tensor("one", 1, np.dtype(dtype))],
    )
    imported = read(tmp_path, proto)
    assert operators(imported.graph) == ["matmul", "ewadd"]
    assert rewriting(tmp_path, imported).status == "agrees"


@pytest.mark.parametrize("opset", [11, 12, 18])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("slope", [None, -2, 3])
def test_what_integers_have_no_activations_for(
    slope: int | None, dtype: str, opset: int, tmp_path: Path
) -> None:
    """Rules make relu and leakyrelu of integers, which ONNX or ONNX Runtime do not have."""
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    numbers = [tensor("zero", 0, np.dtype(dtype)), tensor("slope", slope or 0, np.dtype(dtype))]
    scaled = [make_node("Mul", ["x", "slope"], ["s"])] if slope is not None else []
    otherwise = "s" if scaled else "zero"
    nodes = [
        make_node("Greater", ["x", "zero"], ["c"]),
        *scaled,
        make_node("Where", ["c", "x", otherwise], ["y"]),
    ]
    proto = model(nodes, [value("x", 3, 4, dtype=kind)], [value("y", 3, 4, dtype=kind)], numbers, opset)
    out = tmp_path / "out.onnx"
    done = invoke("run", saved(tmp_path, proto), "-o", out, "--no-measure", "--device", "h100")
    assert (done.code, done.err) == (0, "")
    assert ("leakyrelu 0 -> 1" if scaled else "relu 0 -> 1") in " ".join(done.out.split())
    x = np.random.default_rng(0).integers(-(2**31), 2**31, (3, 4)).astype(dtype)
    (y,) = onnxruntime.InferenceSession(str(out)).run(None, {"x": x})
    np.testing.assert_array_equal(y, np.where(x > 0, x, x * np.array(slope or 0, dtype)))


@pytest.mark.parametrize("op", ["Clip", "Pad"])
def test_an_integer_that_no_float_is(op: str, tmp_path: Path) -> None:
    """2^53 + 1 was written as 2^53."""
    large = 2**53 + 1
    inner = {"Clip": ["c", "zero", "large"], "Pad": ["c", "pads", "large"]}[op]
    numbers = [
        tensor("zero", 0, np.int64),
        tensor("large", large, np.int64),
        tensor("pads", [0, 1], np.int64),
    ]
    nodes = [make_node("Neg", ["x"], ["b"]), make_node("Neg", ["b"], ["c"]), make_node(op, inner, ["y"])]
    proto = model(nodes, [value("x", 3, dtype=7)], [value("y", None, dtype=7)], numbers)
    out = tmp_path / "out.onnx"
    done = invoke("run", saved(tmp_path, proto), "-o", out, "--no-measure", "--device", "h100")
    assert (done.code, done.err) == (0, "")
    (y,) = onnxruntime.InferenceSession(str(out)).run(None, {"x": np.array([-5, 7, large + 2], np.int64)})
    assert y.tolist() == ([0, 7, large] if op == "Clip" else [-5, 7, large + 2, large])


def test_a_range_of_fractions_is_not_computed_ahead_of_time(tmp_path: Path) -> None:
    """ONNX Runtime adds them up in another order than ONNX's reference."""
    numbers = [
        tensor(name, n)
        for name, n in (("start", 0), ("stop", 1), ("fraction", 0.1), ("one", 1), ("large", 2**24))
    ]
    for step, known in (("fraction", False), ("one", True), ("large", False)):
        nodes = [make_node("Range", ["start", "stop", step], ["r"]), make_node("Add", ["x", "r"], ["y"])]
        proto = model(nodes, [value("x", 1)], ["y"], numbers)
        assert ("Range" in str(read(tmp_path, proto).graph.nodes)) == (not known)


def test_hardswish_of_doubles_is_one_of_doubles(tmp_path: Path) -> None:
    """ONNX Runtime rounds its HardSwish's slope to an f32."""
    nodes = [
        make_node("Add", ["x", "three"], ["a"]),
        make_node("Clip", ["a", "zero", "six"], ["b"]),
        make_node("Mul", ["x", "b"], ["c"]),
        make_node("Div", ["c", "six"], ["y"]),
    ]
    numbers = [tensor(name, n, np.float64) for name, n in (("three", 3), ("zero", 0), ("six", 6))]
    proto = model(nodes, [value("x", 3, 4, dtype=11)], [value("y", 3, 4, dtype=11)], numbers, opset=18)
    out = tmp_path / "out.onnx"
    done = invoke("run", saved(tmp_path, proto), "-o", out, "--no-measure", "--device", "h100")
    assert (done.code, done.err) == (0, "")
    assert "hardswish 0 -> 1" in " ".join(done.out.split())
    x = np.random.default_rng(0).normal(size=(3, 4)) * 3
    (y,) = onnxruntime.InferenceSession(str(out)).run(None, {"x": x})
    np.testing.assert_allclose(y, x * np.clip(x + 3, 0, 6) / 6, rtol=1e-14)


SLICES = """
graph slices {
  input x : f32[3, 8]
  input y : f32[3, 2]
  input i : i64[]
  input c : bool[3, 1]
  a = reverse(x; axis = 1)
  b = dynamic_slice(x, i; axis = 1, size = 3)
  d = dynamic_update_slice(x, y, i; axis = 1)
  e = dilate(x; axis = 0, count = 1, value = 2.0)
  f = mod(x, 0.75)
  g = select(c, greater_equal(x, a), not_equal(x, d))
  output a, b, d, e, f, select(g, x, a)
}
"""


@pytest.mark.parametrize("start", [-4, 0, 3, 99])
def test_operators_that_onnx_does_not_have_are_written_as_their_parts(start: int, tmp_path: Path) -> None:
    """Of the places that are computed at run time, the model limits those that are out of range."""
    path = tmp_path / "slices.tsr"
    path.write_text(SLICES, encoding="utf-8")
    assert invoke("run", path, "-o", tmp_path / "slices.onnx", "--device", "h100", "--no-verify").code == 0
    rng = np.random.default_rng(0)
    x, y, c = rng.normal(size=(3, 8)), rng.normal(size=(3, 2)), np.array([[True], [False], [True]])
    given = {"x": x.astype("f4"), "y": y.astype("f4"), "i": np.array(start), "c": c}
    found = onnxruntime.InferenceSession(tmp_path / "slices.onnx").run(None, given)
    first, last = min(max(start, 0), 5), min(max(start, 0), 6)
    updated, stretched = given["x"].copy(), np.full((5, 8), 2.0)
    updated[:, last : last + 2], stretched[::2] = given["y"], given["x"]
    reversed_ = given["x"][:, ::-1]
    chosen = np.where(np.where(c, given["x"] >= reversed_, given["x"] != updated), given["x"], reversed_)
    sliced = given["x"][:, first : first + 3]
    expected = [reversed_, sliced, updated, stretched, np.mod(given["x"], np.float32(0.75)), chosen]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
