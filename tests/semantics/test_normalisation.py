from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

pytest.importorskip("onnx")

from .applying import apply
from .oracle import reference

SHAPES = [(5,), (2, 5), (3, 4, 5), (2, 3, 4, 5)]


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4), (2, 3, 4, 5), (1, 1, 2, 2, 2)])
@pytest.mark.parametrize("eps", [1e-5, 0.25])
def test_batchnorm(shape: tuple[int, ...], eps: float) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape)
    scale, bias, mean = rng.standard_normal((3, shape[1]))
    var = rng.uniform(0.5, 2, shape[1])
    expected = reference("BatchNormalization", x, scale, bias, mean, var, opset=15, epsilon=eps)
    result = apply("batchnorm", x, scale, bias, mean, var, eps=eps)
    # ONNX's implementation rounds epsilon to float32
    np.testing.assert_allclose(result, expected, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("eps", [1e-5, 0.25])
def test_layernorm(shape: tuple[int, ...], eps: float) -> None:
    rng = np.random.default_rng(0)
    x, scale, bias = 3 + rng.standard_normal(shape), rng.standard_normal(5), rng.standard_normal(5)
    expected = reference("LayerNormalization", x, scale, bias, epsilon=eps)
    np.testing.assert_allclose(apply("layernorm", x, scale, bias, eps=eps), expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("eps", [1e-5, 0.25])
def test_rmsnorm(shape: tuple[int, ...], eps: float) -> None:
    rng = np.random.default_rng(0)
    x, scale = rng.standard_normal(shape), rng.standard_normal(5)
    result = apply("rmsnorm", x, scale, eps=eps)
    for index in np.ndindex(shape[:-1]):
        row = x[index]
        for j in range(5):
            mean_square = sum(float(v) ** 2 for v in row) / 5
            assert result[index][j] == pytest.approx(
                row[j] / (mean_square + eps) ** 0.5 * scale[j], rel=1e-13
            )


@pytest.mark.parametrize("shape", SHAPES)
def test_softmax_and_reductions(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).standard_normal(shape)
    for axis in range(len(shape)):
        np.testing.assert_allclose(
            apply("softmax", x, axis=axis), reference("Softmax", x, axis=axis), rtol=1e-13
        )
        # opset 13 has the axis of ReduceSum as an operand, and of the others as an attribute
        total = reference("ReduceSum", x, np.array([axis]), opset=13, keepdims=1)
        np.testing.assert_allclose(apply("reduce_sum", x, axis=axis), total, rtol=1e-13)
        mean = reference("ReduceMean", x, opset=13, axes=[axis], keepdims=1)
        np.testing.assert_allclose(apply("reduce_mean", x, axis=axis), mean, rtol=1e-13)
        largest = reference("ReduceMax", x, opset=13, axes=[axis], keepdims=1)
        np.testing.assert_array_equal(apply("reduce_max", x, axis=axis), largest)


def test_softmax_of_large_numbers() -> None:
    with np.errstate(over="raise", invalid="raise"):
        result = apply("softmax", np.array([[1e300, 1e300], [-1e300, 0.0]]), axis=1)
    np.testing.assert_array_equal(result, [[0.5, 0.5], [0, 1]])


def test_exact_reductions() -> None:
    x = np.array([[3, -4, 2], [1, 1, 5]])
    for dtype in (np.int64, object):
        for op, expected in (("reduce_sum", [[1], [7]]), ("reduce_max", [[3], [5]])):
            result = apply(op, x.astype(dtype), axis=1)
            assert result.dtype == dtype
            np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(apply("reduce_mean", x, axis=1), [[0], [2]])
    exact = apply("reduce_mean", x.astype(object), axis=1)
    assert exact.tolist() == [[Fraction(1, 3)], [Fraction(7, 3)]]
