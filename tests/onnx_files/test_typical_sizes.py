"""Open dimensions whose sizes nobody gives get typical ones, with which the model runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnx_ir")

import onnx
from onnx.helper import make_node

from tensat_dl.onnx import agreement, typical_sizes
from tensat_dl.onnx.agreement import FURTHER, Incomparable, Reference, further
from tensat_dl.onnx.session import OutOfMemory, Session
from tests.cli.running import invoke

from .models import model, random, read, saved, tensor, value
from .refusing import refused


def plain(*shape: int | str | None) -> Any:
    return model([make_node("Relu", ["x"], ["y"])], [value("x", *shape)], [value("y", *shape)])


def product(shape: tuple[int | str, ...], rows: int) -> Any:
    """A product of x, as so many rows, and a weight of 64 rows."""
    nodes = [make_node("Reshape", ["x", "s"], ["r"]), make_node("MatMul", ["r", "w"], ["y"])]
    weights = [tensor("s", [rows, -1, 64], np.int64), random("w", 64, 8)]
    return model(nodes, [value("x", *shape)], ["y"], weights)


@pytest.mark.parametrize(
    ("shape", "sizes"),
    [
        (("batch", 4), [2]),
        (("batch_size", "sequence_length"), [2, 128]),
        (("N", 3, "height", "width"), [2, 224, 224]),
        (("unk__1", "unk__2", "unk__3", "unk__4"), [2, 3, 224, 224]),
        ((None, None), [2, 128]),
        ((2, "seqLen"), [128]),
        ((2, "past_length", "past_length + 1", 4), [128, 129]),
        ((2, "past_length", "past_length + new"), [128, 128]),
    ],
)
def test_names_and_places_tell_the_size(
    shape: tuple[int | str | None, ...], sizes: list[int], tmp_path: Path
) -> None:
    imported = read(tmp_path, plain(*shape))
    assert list(imported.dims.values())[: len(sizes)] == sizes
    assert list(imported.typical) == list(imported.dims)


@pytest.mark.parametrize(
    ("shape", "rows", "sizes"),
    [
        (("batch", 64), 1, [2]),
        (("batch", 64), 4, [4]),  # two rows can't be cut in four
        (("batch", "features"), 1, [2, 128]),
        (("batch", "t", 10), 1, [2, 128]),
        (("batch", "t", 7), 1, [2, 128]),
        ((5, "t", 3), 3, [128]),
    ],
)
def test_the_model_runs_at_them(
    shape: tuple[int | str, ...], rows: int, sizes: list[int], tmp_path: Path
) -> None:
    imported = read(tmp_path, product(shape, rows))
    assert list(imported.dims.values()) == sizes
    Reference.of(imported, 0)


def test_many_dimensions_get_sizes_that_fit_in_memory(tmp_path: Path) -> None:
    imported = read(tmp_path, plain("batch", "t1", "t2", "t3", "t4"))
    assert np.prod(list(imported.dims.values())) <= typical_sizes.MOST_ELEMENTS


def test_no_choice_that_is_tried_takes_all_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    def noted(inputs: Any, sizes: dict[str, int], seed: int) -> Any:
        tried.append(sizes["batch"] * 3 * sizes["height"] * sizes["width"])
        return iter(())

    monkeypatch.setattr(typical_sizes, "drawn", noted)
    proto = plain("batch", 3, "height", "width")
    assert list(read(tmp_path, proto).dims.values()) == [2, 224, 224]
    assert len(tried) > 20
    assert max(tried) <= typical_sizes.MOST_ELEMENTS


def attention(shape: tuple[int | str, ...], rows: int = 8) -> Any:
    """The product of each position of x, of so many channels, with each other."""
    nodes = [
        make_node("Reshape", ["x", "s"], ["r"]),
        make_node("Transpose", ["r"], ["t"], perm=[0, 2, 1]),
        make_node("MatMul", ["t", "r"], ["scores"]),
        make_node("ReduceMax", ["scores"], ["y"], axes=[-1], keepdims=0),
    ]
    return model(nodes, [value("x", *shape)], ["y"], [tensor("s", [0, rows, -1], np.int64)])


def test_values_inside_fit_in_memory(tmp_path: Path) -> None:
    """Each pixel with each other would be 2 x 50176 x 50176 at the usual sizes; the image stays a square."""
    assert dict(read(tmp_path, attention(("batch", 8, "height", "width"))).dims) == {
        "batch": 2,
        "height": 64,
        "width": 64,
    }
    long = read(tmp_path, attention(("batch", 8, "tokens", 512)))
    assert dict(long.dims) == {"batch": 2, "tokens": 16}


def test_no_sizes_fit_in_memory(tmp_path: Path) -> None:
    path = saved(tmp_path, attention(("batch", 8, 256, 256)))
    refused(
        path,
        say="the model is too large at typical sizes: with batch = 2 scores has the shape [2, 65536, 65536]",
        hint="--dim batch=1",
    )


def test_other_sizes_that_models_are_compared_at_fit_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice as many rows and columns take 16 times the memory."""
    sizes = {"batch": 1, "height": 16, "width": 16}
    imported = read(tmp_path, attention(("batch", 8, "height", "width")), sizes)
    elsewhere = Reference.of(imported, 0).feeds_elsewhere
    assert elsewhere is not None
    assert elsewhere[0] == "batch = 2, height = 32, width = 17"
    monkeypatch.setattr(agreement, "MOST_OF_VALUE", 300_000)  # four times as many as there are
    elsewhere = Reference.of(imported, 0).feeds_elsewhere
    assert elsewhere is not None
    assert elsewhere[0] == "width = 32"


def test_what_runs_out_of_memory_is_not_tried_larger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[tuple[int, ...]] = []

    def outputs(session: Session, feeds: dict[str, Any]) -> list[Any]:
        tried.append(feeds["x"].shape)
        if feeds["x"].size > limit:
            raise OutOfMemory("Failed to allocate memory")
        return []

    monkeypatch.setattr(Session, "outputs", outputs)
    proto = plain("batch", 3, "height", "width")
    limit = 30_000
    assert list(read(tmp_path, proto).dims.values()) == [2, 64, 64]
    assert tried == [(2, 3, 224, 224), (2, 3, 64, 64)]
    limit = 0
    refused(saved(tmp_path, proto), say="with batch = 2, height = 224, width = 224 it does not fit in memory")


def test_given_sizes_stay(tmp_path: Path) -> None:
    imported = read(tmp_path, plain("batch", "time", 4), {"time": 7})
    assert dict(imported.dims) == {"batch": 2, "time": 7}
    assert list(imported.typical) == ["batch"]
    assert imported.sizes() == "batch = 2, time = 7 (typical: batch; --dim gives others)"
    assert read(tmp_path, plain("batch", 4), {"batch": 5}).sizes() == "batch = 5"
    assert read(tmp_path, plain(3, 4)).sizes() == ""


def test_no_sizes_let_it_run(tmp_path: Path) -> None:
    """Then they are the usual ones."""
    fixed = product(("batch", 63), 64)
    assert dict(read(tmp_path, fixed).dims) == {"batch": 2}
    with pytest.raises(Incomparable):
        Reference.of(read(tmp_path, fixed), 0)


def test_a_run_says_which(tmp_path: Path) -> None:
    nodes = [make_node("Relu", ["x"], ["r"]), make_node("Relu", ["r"], ["y"])]
    path = saved(tmp_path, model(nodes, [value("x", "batch", 4)], [value("y", "batch", 4)]))
    out = tmp_path / "out.onnx"
    done = invoke("run", path, "-o", str(out), "--no-measure")
    assert done.code == 0
    assert "batch = 2 (typical sizes; --dim gives others)" in done.out
    assert dict(read(tmp_path, plain("batch", 4)).dims) == {"batch": 2}
    assert onnx.load(out).graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch", "it stays open"


@pytest.mark.parametrize(
    ("size", "others"), [(1, [2, 3, 5]), (2, [3, 1, 4, 6, 7]), (128, [131, 1, 256, 129, 384, 389])]
)
def test_models_are_compared_at_other_sizes(size: int, others: list[int]) -> None:
    assert list(further(size)) == others
    assert len(others) >= FURTHER


def test_a_batch_of_one_and_a_longer_sequence_are_timed(tmp_path: Path) -> None:
    found = Reference.of(read(tmp_path, plain("batch", "time", 4)), 0).feeds_elsewhere
    assert found is not None
    assert found[0] == "batch = 1, time = 256"
    assert found[1]["x"].shape == (1, 256, 4)
    assert Reference.of(read(tmp_path, plain(3, 4)), 0).feeds_elsewhere is None


def test_not_all_of_many_dimensions_are_larger(tmp_path: Path) -> None:
    """The others have a prime near their own size."""
    sizes = {"batch": "1", "height": "32", "width": "32"}
    found = Reference.of(read(tmp_path, plain("batch", "height", "width"), sizes), 0).feeds_elsewhere
    assert found is not None
    assert found[0] == "batch = 2, height = 64, width = 37"
