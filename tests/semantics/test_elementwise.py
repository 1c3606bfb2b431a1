from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

pytest.importorskip("onnx")

from tensat_dl.ops.semantics import SEMANTICS

from .applying import TABLE, apply
from .oracle import reference

SHAPES = [
    ((), ()),
    ((3,), ()),
    ((2, 3), (3,)),
    ((2, 1, 4), (5, 1)),
    ((1,), (4, 1, 2)),
    ((2, 3, 4, 5), (1, 3, 1, 1)),
    ((7, 5), (7, 5)),
]
UNARY = {
    "relu": "Relu",
    "tanh": "Tanh",
    "sigmoid": "Sigmoid",
    "exp": "Exp",
    "erf": "Erf",
    "gelu": "Gelu",
}


def test_every_operator_of_the_table_has_semantics() -> None:
    computed = {name for name, decl in TABLE.items() if not decl.composition and not decl.opaque}
    assert set(SEMANTICS) == computed - {"input", "weight"}


@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize(
    ("op", "onnx_op"), [("ewadd", "Add"), ("ewsub", "Sub"), ("ewmul", "Mul"), ("ewdiv", "Div")]
)
def test_binary(op: str, onnx_op: str, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    rng = np.random.default_rng(len(shapes[0]))
    x, y = (rng.standard_normal(shape) for shape in shapes)
    np.testing.assert_array_equal(apply(op, x, y), reference(onnx_op, x, y))


@pytest.mark.parametrize("op", UNARY)
@pytest.mark.parametrize("shape", [(), (1,), (4, 3), (2, 3, 4, 5)])
def test_unary(op: str, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).standard_normal(shape) * 3
    # ONNX's implementation goes through float32 for erf; test_erf_is_accurate.. is the sharper test
    rtol, atol = (1e-6, 1e-7) if op in ("erf", "gelu") else (1e-14, 1e-15)
    np.testing.assert_allclose(apply(op, x), reference(UNARY[op], x), rtol=rtol, atol=atol)


def test_square_roots() -> None:
    x = np.random.default_rng(0).uniform(1e-9, 1e9, (5, 7))
    np.testing.assert_allclose(apply("sqrt", x), reference("Sqrt", x), rtol=1e-15)
    np.testing.assert_allclose(apply("rsqrt", x), reference("Reciprocal", reference("Sqrt", x)), rtol=1e-15)


@pytest.mark.parametrize("op", ["sigmoid", "tanh", "erf", "gelu", "relu"])
def test_far_from_zero_is_finite_and_silent(op: str) -> None:
    with np.errstate(over="raise", invalid="raise"):
        np.testing.assert_array_equal(
            apply(op, np.array([1e4, 1e300]))[0], 1e4 if op in ("gelu", "relu") else 1.0
        )
        np.testing.assert_array_equal(
            apply(op, np.array([-1e4, -1e300])), [-1.0] * 2 if op in ("tanh", "erf") else [0.0] * 2
        )


def test_sigmoid_keeps_its_precision_left_of_zero() -> None:
    x = np.linspace(-700, 30, 1001)
    np.testing.assert_allclose(apply("sigmoid", x), [1 / (1 + math.exp(-v)) for v in x], rtol=1e-14)


def _erf_series(x: Fraction) -> float:
    """erf(x) = 2 / sqrt(pi) * sum of (-1)^n x^(2n + 1) / (n! (2n + 1)), summed exactly."""
    total, power, n = Fraction(0), x, 0
    while True:
        term = power / (2 * n + 1)
        total += term
        if abs(term) < Fraction(1, 10**30):
            break
        n += 1
        power = -power * x * x / n
    return float(total) * 2 / math.sqrt(math.pi)


@pytest.mark.parametrize("x", [1e-12, 1e-4, 0.1, 0.3, 0.5, 0.84375, 1.0, 1.25, 2.0, 2.85, 4.0])
def test_erf_is_accurate_to_the_last_places(x: float) -> None:
    expected = _erf_series(Fraction(x))
    for sign in (1, -1):
        assert apply("erf", np.array(sign * x)) == pytest.approx(sign * expected, rel=1e-15, abs=0)


def test_single_precision_stays_single_precision() -> None:
    x = np.random.default_rng(0).uniform(0.1, 2, (3, 4)).astype(np.float32)
    for op in (*UNARY, "sqrt", "rsqrt"):
        assert apply(op, x).dtype == np.float32
    for op in ("ewadd", "ewsub", "ewmul", "ewdiv"):
        assert apply(op, x, x).dtype == np.float32


def test_smul() -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 4))
    np.testing.assert_array_equal(apply("smul", x, np.array(-2.5)), reference("Mul", x, np.array(-2.5)))


def test_machine_integers_divide_toward_zero() -> None:
    x, y = np.arange(-20, 21)[:, None], np.array([-7, -3, -1, 1, 2, 5])
    expected = [[int(Fraction(a, b)) for b in y.tolist()] for a in x[:, 0].tolist()]
    np.testing.assert_array_equal(apply("ewdiv", x, y), expected)
    assert apply("ewdiv", x, y).dtype == np.int64
    with pytest.raises(ZeroDivisionError):
        apply("ewdiv", x, np.array(0))


def test_exact_numbers_stay_exact() -> None:
    big = np.array([10**30, -(10**30)], object)
    assert list(apply("ewadd", big, np.array(1, object))) == [10**30 + 1, 1 - 10**30]
    assert list(apply("ewmul", big, big)) == [10**60] * 2
    assert list(apply("relu", big)) == [10**30, 0]
    assert list(apply("ewdiv", big, np.array(3, object))) == [Fraction(10**30, 3), Fraction(-(10**30), 3)]
    scalar = apply("smul", np.array(10**30, object), np.array(10**30, object))
    assert scalar.dtype == object
    assert scalar[()] == 10**60
    for op in ("ewadd", "ewsub", "ewmul", "relu"):
        operands = [np.array([3, -4])] * (1 if op == "relu" else 2)
        assert apply(op, *operands).dtype == np.int64
