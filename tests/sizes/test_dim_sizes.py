"""What users say about the sizes of open dimensions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensat_dl.sizes.dim_sizes import DimSizes, dim_sizes, ranges_in_text


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (128, DimSizes((128,))),
        ("128", DimSizes((128,))),
        ([32, 128], DimSizes((32, 128))),
        ((32, 128), DimSizes((32, 128))),
        ("32, 128", DimSizes((32, 128))),
        (range(1, 513), DimSizes((), 1, 512)),
        ("1..512", DimSizes((), 1, 512)),
        ("1..512=32,128", DimSizes((32, 128), 1, 512)),
        ("1..1", DimSizes((), 1, 1)),
    ],
)
def test_forms(value: Any, expected: DimSizes) -> None:
    assert DimSizes.of(value) == expected


@pytest.mark.parametrize(
    ("value", "error", "say"),
    [
        (range(5, 5), ValueError, "no range of sizes"),
        (range(1, 9, 2), ValueError, "its step is 1"),
        (range(4, 1, -1), ValueError, "its step is 1"),
        (range(3), ValueError, "0 is no size"),
        ([], ValueError, "there is no size"),
        ([4, 2], ValueError, "4,2 do not ascend"),
        ([0], ValueError, "0 is no size"),
        (True, TypeError, "neither a size, nor a range"),
        (1.5, TypeError, "neither a size, nor a range"),
        ([1, "2"], TypeError, "neither a size, nor a range"),
        (None, TypeError, "neither a size, nor a range"),
        ("", ValueError, "'' is not a size (128)"),
        ("1..2..3", ValueError, "is not a size"),
        ("²", ValueError, "is not a size"),
        ("2..4=1", ValueError, "the size 1 is not in the range 2..4"),
    ],
)
def test_what_is_no_size(value: Any, error: type[Exception], say: str) -> None:
    with pytest.raises(error) as raised:
        dim_sizes({"seq": value})
    assert str(raised.value).startswith("dims['seq']: ")
    assert say in str(raised.value)


@given(st.integers(1, 40), st.integers(0, 40), st.sets(st.integers(0, 40), max_size=4))
def test_text_reads_back(low: int, more: int, sizes: set[int]) -> None:
    chosen = tuple(sorted(low + n for n in sizes if n <= more))
    for said in (DimSizes(chosen, low, low + more), *([DimSizes(chosen)] if chosen else [])):
        assert DimSizes.of(str(said)) == said
        assert all(n in said for n in said.sizes)


def test_ranges_in_words() -> None:
    said = dim_sizes({"batch": "1..1", "seq": "1..512=32,128", "other": 4})
    assert ranges_in_text(said) == "batch = 1, seq = 1..512"
    assert [d.mixed for d in said.values()] == [False, True, False]
    assert [d.fixed for d in said.values()] == [True, False, False]
