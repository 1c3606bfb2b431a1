from __future__ import annotations

import numpy as np
import pytest

from .applying import apply


@pytest.mark.parametrize("shape", [(), (3,), (2, 1, 4)])
def test_fill(shape: tuple[int, ...]) -> None:
    result = apply("fill", value=2.5, dtype="f16", shape=shape)
    assert result.dtype == np.float64
    assert result.shape == shape
    assert (result == 2.5).all()
    assert apply("fill", value=3.0, dtype="i32", shape=shape).dtype == np.int64
    assert apply("fill", value=1.0, dtype="bool", shape=shape).dtype == np.bool_


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_iota(axis: int) -> None:
    shape = (2, 1, 4)
    result = apply("iota", shape=shape, axis=axis, dtype="i32")
    assert result.dtype == np.int64
    np.testing.assert_array_equal(result, np.indices(shape)[axis])


def test_eye() -> None:
    x = np.random.default_rng(0).standard_normal((4, 4))
    np.testing.assert_array_equal(apply("matmul", x, apply("eye", n=4, dtype="f64")), x)
    np.testing.assert_array_equal(apply("matmul", apply("eye", n=4, dtype="f64"), x), x)


@pytest.mark.parametrize(("channels", "groups"), [(1, 1), (3, 1), (6, 2), (6, 3), (4, 4)])
@pytest.mark.parametrize("kernel", [(1, 1), (3, 3), (3, 5), (2, 2), (4, 3)])
def test_a_convolution_with_conv_identity_copies(channels: int, groups: int, kernel: tuple[int, int]) -> None:
    x = np.random.default_rng(0).standard_normal((2, channels, 5, 6))
    w = apply("conv_identity", channels=channels, groups=groups, kernel=kernel, dtype="f64")
    before = [(k - 1) // 2 for k in kernel]
    pads = (*before, kernel[0] - 1 - before[0], kernel[1] - 1 - before[1])
    np.testing.assert_array_equal(apply("conv2d", x, w, pads=pads), x)


@pytest.mark.parametrize("kernel", [(1, 1), (2, 3), (3, 3)])
@pytest.mark.parametrize("stride", [(1, 1), (2, 3)])
def test_a_convolution_with_conv_average_is_average_pooling(
    kernel: tuple[int, int], stride: tuple[int, int]
) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 7, 8))
    w = apply("conv_average", channels=3, kernel=kernel, dtype="f64")
    pads = (kernel[0] - 1, 0, 0, kernel[1] - 1)
    np.testing.assert_allclose(
        apply("conv2d", x, w, stride=stride, pads=pads),
        apply("poolavg", x, kernel=kernel, stride=stride, pads=pads, include_pad=True),
        atol=1e-14,
    )
