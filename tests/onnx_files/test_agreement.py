"""The last check: a model that computes something else is not written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnx_ir")

import numpy as np
import onnx
import onnx_ir as ir
from onnx.helper import make_node

from tensat_dl.onnx import agreement
from tensat_dl.onnx.agreement import Incomparable, Reference
from tests.cli.running import invoke

from .models import model, read, saved, tensor, value

pytestmark = pytest.mark.sampled(2)


def scaled(factor: float, shape: tuple[int | str, ...] = (3, 4), op: str = "Mul") -> Any:
    nodes = [make_node(op, ["x", "c"], ["y"])]
    return model(nodes, [value("x", *shape)], [value("y", *shape)], [tensor("c", factor)])


def compared(tmp_path: Path, first: Any, second: Any, **dims: int) -> tuple[str, str]:
    before, after = saved(tmp_path, first, "before.onnx"), saved(tmp_path, second, "after.onnx")
    try:
        found = Reference(ir.load(before), before, dims).check(after)
    except Incomparable as e:
        return "not compared", str(e)
    return found.status, found.message


def test_rounding_is_tolerated_and_no_more(tmp_path: Path) -> None:
    assert compared(tmp_path, scaled(2.0), scaled(2.0 + 1e-6))[0] == "agrees"
    status, message = compared(tmp_path, scaled(2.0), scaled(2.002))
    assert status == "differs"
    assert "output y differs by 1.0e-03" in message


@pytest.mark.parametrize(
    ("unsteady", "status"), [("before.onnx", "agrees"), ("after.onnx", "differs"), ("", "differs")]
)
def test_how_far_the_original_is_moved_counts(
    unsteady: str, status: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By ONNX Runtime's optimizations; what the other model makes of rounding is no excuse for it."""
    session, other = agreement._session, saved(tmp_path, scaled(2.01), "other.onnx")

    def moved(path: str, optimized: bool = True) -> Any:
        return session(other if path.endswith(unsteady or "none") and not optimized else path, optimized)

    monkeypatch.setattr(agreement, "_session", moved)
    assert compared(tmp_path, scaled(2.0), scaled(2.03))[0] == status


def beside_large_numbers(nodes: list[Any], axis: int = 1) -> Any:
    """A model whose output has what ``nodes`` make z of x, and numbers 10,000 times as large."""
    constants = {"large": 1e4, "magic": 1.5 * 2**23, "million": 1e6}
    joined = [make_node("Mul", ["x", "large"], ["far"]), make_node("Concat", ["z", "far"], ["y"], axis=axis)]
    weights = [tensor(name, number) for name, number in constants.items()]
    return model([*nodes, *joined], [value("x", 16, 16)], ["y"], weights)


X_ITSELF = [make_node("Identity", ["x"], ["z"])]


@pytest.mark.parametrize(("cast", "status"), [("x", "agrees"), ("c", "differs")])
def test_the_coarsest_type_on_the_way_counts(cast: str, status: str, tmp_path: Path) -> None:
    """Outputs in f32 of a model that computes in f16; weights that are kept in f16 do not count."""

    def scaled_in_half(factor: float) -> Any:
        float16, float32 = onnx.TensorProto.FLOAT16, onnx.TensorProto.FLOAT
        nodes = [
            make_node("Cast", ["c"], ["factor"], to=float32),
            make_node("Mul", ["x", "factor"], ["y"]),
        ]
        if cast == "x":
            nodes = [
                make_node("Cast", ["x"], ["half"], to=float16),
                make_node("Mul", ["half", "c"], ["product"]),
                make_node("Cast", ["product"], ["y"], to=float32),
            ]
        c = tensor("c", np.full(4, factor), np.float16)
        return model(nodes, [value("x", 3, 4)], [value("y", 3, 4)], [c])

    after = saved(tmp_path, scaled_in_half(2.005), "after.onnx")
    found = Reference.of(read(tmp_path, scaled_in_half(2.0)), 0).check(after)
    assert found.status == status, found.message


@pytest.mark.parametrize("axis", [0, 1])
def test_small_numbers_beside_large_ones_have_to_agree(axis: int, tmp_path: Path) -> None:
    """The first rounds x to a whole number."""
    rounds = [make_node("Add", ["x", "magic"], ["s"]), make_node("Sub", ["s", "magic"], ["z"])]
    first, second = (beside_large_numbers(nodes, axis) for nodes in (rounds, X_ITSELF))
    status, message = compared(tmp_path, first, second)
    assert status == "differs"
    assert f" of axis {axis} by " in message
    assert compared(tmp_path, second, first)[0] == "differs"


def test_small_numbers_may_differ_as_far_as_small_changes_of_inputs_move_them(tmp_path: Path) -> None:
    """The sine of x * 1e6 is as good as random for f32."""
    turns = [make_node("Mul", ["x", "million"], ["s"]), make_node("Sin", ["s"], ["z"])]
    around = [make_node("Add", ["s", "magic"], ["t"]), make_node("Sub", ["t", "magic"], ["u"])]
    other = [turns[0], *around, make_node("Sin", ["u"], ["z"])]
    first, second = (beside_large_numbers(nodes) for nodes in (turns, other))
    assert compared(tmp_path, first, second)[0] == "agrees"


def test_not_a_number_is_equal_to_itself_alone(tmp_path: Path) -> None:
    assert compared(tmp_path, scaled(np.nan), scaled(np.nan))[0] == "agrees"
    assert compared(tmp_path, scaled(1.0), scaled(np.nan))[0] == "differs"
    assert compared(tmp_path, scaled(np.inf), scaled(-np.inf))[0] == "differs"


def test_whole_numbers_are_equal_or_not(tmp_path: Path) -> None:
    def arg(op: str) -> Any:
        return model([make_node(op, ["x"], ["y"], axis=1)], [value("x", 3, 4)], [value("y", 3, 1, dtype=7)])

    assert compared(tmp_path, arg("ArgMax"), arg("ArgMax"))[0] == "agrees"
    assert compared(tmp_path, arg("ArgMax"), arg("ArgMin"))[0] == "differs"


def test_random_outputs_are_not_compared(tmp_path: Path) -> None:
    """The others are."""

    def beside_noise(factor: float, seed: float) -> Any:
        noise = make_node("RandomNormalLike", ["x"], ["r"], seed=seed)
        nodes = [noise, make_node("Mul", ["x", "c"], ["y"])]
        outputs = [value("r", 3, 4), value("y", 3, 4)]
        return model(nodes, [value("x", 3, 4)], outputs, [tensor("c", factor)])

    found = compared(tmp_path, beside_noise(2.0, 1.0), beside_noise(2.0, 2.0))
    assert found == ("not compared", "its output r is another one each time that it runs")
    status, message = compared(tmp_path, beside_noise(2.0, 1.0), beside_noise(2.5, 2.0))
    assert (status, message.split(" by")[0]) == ("differs", "output y differs")


def test_open_dimensions_have_to_work(tmp_path: Path) -> None:
    fixed = make_node("Reshape", ["x", "s"], ["y"])
    second = model([fixed], [value("x", "n", 4)], [value("y", "n", 4)], [tensor("s", [3, 4], np.int64)])
    status, message = compared(tmp_path, scaled(1.0, ("n", 4)), second, n=3)
    assert status == "narrow"
    assert message.startswith("it is right for n = 3 only: with n = 5 the optimized model does not run")


def test_what_the_original_cannot_do_is_not_asked_for(tmp_path: Path) -> None:
    fixed = model(
        [make_node("Reshape", ["x", "s"], ["y"])],
        [value("x", "n", 4)],
        [value("y", "n", 4)],
        [tensor("s", [3, 4], np.int64)],
    )
    assert compared(tmp_path, fixed, fixed, n=3) == ("agrees", "")
    assert compared(tmp_path, fixed, fixed, n=4)[0] == "not compared"


@pytest.mark.parametrize("options", [["--device", "h100"], ["--no-measure"], []])
def test_a_model_that_differs_is_not_written(
    options: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 1, and nothing is written or drawn, measured or not."""

    def wrong(_: Any, __: Any) -> ir.Model:
        return ir.from_proto(scaled(3.0))

    for module in ("write", "exporter"):
        monkeypatch.setattr(f"tensat_dl.onnx.{module}.export", wrong)
    monkeypatch.setattr("tensat_dl.measure.cpu.export", wrong)
    nodes = [make_node("Relu", ["x"], ["r"]), make_node("Relu", ["r"], ["y"])]
    path = saved(tmp_path, model(nodes, [value("x", 3, 4)], [value("y", 3, 4)]))
    done = invoke("run", path, "-o", tmp_path / "out.onnx", "--dot", tmp_path / "out.dot", "-q", *options)
    assert done.code == 1
    what = (
        f"{tmp_path / 'out.onnx'} is not written"
        if options
        else "the optimized model computes something else"
    )
    assert f"error: {what}: output y differs" in done.err
    assert [p.name for p in tmp_path.iterdir()] == ["model.onnx"]


def test_an_invalid_model_is_not_written(tmp_path: Path) -> None:
    broken = scaled(2.0)
    broken.graph.node[0].input[1] = "nobody"
    status, message = compared(tmp_path, scaled(2.0), broken)
    assert (status, "not valid" in message) == ("broken", True)


@pytest.mark.parametrize("measured", [True, False])
def test_a_model_that_does_not_load_is_no_answer(
    measured: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That says nothing about the rules. Where models are timed, the input is the answer."""
    broken = scaled(2.0)
    broken.graph.node[0].input[1] = "nobody"
    for module in ("onnx.write", "measure.cpu"):
        monkeypatch.setattr(f"tensat_dl.{module}.export", lambda *_: ir.from_proto(broken))
    nodes = [make_node("Relu", ["x"], ["r"]), make_node("Relu", ["r"], ["y"])]
    path = saved(tmp_path, model(nodes, [value("x", 3, 4)], [value("y", 3, 4)]))
    out = tmp_path / "out.onnx"
    done = invoke("run", path, "-o", out, *([] if measured else ["--no-measure"]))
    said = " ".join(done.out.split())
    if measured:
        assert (done.code, out.exists()) == (0, True)
        assert "the input is the answer the cheapest candidate: the optimized model is not valid" in said
        assert "left out" not in said
    else:
        assert (done.code, out.exists()) == (1, False)
        assert "out.onnx is not written: the optimized model is not valid" in done.err


def test_inputs_that_are_indices(tmp_path: Path) -> None:
    """Numbers are drawn that the original accepts."""
    table = tensor("t", np.arange(12).reshape(3, 4))
    proto = model(
        [make_node("Gather", ["t", "i"], ["y"])],
        [value("i", 5, dtype=onnx.TensorProto.INT64)],
        [value("y", 5, 4)],
        [table],
    )
    assert compared(tmp_path, proto, proto) == ("agrees", "")


def test_inputs_that_are_sizes_are_small(tmp_path: Path) -> None:
    """As many repetitions as other inputs have indices would fill the memory."""
    nodes = [make_node("Tile", ["x", "n"], ["y"])]
    proto = model(nodes, [value("x", 2, 3, 4, 5), value("n", 4, dtype=7)], [value("y", "a", "b", "c", "d")])
    path = saved(tmp_path, proto)
    feeds = Reference(ir.load(path), path, {}).feeds
    assert feeds["n"].max() < 8
    assert feeds["n"].max() > 0


def test_outputs_have_the_shapes_that_are_declared(tmp_path: Path) -> None:
    """Of the inputs that are drawn the first ones that lead there are taken: with 0 no element is left."""
    nodes = [make_node("Expand", ["x", "n"], ["y"])]
    proto = model(nodes, [value("x", 1, 1, 1), value("n", 3, dtype=7)], [value("y", 1, 1, 1)])
    path = saved(tmp_path, proto)
    assert Reference(ir.load(path), path, {}).feeds["n"].tolist() == [1, 1, 1]
