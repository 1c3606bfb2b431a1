"""Graphs are compared where divisors are zero, too: what has a value before has it after."""

from __future__ import annotations

import math

import pytest

from tensat_dl.verify.exact.result import Difference
from tensat_dl.verify.exact.zero_divisors import compare_at_zero_divisors, divides
from tests.explore.graphs import graph_of, library

OPS = library().ops
LEAVES = (
    "input x : f32[2, 3]\ninput y : f32[2, 3]\ninput m : bool[2, 3]\ninput n : i32[2, 3]\ninput s : f32[]\n"
)


def found(before: str, after: str, seed: int = 0) -> Difference | None:
    b, a = (graph_of(f"{LEAVES}output z = {body}") for body in (before, after))
    return compare_at_zero_divisors(b, a, OPS, 100, seed)


GUARDED = "select(equal(y, 0.0), 0.0, x / y)"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (GUARDED, "x / y"),
        (f"relu({GUARDED})", "relu(x / y)"),
        (f"tanh({GUARDED})", "tanh(x / y)"),
        (f"ewmax({GUARDED}, 1.0)", "ewmax(x / y, 1.0)"),
        (f"reduce_max({GUARDED}; axis = 1)", "reduce_max(x / y; axis = 1)"),
        (f"{GUARDED} @ transpose(x; perm = [1, 0])", "(x / y) @ transpose(x; perm = [1, 0])"),
        (f"concat({GUARDED}, x; axis = 0)", "concat(x / y, x; axis = 0)"),
        ("x", "x * y / y"),
        ("x", "x * power(y; exponent = -1.0) * y"),
        ("select(equal(x, 2.5), 1.0, y / (x - 2.5))", "y / (x - 2.5)"),
    ],
)
def test_a_value_is_lost(before: str, after: str) -> None:
    difference = found(before, after)
    assert difference is not None
    assert math.isnan(difference.after)
    assert found(after, before) is None  # what has no value may get any


def test_there_is_another_value() -> None:
    difference = found("select(m, x / cast(m; to = f32), 0.0)", "x")
    assert difference is not None
    assert (difference.before, difference.values["m"][difference.index]) == (0, False)
    assert difference.after == difference.values["x"][difference.index]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x * y / y", "x"),
        ("x / y * 0.0", "x * 0.0"),
        ("select(m, x / y, x)", "select(m, x / y, x)"),
        ("select(m, x / y, x * x / y)", "select(m, x, x * x) / y"),
        (GUARDED, "select(equal(y, 0.0), 0.0, x / select(equal(y, 0.0), 1.0, y))"),
        ("slice(concat(x / y, x; axis = 0); axis = 0, start = 2, stop = 4)", "x"),
        (
            "select(greater(x / y, 0.0), x, y)",
            "select(greater(x * y, 0.0), x, y)",
        ),  # machines compare infinity
        ("cast(x / y * 0.0; to = i32)", "cast(x * 0.0; to = i32)"),
        ("select(equal(n, cast(0.0; to = i32)), n, n / n)", "n / n"),  # no machine divides integers by zero
    ],
)
def test_nothing_is_said(before: str, after: str) -> None:
    """What is computed from a quotient by zero has no value; what is taken from beside it has one."""
    assert found(before, after) is None


def test_which_graphs_divide() -> None:
    graphs = [graph_of(f"{LEAVES}output z = {body}") for body in ("x * y", "relu(x / y)", "mod(x, y)")]
    assert [divides([g], OPS) for g in graphs] == [False, True, True]
