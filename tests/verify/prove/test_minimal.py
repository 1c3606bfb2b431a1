"""What is found to be enough is enough, and nothing in it can be left out."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from tensat_dl.core.minimal import minimal

SETS = st.frozensets(st.integers(0, 9))


@given(st.lists(SETS, min_size=1, max_size=4))
def test_any_condition(sufficient: list[frozenset[int]]) -> None:
    """A condition that more items cannot break holds for whatever includes one of some sets."""

    def suffices(items: Sequence[int]) -> bool:
        return any(s <= set(items) for s in sufficient)

    items = sorted(frozenset[int]().union(*sufficient))
    found = minimal(items, suffices)
    assert suffices(found)
    assert all(not suffices([i for i in found if i != left_out]) for left_out in found)


@given(st.integers(1, 60), st.integers(0, 59))
def test_one_of_many(n: int, k: int) -> None:
    """One item is found by halving."""
    asked = 0

    def suffices(items: Sequence[int]) -> bool:
        nonlocal asked
        asked += 1
        return k % n in items

    assert minimal(range(n), suffices) == [k % n]
    assert asked <= 2 * n.bit_length() + 2


def test_nothing_is_needed() -> None:
    assert minimal([], lambda items: True) == []
    assert minimal([1], lambda items: True) == []
    assert minimal([1, 2, 3], lambda items: True) == []
