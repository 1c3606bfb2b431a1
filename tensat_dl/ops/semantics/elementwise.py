"""Elementwise operators and the activations that products and pools can end in."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tensat_dl.core.graph import INTEGERS
from tensat_dl.ops.semantics.arrays import Array, Semantics, computed_in, wrapped


def quotient(x: Array, y: Array) -> Array:
    """x / y for the numbers that the element types stand for, broadcast.

    Machine integers divide as in ONNX and C, toward zero, and by zero is an error. Exact numbers stay exact:
    Python integers give a ``Fraction``.
    """
    if x.dtype == object or y.dtype == object:
        return np.asarray(_exact_quotient(x, y), object)
    if x.dtype.kind in "iu" and y.dtype.kind in "iu":
        if not np.all(y):
            raise ZeroDivisionError("integer division by zero")
        return (x - np.fmod(x, y)) // y
    return np.divide(x, y)


def _divide_exactly(a: object, b: object) -> object:
    if isinstance(a, int | np.integer) and isinstance(b, int | np.integer):
        return Fraction(int(a), int(b))
    return a / b  # type: ignore[operator]


_exact_quotient = np.frompyfunc(_divide_exactly, 2, 1)


def relu(x: Array) -> Array:
    return np.asarray(np.maximum(x, x.dtype.type(0)), x.dtype)


def sigmoid(x: Array) -> Array:
    # exp overflows to infinity far left of zero, and 1 / infinity is the right answer there
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-x)))


def erf(x: Array) -> Array:
    """Correct to the last place or so: the C library's function on each element, through float64."""
    values = np.asarray(x, np.float64)
    result = np.fromiter(map(math.erf, values.ravel().tolist()), np.float64, values.size)
    return result.reshape(x.shape).astype(x.dtype if x.dtype.kind == "f" else np.float64)


def gelu(x: Array) -> Array:
    """The exact form, not the approximation by tanh."""
    return np.asarray(x / 2 * (1 + erf(x / math.sqrt(2))))


@dataclass(frozen=True, slots=True)
class UnaryFunction:
    """A function of one number, and the name of the ONNX operator without attributes that is equal to it, if any."""

    apply: Callable[[Array], Array]
    onnx: str = ""


#: By operator. In exact arithmetic these stand for themselves.
FUNCTIONS: dict[str, UnaryFunction] = {
    "relu": UnaryFunction(relu, "Relu"),
    "tanh": UnaryFunction(np.tanh, "Tanh"),
    "sigmoid": UnaryFunction(sigmoid, "Sigmoid"),
    "exp": UnaryFunction(np.exp, "Exp"),
    "sqrt": UnaryFunction(np.sqrt, "Sqrt"),
    "rsqrt": UnaryFunction(lambda x: np.asarray(1 / np.sqrt(x))),
    "erf": UnaryFunction(erf, "Erf"),
    "gelu": UnaryFunction(gelu),
    "log": UnaryFunction(np.log, "Log"),
    "floor": UnaryFunction(np.floor, "Floor"),
}
#: By the value of an attribute ``act``.
ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "none": lambda x: x,
    **{name: FUNCTIONS[name].apply for name in ("relu", "sigmoid", "tanh", "gelu")},
}


def power(x: Array, exponent: float) -> Array:
    """Not a number where the base is negative and the exponent is not whole."""
    return np.asarray(np.power(x, x.dtype.type(exponent)))


def select(condition: Array, x: Array, y: Array) -> Array:
    """x where the condition holds, y elsewhere; broadcast."""
    return np.where(condition, x, y)


def cast(x: Array, to: str) -> Array:
    """Casts to the type that stands for the element type. Narrower floats keep their numbers; numbers that an integer
    type lacks wrap around."""
    return wrapped(x, to) if to in INTEGERS else x.astype(computed_in(to))


def unary(function: Callable[[Array], Array]) -> Semantics:
    return lambda x: np.asarray(function(x))


def binary(function: Callable[[Array, Array], Array]) -> Semantics:
    """Operands broadcast as NumPy does it, which is what the operators are specified to do."""
    # NumPy hands back a bare element, not an array, where the result has rank 0; a Python integer among
    # those must not become a machine integer.
    return lambda x, y: np.asarray(function(x, y), object if object in (x.dtype, y.dtype) else None)


def comparison(function: Callable[[Array, Array], Array]) -> Semantics:
    """Truth values."""
    return lambda x, y: np.asarray(function(x, y), np.bool_)


SEMANTICS: dict[str, Semantics] = {
    "ewadd": binary(np.add),
    "ewsub": binary(np.subtract),
    "ewmul": binary(np.multiply),
    "ewdiv": binary(quotient),
    "smul": binary(np.multiply),
    "ewmax": binary(np.maximum),
    "ewmin": binary(np.minimum),
    **{name: unary(function.apply) for name, function in FUNCTIONS.items()},
    "power": power,
    "equal": comparison(np.equal),
    "greater": comparison(np.greater),
    "select": select,
    "cast": cast,
}
