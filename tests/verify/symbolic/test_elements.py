"""The normal form of elements keeps their values, whatever names bound indices have."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensat_dl.ops import symbolic as sym
from tensat_dl.ops.symbolic import Int
from tensat_dl.verify.symbolic import elements as el
from tensat_dl.verify.symbolic.assumptions import Assumptions, Undecided
from tensat_dl.verify.symbolic.canonical import canonical
from tensat_dl.verify.symbolic.context import Context
from tensat_dl.verify.symbolic.normal_form import Read, Value
from tests.verify.symbolic.by_number import number

N = sym.atom("dim", "x", 0)
SIZES = {("dim", "x", 0): 3, ("index", "i"): 2}
PLACE = sym.atom("index", "i")
ARRAYS = {name: np.linspace(0.5, 2.0, 9) * scale for name, scale in (("x", 1.0), ("y", -0.7), ("z", 0.3))}
EXAMPLES = settings(max_examples=60, deadline=None)


def read(name: str, *places: Int) -> Value:
    offset: Int = 0
    for p in places:
        offset = sym.add(sym.mul(offset, N), p)
    return el.single(Read(name, offset))


@st.composite
def elements(draw: st.DrawFn, context: Context) -> Value:
    """An element that needs no decision about the size."""
    try:
        return draw(parts(context))
    except Undecided:
        return draw(st.nothing())


@st.composite
def parts(draw: st.DrawFn, context: Context, indices: tuple[Int, ...] = (PLACE,), depth: int = 3) -> Value:
    """Sums, products, functions and sums over indices of elements of three matrices."""

    def inner(more: tuple[Int, ...] = ()) -> Value:
        return draw(parts(context, (*indices, *more), depth - 1))

    def place() -> Int:
        return draw(st.sampled_from(indices))

    kinds = ["read", "number"] + ["add", "multiply", "total", "exp", "max", "divide", "guard"] * (depth > 0)
    match draw(st.sampled_from(kinds)):
        case "number":
            return el.number(draw(st.integers(-2, 2)))
        case "add":
            return el.add(inner(), inner())
        case "multiply":
            return el.multiply(inner(), inner())
        case "total":
            return context.total(N, lambda k: inner((k,)))
        case "exp":
            return context.apply("tanh", inner())
        case "max":
            return context.apply("max", inner(), inner())
        case "divide":
            return el.inverse(el.add(el.power(inner(), 2), el.number(1)))
        case "guard":
            return context.guarded(inner(), sym.at_most(place(), sym.sub(place(), draw(st.integers(-1, 1)))))
    return read(draw(st.sampled_from("xyz")), place(), place())


@given(st.data())
@EXAMPLES
def test_canonical_form_has_the_same_value(data: st.DataObject) -> None:
    context = Context(Assumptions())
    v = data.draw(elements(context))
    expected = number(v, ARRAYS, SIZES)
    once = canonical(v)
    assert number(once, ARRAYS, SIZES) == pytest.approx(expected, rel=1e-6, abs=1e-6)
    assert canonical(once).text == once.text


@given(st.data())
@EXAMPLES
def test_substitution_does_not_touch_bound_indices(data: st.DataObject) -> None:
    """Not even if both sides of it have names that are bound inside."""
    context = Context(Assumptions())
    v = canonical(data.draw(elements(context)))
    moved = el.substituted(v, {("index", "i"): sym.atom("bound", 1, 0)})
    assert number(moved, ARRAYS, {**SIZES, ("bound", 1, 0): 2}) == pytest.approx(
        number(v, ARRAYS, SIZES), rel=1e-6, abs=1e-6
    )


@given(st.data())
@EXAMPLES
def test_products_of_canonical_forms(data: st.DataObject) -> None:
    """Both factors have the same names for bound indices."""
    context = Context(Assumptions())
    a, b = (canonical(data.draw(elements(context))) for _ in range(2))
    expected = number(a, ARRAYS, SIZES) * number(b, ARRAYS, SIZES)
    assert number(el.multiply(a, b), ARRAYS, SIZES) == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_names_make_no_difference() -> None:
    context = Context(Assumptions())

    def square() -> Value:
        return context.total(
            N, lambda j: context.total(N, lambda k: el.multiply(read("x", PLACE, j), read("y", k, j)))
        )

    a, b = square(), square()
    assert a.text != b.text
    assert not canonical(el.subtract(a, b)).terms


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 1, 0, 2), (2, 3, 1, 0)])
def test_indices_that_stand_in_different_factors_get_one_name(order: tuple[int, ...]) -> None:
    def product(places: tuple[int, ...]) -> Value:
        """x(a, b) y(b, c) y(c, c) x(d, d)^2, summed over four indices in some order."""
        atoms = [("index", f"n{places[k]}") for k in range(4)]
        a, b, c, d = (sym.atom(*atom) for atom in atoms)
        inside = el.multiply(el.multiply(read("x", a, b), read("y", b, c)), read("y", c, c))
        inside = el.multiply(inside, el.power(read("x", d, d), 2))
        return el.summed(inside, frozenset(), tuple((atoms[k], N) for k in places))

    assert canonical(product(order)) == canonical(product((0, 1, 2, 3)))
