from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from .applying import apply
from .oracle import runtime


@st.composite
def pools(draw: st.DrawFn) -> dict[str, Any]:
    kernel = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    pads = tuple(draw(st.integers(0, kernel[i % 2] - 1)) for i in range(4))
    return {
        "x": (
            draw(st.integers(1, 2)),
            draw(st.integers(1, 3)),
            max(1, kernel[0] - pads[0] - pads[2]) + draw(st.integers(0, 5)),
            max(1, kernel[1] - pads[1] - pads[3]) + draw(st.integers(0, 5)),
        ),
        "attrs": {
            "kernel": kernel,
            "stride": draw(st.tuples(st.integers(1, 3), st.integers(1, 3))),
            "pads": pads,
        },
        "seed": draw(st.integers(0, 1000)),
    }


def _onnx_attrs(attrs: dict[str, Any]) -> dict[str, Any]:
    return {"kernel_shape": attrs["kernel"], "strides": attrs["stride"], "pads": attrs["pads"]}


@settings(max_examples=200, deadline=None, derandomize=True)
@given(pools())
def test_poolmax(case: dict[str, Any]) -> None:
    # below zero, so that padding with zeros would show
    x = np.random.default_rng(case["seed"]).integers(-20, -5, case["x"])
    expected = runtime("MaxPool", x, **_onnx_attrs(case["attrs"]))
    for dtype in (np.float64, np.int64, object):
        result = apply("poolmax", x.astype(dtype), **case["attrs"])
        assert result.dtype == dtype
        np.testing.assert_array_equal(result, expected)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(pools(), st.booleans())
def test_poolavg(case: dict[str, Any], include_pad: bool) -> None:
    x = np.random.default_rng(case["seed"]).integers(-9, 9, case["x"])
    expected = runtime("AveragePool", x, count_include_pad=int(include_pad), **_onnx_attrs(case["attrs"]))
    result = apply("poolavg", x.astype(np.float64), **case["attrs"], include_pad=include_pad)
    np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-6)
    exact = apply("poolavg", x.astype(object), **case["attrs"], include_pad=include_pad)
    assert all(isinstance(v, Fraction) for v in exact.flat)
    np.testing.assert_allclose(exact.astype(float), result, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("op", ["poolmax", "poolavg"])
@pytest.mark.parametrize("act", ["relu", "sigmoid", "tanh"])
def test_activation(op: str, act: str) -> None:
    x = np.random.default_rng(0).standard_normal((1, 2, 5, 5))
    np.testing.assert_array_equal(
        apply(op, x, kernel=(2, 2), act=act), apply(act, apply(op, x, kernel=(2, 2)))
    )


def test_not_a_number_stays_where_it_is() -> None:
    x = np.zeros((1, 1, 4, 4))
    x[0, 0, 0, 0] = np.nan
    result = apply("poolmax", x, kernel=(2, 2), stride=(2, 2), pads=(1, 1, 1, 1))
    assert np.isnan(result).sum() == 1
