"""Terms, their fingerprints, and the equations between them."""

from __future__ import annotations

import pytest

from tensat_dl.core.diagnostics import TsrError
from tensat_dl.discover.candidates import split
from tensat_dl.discover.menu import menu
from tensat_dl.discover.worlds import ResultTypes, worlds
from tensat_dl.discover.written import equation
from tests.discover.finding import equations, f32, menu_of, program, world


def test_terms_that_compute_the_same_are_one_class() -> None:
    found = {equation(c) for c in equations(menu_of("ewadd", "ewmul"), (2, 3), (2, 3), (2, 3), size=3)}
    assert "(x + y) + z = (x + z) + y." in found
    assert "(x * y) + (x * z) = (y + z) * x." in found
    assert "x + y = x * y." not in found


def test_relu_has_its_values_and_tanh_is_any_function() -> None:
    found = {equation(c) for c in equations(menu_of("relu", "tanh"), (2, 3))}
    assert found == {"relu(relu(x)) = relu(x)."}


def test_equal_parts_are_not_listed_again() -> None:
    terms = world(menu_of("relu"), (2, 3), size=3).terms
    assert [t.size for t in terms] == [0, 1, 2]  # relu(relu(x)) is relu(x): nothing is built upon it


def test_leaves_of_operators_fit_each_other() -> None:
    found = worlds(ResultTypes(menu_of("matmul", "ewadd")), 3)
    assert any({f32(2, 3), f32(3, 2)} <= set(leaves) for leaves in found)
    assert all(t.rank == 2 for leaves in found for t in leaves)
    assert all(len(leaves) <= 3 for leaves in found)


def test_a_variable_that_occurs_twice_on_both_sides_may_be_two() -> None:
    (c,) = [
        c for c in equations(menu_of("ewadd"), (2, 3), (2, 3)) if equation(c) == "(x + y) + x = (x + x) + y."
    ]
    assert {equation(s) for s in split(c, 0)} == {"(x + y) + z = (x + z) + y.", "(x + y) + z = (z + x) + y."}


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["matmull"], "no operator `matmull`"),
        (["mystery"], "`mystery` is opaque"),
        (["weight"], "`weight` has no operands"),
        (["reshape"], "`reshape` can't be explored: its attribute `shape` has no menu"),
        ([], "no operators are named"),
    ],
)
def test_operators_that_terms_cannot_have(names: list[str], message: str) -> None:
    own = program("opaque op mystery(x: tensor) { shape shape(x) }")
    with pytest.raises(TsrError, match=message) as e:
        menu(own.ops, names)
    assert e.value.diagnostics[0].hint
