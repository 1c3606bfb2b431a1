"""Every operator in exact arithmetic against the reference semantics in NumPy."""

from __future__ import annotations

import random
import zlib
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tensat_dl.core.graph import FLOATS
from tensat_dl.ops.semantics import SEMANTICS, semantics_of
from tensat_dl.ops.semantics.arrays import Array, computed_in
from tensat_dl.ops.semantics.elementwise import ACTIVATIONS, FUNCTIONS
from tensat_dl.verify.exact.arithmetic import OutOfReach
from tensat_dl.verify.exact.modular import PRIMES, Modular
from tensat_dl.verify.exact.operators import EXACT_SEMANTICS
from tensat_dl.verify.exact.rational import Rational
from tests.ops.applications import TABLE, Application, application

#: What asks which of two numbers is larger, or how large one is.
ORDERED = {"relu", "poolmax", "reduce_max", "ewmax", "ewmin", "floor", "equal", "greater", "cast", "gather"}
REAL_FUNCTIONS = set(FUNCTIONS) - ORDERED
#: What gives elements of another type than its operands have.
TYPED = {"equal", "greater", "cast", "iota"}
#: What takes no integers.
REAL = {"floor", "power", "cast"}
NORMALISATIONS = {"batchnorm", "layernorm", "rmsnorm", "softmax"}
OPERATORS = sorted(EXACT_SEMANTICS)


class Reals(Rational):
    """Every function is what it is, in float64: what is left to test are the definitions by these functions."""

    def whole(self, array: Array, like: Array | None = None) -> Array:
        return np.asarray(array, np.float64)

    def constant(self, value: Fraction, shape: tuple[int, ...], integer: bool) -> Array:
        return np.full(shape, float(value))

    def function(self, name: str, x: Array) -> Array:
        return SEMANTICS[name](x) if name in SEMANTICS else super().function(name, x)

    def typed(self, x: Array, to: str) -> Array:
        return x.astype(computed_in(to))

    def divide(self, x: Array, y: Array) -> Array:
        return np.asarray(x / y)


def draws(op: str, count: int = 40) -> list[tuple[Application, list[Array]]]:
    """Applications and whole numbers to apply them to, where divisors are not zero."""
    rng = random.Random(zlib.crc32(op.encode()))
    values = np.random.default_rng(rng.randrange(1000))
    found = []
    for _ in range(count):
        a = application(op, rng)
        arrays = [
            values.integers(0, 2, t.shape).astype(bool)
            if t.dtype == "bool"
            else values.integers(-5, 6, t.shape)
            for t in a.inputs
        ]
        if op == "ewdiv":
            arrays[1][arrays[1] == 0] = 3
        found.append((a, arrays))
    return found


def exact(a: Application, arrays: Sequence[Array]) -> list[Array]:
    """Floats as exact numbers. Truth values and integers stay what they are."""
    return [x.astype(object) if t.dtype in FLOATS else x for t, x in zip(a.inputs, arrays, strict=True)]


def reference(a: Application, arrays: Sequence[Array]) -> Array:
    return SEMANTICS[a.op](*arrays, **a.attrs)


def is_polynomial(a: Application) -> bool:
    """Or rational, or data movement, or a comparison: what object arrays can be computed in."""
    return a.op not in REAL_FUNCTIONS | NORMALISATIONS and a.attrs.get("act", "none") in ("none", "relu")


def fraction(x: Any) -> Fraction:
    if isinstance(x, float | np.floating):
        return Fraction(x).limit_denominator(1000)
    return Fraction(int(x)) if isinstance(x, np.bool_) else Fraction(x)


def test_every_operator_is_there() -> None:
    """What has no semantics of its own is a leaf or a composition."""
    others = {name for name, d in TABLE.items() if d.composition is not None or d.opaque}
    assert set(OPERATORS) == set(TABLE) - others - {"input", "weight"}
    assert set(OPERATORS) == set(semantics_of(TABLE)) - others


@pytest.mark.parametrize("op", OPERATORS)
def test_exact_numbers(op: str) -> None:
    for a, arrays in draws(op):
        if not is_polynomial(a):
            continue
        found = EXACT_SEMANTICS[op](Rational(0), *exact(a, arrays), **a.attrs)
        expected = reference(a, exact(a, arrays))
        if op not in TYPED:
            assert found.dtype == object
        # Among the exact numbers of an object array a float would round what is computed of them.
        assert found.dtype != object or all(isinstance(x, int | Fraction) for x in found.ravel().tolist()), a
        assert found.shape == expected.shape
        assert [fraction(x) for x in found.ravel()] == [fraction(x) for x in expected.ravel()], a


@pytest.mark.parametrize("op", OPERATORS)
def test_machine_integers(op: str) -> None:
    """Quotients and means are rounded as the reference does it."""
    for a, arrays in draws(op):
        if a.inputs and is_polynomial(a) and op not in REAL and a.attrs.get("mode") != "linear":
            found = EXACT_SEMANTICS[op](Rational(0), *arrays, **a.attrs)
            np.testing.assert_array_equal(found, reference(a, arrays), str(a), strict=True)


@pytest.mark.parametrize("op", OPERATORS)
def test_residues(op: str) -> None:
    """What is an equation of rational numbers is one of residues, where no order is asked for."""
    for a, arrays in draws(op):
        if not is_polynomial(a) or a.attrs.get("act") == "relu" or op in ORDERED:
            continue
        m = Modular(PRIMES, 0)
        xs = [m.whole(x) for x in arrays]
        found = EXACT_SEMANTICS[op](m, *xs, **a.attrs)
        expected = [fraction(x) for x in reference(a, exact(a, arrays)).ravel()]
        for p, array in zip(PRIMES, found.arrays, strict=True):
            residues = [x.numerator * pow(x.denominator, -1, p) % p for x in expected]
            assert array.ravel().tolist() == residues, a


def test_both_primes_at_once_give_the_same_residues(monkeypatch: pytest.MonkeyPatch) -> None:
    def residues() -> list[list[int]]:
        m = Modular(PRIMES, 0)
        x, y = m.variable((4, 5), False, "x"), m.variable((5, 3), False, "y")
        product = EXACT_SEMANTICS["matmul"](m, x, y, act="tanh")
        return [array.ravel().tolist() for array in m.divide(product, m.multiply(product, product)).arrays]

    monkeypatch.setattr("tensat_dl.beside.cores", lambda: 2)
    expected = residues()
    monkeypatch.setattr("tensat_dl.verify.exact.modular.AT_ONCE", 0)
    assert residues() == expected
    m = Modular(PRIMES, 0)
    zero = m.whole(np.array([1, 0]))
    with pytest.raises(ZeroDivisionError):
        m.divide(zero, zero)


@pytest.mark.parametrize("op", ["ewdiv", "poolavg", "reduce_mean"])
def test_machine_integers_are_no_field(op: str) -> None:
    for a, arrays in draws(op, 5):
        m = Modular(PRIMES, 0)
        xs = [m.variable(x.shape, True, i) for i, x in enumerate(arrays)]
        with pytest.raises(OutOfReach, match="rounded"):
            EXACT_SEMANTICS[op](m, *xs, **a.attrs)


@pytest.mark.parametrize("op", OPERATORS)
def test_definitions(op: str) -> None:
    """By exp, sqrt and divisions, where these are the true ones."""
    generator = np.random.default_rng(0)
    for a, arrays in draws(op):
        positive = op in ("sqrt", "rsqrt", "log", "batchnorm")
        xs = [
            generator.uniform(0.5 if positive else -2, 2, x.shape) if t.dtype in FLOATS else x
            for t, x in zip(a.inputs, arrays, strict=True)
        ]
        reals = Reals(0)
        found = EXACT_SEMANTICS[op](reals, *xs, **a.attrs)
        np.testing.assert_allclose(found, reference(a, xs), 1e-12, 1e-12, err_msg=str(a))


@pytest.mark.parametrize("act", sorted(ACTIVATIONS))
def test_activations_are_the_operators(act: str) -> None:
    """A fused activation is the same random function as the operator itself."""
    m = Modular(PRIMES, 0)
    v = m.variable((2, 3), False)
    one = m.whole(np.eye(3, dtype=np.int64))
    fused = EXACT_SEMANTICS["matmul"](m, v, one, act=act)
    alone = v if act == "none" else EXACT_SEMANTICS[act](m, v)
    np.testing.assert_array_equal(fused.arrays, alone.arrays)


@pytest.mark.parametrize("arithmetic", ["modular", "rational"])
def test_random_functions(arithmetic: str) -> None:
    """They depend on name, key and argument; equal arguments have equal values, others do not."""
    x = np.array([0, 1, 2, 1, -1, 2**20])

    def values(name: str, key: int) -> list[int]:
        if arithmetic == "modular":
            m = Modular(PRIMES, key)
            return m.function(name, m.whole(x)).arrays[0].tolist()
        return Rational(key).function(name, x.astype(object)).tolist()

    found = values("tanh", 0)
    assert found == values("tanh", 0)
    assert found[0] == 0
    assert found[1] == found[3]
    assert len(set(found)) == 5
    assert not set(found) & set(values("tanh", 1)) - {0}
    assert not set(found) & set(values("exp", 0)) - {0}
    assert values("exp", 0)[0] != 0


def test_random_functions_of_both_residues() -> None:
    """Numbers that are equal modulo one prime have other values, modulo each."""
    m = Modular(PRIMES, 0)
    x = m.whole(np.array([5, 5 + PRIMES[0], 5 + PRIMES[1]]))
    for array in m.function("tanh", x).arrays:
        assert len(set(array.tolist())) == 3


def test_the_largest_depends_on_elements_and_not_on_their_order() -> None:
    def value(*elements: int) -> list[int]:
        m = Modular(PRIMES, 0)
        found = EXACT_SEMANTICS["reduce_max"](m, m.whole(np.array(elements)), axis=0)
        return [int(a[0]) for a in found.arrays]

    assert value(1, 2, 3) == value(3, 1, 2)
    assert value(1, 2, 3) != value(2, 2, 2)
    assert value(1, 2) != value(1, 2, 2)
