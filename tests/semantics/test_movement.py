from __future__ import annotations

from itertools import permutations, product
from math import prod
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")

from .applying import apply
from .oracle import reference

SHAPES = [(4,), (3, 4), (2, 3, 4), (2, 3, 1, 4)]


def numbered(*shape: int) -> np.ndarray[Any, Any]:
    """Every element another number, so that no misplaced element goes unseen."""
    return np.arange(prod(shape), dtype=np.float64).reshape(shape)


@pytest.mark.parametrize("shape", SHAPES)
def test_transpose(shape: tuple[int, ...]) -> None:
    x = numbered(*shape)
    for perm in permutations(range(len(shape))):
        np.testing.assert_array_equal(apply("transpose", x, perm=perm), reference("Transpose", x, perm=perm))


@pytest.mark.parametrize("shape", [(24,), (4, 6), (2, 3, 4), (1, 24, 1)])
def test_reshape_reads_in_row_major_order_even_a_transposed_view(shape: tuple[int, ...]) -> None:
    for x in (numbered(6, 4), numbered(4, 6).T):
        expected = reference("Reshape", np.ascontiguousarray(x), np.array(shape, np.int64))
        np.testing.assert_array_equal(apply("reshape", x, shape=shape), expected)


def test_reshape_of_a_scalar() -> None:
    assert apply("reshape", np.array(3.0), shape=(1, 1)).tolist() == [[3.0]]
    assert apply("reshape", np.array([[3.0]]), shape=()).tolist() == 3.0


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("count", [1, 2, 5])
def test_concat(shape: tuple[int, ...], count: int) -> None:
    for axis in range(len(shape)):
        parts = [
            100.0 * i + numbered(*(i + 1 if k == axis else d for k, d in enumerate(shape)))
            for i in range(count)
        ]
        np.testing.assert_array_equal(
            apply("concat", *parts, axis=axis), reference("Concat", *parts, axis=axis)
        )


@pytest.mark.parametrize("shape", SHAPES)
def test_slice(shape: tuple[int, ...]) -> None:
    x = numbered(*shape)
    for axis, size in enumerate(shape):
        for start, stop in product(range(size), range(1, size + 1)):
            if start < stop:
                bounds = (np.array([v], np.int64) for v in (start, stop, axis))
                expected = reference("Slice", x, *bounds)
                np.testing.assert_array_equal(apply("slice", x, axis=axis, start=start, stop=stop), expected)


def test_dropout_is_the_identity() -> None:
    x = numbered(2, 3)
    np.testing.assert_array_equal(apply("dropout", x, p=0.9), reference("Dropout", x, opset=13))


@pytest.mark.parametrize("dtype", [np.int64, np.bool_, object, np.float32])
def test_movement_keeps_the_element_type(dtype: type) -> None:
    x = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype)
    kernel = x.reshape(1, 1, 2, 3)
    for result in (
        apply("transpose", x, perm=(1, 0)),
        apply("reshape", x, shape=(6,)),
        apply("concat", x, x, axis=0),
        apply("slice", x, axis=1, start=1, stop=3),
        apply("enlarge", kernel, kernel=(3, 5)),
        apply("merge", np.concatenate([kernel, kernel]), groups=2, count=2),
    ):
        assert result.dtype == dtype


@pytest.mark.parametrize("size", [(1, 1), (2, 3), (3, 2), (3, 3)])
@pytest.mark.parametrize("more", [(0, 0), (1, 0), (1, 2), (2, 2), (3, 4)])
def test_enlarge(size: tuple[int, int], more: tuple[int, int]) -> None:
    w = 1 + numbered(2, 3, *size)
    kernel = (size[0] + more[0], size[1] + more[1])
    result = apply("enlarge", w, kernel=kernel)
    for o, i, y, x in np.ndindex(result.shape):
        inside_y, inside_x = y - more[0] // 2, x - more[1] // 2
        inside = 0 <= inside_y < size[0] and 0 <= inside_x < size[1]
        assert result[o, i, y, x] == (w[o, i, inside_y, inside_x] if inside else 0)


@pytest.mark.parametrize("size", [(1, 1), (2, 3), (3, 3)])
@pytest.mark.parametrize("more", [(1, 0), (1, 2), (2, 2), (3, 4)])
@pytest.mark.parametrize("stride", [(1, 1), (2, 1), (2, 3)])
def test_a_convolution_with_an_enlarged_kernel_is_the_same_with_wider_pads(
    size: tuple[int, int], more: tuple[int, int], stride: tuple[int, int]
) -> None:
    rng = np.random.default_rng(0)
    x, w = rng.integers(-9, 9, (2, 4, 9, 8)), rng.integers(-9, 9, (6, 2, *size))
    pads = (1, 0, 0, 2)
    before = (more[0] // 2, more[1] // 2)
    wider = (
        pads[0] + before[0],
        pads[1] + before[1],
        pads[2] + more[0] - before[0],
        pads[3] + more[1] - before[1],
    )
    enlarged = apply("enlarge", w, kernel=(size[0] + more[0], size[1] + more[1]))
    np.testing.assert_array_equal(
        apply("conv2d", x, enlarged, stride=stride, pads=wider),
        apply("conv2d", x, w, stride=stride, pads=pads),
    )


@pytest.mark.parametrize(
    ("groups", "count", "inputs", "outputs"),
    [(2, 2, 1, 1), (4, 2, 3, 2), (6, 3, 2, 1), (6, 2, 1, 3), (4, 4, 2, 2), (3, 1, 2, 2), (8, 4, 1, 1)],
)
def test_a_merged_weight_gives_the_grouped_convolution(
    groups: int, count: int, inputs: int, outputs: int
) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(-9, 9, (2, groups * inputs, 6, 5))
    w = rng.integers(1, 9, (groups * outputs, inputs, 3, 2))
    merged = apply("merge", w, groups=groups, count=count)
    np.testing.assert_array_equal(apply("conv2d", x, merged), apply("conv2d", x, w))
    # nothing but zeros was added
    assert merged.sum() == w.sum()
