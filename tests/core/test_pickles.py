"""Pickles give back equal values, of whatever class, and what was one object stays one."""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

import tensat_dl
from tensat_dl.core.graph import TensorType
from tensat_dl.lang.library import LibraryRule, items, library_operators, packs
from tensat_dl.lang.named_sizes import Size, everywhere
from tensat_dl.ops.symbolic import Sym
from tensat_dl.pickles import pickled, unpickled
from tensat_dl.sizes.named import NamedSize


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
    copied = unpickled(pickled(value))
    assert copied == value
    assert repr(copied) == repr(value)
    assert pickle.loads(pickle.dumps(value)) == copied


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


def test_explanations_of_graphs_with_open_sizes() -> None:
    """Their integers remember what they are at other sizes."""
    text = "graph g(n: 1..9 = 3) {\n  input x : f32[n, 2]\n  output relu(relu(x)), reshape(x; shape = [n * 2])\n}\n"
    model = tensat_dl.load(text=f"rule once {{ relu(relu(x)) => relu(x) }}\n{text}")
    result = tensat_dl.optimize(model)
    for value in (model, result, tensat_dl.explain(model, result)):
        for copied in (pickle.loads(pickle.dumps(value)), copy.deepcopy(value)):
            assert copied.summary() == value.summary()
    size = Size(3, cast(Sym, NamedSize("n", 1, 9, 3).symbol))
    for same in (unpickled(pickled(size)), copy.deepcopy(size)):
        assert (same, everywhere(same * 2)) == (3, everywhere(size * 2))
