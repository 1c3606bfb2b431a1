"""Graphs written as text and read back."""

from __future__ import annotations

import re
from math import inf, nan
from pathlib import Path

import pytest

from tensat_dl.core.diagnostics import Source
from tensat_dl.core.graph import AttrValue, Graph, GraphBuilder, TensorType
from tensat_dl.lang.parser import parse
from tensat_dl.lang.print_graph import graph_to_tsr
from tensat_dl.lang.printer import print_file
from tests.report.results import AFTER, EXAMPLES, canonical, library, read, read_text

pytestmark = pytest.mark.sampled(5)

X = TensorType("f32", (4, 6))


def leaf(builder: GraphBuilder, op: str, name: str, type: TensorType = X) -> int:
    attrs = (("name", name), ("dtype", type.dtype), ("shape", type.shape))
    return builder.add(op, (), attrs, (type,), name)


def fill(builder: GraphBuilder, value: float, type: TensorType) -> int:
    attrs: tuple[tuple[str, AttrValue], ...] = (
        ("value", value),
        ("dtype", type.dtype),
        ("shape", type.shape),
    )
    return builder.add("fill", (), attrs, (type,))


def round_trip(graph: Graph, folder: Path, header: str = "") -> str:
    """The text of a graph, after checking that it reads back as the same graph and is then the same text."""
    text = graph_to_tsr(graph, read_text(header + AFTER, folder)[1], header)
    again, ops = read_text(text, folder)
    assert canonical(again) == canonical(graph)
    assert graph_to_tsr(again, ops, header) == text
    assert print_file(parse(Source("graph.tsr", text))) == text
    return text


def test_numbers_are_written_where_they_take_the_type_that_they_have(tmp_path: Path) -> None:
    """Not that of the truth values which come first."""
    text = "graph g {\n  input c : bool[3]\n  input x : f32[3]\n\n  y = select(c, x, 0.5)\n\n  output y\n}\n"
    graph, _ = read_text(text, tmp_path)
    assert round_trip(graph, tmp_path) == text


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_examples_read_back(path: Path, tmp_path: Path) -> None:
    graph, ops = read(path)
    text = graph_to_tsr(graph, ops, comments=["found by tensat-dl"])
    again, _ = read_text(text, tmp_path)
    assert canonical(again) == canonical(graph)
    assert graph_to_tsr(again, ops, comments=["found by tensat-dl"]) == text
    assert print_file(parse(Source("graph.tsr", text))) == text


def test_reads_like_a_person_wrote_it(tmp_path: Path) -> None:
    graph, _ = read_text(AFTER, tmp_path)
    assert graph_to_tsr(graph, library(), 'import "taso"', ["found by tensat-dl\ncost 1 ms"]) == (
        """import "taso"

// found by tensat-dl
// cost 1 ms

graph shared {
  input x : f32[8, 16]

  weight a : f32[16, 16]
  weight b : f32[16, 8]

  // computed once, ahead of time
  a_b = concat(a, b; axis = 1)

  matmul_1 = x @ a_b
  (first, q) = split(matmul_1; axis = 1, sizes = [16, 8])
  p = tanh(first)

  output p, q
}
"""
    )


def test_several_outputs(tmp_path: Path) -> None:
    """Outputs that nobody reads are bound too."""
    header = """opaque op pick(x: tensor; k: int = 1) -> (values, places, rest) {
  shape values = shape(x)
  shape places = shape(x)
  shape rest = shape(x)
}"""
    builder = GraphBuilder("g")
    x = leaf(builder, "input", "x")
    pick = builder.add("pick", (x,), (("k", 3),), (X, X, X))
    third = builder.add("proj", (pick,), (("index", 2),), (X,))
    first = builder.add("proj", (pick,), (("index", 0),), (X,))
    text = round_trip(builder.finish([("a", third), ("b", first)]), tmp_path, header)
    assert "(b, pick_1_unused_1, a) = pick(x; k = 3)" in text


def test_constants(tmp_path: Path) -> None:
    """Scalars are numbers where they get their type back; all others are weights with a value."""
    builder = GraphBuilder("g")
    half = TensorType("f16", ())
    x = leaf(builder, "input", "x")
    scaled = builder.add("ewmul", (fill(builder, 1e-05, TensorType("f32", ())), x), (), (X,))
    shifted = builder.add("ewadd", (scaled, fill(builder, -2.0, TensorType("f32", ()))), (), (X,))
    biased = builder.add("ewsub", (shifted, fill(builder, 0.1, TensorType("f32", (6,)))), (), (X,))
    pair = builder.add("ewadd", (fill(builder, 3.0, half), fill(builder, 4.0, half)), (), (half,))
    masked = builder.add("ewadd", (biased, fill(builder, -inf, TensorType("f32", ()))), (), (X,))
    seven = fill(builder, 7.0, TensorType("i64", ()))
    graph = builder.finish([("y", masked), ("pair", pair), ("seven", seven)])
    text = round_trip(graph, tmp_path)
    assert "ewmul_1 = 1e-05 * x" in text
    assert "ewmul_1 + -2.0" in text
    assert ": f32[6] = 0.1" in text
    assert "weight seven : i64[] = 7\n" in text
    assert len(re.findall(r"weight \w+ : f16\[\] = ", text)) == 2


@pytest.mark.parametrize("value", [0.1 + 0.2, 5e-324, 3.4028234663852886e38, 1e22, inf, -inf, -1e-7])
def test_floats_are_exact(value: float, tmp_path: Path) -> None:
    builder = GraphBuilder("g")
    x = leaf(builder, "input", "x")
    constant = fill(builder, value, TensorType("f32", (6,)))
    y = builder.add("layernorm", (x, constant, constant), (("eps", value),), (X,))
    round_trip(builder.finish([("y", y)]), tmp_path)


def test_not_a_number(tmp_path: Path) -> None:
    builder = GraphBuilder("g")
    text = graph_to_tsr(builder.finish([("y", fill(builder, nan, X))]), library())
    again, _ = read_text(text, tmp_path)
    value = again.nodes[0].attr("value")
    assert value != value


def test_leaves_with_attributes(tmp_path: Path) -> None:
    builder = GraphBuilder("g")
    eye = builder.add("eye", (), (("n", 6), ("dtype", "f32")), (TensorType("f32", (6, 6)),))
    x = leaf(builder, "input", "x")
    y = builder.add("matmul", (x, eye), (("act", "relu"),), (X,))
    text = round_trip(builder.finish([("y", y)]), tmp_path)
    assert "eye_1 = eye(; n = 6, dtype = f32)" in text
    assert "y = matmul(x, eye_1; act = relu)" in text


def test_default_attributes_are_left_out(tmp_path: Path) -> None:
    text = """graph g {
  input x : f32[1, 4, 8, 8]

  weight w : f32[4, 4, 3, 3]

  conv2d_1 = conv2d(x, w; pads = 1)
  y = conv2d(conv2d_1, w; stride = [2, 1], pads = [0, 1, 0, 1])

  output y
}
"""
    graph, ops = read_text(text, tmp_path)
    assert graph_to_tsr(graph, ops) == text


@pytest.mark.parametrize(
    "name",
    ["relu", "for", "true", "input", "output", "f32", "none", "same", "shape", "é", "9", "", "x__y", "_"],
)
def test_any_name_comes_back(name: str, tmp_path: Path) -> None:
    """Names of inputs and weights mean something to the caller: they survive where they can't be written."""
    builder = GraphBuilder("g")
    x = leaf(builder, "input", name)
    w = leaf(builder, "weight", name + "_w", TensorType("f32", (6, 6)))
    y = builder.add("matmul", (x, w), (("act", "relu"),), (X,), name)
    z = builder.add("softmax", (y,), (("axis", 1),), (X,), "split")
    round_trip(builder.finish([("y", z)]), tmp_path)


@pytest.mark.parametrize("name", ["model/layer.0:w", "a\nb\t", 'say "hi"', "back\\slash\\n"])
def test_any_text_comes_back(name: str, tmp_path: Path) -> None:
    test_any_name_comes_back(name, tmp_path)


def test_names_that_look_alike(tmp_path: Path) -> None:
    builder = GraphBuilder("weird graph!")
    names = ["a.b", "a b", "a_b", "a_b_1", "concat_1"]
    leaves = [leaf(builder, "input", name) for name in names]
    y = builder.add("concat", leaves, (("axis", 0),), (TensorType("f32", (20, 6)),))
    z = builder.add("tanh", (y,), (), y and (TensorType("f32", (20, 6)),), "a.b")
    round_trip(builder.finish([("z", z), ("a_b", leaves[0]), ("again", z)]), tmp_path)


def test_output_names_are_made_writable(tmp_path: Path) -> None:
    builder = GraphBuilder("g")
    x = leaf(builder, "input", "x")
    y = builder.add("relu", (x,), (), (X,))
    text = graph_to_tsr(builder.finish([("out:0", y), ("in", y), ("out 0", y), ("x", x)]), library())
    again, _ = read_text(text, tmp_path)
    assert [name for name, _ in again.outputs] == ["out_0", "in_1", "out_0_1", "x"]


def test_slices_that_overlap_stay_slices(tmp_path: Path) -> None:
    text = """graph g {
  input x : f32[4, 6]

  a = slice(x; axis = 1, start = 0, stop = 4)
  b = slice(x; axis = 1, start = 3, stop = 6)
  (c, d) = split(x; axis = 0, sizes = [1, 3])

  output a, b, d, c
}
"""
    graph, ops = read_text(text, tmp_path)
    assert graph_to_tsr(graph, ops) == text


def test_long_statements_are_broken(tmp_path: Path) -> None:
    builder = GraphBuilder("g")
    x = leaf(builder, "input", "x")
    type = TensorType("f32", (4 * 3000, 6))
    text = round_trip(
        builder.finish([("y", builder.add("concat", [x] * 3000, (("axis", 0),), (type,)))]), tmp_path
    )
    assert max(map(len, text.splitlines())) <= 100
