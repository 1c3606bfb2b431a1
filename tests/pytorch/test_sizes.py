"""Modules that are optimized for several sizes of an open dimension."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import tensat_dl.torch  # noqa: E402
from tensat_dl.torch import FallbackWarning, Optimized  # noqa: E402
from tensat_dl.torch.bound import BoundModel, BySize  # noqa: E402

from .models import QUICK  # noqa: E402

ROWS = torch.export.Dim("rows", min=1, max=1024)


class Product(torch.nn.Module):  # type: ignore[misc]
    """(x y) z, which is x (y z): for few rows the former takes less, for many rows the latter."""

    def forward(self, x: Any, y: Any, z: Any) -> Any:
        return (x @ y) @ z


def inputs(rows: int) -> tuple[Any, ...]:
    return tuple(torch.randn(n, 256) / 16 for n in (rows, 256, 256))


def optimized(**options: Any) -> Optimized:
    shapes = ({0: ROWS}, None, None)
    return tensat_dl.torch.optimize(Product(), inputs(8), dynamic_shapes=shapes, **{**QUICK, **options})


def check(fast: Optimized) -> None:
    """It computes the same at all sizes, by its models."""
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        for rows in (1, 4, 100, 1000, 1024):
            given = inputs(rows)
            torch.testing.assert_close(
                fast._prepared.run(given, {}), fast.module(*given), rtol=1e-4, atol=1e-4
            )


class Single(torch.nn.Module):  # type: ignore[misc]
    """A row alone is something else, and none is."""

    def forward(self, x: Any) -> Any:
        if x.shape[0] == 0:
            return torch.full((1, 4), 7.0)
        y = torch.tanh(x @ x.T)
        return (y * 2).squeeze(0) if x.shape[0] == 1 else y + 1


@pytest.mark.parametrize("rows", [ROWS, torch.export.Dim.AUTO])
def test_a_size_of_one_that_is_something_else_goes_to_the_module(rows: Any) -> None:
    fast = tensat_dl.torch.optimize(Single(), (torch.randn(4, 8),), dynamic_shapes=({0: rows},), **QUICK)
    x = torch.randn(5, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        torch.testing.assert_close(fast(x), fast.module(x), rtol=1e-4, atol=1e-4)
    with pytest.warns(FallbackWarning, match="it was not made for such sizes"):
        torch.testing.assert_close(fast(x[:1]), fast.module(x[:1]))
    fast._said.clear()
    with pytest.warns(FallbackWarning, match="it was not made for such sizes: 0"):
        torch.testing.assert_close(fast(x[:0]), fast.module(x[:0]))


def test_the_model_is_chosen_by_the_size(tmp_path: Any) -> None:
    fast = optimized(sizes={"x": {0: (4, 1024)}}, buckets=True)
    models = fast._prepared.models["optimized"]
    assert len(models) == 2
    first, second = models
    assert first.startswith("1-")
    assert second.endswith("-1024")
    assert "as fast as the best graph for all" in fast.summary()
    if isinstance(fast._prepared.run, BySize):
        border = fast._prepared.run.parts[0][1]
        assert isinstance(border, int)
        chosen = [fast._prepared.run._model(inputs(n)) for n in (1, border, border + 1, 1024)]
        assert chosen[0] is chosen[1] is not chosen[2] is chosen[3]
    if fast.called != "module":
        check(fast)
    if fast.called == "optimized":
        fast.save(tmp_path / "faster.onnx")
        names = {path.name for path in tmp_path.iterdir()}
        assert names == {f"faster.{text}.onnx" for text in models}


def test_one_graph_for_several_sizes() -> None:
    fast = optimized(sizes={"x": {0: (4, 8)}}, buckets=True)
    if "optimized" in fast._prepared.models:
        assert list(fast._prepared.models["optimized"]) == [""]
    assert fast._prepared.run is None or isinstance(fast._prepared.run, BoundModel)
    answer = fast._prepared.answer
    assert answer is not None
    assert list(answer.model["mix"].values()) == [[4, 8]]
    assert list(answer.model["ranges"].values()) == [[1, 1024]], "that of dynamic_shapes"


@pytest.mark.parametrize(
    ("options", "say"),
    [
        ({"sizes": {"w": {0: (1, 2)}}}, "there is no input 'w'; inputs are x, y, z"),
        ({"sizes": {"x": {2: (1, 2)}}}, "input x has no dimension 2"),
        ({"sizes": {"x": {1: (1, 2)}}}, "dimension 1 of x is not open: name it in dynamic_shapes"),
        ({"sizes": {"x": {0: (2, 1)}}}, r"dims\['x.0'\]: the sizes 2,1 do not ascend"),
        ({"sizes": {"x": {0: 4}}}, "sizes of x.0 are several"),
        ({"sizes": {"x": {0: range(1, 5)}}}, "dynamic_shapes has ranges"),
        ({"sizes": {"x": {0: (1, 1025)}}}, "1025 is not in the range of dynamic_shapes"),
        ({"sizes": {"x": 4}}, "sizes of x are 4: expected them by dimension"),
        ({"buckets": True}, "buckets need sizes"),
    ],
)
def test_what_are_no_sizes(options: dict[str, Any], say: str) -> None:
    with pytest.raises((TypeError, ValueError), match=say):
        optimized(**options)


class Sum(torch.nn.Module):  # type: ignore[misc]
    def forward(self, x: Any, others: Any = None, **more: Any) -> Any:
        return x + others["y"]


@pytest.mark.parametrize(
    ("shapes", "say"),
    [
        ({"x": {2: ROWS}, "others": None}, r"dynamic_shapes: input x has no dimension 2: it has 2"),
        ({"x": {-3: ROWS}, "others": None}, r"input x has no dimension -3"),
        ({"x": {"0": ROWS}, "others": None}, r"input x has no dimension '0'"),
        (({2: ROWS}, None), r"input x has no dimension 2"),
        ({"x": None, "others": {"y": {5: ROWS}}}, r"input others\['y'\] has no dimension 5"),
        ({"x": None, "others": {"z": {0: ROWS}}}, r"`inputs\['others'\]` has keys \['y'\], but .* \['z'\]"),
        (
            {"x": None, "z": {0: ROWS}},
            r"the arg names \['x', 'others'\] of `inputs`, but here .* \['x', 'z'\]",
        ),
        ({"x": {0: 5}, "others": None}, r"dimension 0 of x is 5, and 4 in the example"),
        ({"x": None, "others": {"y": None, "n": {0: ROWS}}}, r"input others\['n'\] is 3, which has no"),
        ("x", r"expected them by input, such as \{'x': \{0: rows\}\}"),
    ],
)
def test_what_are_no_dynamic_shapes(shapes: Any, say: str) -> None:
    others = {"y": torch.randn(4, 8)} | ({"n": 3} if "which has no" in say else {})
    with pytest.raises(ValueError, match=say):
        tensat_dl.torch.optimize(Sum(), (torch.randn(4, 8), others), dynamic_shapes=shapes, **QUICK)


def test_sizes_that_onnx_rounds_otherwise() -> None:
    """Quotients of what may be negative, and products with numbers that f32 does not have, go to the module."""

    class Padded(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return torch.tanh(x).sum() + (x.shape[0] - y.shape[0]) // 2

    class Scaled(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.interpolate(x, scale_factor=0.29).sum(-1)

    class Doubled(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.interpolate(x, scale_factor=2.0).sum(-1) + (x.shape[2] - 1) // 2

    auto = torch.export.Dim.AUTO
    for module, shapes, open_dims, reason in (
        (Padded(), [(12, 3), (5, 3)], ({0: auto}, {0: auto}), "a size that may be negative"),
        (Scaled(), [(1, 2, 50)], ({2: auto},), "a size is computed with 0.29"),
        (Doubled(), [(1, 2, 50)], ({2: auto},), ""),
    ):
        example = tuple(torch.randn(*shape) for shape in shapes)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FallbackWarning)
            fast = tensat_dl.torch.optimize(module, example, dynamic_shapes=open_dims, **QUICK)
        assert fast.declined.startswith(reason)
        assert bool(reason) == bool(fast.declined)
