"""Terms, their fingerprints, and the equations between them."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, permutations

import numpy as np
import pytest

from tensat_dl.core.diagnostics import TsrError
from tensat_dl.discover.candidates import Equation, Tree, candidate, candidates, split, tree, with_scalar
from tensat_dl.discover.menu import menu
from tensat_dl.discover.numbers import Whole
from tensat_dl.discover.worlds import ResultTypes, worlds
from tensat_dl.discover.written import equation
from tensat_dl.ops.semantics import semantics_of
from tensat_dl.verify.execute import execute
from tests.discover.finding import equations, f32, menu_of, program, renamed, world


def test_terms_that_compute_the_same_are_one_class() -> None:
    found = {equation(c) for c in equations(menu_of("ewadd", "ewmul"), (2, 3), (2, 3), (2, 3), size=3)}
    assert "(x + y) + z = (x + z) + y." in found
    assert "(x * y) + (y * z) = (x + z) * y." in found
    assert "x + y = x * y." not in found


SAME = "op same(x: tensor, w: tensor) = conv2d(x, w; pads = [1, 1, 1, 1])"


def test_compositions_of_convolutions_have_laws() -> None:
    """They were taken for operators of matrices, and their results for too large ones."""
    ops = menu_of("same", "concat", text=SAME)
    found = {equation(c) for c in equations(ops, (2, 2, 3, 3), (2, 2, 3, 3), (2, 2, 2, 2), size=3)}
    assert "[same(x, y), same(z, y)] = same([x, z], y)." in found


@pytest.mark.filterwarnings("error")
def test_numbers_wrap_around_without_a_warning() -> None:
    """NumPy warns of scalars: a discovery with numbers did."""
    numbers = Whole("test", 1)
    large, third = np.asarray(2**62), numbers.constant(Fraction(1, 3), (), integer=False)
    assert numbers.multiply(large, np.asarray(4)) == 0
    assert numbers.add(large, large) == -(2**63)
    assert numbers.subtract(numbers.add(large, large), np.asarray(1)) == 2**63 - 1
    assert numbers.multiply(third, np.asarray(3)) == 1


SIXTH = "op sixth(x: tensor) = power(x; exponent = 6.0)"


@pytest.mark.parametrize(
    ("ops", "size"),
    [
        (("ewadd", "ewmul"), 3),
        (("matmul", "relu"), 2),
        (("ewdiv", "ewsub"), 2),
        (("ewdiv", "ewmul"), 2),
        (("softmax", "matmul"), 2),
        (("sixth", "ewadd"), 2),
        (("reduce_mean", "ewadd"), 2),
    ],
)
def test_classes_are_those_of_numbers(ops: tuple[str, ...], size: int) -> None:
    """Terms of one class compute the same at random numbers, and those of two classes do not."""
    chosen = menu_of(*ops, text=SIXTH)
    found = world(chosen, (4, 4), (4, 4), (4, 4), size=size)
    drawn = np.random.default_rng(7)
    inputs = {f"x{i}": drawn.uniform(0.5, 2.0, (4, 4)) * drawn.choice((-1, 1), (4, 4)) for i in range(3)}
    values = execute(found.graph(range(len(found.terms))), inputs, semantics_of(chosen.ops))
    assert sorted(n for members in found.classes for n in members) == list(range(len(found.terms)))
    first = [values[members[0]] for members in found.classes]
    for members, value in zip(found.classes, first, strict=True):
        for n in members[1:]:
            np.testing.assert_allclose(values[n], value, rtol=1e-9)
    for a, b in combinations(first, 2):
        assert a.shape != b.shape or not np.allclose(a, b, rtol=1e-9)


def test_quotients_need_not_be_whole() -> None:
    found = {equation(c) for c in equations(menu_of("ewdiv", "ewmul"), (2, 3), (2, 3), (2, 3))}
    assert {
        "(x / y) / z = x / (y * z).",
        "(x / y) * z = x / (y / z).",
        "(x / y) * y = x.",
        "x / (x / y) = y.",
    } <= found
    found = {equation(c) for c in equations(menu_of("softmax", "transpose"), (2, 3))}
    assert "transpose(softmax(x)) = softmax(transpose(x))." in found


def test_constants_need_not_be_whole() -> None:
    chosen = menu_of("mean", "ewmul", text="op mean(x: tensor, y: tensor) = smul(x + y, 0.5)")
    found = {equation(c) for c in equations(chosen, *((2, 3),) * 3, size=3)}
    assert {"mean(x, y) = mean(y, x).", "mean(x * y, y * z) = mean(x, z) * y."} <= found


def test_two_applications_may_share_all_operands_but_one() -> None:
    chosen = menu_of("f", "concat", text="op f(x: tensor, y: tensor, z: tensor) = relu(x @ y) @ z")
    found = {equation(c) for c in equations(chosen, *((2, 2),) * 4, size=3)}
    assert {
        "[f(x, y, z), f(x, y, w)] = f(x, y, [z, w]).",
        "[f(x, y, z), f(w, y, z)] = f([x, w], y, z).",
    } <= found


def test_every_equation_of_a_class_has_a_candidate() -> None:
    """Equations that differ in the names of leaves, or in the order of summands, are one candidate."""
    chosen = menu_of("ewadd", "ewmul", "matmul")
    found = world(chosen, *((2, 2),) * 3, size=2)
    known: dict[int, Tree] = {}
    pairs = [
        candidate(*(tree(found, n, known, chosen.ops) for n in (other, members[0])), chosen.ops)
        for members in found.classes
        for other in members[1:]
    ]
    left = {(c.left.shape, c.right.shape) for c in pairs if c is not None}
    assert len(left) >= 10
    for c in candidates(found, chosen.ops):
        for names in permutations(range(3)):
            left -= {tuple(renamed(t, names, chosen.ops).shape for t in (c.left, c.right))}
            left -= {tuple(renamed(t, names, chosen.ops).shape for t in (c.right, c.left))}
    assert not left


def test_scalars_alone_are_no_equation() -> None:
    found = {equation(c) for c in equations(menu_of("smul"), (2, 3), (), ())}
    assert "smul(smul(x, y), z) = smul(x, smul(y, z))." in found
    assert "smul(x, y) = smul(y, x)." not in found


def test_terms_have_the_numbers_that_are_named() -> None:
    chosen = menu_of("ewadd", "ewmul", "ewsub", "0", "1", "-1")
    assert chosen.numbers == (0.0, 1.0, -1.0)
    found = {equation(c) for c in equations(chosen, (2, 3), (2, 3))}
    assert {"x + 0 = x.", "x * 1 = x.", "x - x = x * 0.", "(x * -1) + y = y - x."} <= found
    assert not any("0" in e and "1" in e for e in found)  # that 0 - 1 = -1 is about numbers
    assert not any("0" in e or "1" in e for e in map(equation, equations(menu_of("ewadd", "ewmul"), (2, 3))))


def test_a_number_on_both_sides_may_be_a_variable_as_long_as_there_are_names() -> None:
    chosen = menu_of("f", "ewmul", "2", text="op f(a: tensor, b: tensor, c: tensor) = a + b + c")
    two = Tree("fill", (("value", 2.0),), (), f32())
    variables = [Tree("", (), (), f32(2, 3), i) for i in range(6)]

    def doubled(*operands: Tree) -> Tree:
        return Tree("ewmul", (), (Tree("f", (), operands, f32(2, 3)), two), f32(2, 3))

    c = with_scalar(Equation(doubled(*variables[:3]), doubled(*variables[2::-1])), chosen.ops)
    assert c is not None
    assert equation(c) == "f(x, y, z) * w = f(z, y, x) * w."
    inner = Tree("f", (), tuple(variables[:3]), f32(2, 3))
    other = Tree("f", (), tuple(variables[3:]), f32(2, 3))
    full = Equation(doubled(inner, other, other), doubled(other, inner, other))
    assert with_scalar(full, chosen.ops) is None


def test_constants_are_not_built_upon() -> None:
    terms = world(menu_of("ewsub", "ewadd"), (2, 3), (2, 3), size=3).terms
    constants = {i for i, t in enumerate(terms) if t.op == "ewsub" and t.args[0] == t.args[1]}
    assert constants
    assert not any(constants & set(t.args) for t in terms)


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
