"""The operators of inference graphs against ONNX's own implementations."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")

from tensat_dl.verify.exact.rational import Rational

from .applying import apply
from .composed import value
from .oracle import Array, reference, runtime

SHAPES = [(), (3,), (4, 3), (2, 3, 4, 5)]


def reals(*shape: int) -> Array:
    return np.random.default_rng(len(shape)).standard_normal(shape) * 3


@pytest.mark.parametrize("shapes", [((), ()), ((3,), ()), ((2, 1, 4), (5, 1)), ((7, 5), (7, 5))])
@pytest.mark.parametrize(
    ("op", "onnx_op"), [("ewmax", "Max"), ("ewmin", "Min"), ("equal", "Equal"), ("greater", "Greater")]
)
def test_two_operands(op: str, onnx_op: str, shapes: Any) -> None:
    x, y = (np.round(reals(*shape)) for shape in shapes)  # some are equal
    found = apply(op, x, y)
    np.testing.assert_array_equal(found, reference(onnx_op, x, y))
    assert found.dtype == (np.bool_ if op in ("equal", "greater") else np.float64)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("op", "attrs", "onnx_op", "onnx_attrs", "opset"),
    [
        ("neg", {}, "Neg", {}, 20),
        ("abs", {}, "Abs", {}, 20),
        ("floor", {}, "Floor", {}, 20),
        ("clip", {"low": -1.0, "high": 2.5}, "Clip", {"min": -1.0, "max": 2.5}, 6),
        ("leakyrelu", {"alpha": 0.1}, "LeakyRelu", {"alpha": 0.1}, 20),
        ("leakyrelu", {"alpha": 1.5}, "LeakyRelu", {"alpha": 1.5}, 20),
        ("elu", {"alpha": 0.7}, "Elu", {"alpha": 0.7}, 20),
        ("hardsigmoid", {"alpha": 0.3, "beta": 0.4}, "HardSigmoid", {"alpha": 0.3, "beta": 0.4}, 20),
        ("hardsigmoid", {}, "HardSigmoid", {}, 20),
        ("hardswish", {}, "HardSwish", {}, 20),
        ("softplus", {}, "Softplus", {}, 20),
        ("softsign", {}, "Softsign", {}, 20),
        ("mish", {}, "Mish", {}, 20),
        ("gelu_tanh", {}, "Gelu", {"approximate": "tanh"}, 20),
    ],
)
def test_one_operand(
    op: str, attrs: Any, onnx_op: str, onnx_attrs: Any, opset: int, shape: tuple[int, ...]
) -> None:
    x = reals(*shape)
    if onnx_op == "Softsign" and not shape:
        pytest.skip("ONNX's reference evaluator returns no array for a scalar")
    expected = reference(onnx_op, x, opset=opset, **onnx_attrs)
    np.testing.assert_allclose(value(op, x, **attrs), expected, rtol=2e-6, atol=1e-6)


def test_one_hot() -> None:
    x = np.array([[2, 0, 1], [-1, 3, -4]])
    found = value("one_hot", x, n=3, to="f32")
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found[0], np.eye(3)[x[0]])
    assert not found[1].any()


def test_logarithms() -> None:
    x = np.random.default_rng(0).uniform(1e-9, 1e9, (5, 7))
    np.testing.assert_allclose(apply("log", x), reference("Log", x), rtol=1e-14)


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.0, 3.0, -1.0, 0.5, -0.5, 1.7])
def test_power(exponent: float) -> None:
    x = np.random.default_rng(0).uniform(0.1, 4, (5, 7))
    x = x if exponent % 1 else x * np.sign(reals(5, 7))
    expected = reference("Pow", x, np.array(exponent))
    np.testing.assert_allclose(apply("power", x, exponent=exponent), expected, rtol=1e-14)


@pytest.mark.parametrize("slope", [(), (3, 1, 1), (1, 3, 1, 1)])
def test_prelu(slope: tuple[int, ...]) -> None:
    x, s = reals(2, 3, 4, 5), reals(*slope)
    np.testing.assert_allclose(value("prelu", x, s), reference("PRelu", x, s), rtol=1e-14)


@pytest.mark.parametrize("shapes", [((4,), (2, 1, 1), (3, 1)), ((2, 3), (), (3,)), ((), (2,), (2,))])
def test_select(shapes: Any) -> None:
    c, x, y = (reals(*s) for s in shapes)
    np.testing.assert_array_equal(apply_select(c > 0, x, y), np.where(c > 0, x, y))
    np.testing.assert_array_equal(apply_select(c > 0, x, y), reference("Where", c > 0, x, y))


def apply_select(c: Array, x: Array, y: Array) -> Array:
    return value("select", c, x, y)


def test_casts() -> None:
    x = np.array([-2.7, -0.5, 0.0, 0.9, 3.0])
    assert apply("cast", x, to="i64").tolist() == [-2, 0, 0, 0, 3]
    assert apply("cast", x, to="bool").tolist() == [True, True, False, True, True]
    for to in ("f16", "f32", "f64"):
        np.testing.assert_array_equal(apply("cast", x, to=to), x)
    whole = value("cast", np.array([True, False]), to="f32")
    assert whole.dtype == np.float64
    assert whole.tolist() == [1.0, 0.0]


#: Numbers, and what they are in i8, u8, i32 and i64: the whole part, modulo 2^8, 2^32 and 2^64.
WRAPPED = [
    (127.9, (127, 127, 127, 127)),
    (128.0, (-128, 128, 128, 128)),
    (200.7, (-56, 200, 200, 200)),
    (-200.7, (56, 56, -200, -200)),
    (-1.0, (-1, 255, -1, -1)),
    (3e9, (0, 0, -1294967296, 3000000000)),
    (2.0**63, (0, 0, 0, -(2**63))),
    (-(2.0**63), (0, 0, 0, -(2**63))),
    (2.0**63 + 2**11, (0, 0, 2**11, -(2**63) + 2**11)),
    (-(2.0**64) + 2**12, (0, 0, 2**12, 2**12)),
    (1e300, (0, 0, 0, 0)),
    (math.inf, (0, 0, 0, 0)),
    (-math.inf, (0, 0, 0, 0)),
    (math.nan, (0, 0, 0, 0)),
]


@pytest.mark.parametrize(("number", "results"), WRAPPED)
def test_what_an_integer_type_lacks_wraps_around(number: float, results: tuple[int, ...]) -> None:
    for to, result in zip(("i8", "u8", "i32", "i64"), results, strict=True):
        found = value("cast", np.array([number]), to=to)
        assert found.dtype == np.int64
        assert found.tolist() == [result]
        if math.isfinite(number):  # and the same in exact numbers
            exact = Rational(0).typed(np.array([Fraction(number)], object), to)
            assert exact.tolist() == [result]
            narrower = value("cast", value("cast", np.array([number]), to="i64"), to=to)
            assert narrower.tolist() == [result]


@pytest.mark.parametrize(
    ("shape", "to"), [((3, 1), (3, 4)), ((3, 1), (2, 1, 3, 4)), ((), (2,)), ((2, 3), (2, 3))]
)
def test_expand(shape: tuple[int, ...], to: tuple[int, ...]) -> None:
    x = reals(*shape)
    np.testing.assert_array_equal(
        apply("expand", x, shape=to), reference("Expand", x, np.array(to, np.int64))
    )


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
@pytest.mark.parametrize(("before", "after"), [((0, 0), (0, 0)), ((1, 2), (0, 1)), ((2, 0), (2, 3))])
def test_pad(mode: str, before: tuple[int, ...], after: tuple[int, ...]) -> None:
    x = reals(3, 4)
    widths = np.array((*before, *after), np.int64)
    filler = (np.array(-1.5),) if mode == "constant" else ()
    expected = reference("Pad", x, widths, *filler, mode=mode)
    found = apply("pad", x, before=before, after=after, mode=mode, value=-1.5)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("indices", [2, [0, 2], [[1, -1], [-3, 0]]])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_gather(axis: int, indices: Any) -> None:
    x, places = reals(3, 4, 5), np.array(indices, np.int64)
    np.testing.assert_array_equal(
        apply("gather", x, places, axis=axis), reference("Gather", x, places, axis=axis)
    )


def test_gather_goes_round() -> None:
    x = np.arange(3.0)
    assert apply("gather", x, np.array([3, -4, 7]), axis=0).tolist() == [0.0, 2.0, 1.0]


ROUNDING = {
    "half_down": "round_prefer_floor",
    "half_up": "round_prefer_ceil",
    "down": "floor",
    "up": "ceil",
}
SIZES = [(4, 6), (8, 12), (3, 5), (2, 9), (1, 1), (7, 2)]


def resized(x: Array, size: tuple[int, int], **attrs: Any) -> Array:
    """By ONNX Runtime, whose kernel is exact to single precision."""
    return runtime("Resize", x, size=size, **attrs)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("coordinates", ["half_pixel", "asymmetric", "align_corners"])
def test_resize_linear(size: tuple[int, int], coordinates: str) -> None:
    x = reals(2, 3, 4, 6)
    found = apply("resize", x, size=size, mode="linear", coordinates=coordinates)
    expected = resized(x, size, mode="linear", coordinate_transformation_mode=coordinates)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("coordinates", "rounding"), [*product(("half_pixel", "asymmetric", "align_corners"), ROUNDING)]
)
def test_resize_nearest(size: tuple[int, int], coordinates: str, rounding: str) -> None:
    x = reals(2, 3, 4, 6)
    found = apply("resize", x, size=size, coordinates=coordinates, rounding=rounding)
    modes = {"coordinate_transformation_mode": coordinates, "nearest_mode": ROUNDING[rounding]}
    np.testing.assert_array_equal(found.astype(np.float32), resized(x, size, mode="nearest", **modes))


@pytest.mark.parametrize("factor", [(1, 1), (2, 2), (3, 2), (1, 5)])
def test_upsample_is_the_nearest_pixel_by_every_convention(factor: tuple[int, int]) -> None:
    x = reals(2, 3, 4, 5)
    found = value("upsample", x, factor=factor)
    size = (4 * factor[0], 5 * factor[1])
    np.testing.assert_array_equal(found, x.repeat(factor[0], 2).repeat(factor[1], 3))
    for coordinates, rounding in (
        ("half_pixel", "half_down"),
        ("half_pixel", "half_up"),
        ("asymmetric", "down"),
    ):
        np.testing.assert_array_equal(
            found, apply("resize", x, size=size, coordinates=coordinates, rounding=rounding)
        )


@pytest.mark.parametrize("block", [1, 2, 3])
def test_upconv(block: int) -> None:
    x, w, b = reals(2, 3, 4, 5), reals(3, 2, block, block), reals(2)
    expected = reference("ConvTranspose", x, w, b, strides=[block, block])
    np.testing.assert_allclose(value("upconv", x, w, b), expected, rtol=1e-12)


@pytest.mark.parametrize("block", [1, 2, 3])
def test_blocks(block: int) -> None:
    x = reals(2, 2 * block * block, 2, 3)
    for op, mode in (("depth_to_space", "DCR"), ("pixel_shuffle", "CRD")):
        np.testing.assert_array_equal(
            value(op, x, block=block), reference("DepthToSpace", x, blocksize=block, mode=mode)
        )
    y = reals(2, 3, 2 * block, 3 * block)
    np.testing.assert_array_equal(
        value("space_to_depth", y, block=block), reference("SpaceToDepth", y, blocksize=block)
    )
    np.testing.assert_array_equal(
        value("depth_to_space", value("space_to_depth", y, block=block), block=block), y
    )


@pytest.mark.parametrize("shape", [(2, 3, 8), (2, 3, 4, 5), (1, 3, 2, 3, 4)])
def test_instancenorm(shape: tuple[int, ...]) -> None:
    x, scale, bias = reals(*shape), reals(3), reals(3)
    expected = reference("InstanceNormalization", x, scale, bias, epsilon=1e-3)
    np.testing.assert_allclose(
        value("instancenorm", x, scale, bias, eps=1e-3), expected, rtol=1e-6, atol=1e-6
    )


def test_single_precision_stays_single_precision() -> None:
    x = np.random.default_rng(0).uniform(0.1, 2, (2, 4, 6, 6)).astype(np.float32)
    for op in (
        "log",
        "floor",
        "neg",
        "abs",
        "leakyrelu",
        "elu",
        "hardsigmoid",
        "hardswish",
        "softsign",
        "mish",
    ):
        assert value(op, x).dtype == np.float32, op
    assert value("power", x, exponent=0.5).dtype == np.float32
    assert value("resize", x, size=(3, 9), mode="linear").dtype == np.float32
    assert value("pad", x, before=(0,) * 4, after=(1,) * 4, value=0.1).dtype == np.float32
