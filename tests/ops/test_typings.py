"""What `infer` remembers."""

from __future__ import annotations

import pickle

import pytest

from tensat_dl.core.graph import TensorType
from tensat_dl.ops import typing
from tensat_dl.ops.table import OpTable
from tensat_dl.ops.typing import IllTyped, infer
from tests.explore.graphs import library

X, Y = TensorType("f32", (2, 3)), TensorType("f32", (3, 4))


def table() -> OpTable:
    return OpTable(library().ops.values())


def test_a_type_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ops = table()
    first = infer(ops, "matmul", [X, Y], {"act": "none"})
    monkeypatch.setattr(typing, "_infer", None)
    assert infer(ops, "matmul", [X, Y], {"act": "none"}) is first


def test_a_fault_is_found_each_time() -> None:
    ops = table()
    for _ in range(2):
        with pytest.raises(IllTyped) as found:
            infer(ops, "matmul", [X, X], {"act": "none"})
        assert found.value.env


def test_attributes_of_other_kinds_are_others() -> None:
    ops = table()
    assert infer(ops, "concat", [X, X], {"axis": 0}) != infer(ops, "concat", [X, X], {"axis": 1})


def test_few_are_kept_and_none_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    ops = table()
    monkeypatch.setattr(typing, "REMEMBERED", 3)
    for size in range(1, 9):
        infer(ops, "relu", [TensorType("f32", (size,))], {})
    assert len(ops.typings) <= 3
    assert not pickle.loads(pickle.dumps(ops)).typings
