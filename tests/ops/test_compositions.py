"""Operators that are defined as compositions: what they may say, and that graphs find them and take them apart."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tensat_dl.core.diagnostics import TsrError
from tensat_dl.fuse.fuse import unfused
from tensat_dl.lang.declare import check_declaration
from tensat_dl.ops.semantics import semantics_of
from tensat_dl.verify.exact.draws import WHOLE, exact_values, leaves
from tensat_dl.verify.exact.operators import evaluate
from tensat_dl.verify.exact.rational import Rational
from tensat_dl.verify.execute import execute
from tensat_dl.verify.rules.examine import Examiner
from tensat_dl.verify.rules.verify import verify_rules
from tensat_dl.verify.weights import draw_values
from tests.explore.graphs import explored, graph_in, program_of

from .applications import TABLE

pytestmark = pytest.mark.sampled(3)

LEAKY = "op leaky(x: tensor; slope: float) = relu(x) + ewmin(x, 0.0) * slope\n"
COMPOSITIONS = sorted(d.name for d in TABLE.values() if d.composition is not None)


def found(graph: str, declared: str = LEAKY) -> list[tuple[str, dict[str, object]]]:
    """The operators of the e-graph that a graph's compositions make, with their attributes."""
    program = program_of(f"{declared}graph g {{\n  input x : f32[4, 3]\n  {graph}\n}}")
    e = explored(graph_in(program), program.rules, ops=program.ops)
    return [(op, dict(attrs)) for op, attrs in zip(e.op, e.attrs, strict=True)]


def test_a_float_attribute_is_a_scalar_in_a_tensors_place() -> None:
    nodes = found("output leaky(x; slope = 0.25)")
    assert ("fill", {"value": 0.25, "dtype": "f32", "shape": ()}) in nodes


def test_the_value_of_a_scalar_becomes_the_attribute() -> None:
    nodes = found("output relu(x) + ewmin(x, 0.0) * 0.75")
    assert ("leaky", {"slope": 0.75}) in nodes


def test_a_tensor_that_is_no_known_scalar_is_not_taken_for_an_attribute() -> None:
    nodes = found("weight s : f32[]\n  output relu(x) + ewmin(x, 0.0) * s")
    assert not [op for op, _ in nodes if op == "leaky"]


def test_what_a_composition_computes_is_an_axis_from_the_first() -> None:
    """.. as rules take it: a number that is negative for some sizes alone would be another axis there."""
    flipped = "op flipped(x: tensor; p: {}) = transpose(x; perm = p)\n"
    with pytest.raises(TsrError, match="perm is a permutation"):
        found("output flipped(x; p = [-1, -2])", flipped.format("ints"))
    for p in ("[-1, -2]", "[0 - 1, 0]"):
        assert ("transpose", {"perm": (1, 0)}) in found(f"output flipped(x; p = {p})", flipped.format("axes"))
    last = "op last(x: tensor) = softmax(x; axis = -1)\n"
    assert ("softmax", {"axis": 1}) in found("output last(x)", last)


def test_one_attribute_in_two_places_has_one_value() -> None:
    both = "op both(x: tensor; c: float) = relu(x + c) * c\n"
    assert ("both", {"c": 2.0}) in found("output relu(x + 2.0) * 2.0", both)
    assert not [op for op, _ in found("output relu(x + 2.0) * 3.0", both) if op == "both"]


@pytest.mark.parametrize(
    ("composition", "message"),
    [
        ("slope", "`slope` is a float, not a tensor"),
        ("ewmul(slope, 2.0)", "a number needs a tensor beside it, whose element type it takes"),
        ("ewmul(x, n)", "`n` is an integer, not a tensor"),
    ],
)
def test_what_is_no_composition(composition: str, message: str) -> None:
    with pytest.raises(TsrError) as caught:
        program_of(f"op f(x: tensor; slope: float, n: int) = {composition}\n")
    assert [d.message for d in caught.value.diagnostics] == [message]


@pytest.mark.parametrize("op", COMPOSITIONS)
def test_the_library_keeps_to_the_rules(op: str) -> None:
    assert not check_declaration(TABLE[op], TABLE)


@pytest.mark.parametrize("op", COMPOSITIONS)
def test_a_composition_of_the_library_can_be_taken_apart(op: str) -> None:
    """There are operands for which the operator and its parts both type-check, and exact arithmetic compares them."""
    rules = {r.name: r for r in program_of("").rules}
    assert Examiner(TABLE).verdict(rules[f"unfuse-{op}"]).status == "tested"


def test_numbers_inside_a_list_of_any_length_are_not_matched() -> None:
    """There is no rule `fuse-blocks` then: what the number is could not be told."""
    blocks = "op blocks(x: tensor; n: int) = reshape(x; shape = [n, prod(shape(x)) / n])\n"
    assert "unfuse-blocks" in {r.name for r in program_of(blocks).rules}
    assert "fuse-blocks" not in {r.name for r in program_of(blocks).rules}
    assert ("blocks", {"n": 3}) in found("output blocks(reshape(x; shape = [12]); n = 3)", blocks)


def test_the_librarys_compositions_leave_graphs_of_views_alone() -> None:
    nodes = found("output transpose(reshape(x; shape = [2, 2, 3]); perm = [1, 0, 2])", "")
    assert [op for op, _ in nodes] == ["input", "reshape", "transpose"]


MIXED = """
op next_rows(table: tensor, ids: tensor) = gather(table, ids + 1; axis = 0)
op rows_plus(ids: tensor, table: tensor) = gather(table, ids; axis = 0) + 0.5
op chosen(x: tensor, y: tensor) = select(greater(x, y), 0.25, x)
graph g {
  input t : f32[8, 4]
  input u : f32[8, 4]
  input ids : i64[3]
  output next_rows(t, ids), rows_plus(ids, t), chosen(t, u), select(greater(t, u), t, 0.75)
}
rule plus-zero { select(c, x, 0.5) => select(c, x, 0.5) + 0.0 }
"""


def test_a_number_takes_its_element_type_from_what_is_beside_it() -> None:
    """Not from the composition's first operand, nor from truth values; by every way of computing a graph."""
    program = program_of(MIXED)
    graph = graph_in(program)
    values = draw_values([graph], 0, {})
    t, u, ids = values["t"], values["u"], values["ids"]
    want = (
        t[(ids + 1) % 8],
        t[ids % 8] + 0.5,
        np.where(t > u, 0.25, t),
        np.where(t > u, t, 0.75),
    )
    for found, wanted in zip(execute(graph, values, semantics_of(program.ops)), want, strict=True):
        np.testing.assert_array_equal(found, wanted)
    exact = evaluate(graph, exact_values(leaves([graph]), WHOLE[0], 0), Rational(0), program.ops)
    assert all((4 * x == (4 * x).astype(np.int64)).all() for x in exact)
    assert {Fraction(x) % 1 for x in exact[1].ravel()} == {Fraction(1, 2)}
    assert unfused(graph, program.ops, ("next_rows", "rows_plus", "chosen")).outputs
    for verdict in verify_rules(program.rules, program.ops):
        assert verdict.status in ("tested", "proved"), verdict


def test_a_number_that_an_element_type_does_not_have() -> None:
    """300 is none of u8: neither a composition nor a rule makes it one."""
    declared = "op far(x: tensor) = x + 300.0\nrule shift { relu(relu(x)) => (relu(x) + 300.0) - 300.0 }\n"
    for dtype, fits in (("u8", False), ("i8", False), ("i16", True), ("f16", True)):
        text = f"{declared}graph g {{\n  input x : {dtype}[4]\n  output far(x), relu(relu(x))\n}}"
        if not fits:
            with pytest.raises(TsrError):
                graph_in(program_of(text))
            text = text.replace("far(x), ", "")
        program = program_of(text)
        made = explored(graph_in(program), program.rules, ops=program.ops).op
        assert ("ewsub" in made) == fits
