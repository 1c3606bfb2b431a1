"""Samples of a tiny suite: disjoint from day to day, complete together, repeatable, the same in every worker."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import date, timedelta
from pathlib import Path

import pytest

pytestmark = pytest.mark.sampled(3)

SUITE = """
import pytest
from hypothesis import given, strategies as st

pytestmark = pytest.mark.sampled(5)
drawn = []

@pytest.mark.parametrize("i", range(13))
def test_matrix(i):
    pass

@pytest.mark.parametrize("i", range(2))
def test_small(i):
    pass

def test_one(): pass
def test_two(): pass

@pytest.mark.sampled(1)
@pytest.mark.parametrize("i", range(3))
def test_always(i):
    pass

@pytest.mark.sampled(1)
@given(st.floats())
def test_drawn(x):
    drawn.append(x)

@pytest.mark.thorough
def test_slow():
    print("examples:", len(drawn))
"""
TESTS = {
    *(f"test_matrix[{i}]" for i in range(13)),
    *(f"test_small[{i}]" for i in range(2)),
    *(f"test_always[{i}]" for i in range(3)),
    *("test_one", "test_two", "test_drawn", "test_slow"),
}
ALWAYS = {*(f"test_always[{i}]" for i in range(3)), "test_drawn"}
DAY = date(2026, 1, 31)


def pytest_in(folder: Path, *args: str) -> str:
    """What pytest says about the suite in a folder."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    environment["PYTHONPATH"] = str(Path(__file__).parent)
    command = [sys.executable, "-m", "pytest", "-v", *args]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True).stdout


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["sampling"]\n')
    (tmp_path / "test_it.py").write_text(SUITE)
    return tmp_path


def selected(folder: Path, *args: str) -> set[str]:
    lines = pytest_in(folder, "--collect-only", "--verbosity=-1", *args).splitlines()
    return {line.partition("::")[2] for line in lines if line.startswith("test_it.py::")}


def test_days_are_disjoint_and_cover_everything(suite: Path) -> None:
    days = [selected(suite, "--sample", str(DAY + timedelta(i))) - ALWAYS for i in range(5)]
    matrix = [{t for t in day if t.startswith("test_matrix")} for day in days]
    assert sorted(len(part) for part in matrix) == [2, 2, 3, 3, 3]
    assert sum(len(part) for part in matrix) == len(set().union(*matrix)) == 13
    # Fewer than five members take turns among themselves.
    assert all(len({t for t in day if t.startswith("test_small")}) == 1 for day in days)
    assert all(len(day & {"test_one", "test_two"}) == 1 for day in days)
    assert set().union(*days) == TESTS - ALWAYS - {"test_slow"}


def test_a_sample_and_the_rest_are_everything(suite: Path) -> None:
    day = ("--sample", str(DAY))
    assert selected(suite, "--all") == TESTS
    sample, rest = selected(suite, *day), selected(suite, *day, "--rest", "1")
    assert sample >= ALWAYS
    assert sample & rest == {"test_drawn"}  # with more examples
    assert sample | rest == TESTS


def test_the_rest_takes_as_many_days_as_it_is_said_to(suite: Path) -> None:
    ran: set[str] = set()
    for i in range(3):
        day = ("--sample", str(DAY + timedelta(i)))
        sample, rest = selected(suite, *day), selected(suite, *day, "--rest", "3")
        assert len(rest) < len(TESTS - sample)
        assert sample & rest <= {"test_drawn"}
        ran |= sample | rest
    assert ran == TESTS


def test_today_is_the_default(suite: Path) -> None:
    before = date.today()
    found = selected(suite)
    assert found in [selected(suite, "--sample", str(day)) for day in (before, date.today())]


def test_what_is_named_runs(suite: Path) -> None:
    assert selected(suite, "test_it.py::test_matrix") == {t for t in TESTS if t.startswith("test_matrix")}
    assert selected(suite, *(f"test_it.py::test_matrix[{i}]" for i in range(13))) == selected(
        suite, "test_it.py::test_matrix"
    )
    assert selected(suite, "test_it.py::test_slow") == {"test_slow"}


def test_other_options_select_from_the_sample(suite: Path) -> None:
    day = ("--sample", str(DAY))
    whole = {t for t in selected(suite, *day) if t.startswith("test_matrix")}
    assert selected(suite, *day, "-k", "matrix") == whole


@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["alone", "workers"])
def test_the_sample_is_told(workers: list[str], suite: Path) -> None:
    day = ("--sample", str(DAY))
    count = len(selected(suite, *day))
    said = pytest_in(suite, *day, *workers)
    assert f"sampled: {count} of 22 tests, the sample of 2026-01-31; `pytest --all` runs everything" in said
    assert f"{count} passed" in said
    assert "sampled:" not in pytest_in(suite, "--all", *workers)


def test_hypothesis_draws_fewer_examples(suite: Path) -> None:
    def examples(*args: str) -> int:
        said = pytest_in(suite, "-s", "test_it.py::test_drawn", "test_it.py::test_slow", *args)
        return int(said.partition("examples: ")[2].split()[0])

    assert examples() == 20
    assert examples("--all") == examples("--rest", "1") == 100


FAILING = """
import pytest

@pytest.mark.sampled(2)
@pytest.mark.parametrize("text", ["it's", "$a b"])
def test_matrix(text):
    assert not text

def test_unmarked():
    assert False
"""


@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["alone", "workers"])
def test_a_failure_prints_what_repeats_it(workers: list[str], suite: Path) -> None:
    (suite / "test_it.py").write_text(FAILING)
    quoted = ["'test_it.py::test_matrix[$a b]'", "'test_it.py::test_matrix[it'\"'\"'s]'"]
    command = "repeat: python -m pytest --all "
    said = [pytest_in(suite, "--sample", str(DAY + timedelta(i)), *workers).splitlines() for i in range(2)]
    assert sorted(line for day in said for line in day if "repeat:" in line) == [command + q for q in quoted]
    # On the other day, what failed is still what failed.
    day = next(i for i, lines in enumerate(said) if command + quoted[0] in lines)
    pytest_in(suite, "--cache-clear", "--sample", str(DAY + timedelta(day)), *workers)
    again = selected(suite, "--lf", "--sample", str(DAY + timedelta(day + 1)))
    assert again == {"test_matrix[$a b]", "test_unmarked"}


def test_senseless_options_are_refused(suite: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    for args in (["--all", "--rest", "2"], ["--rest", "0"], ["--sample", "soon"]):
        command = [sys.executable, "-m", "pytest", *args]
        done = subprocess.run(command, cwd=suite, env=environment, capture_output=True, text=True)
        assert done.returncode == pytest.ExitCode.USAGE_ERROR
        assert args[0] in done.stderr
