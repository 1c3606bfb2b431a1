"""Completing a profile: what is measured, what is kept, and when; nothing is timed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensat_dl.core.graph import TensorType
from tensat_dl.cost import (
    Measurement,
    Profile,
    ProfileError,
    Signature,
    find_profile,
    profile,
    read_profile,
)
from tensat_dl.cost.device import Environment, this_machine
from tensat_dl.cost.profile import empty, measure_missing, profile_path
from tensat_dl.cost.signature import parse
from tests.cost.builders import patient

HERE = Environment({"cpu": "a CPU", "threads": "1"}, {"onnxruntime": "1.0"})


def signature(n: int) -> Signature:
    t = (TensorType("f32", (n,)),)
    return Signature("relu", (), t, t, "cpu")


class Fake:
    """Measures n ms for n elements, keeps a log, and fails where it is told to."""

    def __init__(self, unmeasurable: int = -1, interrupted_at: int = -1) -> None:
        self.log: list[int] = []
        self.unmeasurable = unmeasurable
        self.interrupted_at = interrupted_at

    def __call__(self, signatures: Sequence[Signature]) -> Iterator[tuple[Signature, Measurement | None]]:
        for s in signatures:
            (n,) = s.inputs[0].shape
            if n == self.interrupted_at:
                raise KeyboardInterrupt
            self.log.append(n)
            yield s, None if n == self.unmeasurable else Measurement(float(n), 0.0, 3)


def test_a_second_run_measures_nothing(tmp_path: Path) -> None:
    path = tmp_path / "cpu.profile.json"
    wanted = [signature(n) for n in (1, 2, 3)]
    first, counts = Fake(), []
    done = measure_missing(wanted, empty("cpu", HERE), path, first, lambda *progress: counts.append(progress))
    assert first.log == [1, 2, 3]
    assert counts == [(0, 3), (1, 3), (2, 3)]
    assert read_profile(path, "cpu") == done
    second = Fake()
    assert measure_missing([*wanted, signature(4)], done, path, second).lookup(signature(4))
    assert second.log == [4]
    assert len(read_profile(path, "cpu").entries) == 4


def test_a_time_limit_keeps_what_comes_first(tmp_path: Path) -> None:
    path, timer = tmp_path / "p", Fake()
    measure_missing(map(signature, (3, 1, 2)), empty("cpu", HERE), path, timer, seconds=-1.0)
    assert timer.log == []
    done = measure_missing(map(signature, (3, 1, 2)), empty("cpu", HERE), path, timer, seconds=60.0)
    assert timer.log == [3, 1, 2]
    assert len(done.entries) == 3


def test_what_cannot_be_measured_has_no_entry(tmp_path: Path) -> None:
    done = measure_missing(
        map(signature, (1, 2, 3)), empty("cpu", HERE), tmp_path / "p", Fake(unmeasurable=2)
    )
    assert [bool(done.lookup(signature(n))) for n in (1, 2, 3)] == [True, False, True]


def test_an_interrupt_keeps_what_was_measured(tmp_path: Path) -> None:
    path = tmp_path / "p"
    with pytest.raises(KeyboardInterrupt):
        measure_missing(map(signature, (1, 2, 3, 4)), empty("cpu", HERE), path, Fake(interrupted_at=3))
    kept = read_profile(path, "cpu")
    again = Fake()
    measure_missing(map(signature, (1, 2, 3, 4)), kept, path, again)
    assert again.log == [3, 4]


def test_long_measurements_are_written_on_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, seen = tmp_path / "p", []
    monkeypatch.setattr(profile, "WRITE_EVERY", 0.0)

    def progress(done: int, total: int) -> None:
        seen.append(len(read_profile(path, "cpu").entries) if path.exists() else 0)

    measure_missing(map(signature, (1, 2, 3)), empty("cpu", HERE), path, Fake(), progress)
    assert seen == [0, 1, 2]


def test_what_another_process_recorded_meanwhile_stays(tmp_path: Path) -> None:
    path = tmp_path / "p"
    measure_missing([signature(1)], empty("cpu", HERE), path, Fake())
    measure_missing([signature(2)], empty("cpu", HERE), path, Fake())
    assert len(read_profile(path, "cpu").entries) == 2


def test_numbers_of_another_machine_are_not_mixed_in(tmp_path: Path) -> None:
    path = tmp_path / "p"
    measure_missing([signature(1)], empty("cpu", HERE), path, Fake())
    two = Environment({**HERE.hardware, "threads": "2"}, HERE.versions)
    with pytest.raises(
        ProfileError, match=r"recorded with hardware cpu a CPU, threads 1, this is .* threads 2"
    ):
        measure_missing([signature(2)], empty("cpu", two), path, Fake())


def test_each_environment_has_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSAT_DL_PROFILES", str(tmp_path))
    others = [
        Environment({**HERE.hardware, "threads": "2"}, HERE.versions),
        Environment(HERE.hardware, {"onnxruntime": "1.1"}),
    ]
    paths = {profile_path("cpu", e) for e in (HERE, *others, None)}
    assert len(paths) == 4
    done = measure_missing([signature(1)], empty("cpu", HERE), profile_path("cpu", HERE), Fake())
    assert find_profile("cpu", HERE) == done
    assert [find_profile("cpu", e) for e in (*others, None)] == [None] * 3


def test_an_environment_is_this_machines() -> None:
    assert this_machine("h100", 1) is None
    pytest.importorskip("onnxruntime")
    one, two = this_machine("cpu", 1), this_machine("cpu", 2)
    assert one is not None
    assert two is not None
    assert one.hardware["cpu"] == two.hardware["cpu"] != ""
    assert one.key != two.key
    assert one == this_machine("cpu", 1)


def test_fallback_profiles_are_not_copied(tmp_path: Path) -> None:
    shipped = Profile("cpu", {}, {}, {signature(1).text: Measurement(1.0, 0.0, 3)})
    known = Profile("cpu", HERE.hardware, HERE.versions, {}, fallback=shipped)
    fake = Fake()
    done = measure_missing(map(signature, (1, 2)), known, tmp_path / "p", fake)
    assert fake.log == [2]
    assert done.lookup(signature(1)) is not None
    assert list(read_profile(tmp_path / "p", "cpu").entries) == [signature(2).text]


@patient
@given(st.sets(st.integers(0, 3)))
def test_which_operands_are_weights_is_part_of_the_key(weights: set[int]) -> None:
    t = tuple(TensorType("f32", (n, 2)) for n in (1, 2, 3, 4))
    one = Signature("concat", (("axis", 0),), t, (TensorType("f32", (10, 2)),), "cpu", tuple(sorted(weights)))
    assert one.text.count("weight ") == len(weights)
    assert parse(one.text) == one
