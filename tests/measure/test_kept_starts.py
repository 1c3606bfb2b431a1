"""Starts of earlier runs: which count, and which are timed anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from tensat_dl.measure.kept_starts import KeptStarts, Start, key_of

FASTER: Start = [[1.0, 0.8], [1.0, 0.7]]
SLOWER: Start = [[1.0, 1.2], [1.0, 1.3]]


def run(folder: Path | None, new: Start, count: int = 4, key: str = "key") -> tuple[list[Start], int, int]:
    """What so many starts of a run find, how many of them it has timed, and how many it says are earlier ones."""
    kept, timed = KeptStarts(folder), 0

    def measure() -> Start:
        nonlocal timed
        timed += 1
        return new

    return [kept.times(key, len(new[0]), measure) for _ in range(count)], timed, kept.used


def test_earlier_starts_count_if_a_new_one_confirms_them(tmp_path: Path) -> None:
    assert run(tmp_path, FASTER) == ([FASTER] * 4, 4, 0)
    newer: Start = [[1.0, 0.9]]
    found = run(tmp_path, newer)
    assert found == ([newer, *[FASTER] * 3], 1, 3)
    assert run(tmp_path, newer, 5) == ([newer, FASTER, FASTER, newer, newer], 2, 3), "the oldest one is gone"


def test_earlier_starts_are_forgotten_if_a_new_one_finds_the_other_model_faster(tmp_path: Path) -> None:
    run(tmp_path, SLOWER)
    assert run(tmp_path, FASTER) == ([FASTER] * 4, 4, 0)
    assert run(tmp_path, FASTER)[1] == 1, "the new ones are kept"


def test_of_models_that_are_equally_fast_either_may_be_faster(tmp_path: Path) -> None:
    """Their starts were of both kinds; but none was as far off as the last one here."""
    starts: list[Start] = [[[1.0, r]] for r in (0.98, 1.02, 0.99, 0.97)]
    kept = KeptStarts(tmp_path)
    assert [kept.times("key", 2, lambda start=start: start) for start in starts] == starts
    assert run(tmp_path, [[1.0, 1.001]])[1:] == (1, 3)
    assert run(tmp_path, [[1.0, 1.5]])[1:] == (4, 0)


def test_of_several_models_all_earlier_starts_count(tmp_path: Path) -> None:
    start: Start = [[1.0, 0.8, 1.1]]
    run(tmp_path, start, 2)
    assert run(tmp_path, [[1.0, 2.0, 2.0]], 2) == ([start] * 2, 0, 2)


def test_other_models_have_other_starts(tmp_path: Path) -> None:
    run(tmp_path, FASTER)
    assert run(tmp_path, SLOWER, key="other") == ([SLOWER] * 4, 4, 0)
    assert run(tmp_path, SLOWER, key="") == ([SLOWER] * 4, 4, 0), "what is not known is not kept"
    assert run(tmp_path, SLOWER, key="") == ([SLOWER] * 4, 4, 0)


@pytest.mark.parametrize(
    "text", ["", "[", "{}", "[[[0, 1]]]", "[[[1.0, -1.0]]]", "[[[1.0, 1.0], [1.0]]]", "[[]]", "[[[1.0]]]"]
)
def test_a_damaged_file_is_no_start(tmp_path: Path, text: str) -> None:
    (tmp_path / "key.json").write_text(text)
    assert run(tmp_path, FASTER) == ([FASTER] * 4, 4, 0)


def test_nothing_is_kept_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (None, tmp_path / "file"):
        for _ in range(2):
            assert run(folder, FASTER) == ([FASTER] * 4, 4, 0)


def test_a_key_has_all_that_is_timed() -> None:
    keys = [
        key_of(models, feeds) for models, feeds in ((["a", "b"], "x"), (["b", "a"], "x"), (["a", "b"], "y"))
    ]
    assert len({*keys}) == 3
    assert "" not in keys
    assert key_of(["a", ""], "x") == key_of(["a", "b"], "") == ""
