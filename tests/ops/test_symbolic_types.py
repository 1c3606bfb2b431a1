"""Types of unknown operands, once the unknowns are known, are the types of the known operands."""

from __future__ import annotations

import random

import pytest

from tensat_dl.core.graph import TensorType
from tensat_dl.ops.symbolic import EvaluationError
from tensat_dl.ops.typing import IllTyped, infer

from .applications import TABLE, Application, application
from .symbols import Case

pytestmark = pytest.mark.sampled(6)


def concrete(a: Application) -> tuple[TensorType, ...] | None:
    """The types of the results, or None if the application is ill-typed."""
    try:
        return infer(TABLE, a.op, a.inputs, a.attrs).concrete()
    except IllTyped:
        return None


def symbolic(a: Application, rng: random.Random, known: float) -> tuple[TensorType, ...] | None:
    """The same by way of unknowns: each dimension, element type and attribute is known with a probability."""
    case, decl = Case(), TABLE[a.op]
    inputs = [case.type(f"x{i}", t, rng, known) for i, t in enumerate(a.inputs)]
    attrs = {
        d.name: a.attrs[d.name] if rng.random() < known else case.attribute(d, a.attrs[d.name])
        for d in decl.attrs
    }
    try:
        typing = infer(TABLE, a.op, inputs, attrs)
        if not case.all_hold(typing.conditions):
            return None
        found = [TensorType(case.of(t.dtype), case.of(t.shape)) for t in typing.types]
    except (IllTyped, EvaluationError):
        return None
    if any(d <= 0 for t in found for d in t.shape):
        return None  # no dimension is; for known dimensions the checker says so
    return tuple(found)


@pytest.mark.parametrize("op", sorted(TABLE))
def test_unknown_and_known_operands_have_one_type(op: str) -> None:
    rng = random.Random(op)
    well = ill = 0
    for i in range(200):
        a = application(op, rng, spoil=0.5)
        expected = concrete(a)
        assert symbolic(a, rng, (0.0, 0.0, 0.5)[i % 3]) == expected, a
        well += expected is not None
        ill += expected is None
    assert well > 30
    assert ill > 0 or op in ("dropout", "cast", "neg"), "nothing was ever refused"


@pytest.mark.parametrize("op", sorted(TABLE))
def test_what_is_drawn_to_be_well_typed_is(op: str) -> None:
    rng = random.Random(op)
    for _ in range(50):
        a = application(op, rng)
        assert concrete(a) is not None, a
