from __future__ import annotations

import dataclasses

import pytest

from tensat_dl.core.graph import Graph
from tensat_dl.ops.semantics import SEMANTICS
from tensat_dl.verify.equivalence import Equivalence, compare

from .making import Maker


def two_products(*, merged: bool, swapped: bool = False, off_by: int = 0) -> Graph:
    """Two matmuls of one input, or one wide one and its slices: (a, b) = x (w1 | w2)."""
    m = Maker()
    x, w1, w2 = m.input("x", 5, 16), m.weight("w1", 16, 8), m.weight("w2", 16, 8)
    if not merged:
        return m.graph(a=m.op("matmul", x, w1, act="relu"), b=m.op("matmul", x, w2, act="relu"))
    both = m.op("concat", *((w2, w1) if swapped else (w1, w2)), axis=1)
    y = m.op("matmul", x, both, act="relu")
    return m.graph(
        a=m.op("slice", y, axis=1, start=off_by, stop=8 + off_by),
        b=m.op("slice", y, axis=1, start=8, stop=16),
    )


def test_a_correct_merge_is_equivalent() -> None:
    result = compare(two_products(merged=False), two_products(merged=True), SEMANTICS)
    assert result.status == "equivalent"
    assert result.max_rel_error is not None
    assert result.max_rel_error < 1e-14
    assert [output.name for output in result.outputs] == ["a", "b"]
    assert result.inputs == "seed 0, float64"
    assert result.message == ""
    assert result.seconds > 0


def test_reassociation_differs_by_rounding_only() -> None:
    m = Maker()
    x, a, b = m.input("x", 50, 60), m.weight("a", 60, 70), m.weight("b", 70, 80)
    left, right = m.op("matmul", m.op("matmul", x, a), b), m.op("matmul", x, m.op("matmul", a, b))
    result = compare(m.graph(y=left), m.graph(y=right), SEMANTICS)
    assert result.status == "equivalent"
    assert result.max_rel_error is not None
    assert 0 < result.max_rel_error < 1e-13
    assert compare(m.graph(y=left), m.graph(y=right), SEMANTICS, tolerance=1e-18).status == "different"


def different(before: Graph, after: Graph, message: str) -> Equivalence:
    result = compare(before, after, SEMANTICS)
    assert result.status == "different"
    assert message in result.message
    return result


def test_an_off_by_one_slice_is_caught() -> None:
    result = different(
        two_products(merged=False), two_products(merged=True, off_by=1), "output a: relative error"
    )
    assert [output.status for output in result.outputs] == ["different", "equivalent"]
    assert "element [" in result.message
    assert "output b" not in result.message


def test_a_swapped_concat_is_caught() -> None:
    result = different(two_products(merged=False), two_products(merged=True, swapped=True), "output b")
    assert [output.status for output in result.outputs] == ["different", "different"]


def test_the_message_names_the_element_and_both_values() -> None:
    m = Maker()
    x = m.input("x", 2, 3)
    bump = m.op(
        "concat", *(m.op("fill", value=float(k == 1), dtype="f32", shape=(2, 1)) for k in range(3)), axis=1
    )
    zero = m.op("ewsub", x, x)
    result = different(
        m.graph(y=zero), m.graph(y=m.op("ewadd", zero, bump)), "element [0, 1] is 0 before and 1 after"
    )
    assert result.max_abs_error == 1
    assert result.max_rel_error == 1


def test_outputs_are_matched_by_position_and_name() -> None:
    graph = two_products(merged=False)
    (a, i), (b, j) = graph.outputs
    different(
        graph,
        dataclasses.replace(graph, outputs=((b, j), (a, i))),
        "the outputs are a, b before and b, a after",
    )
    different(graph, dataclasses.replace(graph, outputs=((a, i),)), "a, b before and a after")
    different(graph, dataclasses.replace(graph, outputs=((a, j), (b, i))), "output a")


def test_interfaces_that_cannot_agree() -> None:
    def graph(*shape: int, dtype: str = "f32", op: str = "input", name: str = "x") -> Graph:
        m = Maker()
        return m.graph(y=m.op("relu", m.op(op, name=name, dtype=dtype, shape=shape)))

    result = different(graph(3), graph(4), "output y is f32[3] before and f32[4] after")
    assert result.max_abs_error is None
    different(graph(3), graph(1, 3), "f32[1, 3] after")
    different(graph(3), graph(3, dtype="f16"), "f16[3] after")
    different(graph(3), graph(3, op="weight"), "x is input f32[3] before and weight f32[3] after")
    different(graph(3), graph(3, name="z"), "input z is new")
    m = Maker()
    reshaped = m.graph(y=m.op("reshape", m.op("relu", m.input("x", 3, 1)), shape=(3,)))
    different(graph(3), reshaped, "x is input f32[3] before and input f32[3, 1] after")


def test_a_second_graph_that_does_not_run_is_different() -> None:
    graph = two_products(merged=False)
    broken = dataclasses.replace(
        graph, nodes=(*graph.nodes[:-1], dataclasses.replace(graph.nodes[-1], op="relu"))
    )
    assert broken.nodes[-1].op == "relu"
    different(graph, broken, "the second graph cannot be run: relu cannot be computed")
    result = compare(broken, graph, SEMANTICS)
    assert result.status == "inconclusive"
    assert "the first graph cannot be run" in result.message


def test_what_does_not_fit_in_memory_is_said() -> None:
    def full(*_: object, **attrs: object) -> None:
        raise MemoryError

    graph = two_products(merged=False)
    result = compare(graph, two_products(merged=True), {**SEMANTICS, "matmul": full})  # type: ignore[dict-item]
    assert result.status == "inconclusive"
    assert result.message == "the first graph cannot be run: out of memory"


def square_root_of(sign: float) -> Graph:
    m = Maker()
    x = m.input("x", 100)
    y = m.op("smul", m.op("ewsub", x, x), m.op("fill", value=sign, dtype="f32", shape=()))
    one = m.op("fill", value=sign, dtype="f32", shape=())
    return m.graph(y=m.op("sqrt", m.op("ewsub", y, one)), x=m.op("relu", x))


def test_not_a_number_in_both_is_not_taken_for_equal() -> None:
    result = compare(square_root_of(1.0), square_root_of(1.0), SEMANTICS)
    assert result.status == "inconclusive"
    assert "100 of 100 elements are infinite or not a number in both" in result.message
    assert result.max_abs_error == 0


def test_not_a_number_in_one_is_different() -> None:
    result = different(square_root_of(1.0), square_root_of(-1.0), "element [0] is nan before and 1 after")
    assert result.outputs[1].status == "equivalent"


@pytest.mark.parametrize(("sign", "status"), [(1.0, "inconclusive"), (-1.0, "different")])
def test_infinities(sign: float, status: str) -> None:
    def graph(value: float) -> Graph:
        m = Maker()
        x = m.input("x", 4)
        zero = m.op("ewmul", m.op("ewsub", x, x), x)
        large = m.op("fill", value=value, dtype="f32", shape=(4,))
        return m.graph(y=m.op("ewadd", zero, m.op("ewdiv", large, m.op("relu", m.op("ewmul", zero, zero)))))

    assert compare(graph(1.0), graph(sign), SEMANTICS).status == status


def test_outputs_that_are_zero_are_pointed_out() -> None:
    m = Maker()
    x = m.input("x", 4)
    result = compare(m.graph(y=m.op("ewsub", x, x)), m.graph(y=m.op("ewsub", x, x)), SEMANTICS)
    assert result.status == "equivalent"
    assert "zero everywhere" in result.message


def test_outputs_that_are_constant_are_pointed_out() -> None:
    """A saturated output shows nothing of what it is computed from."""
    m = Maker()
    large = m.op("fill", value=100.0, dtype="f32", shape=(4,))
    graph = m.graph(y=m.op("tanh", m.op("ewadd", m.input("x", 4), large)))
    result = compare(graph, graph, SEMANTICS)
    assert result.status == "equivalent"
    assert "the same number everywhere" in result.message


def test_surrogates_are_named_and_do_their_work() -> None:
    def graph(order: tuple[int, int]) -> Graph:
        m = Maker()
        x = m.input("x", 6)
        parts = [m.op("slice", x, axis=0, start=3 * i, stop=3 * i + 3) for i in order]
        node = m.opaque("lstm", m.op("concat", *parts, axis=0), shapes=[(2,), (3, 2)], hidden=2)
        return m.graph(y=m.op("tanh", m.proj(node, 1)))

    m = Maker()
    direct = m.graph(
        y=m.op("tanh", m.proj(m.opaque("lstm", m.input("x", 6), shapes=[(2,), (3, 2)], hidden=2), 1))
    )
    result = compare(direct, graph((0, 1)), SEMANTICS)
    assert result.status == "equivalent"
    assert result.surrogates == ("lstm",)
    assert compare(direct, graph((1, 0)), SEMANTICS).status == "different"


def test_integer_graphs_are_compared_as_integers() -> None:
    m = Maker()
    x, y, z = (m.input(name, 200, dtype="i64") for name in "xyz")
    left = m.graph(r=m.op("ewdiv", m.op("ewmul", x, y), z))
    right = m.graph(r=m.op("ewmul", x, m.op("ewdiv", y, z)))
    different(left, right, "output r")


def test_a_surrogate_can_say_where_elements_are() -> None:
    """Integers that nobody knows are real numbers in the comparison, and rows are taken by them all the same."""

    def graph(first: int) -> Graph:
        m = Maker()
        table, x = m.input("table", 5, 4), m.input("x", 40)
        rows = m.op("slice", x, axis=0, start=first, stop=first + 30)
        places = m.opaque("place", rows, shapes=[(30,)], dtype="i64")
        return m.graph(y=m.op("gather", table, places, axis=0))

    assert compare(graph(0), graph(0), SEMANTICS).status == "equivalent"
    assert compare(graph(0), graph(1), SEMANTICS).status == "different"
