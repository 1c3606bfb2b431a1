"""The profile store: what it refuses, and that nothing gets lost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tensat_dl.core.graph import TensorType
from tensat_dl.cost import Measurement, Profile, ProfileError, Signature, find_profile, read_profile, record
from tensat_dl.cost import profile as profile_module

HARDWARE = {"gpu": "NVIDIA H100 80GB HBM3"}
VERSIONS = {"torch": "2.11"}


def signature(n: int, device: str = "h100") -> Signature:
    t = (TensorType("f32", (n,)),)
    return Signature("relu", (), t, t, device)


def profile(*numbers: int, ms: float = 0.5, device: str = "h100") -> Profile:
    entries = {signature(n, device).text: Measurement(ms, 0.01, 20) for n in numbers}
    return Profile(device, HARDWARE, VERSIONS, entries)


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "new" / "h100.profile.json"
    made = profile(1, 2)
    assert record(path, made) == made
    again = read_profile(path, "h100")
    assert again == made
    assert again.lookup(signature(2)) == Measurement(0.5, 0.01, 20)
    assert again.lookup(signature(3)) is None


def test_recording_adds_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    record(path, profile(1, 2))
    whole = record(path, profile(2, 3, ms=0.25))
    assert whole == read_profile(path, "h100")
    medians = [m.median_ms for n in (1, 2, 3) if (m := whole.lookup(signature(n)))]
    assert medians == [0.5, 0.25, 0.25]


def test_equal_profiles_are_equal_files(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    record(one, profile(1, 2))
    record(other, profile(2))
    record(other, profile(1))
    assert one.read_bytes() == other.read_bytes()


def changed(path: Path, **fields: Any) -> Path:
    data = json.loads(path.read_text()) | fields
    path.write_text(json.dumps(data))
    return path


@pytest.mark.parametrize("text", ["", "{", "[1]", "null", '{"format": "1"}', "\x00\xff", "[" * 100_000])
def test_a_damaged_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "p.json"
    path.write_text(text)
    with pytest.raises(
        ProfileError, match=r"p\.json: not a usable profile: .*; delete it or record it again"
    ):
        read_profile(path, "h100")
    with pytest.raises(ProfileError):
        record(path, profile(1))
    assert path.read_text() == text, "a file that is not understood is not overwritten"


@pytest.mark.parametrize(
    "entry",
    [
        3,
        {"median_ms": 1.0, "spread_ms": 0.0},
        {"median_ms": "1", "spread_ms": 0.0, "samples": 1},
        {"median_ms": -1.0, "spread_ms": 0.0, "samples": 1},
        {"median_ms": float("nan"), "spread_ms": 0.0, "samples": 1},
        {"median_ms": 10**400, "spread_ms": 0.0, "samples": 1},
        {"median_ms": 1.0, "spread_ms": 0.0, "samples": 0},
        {"median_ms": 1.0, "spread_ms": 0.0, "samples": True},
    ],
)
def test_a_damaged_entry_is_refused(tmp_path: Path, entry: Any) -> None:
    path = tmp_path / "p.json"
    record(path, profile())
    changed(path, entries={signature(1).text: entry})
    with pytest.raises(ProfileError, match="not a usable profile"):
        read_profile(path, "h100")


@pytest.mark.parametrize("key", ["foo @ h100", "relu(f32[4]) -> f32[4]", ""])
def test_a_damaged_signature_is_refused(tmp_path: Path, key: str) -> None:
    path = tmp_path / "p.json"
    record(path, profile())
    changed(path, entries={key: {"median_ms": 1.0, "spread_ms": 0.0, "samples": 1}})
    with pytest.raises(
        ProfileError, match=r"p\.json: not a usable profile: expected .*; delete it or record"
    ):
        read_profile(path, "h100")


def test_a_foreign_device_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    record(path, profile(1, device="a100"))
    with pytest.raises(ProfileError, match="a profile of device `a100`, not of `h100`"):
        read_profile(path, "h100")
    with pytest.raises(ProfileError, match="a profile of device `a100`"):
        record(path, profile(1))
    changed(path, device="h100")
    with pytest.raises(ProfileError, match="@ a100` is not of device `h100`"):
        read_profile(path, "h100")


def test_another_protocol_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "p.json"
    record(path, profile(1))
    monkeypatch.setattr(profile_module, "PROTOCOL", 2)
    with pytest.raises(
        ProfileError, match=r"measuring protocol 1, .* protocol 2 of this version; record it again"
    ):
        read_profile(path, "h100")
    changed(path, protocol=3)
    with pytest.raises(ProfileError, match=r"measuring protocol 3, .* update tensat-dl"):
        read_profile(path, "h100")


def test_another_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    record(path, profile(1))
    changed(path, format=99)
    with pytest.raises(ProfileError, match=r"profile format 99, .* update tensat-dl"):
        read_profile(path, "h100")


@pytest.mark.parametrize("what", ["hardware", "versions"])
def test_other_hardware_or_versions_are_not_mixed_in(tmp_path: Path, what: str) -> None:
    path = tmp_path / "p.json"
    record(path, profile(1))
    before = path.read_bytes()
    changed(path, **{what: {"gpu": "other"}})
    with pytest.raises(
        ProfileError, match=f"recorded with {what} gpu other, this is .*record into another file"
    ):
        record(path, profile(2))
    record(path.with_name("q.json"), profile(1))
    assert path.with_name("q.json").read_bytes() == before


WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.cost.test_profile import profile, record
first = int(sys.argv[2])
for n in range(first, first + 40):
    record(Path(sys.argv[1]), profile(n))
"""


def test_concurrent_writers_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    root = str(Path(__file__).parents[2])
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER.format(root=root), str(path), str(first)])
        for first in (100, 200)
    ]
    seen = 0
    while any(w.poll() is None for w in writers):
        if path.exists():  # a reader never meets half a file
            now = len(read_profile(path, "h100").entries)
            assert now >= seen
            seen = now
    assert [w.returncode for w in writers] == [0, 0]
    whole = read_profile(path, "h100")
    assert all(whole.lookup(signature(n)) for first in (100, 200) for n in range(first, first + 40))
    assert len(whole.entries) == 80


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "p.json"
    record(path, profile(1))
    before = path.read_bytes()

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        record(path, profile(2))
    assert path.read_bytes() == before
    assert {p.name for p in tmp_path.iterdir()} == {"p.json", "p.json.lock"}, "no temporary file stays"


def test_where_profiles_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("TENSAT_DL_PROFILES", raising=False)
    monkeypatch.setattr(profile_module, "DEVICES", tmp_path / "shipped")
    assert find_profile("h100") is None
    shipped = tmp_path / "shipped" / "h100.profile.json"
    record(shipped, profile(1, 2, ms=1.0))
    assert find_profile("h100") == profile(1, 2, ms=1.0)
    record(tmp_path / "home/.local/share/tensat-dl/h100.profile.json", profile(2, 3, ms=2.0))
    found = find_profile("h100")
    assert found is not None
    assert [m and m.median_ms for m in map(found.lookup, map(signature, (1, 2, 3, 4)))] == [
        1.0,
        2.0,
        2.0,
        None,
    ]
    monkeypatch.setenv("TENSAT_DL_PROFILES", str(tmp_path / "mine"))
    assert find_profile("h100") == profile(1, 2, ms=1.0)
    record(tmp_path / "mine/h100.profile.json", profile(4, ms=3.0))
    found = find_profile("h100")
    assert found is not None
    assert [m and m.median_ms for m in map(found.lookup, map(signature, (1, 3, 4)))] == [1.0, None, 3.0]
