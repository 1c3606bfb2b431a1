"""Models that do something else beyond a size: what holds at the sizes that they are read at is no answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnx_ir")

import numpy as np
import onnx
import onnxruntime
from onnx.helper import make_graph, make_node, make_tensor_value_info

from tensat_dl.onnx.turning import Turning
from tensat_dl.sizes.dim_sizes import DimSizes
from tests.cli.running import invoke

from .models import model, read, saved, tensor, value

#: Nodes between `a` and `b`, and constants.
Middle = tuple[Sequence[Any], Sequence[Any]]


def number(name: str, n: int) -> Any:
    return tensor(name, n, np.int64)


def numbers(name: str, *ns: int) -> Any:
    return tensor(name, list(ns), np.int64)


def branch(compare: Sequence[Any]) -> list[Any]:
    """Minus `a` if `c` holds, else `a`."""
    results = [
        make_graph([make_node(op, ["a"], [name])], name, [], [make_tensor_value_info(name, 1, None)])
        for op, name in (("Neg", "minus"), ("Identity", "same"))
    ]
    then, otherwise = results
    return [*compare, make_node("If", ["c"], ["b"], then_branch=then, else_branch=otherwise)]


def size_of(axis: int, name: str) -> list[Any]:
    return [
        make_node("Shape", ["a"], [f"shape of {name}"]),
        make_node("Gather", [f"shape of {name}", f"axis {axis}"], [name]),
    ]


ZERO, ONE = number("axis 0", 0), number("axis 1", 1)
SIZE: Sequence[Any] = size_of(0, "n")
CUTS = range(10, 50, 10)
MODELS: Mapping[str, Middle] = {
    "slice": ([make_node("Slice", ["a", "from", "to"], ["b"])], [numbers("from", 0), numbers("to", 1000)]),
    "slices, of which the last is far": (
        [
            *(make_node("Slice", ["a", "from", f"to {n}"], [f"part {n}"]) for n in CUTS),
            *(make_node("ReduceSum", [f"part {n}"], [f"sum {n}"], keepdims=1) for n in CUTS),
            make_node("Slice", ["a", "from", "to"], ["c"]),
            make_node("Sum", ["c", *(f"sum {n}" for n in CUTS)], ["b"]),
        ],
        [numbers("from", 0), numbers("to", 1000), *(numbers(f"to {n}", n) for n in CUTS)],
    ),
    "slice up to a minimum": (
        [
            make_node("Shape", ["a"], ["s"], start=0, end=1),
            make_node("Min", ["s", "most"], ["to"]),
            make_node("Slice", ["a", "from", "to"], ["b"]),
        ],
        [numbers("from", 0), numbers("most", 1000)],
    ),
    "quotient": (
        [
            *SIZE,
            make_node("Div", ["n", "by"], ["q"]),
            make_node("Cast", ["q"], ["f"], to=1),
            make_node("Add", ["a", "f"], ["b"]),
        ],
        [ZERO, number("by", 1000)],
    ),
    "branch beyond": (
        branch([*SIZE, make_node("Greater", ["n", "limit"], ["c"])]),
        [ZERO, number("limit", 1000)],
    ),
    "branch at a fraction": (
        branch(
            [
                *SIZE,
                make_node("Cast", ["n"], ["f"], to=1),
                make_node("Mul", ["f", "part"], ["p"]),
                make_node("Greater", ["p", "half"], ["c"]),
            ]
        ),
        [ZERO, tensor("part", 0.001), tensor("half", 0.5)],
    ),
    "branch below": (
        branch([*SIZE, make_node("Greater", ["limit", "n"], ["c"])]),
        [ZERO, number("limit", 2)],
    ),
    "branch at a remainder": (
        branch([*SIZE, make_node("Mod", ["n", "by"], ["m"]), make_node("Equal", ["m", "seven"], ["c"])]),
        [ZERO, number("by", 30), number("seven", 7)],
    ),
    "branch of two sizes": (
        branch([*SIZE, *size_of(1, "m"), make_node("Equal", ["n", "m"], ["c"])]),
        [ZERO, ONE],
    ),
    "branch by order": (
        branch([*SIZE, *size_of(1, "m"), make_node("Greater", ["n", "m"], ["c"])]),
        [ZERO, ONE],
    ),
    "repeated": (
        [
            make_node("Shape", ["a"], ["s"], start=0, end=1),
            make_node("Div", ["s", "by"], ["q"]),
            make_node("Add", ["q", "one"], ["times"]),
            make_node("Concat", ["times", "one"], ["repeats"], axis=0),
            make_node("Tile", ["a", "repeats"], ["b"]),
        ],
        [numbers("by", 1000), numbers("one", 1)],
    ),
    "the greater of a size and a number": (
        [
            *SIZE,
            make_node("Concat", ["n", "limit"], ["sizes"], axis=0),
            make_node("ArgMax", ["sizes"], ["place"], keepdims=0),
            make_node("Cast", ["place"], ["is below"], to=1),
            make_node("Mul", ["a", "is below"], ["b"]),
        ],
        [numbers("axis 0", 0), numbers("limit", 1000)],
    ),
    "looked up by a size": (
        [*SIZE, make_node("Gather", ["table", "n"], ["scale"]), make_node("Mul", ["a", "scale"], ["b"])],
        [ZERO, tensor("table", [1.0] * 900 + [2.0] * 9000)],
    ),
    "a table of one row": (
        [
            *SIZE,
            make_node("Mul", ["n", "axis 0"], ["none"]),
            make_node("Gather", ["table", "none"], ["scale"]),
            make_node("Mul", ["a", "scale"], ["b"]),
        ],
        [ZERO, tensor("table", [[2.0]])],
    ),
    "squeezed": ([make_node("Squeeze", ["a"], ["b"])], []),
    "pool": (
        [
            make_node("Unsqueeze", ["a", "first"], ["wide"]),
            make_node("MaxPool", ["wide"], ["b"], kernel_shape=[2], strides=[2], ceil_mode=1),
        ],
        [numbers("first", 0)],
    ),
    "resized without a region": (
        [
            make_node("Unsqueeze", ["a", "first"], ["wide"]),
            make_node("Shape", ["wide"], ["size"]),
            make_node("MaxPool", ["wide"], ["half"], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
            make_node("Resize", ["half", "nothing", "nothing", "size"], ["large"], mode="linear"),
            make_node("Squeeze", ["large", "first"], ["b"]),
        ],
        [numbers("first", 0, 1), tensor("nothing", [])],
    ),
}
ROWS = (1, 2, 3, 6, 7, 8, 37, 128, 999, 1000, 1001, 1400)


@pytest.mark.parametrize("name", MODELS)
def test_the_answer_is_right_on_both_sides(name: str, tmp_path: Path) -> None:
    middle, constants = MODELS[name]
    nodes = [
        make_node("Relu", ["x"], ["before"]),
        make_node("Relu", ["before"], ["a"]),
        *middle,
        make_node("Relu", ["b"], ["after"]),
        make_node("Relu", ["after"], ["y"]),
    ]
    path = saved(tmp_path, model(nodes, [value("x", "rows", "columns")], ["y"], constants))
    out = tmp_path / "out.onnx"
    done = invoke("run", path, "-o", out, "--no-measure", "--no-verify")
    assert (done.code, done.err) == (0, "")
    before, after = (onnxruntime.InferenceSession(str(p)) for p in (path, out))
    for n in ROWS:
        for m in (1, 2, 6, n):
            x = np.random.default_rng(n).standard_normal((n, m), np.float32)
            try:
                (expected,) = before.run(None, {"x": x})
            except onnxruntime.capi.onnxruntime_pybind11_state.Fail:  # windows of 2 do not fit into 1
                continue
            (found,) = after.run(None, {"x": x})
            np.testing.assert_array_equal(found, expected, err_msg=f"{n} x {m}")


def turning(nodes: Sequence[Any], constants: Sequence[Any], tmp_path: Path) -> Sequence[Mapping[str, int]]:
    proto = model([make_node("Relu", ["x"], ["a"]), *nodes], [value("x", "rows", 4)], ["b"], constants)
    return read(tmp_path, proto, {"rows": "100"}).turning


def test_a_model_is_looked_at_where_it_may_turn(tmp_path: Path) -> None:
    def rows(name: str) -> list[int]:
        return [sizes["rows"] for sizes in turning(*MODELS[name], tmp_path)]

    assert rows("slice") == [128_000, 3, 1001, 1000]
    assert rows("branch below") == [12_800, 3, 2, 1]
    assert rows("branch at a remainder")[:7] == [12_800, 3, 7, 6, 120, 121, 31]
    assert {*range(101, 128)} <= {*rows("branch at a remainder")}
    assert turning([make_node("Neg", ["a"], ["b"])], [], tmp_path) == []
    # What is compared is the same at all sizes.
    columns = [*size_of(1, "m"), make_node("Greater", ["m", "limit"], ["c"])]
    assert turning(branch(columns), [ONE, number("limit", 1000)], tmp_path) == []


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (DimSizes(), [{"n": 128_000}, {"n": 3}, {"n": 1001}, {"n": 1000}]),
        (DimSizes(low=2, high=900), [{"n": 3}]),
    ],
)
def test_sizes_lie_in_the_range(said: DimSizes, expected: list[dict[str, int]]) -> None:
    assert Turning((1000,), at_all=True).sizes({"n": 100}, {"n": said}) == expected


def test_all_are_as_small_and_as_large_as_they_may_be_at_once() -> None:
    """Their product is compared, perhaps."""
    said = {"n": DimSizes(low=2, high=100), "m": DimSizes()}
    found = Turning((500,), at_all=True).sizes({"n": 16, "m": 4}, said)
    assert found[-2:] == [{"n": 2, "m": 1}, {"n": 100, "m": 64_000}]


def test_all_sizes_of_a_short_range_have_other_rests() -> None:
    found = Turning((), (13,), at_all=True, rests=True).sizes({"n": 16}, {"n": DimSizes(low=4, high=30)})
    assert sorted(sizes["n"] for sizes in found) == [n for n in range(4, 31) if n != 16]


def test_sizes_that_are_compared_are_equal_and_in_the_other_order() -> None:
    found = Turning(several=True).sizes({"n": 2, "m": 128}, {"n": DimSizes(), "m": DimSizes()})
    assert found == [{"n": 2, "m": 2}, {"n": 128, "m": 128}, {"m": 2, "n": 128}]


def test_reshapes_to_a_size_that_is_rounded_up(tmp_path: Path) -> None:
    """At 256 rows as at 128 it is that of the input, which a reshape that is written anew may take it for."""
    nodes = [
        *(make_node("Shape", ["x"], ["sizes"]), make_node("Gather", ["sizes", "first"], ["rows"])),
        *(make_node("Neg", ["rows"], ["less"]), make_node("Mod", ["less", "four"], ["more"])),
        *(
            make_node("Concat", ["zeros", "more", "zero"], ["pads"], axis=0),
            make_node("Pad", ["x", "pads"], ["p"]),
        ),
        make_node("Reshape", ["p", "windows"], ["w"]),
        *(make_node("Neg", ["w"], ["n"]), make_node("Neg", ["n"], ["m"])),
        make_node("Transpose", ["m"], ["t"], perm=[0, 2, 1]),
        *(
            make_node("Add", ["rows", "more"], ["all"]),
            make_node("Concat", ["all", "four"], ["shape"], axis=0),
        ),
        make_node("Reshape", ["t", "shape"], ["y"]),
    ]
    known = {"first": [0], "four": [4], "zeros": [0, 0], "zero": [0], "windows": [-1, 4, 4]}
    weights = [tensor(name, numbers, np.int64) for name, numbers in known.items()]
    proto = model(nodes, [value("x", "n", 4)], [value("y", None, 4)], weights)
    path, out = saved(tmp_path, proto), tmp_path / "faster.onnx"
    done = invoke("run", path, "-o", out, "--no-measure")
    assert (done.code, done.err) == (0, "")
    assert [n.op_type for n in onnx.load(out).graph.node].count("Neg") == 1


def test_an_axis_that_a_table_does_not_have(tmp_path: Path) -> None:
    """Neither ONNX's checker nor ONNX Runtime sees that before the model runs."""
    look_up = make_node("GatherElements", ["table", "n"], ["scale"], axis=1)
    nodes = [
        make_node("Shape", ["x"], ["n"], start=0, end=1),
        look_up,
        make_node("Mul", ["x", "scale"], ["y"]),
    ]
    proto = model(
        nodes, [value("x", "rows", 4)], [value("y", "rows", 4)], [tensor("table", [1.0] * 9 + [2.0])]
    )
    assert "GatherElements" in read(tmp_path, proto).summary()
