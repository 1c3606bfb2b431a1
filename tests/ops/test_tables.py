"""Every operator of the library is in every table about operators, and what the tables say is true."""

from __future__ import annotations

import ast
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from tensat_dl.core.graph import TensorType
from tensat_dl.cost import CostModel
from tensat_dl.ops.semantics import SEMANTICS
from tensat_dl.ops.semantics.elementwise import ACTIVATIONS, FUNCTIONS
from tensat_dl.ops.table import OpDecl
from tensat_dl.ops.traits import TRAITS, Family, Traits, having, positive_operands, traits
from tensat_dl.report.graphs import FAMILIES
from tensat_dl.verify.exact.operators import EXACT_SEMANTICS

from .applications import _WELL_TYPED, TABLE

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Table:
    """A table by operator. ``about`` says which operators it has."""

    name: str
    file: str  #: to add a row to
    rows: Container[str]
    about: Callable[[OpDecl], bool]


def primitive(decl: OpDecl) -> bool:
    return decl.composition is None and not decl.opaque and decl.name not in ("input", "weight")


def written(decl: OpDecl) -> bool:
    """Leaves are written as constants, and a merge, which is of weights alone, as what it comes to."""
    return primitive(decl) and traits(decl.name).family != "leaf" and decl.name != "merge"


def chained(decl: OpDecl) -> bool:
    return primitive(decl) and traits(decl.name).chained and decl.name != "power"


def keys(file: str, *tables: str) -> set[object]:
    """What stands before the colons of some tables of a file that can't be imported everywhere."""
    nodes = ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8")))
    assigned = [(n.targets[0] if isinstance(n, ast.Assign) else n.target, n.value)
                for n in nodes if isinstance(n, ast.Assign | ast.AnnAssign)]  # fmt: skip
    found = [v for t, v in assigned if isinstance(t, ast.Name) and t.id in tables and isinstance(v, ast.Dict)]
    assert len(found) == len(tables), f"{file} has not all of {', '.join(tables)}"
    return {k.value for table in found for k in table.keys if isinstance(k, ast.Constant)}


def tables() -> list[Table]:
    semantics = "tensat_dl/ops/semantics/"
    triton: Any = keys("kernels/elementwise.py", "_TERMS")
    meaning: Any = keys("kernels/elementwise.py", "MEANING")
    return [
        Table("TRAITS", "tensat_dl/ops/traits.py", TRAITS, lambda _: True),
        Table("NumPy's SEMANTICS", semantics, SEMANTICS, primitive),
        Table("EXACT_SEMANTICS", "tensat_dl/verify/exact/operators.py", EXACT_SEMANTICS, primitive),
        Table("what Triton computes", "kernels/elementwise.py", triton, chained),
        Table("torch's MEANING", "kernels/elementwise.py", meaning, chained),
        Table("the applications that are tested", "tests/ops/applications.py", _WELL_TYPED, lambda _: True),
    ]


def missing(declared: Iterable[OpDecl], tables: Iterable[Table]) -> list[str]:
    return [
        f"{decl.name} is not in {table.name}: add it to {table.file}"
        for table in tables
        for decl in declared
        if table.about(decl) and decl.name not in table.rows
    ]


def test_every_operator_is_in_every_table() -> None:
    lacking = missing(TABLE.values(), tables())
    assert not lacking, "\n".join(lacking)


def test_every_operator_is_written_to_onnx_and_read() -> None:
    pytest.importorskip("onnx_ir")
    from tensat_dl.onnx.operators import READ, WRITE

    lacking = missing(TABLE.values(), [Table("WRITE", "tensat_dl/onnx/operators/", WRITE, written)])
    assert not lacking, "\n".join(lacking)
    assert {f.onnx for f in FUNCTIONS.values() if f.onnx} <= set(READ)


def test_every_operator_has_a_kernel() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    from tensat_dl.resources import kernels

    lacking = missing(TABLE.values(), [Table("MEANING", "kernels/", kernels("registry").MEANING, primitive)])
    assert not lacking, "\n".join(lacking)


def test_a_missing_operator_is_named_with_the_table_and_the_file() -> None:
    new = replace(TABLE["floor"], name="unheard_of")
    told = missing([new], tables())
    assert "unheard_of is not in TRAITS: add it to tensat_dl/ops/traits.py" in told
    assert "unheard_of is not in NumPy's SEMANTICS: add it to tensat_dl/ops/semantics/" in told
    assert len(told) == 4  # without traits it is not known to need a row in the kernels


def test_no_table_has_an_operator_that_is_not_declared() -> None:
    assert set(TRAITS) - {"proj"} <= set(TABLE), "tensat_dl/ops/traits.py has more than rules/ops.tsr"
    assert set(EXACT_SEMANTICS) <= set(TABLE)


def test_activations_are_those_that_declarations_name() -> None:
    named = {c for d in TABLE.values() for a in d.attrs if a.name == "act" for c in a.choices}
    assert named == set(ACTIVATIONS), "ACTIVATIONS is in tensat_dl/ops/semantics/elementwise.py"
    assert having(lambda t: t.activation) == named - {"none"}


def test_what_functions_do_to_zero_and_to_negative_numbers() -> None:
    known = {"relu", "tanh", "sigmoid", "exp", "sqrt", "rsqrt", "erf", "gelu", "log", "floor"}
    zero = {"relu", "tanh", "sqrt", "erf", "gelu", "floor"}
    assert {f for f in known if traits(f).keeps_zero} == zero
    assert {f for f in known if traits(f).positive} == {"sqrt", "rsqrt", "log"}
    assert positive_operands("power", (("exponent", 2.0),)) == ()
    assert positive_operands("power", (("exponent", 0.3),)) == (0,)


@pytest.mark.parametrize("op", sorted(having(lambda t: t.keeps_positive)))
def test_what_keeps_positive_numbers_positive(op: str) -> None:
    x = np.full((1, 2, 3, 4), 0.5)
    known: dict[str, Any] = {"axis": 1, "exponent": -1.5, "perm": (0, 2, 1, 3), "shape": (1, 2, 3, 4)}
    known |= {"start": 0, "stop": 1, "kernel": (2, 2), "stride": (1, 1), "pads": (0, 1, 0, 1), "act": "none"}
    known |= {"include_pad": True, "p": 0.5}
    attrs = {a.name: known[a.name] for a in TABLE[op].attrs}
    found = SEMANTICS[op](*[x] * TABLE[op].min_inputs, **attrs)
    assert np.all(found > 0)


def test_a_users_operator_has_no_traits() -> None:
    assert traits("mine") == Traits()
    assert positive_operands("mine", (("exponent", 0.5),)) == ()


def test_every_family_has_a_colour() -> None:
    assert set(FAMILIES) == set(get_args(Family)), "FAMILIES is in tensat_dl/report/graphs.py"


def test_an_operator_that_nobody_declares_is_refused_in_a_sentence() -> None:
    with pytest.raises(KeyError) as caught:
        CostModel.of(TABLE, "a100").estimate("mine", (), (), TensorType("f32", (2,)))
    assert str(caught.value) == "no operator `mine` is declared, in rules/ops.tsr or in a file of one's own"
    assert "mine" not in TABLE
    assert TABLE.get("mine") is None
