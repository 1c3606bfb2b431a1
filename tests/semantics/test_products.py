from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from tensat_dl.ops.semantics import images

from .applying import apply
from .oracle import reference, runtime

ONNX_ACT = {"relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh", "gelu": "Gelu"}


def whole(rng: np.random.Generator, *shape: int) -> np.ndarray[Any, Any]:
    """Small whole numbers as float64: sums of their products are exact in float32 too."""
    return rng.integers(-4, 5, shape).astype(np.float64)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((2, 3), (3, 4)),
        ((1, 1), (1, 1)),
        ((5, 2, 3), (5, 3, 1)),
        ((2, 3, 4, 5), (2, 3, 5, 6)),
        ((1, 7), (7, 2)),
    ],
)
def test_matmul(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    x, y, bias = rng.standard_normal(a), rng.standard_normal(b), rng.standard_normal(b[-1])
    product = reference("MatMul", x, y)
    np.testing.assert_allclose(apply("matmul", x, y), product, rtol=1e-13)
    np.testing.assert_allclose(apply("matmul", x, y, bias), reference("Add", product, bias), rtol=1e-13)


@pytest.mark.parametrize("act", ONNX_ACT)
def test_activations_come_after_the_bias(act: str) -> None:
    rng = np.random.default_rng(1)
    # ONNX's implementation goes through float32 for erf
    tolerance = {"rtol": 1e-6, "atol": 1e-7} if act == "gelu" else {"rtol": 1e-12, "atol": 1e-14}
    x, y, bias = rng.standard_normal((4, 6)), rng.standard_normal((6, 5)), rng.standard_normal(5)
    expected = reference(ONNX_ACT[act], reference("Add", reference("MatMul", x, y), bias))
    np.testing.assert_allclose(apply("matmul", x, y, bias, act=act), expected, **tolerance)

    image, w, bias = (
        rng.standard_normal((2, 4, 5, 5)),
        rng.standard_normal((6, 2, 3, 3)),
        rng.standard_normal(6),
    )
    before = reference("Conv", image, w, bias, group=2)
    expected = reference(ONNX_ACT[act], before)
    np.testing.assert_allclose(apply("conv2d", image, w, bias, act=act), expected, **tolerance)


@st.composite
def convolutions(draw: st.DrawFn) -> dict[str, Any]:
    groups = draw(st.integers(1, 4))
    kernel = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    dilation = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    pads = draw(st.tuples(*[st.integers(0, 3)] * 4))
    span = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    return {
        "x": (
            draw(st.integers(1, 2)),
            groups * draw(st.integers(1, 3)),
            max(1, span[0] - pads[0] - pads[2]) + draw(st.integers(0, 5)),
            max(1, span[1] - pads[1] - pads[3]) + draw(st.integers(0, 5)),
        ),
        "groups": groups,
        "outputs": groups * draw(st.integers(1, 3)),
        "kernel": kernel,
        "attrs": {
            "stride": draw(st.tuples(st.integers(1, 3), st.integers(1, 3))),
            "pads": pads,
            "dilation": dilation,
        },
        "bias": draw(st.booleans()),
        "seed": draw(st.integers(0, 1000)),
    }


@settings(max_examples=300, deadline=None, derandomize=True)
@given(convolutions())
def test_conv2d(case: dict[str, Any]) -> None:
    rng = np.random.default_rng(case["seed"])
    groups, attrs = case["groups"], case["attrs"]
    operands = [whole(rng, *case["x"]), whole(rng, case["outputs"], case["x"][1] // groups, *case["kernel"])]
    if case["bias"]:
        operands.append(whole(rng, case["outputs"]))
    expected = runtime(
        "Conv",
        *operands,
        group=groups,
        strides=attrs["stride"],
        pads=attrs["pads"],
        dilations=attrs["dilation"],
    )
    np.testing.assert_array_equal(apply("conv2d", *operands, **attrs), expected)
    for exact in (np.int64, object):
        result = apply("conv2d", *(a.astype(np.int64).astype(exact) for a in operands), **attrs)
        assert result.dtype == exact
        np.testing.assert_array_equal(result, expected)


def test_conv2d_in_blocks_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    x, w = whole(rng, 2, 4, 9, 8), whole(rng, 6, 2, 3, 2)
    for size in (1, 1000, 4000):
        monkeypatch.setattr(images, "BLOCK_BYTES", size)
        expected = runtime("Conv", x, w, group=2, strides=(2, 1), pads=(1, 0, 2, 1))
        np.testing.assert_array_equal(apply("conv2d", x, w, stride=(2, 1), pads=(1, 0, 2, 1)), expected)


def test_exact_matmul() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.integers(-9, 9, (2, 3, 4)), rng.integers(-9, 9, (2, 4, 5))
    expected = reference("MatMul", x.astype(float), y.astype(float))
    assert apply("matmul", x, y).dtype == np.int64
    np.testing.assert_array_equal(apply("matmul", x, y), expected)
    huge = apply("matmul", x.astype(object) * 10**20, y.astype(object), act="relu")
    np.testing.assert_array_equal(huge, np.maximum(expected.astype(np.int64).astype(object), 0) * 10**20)
