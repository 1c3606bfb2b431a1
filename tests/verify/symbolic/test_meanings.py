"""Operators by indices against the reference semantics in NumPy, with known and with unknown sizes."""

from __future__ import annotations

import random
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from tensat_dl.core.graph import INTEGERS, TensorType
from tensat_dl.ops import symbolic as sym
from tensat_dl.ops.semantics import semantics_of
from tensat_dl.ops.semantics.arrays import Array
from tensat_dl.ops.symbolic import Atom, Condition
from tensat_dl.ops.typing import Inference
from tensat_dl.ops.values import SymType
from tensat_dl.verify.symbolic.assumptions import Assumptions, Undecided
from tensat_dl.verify.symbolic.context import Context, Tensor, leaf
from tensat_dl.verify.symbolic.meanings import MEANINGS, POINTWISE, meaning
from tests.ops.applications import TABLE, Application, application
from tests.ops.symbols import Case
from tests.verify.symbolic.by_number import holds, number

OPERATORS = sorted({*MEANINGS, *POINTWISE, "cast", "reshape"})
INFER = Inference(TABLE)
SEMANTICS = semantics_of(TABLE)


def test_every_operator_is_there() -> None:
    composed = {name for name, d in TABLE.items() if d.composition is not None}
    others = {name for name, d in TABLE.items() if d.opaque} | {"input", "weight"}
    assert set(OPERATORS) - composed == set(TABLE) - composed - others


def types_and_attributes(
    a: Application, case: Case, rng: random.Random, known: float
) -> tuple[list[SymType], dict[str, Any]]:
    types = [case.type(f"x{k}", t, rng, known) for k, t in enumerate(a.inputs)]
    attrs = {}
    for name, value in a.attrs.items():
        declared = TABLE[a.op][name]
        fixed = declared.type == "axes" or declared.words or rng.random() < known
        attrs[name] = value if fixed or isinstance(value, float | str) else case.attribute(declared, value)
    return types, attrs


def element(
    a: Application, types: Sequence[SymType], attrs: Mapping[str, Any], case: Case, index: tuple[int, ...]
) -> tuple[Any, Context]:
    """The element at an index, in the case at hand."""
    conditions = list(INFER(a.op, types, attrs).conditions)
    while True:
        context = Context(Assumptions(conditions))
        tensors: list[Tensor] = [leaf(f"x{k}", t.shape, t.dtype, context) for k, t in enumerate(types)]
        try:
            return meaning(a.op, context, tensors, attrs, INFER).at(index), context
        except Undecided as u:
            conditions.append(u.condition if truth(u.condition, case) else sym.negate(u.condition))


def truth(c: Condition, case: Case) -> bool:
    match c.kind:
        case "and":
            return all(truth(x, case) for x in c.args)
        case "or":
            return any(truth(x, case) for x in c.args)
        case "eq" | "ne" | "le":
            return holds(c, case.integers)
    return case.holds(c)


@pytest.mark.parametrize("known", [1.0, 0.5, 0.0])
@pytest.mark.parametrize("op", OPERATORS)
def test_meaning(op: str, known: float) -> None:
    rng = random.Random(zlib.crc32(op.encode()))
    values = np.random.default_rng(rng.randrange(1000))
    seen = 0
    for _ in range(6):
        a = application(op, rng)
        arrays = [drawn(t, values) for t in a.inputs]
        expected = SEMANTICS[op](*arrays, **a.attrs)
        case = Case()
        types, attrs = types_and_attributes(a, case, rng, known)
        shape = expected.shape
        for index in {tuple(int(values.integers(n)) for n in shape) for _ in range(4)}:
            v, _ = element(a, types, attrs, case, index)
            named = {f"x{k}": x for k, x in enumerate(arrays)}
            assert number(v, named, {**case.integers, **places(named)}) == pytest.approx(
                float(expected[index]), rel=1e-9, abs=1e-9
            )
            seen += 1
    assert seen


def drawn(t: TensorType, values: np.random.Generator) -> Array:
    if t.dtype == "bool":
        return values.integers(0, 2, t.shape).astype(bool)
    if t.dtype in INTEGERS:
        return values.integers(-3 if t.dtype[0] == "i" else 0, 4, t.shape).astype(t.dtype.replace("i", "int"))
    return values.uniform(0.25, 4.0, t.shape)


def places(named: Mapping[str, Array]) -> dict[Atom, int]:
    """The elements of arrays of integers."""
    integers = {name: x.reshape(-1).tolist() for name, x in named.items() if x.dtype.kind == "i"}
    return {("element", name, k): n for name, x in integers.items() for k, n in enumerate(x)}
