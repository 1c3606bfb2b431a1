"""The most general true form of an equation, and its conditions."""

from __future__ import annotations

from tensat_dl.discover.candidates import Equation
from tensat_dl.discover.generalise import Generaliser
from tensat_dl.discover.menu import Menu
from tensat_dl.discover.saturate import chunks, derivable
from tensat_dl.discover.written import equation, rewrites
from tests.discover.finding import equations, menu_of


def the(ops: Menu, text: str, *leaves: tuple[int, ...], size: int = 3) -> Equation:
    """The first equation of this text."""
    return next(c for c in equations(ops, *leaves, size=size) if equation(c) == text)


def general(ops: Menu, text: str, *leaves: tuple[int, ...], size: int = 3) -> str:
    found = Generaliser(ops.ops, ops.functions).general(the(ops, text, *leaves, size=size))
    return "" if found is None else found.text("r").strip()


def test_an_axis_becomes_a_variable() -> None:
    text = general(menu_of("relu", "concat"), "[relu(x), relu(y)] = relu([x, y]).", (2, 3), (2, 3))
    assert text == "rule r { concat(relu(x), relu(y); axis = k) <=> relu(concat(x, y; axis = k)) }"


def test_a_condition_on_ranks_is_found() -> None:
    ops = menu_of("ewadd", "concat")
    text = general(ops, "[x, y] + [z, w] = [x + z, y + w].", *[(2, 3)] * 4)
    assert "where rank(x) == rank(z) }" in text


GEMM = "/// x w + b.\nop gemm(x: tensor, w: tensor, b: tensor) = ewadd(matmul(x, w), b)"


def test_a_law_with_vectors_holds_for_matrices() -> None:
    """Both biases have an axis of their own, the last one; there was no law of two biases but for matrices."""
    ops = menu_of("gemm", "concat", text=GEMM)
    text = general(
        ops, "gemm(x, [y, z], [w, w]) = [gemm(x, y, w), gemm(x, z, w)].", (2, 2), (2, 3), (2, 3), (3,)
    )
    assert "gemm(x, concat(y, z; axis = k), concat(w, u; axis = -1))" in text
    assert "where" not in text


def test_a_condition_on_groups_is_found() -> None:
    ops = menu_of("conv2d", "concat")
    text = general(
        ops, "[conv2d(x, y), conv2d(x, z)] = conv2d(x, [y, z]).", (2, 2, 3, 3), (2, 2, 2, 2), (2, 2, 2, 2)
    )
    assert "where dim(x, 1) == dim(y, 1)" in text
    assert "stride = s" in text


def test_axes_of_blocks_differ() -> None:
    text = general(menu_of("concat"), "[[x, y], [z, w]] = [[x, z], [y, w]].", *[(2, 3)] * 4)
    assert text.endswith(("where j != k }", "where k != j }"))


def test_a_function_becomes_a_family() -> None:
    text = general(
        menu_of("relu", "tanh", "matmul"), "relu(x @ y) = matmul(x, y; act = relu).", (2, 3), (3, 2)
    )
    assert "in relu, tanh, sigmoid, gelu" in text


def test_what_holds_by_accident_has_no_form() -> None:
    ops = menu_of("relu", "conv2d")
    accident = [
        c for c in equations(ops, (2, 2, 3, 3)) if equation(c).startswith("conv2d(x, x; act = relu) = ")
    ]
    assert all(Generaliser(ops.ops).general(c) is None for c in accident)


def test_what_rules_derive_is_dropped() -> None:
    ops = menu_of("ewadd")
    found = equations(ops, (2, 3), (2, 3), (2, 3))
    rules = rewrites("rule r { ewadd(ewadd(x, y), z) <=> ewadd(ewadd(x, z), y) }", ops.ops)
    assert "(x + y) + x = (x + x) + y." in {equation(c) for c in found}
    derived = [c.key for chunk in chunks(found, rules, ops.ops) for c in derivable(chunk, ops.ops)]
    assert {c.key for c in found} == {*derived}
