"""Pickles give back equal values, of whatever class, and what was one object stays one."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import Any

import pytest

from tensat_dl.core.graph import TensorType
from tensat_dl.lang.library import LibraryRule, items, library_operators, packs
from tensat_dl.pickles import pickled, unpickled


@dataclass(frozen=True, slots=True)
class Pair:
    one: object
    other: object = None


@dataclass(frozen=True, slots=True)
class Single:
    only: object


@dataclass(frozen=True, slots=True)
class Derived(Pair):
    """Not all of its fields are arguments."""

    total: int = field(init=False, default=7)


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    name: str


@dataclass(frozen=True)
class Open:
    values: list[int]


@pytest.mark.parametrize(
    "value",
    [
        Pair(1, (2, Pair("x"))),
        Single((1,)),
        Single(Single(None)),
        Derived(1, 2),
        Named(name="n"),
        Open([1, 2]),
        {"a": [Pair(Open([1]), Single("s"))]},
        TensorType("f32", (1, 2)),
    ],
)
def test_a_copy_is_equal(value: Any) -> None:
    copy = unpickled(pickled(value))
    assert copy == value
    assert repr(copy) == repr(value)
    assert pickle.loads(pickle.dumps(value)) == copy


def test_one_object_stays_one() -> None:
    shared = Pair(1)
    first, second = unpickled(pickled((Pair(shared, Single(shared)), shared)))
    assert first.one is second is first.other.only


def test_the_library_is_the_same() -> None:
    """Rules, expressions, places in files: all that a worker is sent."""
    for pack in packs():
        rules = [r for i in items(f"{pack}.tsr") if isinstance(i, LibraryRule) for r in i.rewrites]
        copies = unpickled(pickled(rules))
        assert [r.content for r in copies] == [r.content for r in rules]
        assert [(r.span.source.path, r.span.start) for r in copies] == [
            (r.span.source.path, r.span.start) for r in rules
        ]
    assert repr(dict(unpickled(pickled(library_operators())))) == repr(dict(library_operators()))
