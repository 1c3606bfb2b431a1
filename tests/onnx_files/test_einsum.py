"""Einsum: what is read of it computes what NumPy's does, and is written to what ONNX Runtime computes the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnx_ir")

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx.helper import make_node

from tensat_dl.onnx.importer import Imported
from tensat_dl.ops.semantics import semantics_of
from tensat_dl.verify.execute import execute

from .models import model, operators, read, rewriting, value

SIZES = dict(zip("abcdefg", (2, 3, 4, 5, 1, 6, 7), strict=True))


def imported(tmp_path: Path, equation: str) -> Imported:
    terms = "".join(equation.split()).partition("->")[0].split(",")
    names = [f"x{k}" for k in range(len(terms))]
    inputs = [value(n, *(SIZES.get(i, 2) for i in t)) for n, t in zip(names, terms, strict=True)]
    node = make_node("Einsum", names, ["y"], equation=equation)
    return read(tmp_path, model([node], inputs, ["y"]))


def check(found: Imported, equation: str) -> None:
    generator = np.random.default_rng(0)
    values: dict[str, Any] = {
        str(n.attr("name")): generator.standard_normal(n.type.shape)
        for n in found.graph.nodes
        if n.op == "input"
    }
    (actual,) = execute(found.graph, values, semantics_of(found.program.ops))
    np.testing.assert_allclose(actual, np.einsum(equation, *values.values()), rtol=1e-9, atol=1e-12)


@st.composite
def equations(draw: st.DrawFn) -> str:
    """Two operands of up to four indices each, of which those that only one has are in the result."""
    letters = draw(st.permutations("abcdefg"))
    shared, left, right = (draw(st.integers(0, 2)) for _ in range(3))
    both, *own = letters[:shared], letters[2 : 2 + left], letters[4 : 4 + right]
    kept = [i for i in both if draw(st.booleans())]
    terms = ["".join(draw(st.permutations([*both, *mine]))) for mine in own]
    return f"{','.join(terms)}->{''.join(draw(st.permutations([*kept, *own[0], *own[1]])))}"


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(equations())
def test_any_product(tmp_path: Path, equation: str) -> None:
    found = imported(tmp_path, equation)
    assert not found.opaque, equation
    assert operators(found.graph).count("matmul") == 1
    check(found, equation)


@pytest.mark.parametrize(
    ("equation", "becomes"),
    [
        ("ab,bc->ac", ["matmul"]),
        ("gabc,gacd->gabd", ["matmul"]),
        ("gabc,gadc->gabd", ["transpose", "matmul"]),
        ("gabc,gadc->gadb", ["transpose", "matmul"]),
        ("abc,cd", ["reshape", "matmul", "reshape"]),
        ("a , b -> ba", ["reshape", "reshape", "matmul"]),
        ("abc->cab", ["transpose"]),
    ],
)
def test_written_and_read(tmp_path: Path, equation: str, becomes: list[str]) -> None:
    found = imported(tmp_path, equation)
    assert operators(found.graph) == becomes
    check(found, equation)
    assert rewriting(tmp_path, found).status == "agrees"


@pytest.mark.parametrize("equation", ["ab->a", "aa->a", "ab,bc,cd->ad", "...a,ab->...b", "ab,cd->ad"])
def test_others_stay_as_they_are(tmp_path: Path, equation: str) -> None:
    assert imported(tmp_path, equation).opaque == 1
