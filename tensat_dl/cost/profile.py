"""Profiles: measured costs by signature, in a plain JSON file per device.

A file says what was measured, how and on what:

    {"format": 1, "device": "h100", "protocol": 1, "hardware": {"gpu": "..."}, "versions": {"torch": "..."},
     "entries": {"<signature>": {"median_ms": 0.0123, "spread_ms": 0.0004, "samples": 50}}}

Numbers from different protocols, machines or library versions are never mixed in one file. Measurements of this
machine go into a file of its `Environment`, apart from other machines. Several processes
may record into one file at a time: each takes a lock, reads the file again, adds its entries and renames the
whole over the old one, so that nothing is lost and no reader ever sees half a file.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.resources import as_file
from math import inf
from pathlib import Path
from typing import Any

from tensat_dl.cost.device import DEVICES, PROFILE_SUFFIX, Environment
from tensat_dl.cost.signature import Signature, SignatureError, parse
from tensat_dl.files import write
from tensat_dl.kept import home

#: The layout of profile files.
FORMAT = 1
#: How costs are measured. It goes up whenever a change of method makes old numbers incomparable with new.
PROTOCOL = 1

#: A word in the names of implementations that round products to TF32.
TF32 = "tf32"
#: Seconds between two writes of a profile that is being completed.
WRITE_EVERY = 5.0


class ProfileError(ValueError):
    """A profile that can't be used or recorded into. The message names the file and the remedy."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """The measured milliseconds of one application: the median and the spread (interquartile range).

    If there are several implementations, it is the measurement of the fastest, whose name is ``implementation``;
    ``others`` are the medians of the others.
    """

    median_ms: float
    spread_ms: float
    samples: int
    implementation: str = ""
    others: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Profile:
    """Measurements on one device, by `Signature.text`. Other signatures are looked up in ``fallback``."""

    device: str
    hardware: Mapping[str, str]  #: of the machine, such as {"gpu": "NVIDIA H100 80GB HBM3"}
    versions: Mapping[str, str]  #: of the libraries whose kernels were measured
    entries: Mapping[str, Measurement] = field(default_factory=dict)
    protocol: int = PROTOCOL
    fallback: Profile | None = None

    def lookup(self, signature: Signature) -> Measurement | None:
        """The measurement of this signature, or None."""
        found = self.entries.get(signature.text)
        if found is None and self.fallback is not None:
            return self.fallback.lookup(signature)
        return found

    @property
    def key(self) -> str:
        """Eight characters that tell it from others."""
        text = _dumps(self) + (self.fallback.key if self.fallback is not None else "")
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    def without_tf32(self) -> Profile:
        """The profile without TF32: each operator has its fastest implementation without it, or no entry if it has
        none."""
        entries = {key: found for key, m in self.entries.items() if (found := _precise(m)) is not None}
        fallback = None if self.fallback is None else self.fallback.without_tf32()
        return replace(self, entries=entries, fallback=fallback)


def _precise(m: Measurement) -> Measurement | None:
    """A measurement without the implementations that round to TF32, which have it in their names. The spread is known
    of the fastest one alone."""
    others = {name: ms for name, ms in m.others.items() if TF32 not in name.split()}
    if TF32 not in m.implementation.split():
        return replace(m, others=others)
    if not others:
        return None
    best = min(others, key=others.__getitem__)
    return Measurement(others.pop(best), 0.0, m.samples, best, others)


def read_profile(path: Path, device: str | None = None) -> Profile:
    """The profile in a file; of ``device``, if that is given. Raises `ProfileError` if the file is damaged, of
    another device, or recorded with another measuring protocol; `FileNotFoundError` if there is none."""
    text = path.read_text(encoding="utf-8", errors="replace")
    try:
        return _parsed(path, text, device)
    except (_Damaged, SignatureError) as e:
        raise ProfileError(f"{path}: not a usable profile: {e}; delete it or record it again") from None


class _Damaged(ValueError):
    """The reason why a profile is not usable."""


def _field(data: Any, name: str, kind: type[Any], where: str = "the file") -> Any:
    if not isinstance(data, dict) or name not in data:
        raise _Damaged(f"{where} has no `{name}`")
    value = data[name]
    if not isinstance(value, kind) or isinstance(value, bool):
        raise _Damaged(f"`{name}` of {where} is {json.dumps(value)[:40]}")
    return value


def _number(data: Any, name: str, where: str) -> float:
    try:
        value = float(_field(data, name, (int, float), where))  # type: ignore[arg-type]
    except OverflowError:  # an integer that no float holds
        value = inf
    if not math.isfinite(value) or value < 0:
        raise _Damaged(f"`{name}` of {where} is {value}")
    return value


def _words(data: Any, name: str) -> dict[str, str]:
    words: dict[str, str] = _field(data, name, dict)
    if not all(isinstance(v, str) for v in words.values()):
        raise _Damaged(f"`{name}` has values that are not text")
    return words


def _parsed(path: Path, text: str, wanted: str | None) -> Profile:
    try:
        data = json.loads(text)
    except RecursionError:
        raise _Damaged("its JSON is nested too deeply") from None
    except ValueError as e:
        raise _Damaged(f"not JSON ({e})") from None
    version = _field(data, "format", int)
    if version != FORMAT:
        raise ProfileError(
            f"{path}: profile format {version}, but this version of tensat-dl reads format {FORMAT}; "
            f"{'record it again' if version < FORMAT else 'update tensat-dl'}"
        )
    device = _field(data, "device", str)
    if wanted not in (None, device):
        raise ProfileError(f"{path}: a profile of device `{device}`, not of `{wanted}`")
    protocol = _field(data, "protocol", int)
    if protocol != PROTOCOL:
        raise ProfileError(
            f"{path}: recorded with measuring protocol {protocol}, which is not comparable with protocol "
            f"{PROTOCOL} of this version; {'record it again' if protocol < PROTOCOL else 'update tensat-dl'}"
        )
    entries = {}
    for key, entry in _field(data, "entries", dict).items():
        if parse(key).device != device:
            raise _Damaged(f"the signature `{key}` is not of device `{device}`")
        samples = _field(entry, "samples", int, key)
        others = _field(entry, "others", dict, key) if "others" in entry else {}
        entries[key] = Measurement(
            _number(entry, "median_ms", key),
            _number(entry, "spread_ms", key),
            samples,
            _field(entry, "implementation", str, key) if "implementation" in entry else "",
            {name: _number(others, name, f"the others of {key}") for name in others},
        )
        if samples < 1:
            raise _Damaged(f"`{key}` was sampled {samples} times")
    return Profile(device, _words(data, "hardware"), _words(data, "versions"), entries, protocol)


def record(path: Path, profile: Profile) -> Profile:
    """Adds a profile's entries to a file, which is made if needed; returns what the file then holds.

    Newer entries replace older ones. Safe for any number of processes at a time. Raises `ProfileError` for a
    file that `read_profile` refuses or whose hardware or versions differ: such numbers must not be mixed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked(path):
        if path.exists():
            old = read_profile(path, profile.device)
            need_same(path, old, profile, "record into another file, or delete this one")
            profile = replace(profile, entries={**old.entries, **profile.entries}, fallback=None)
        write(str(path), _dumps(profile))
    return profile


def merge(path: Path, parts: Sequence[Path]) -> Profile:
    """Puts partial profiles of one environment together, into a file with those that it has; later parts replace what
    earlier ones say of an application. Returns what the file then holds.

    Nothing is written unless all fit. Raises `ProfileError` for one that is damaged or of another device, hardware or
    versions than the others; OSError.
    """
    first = path if path.exists() else parts[0]
    known = read_profile(first)
    entries: dict[str, Measurement] = {}
    for part in parts:
        found = read_profile(part)
        if found.device != known.device:
            raise ProfileError(
                f"{part}: a profile of device `{found.device}`, and {first} is of `{known.device}`: "
                "such numbers must not be mixed"
            )
        need_same(part, found, known, f"as in {first}: such numbers must not be mixed")
        entries |= found.entries
    return record(path, replace(known, entries=entries))


def need_same(path: Path, found: Profile, here: Profile | Environment, remedy: str) -> None:
    """Raises `ProfileError` if the profile in the file ``path`` has other hardware or versions than ``here``."""
    for what in ("hardware", "versions"):
        before, now = getattr(found, what), getattr(here, what)
        if before != now:
            raise ProfileError(
                f"{path}: recorded with {what} {_show(before)}, this is {_show(now)}; {remedy}"
            )


def profile_path(device: str, environment: Environment | None = None) -> Path:
    """The user's profile of a device: in ``$TENSAT_DL_PROFILES``, or else in ``~/.local/share/tensat-dl``.
    Raises FileNotFoundError if the user has no home folder."""
    folder = os.environ.get("TENSAT_DL_PROFILES")
    base = Path(folder) if folder else home() / ".local" / "share" / "tensat-dl"
    return base / f"{device}{f'-{environment.key}' if environment else ''}{PROFILE_SUFFIX}"


def find_profile(device: str, environment: Environment | None = None) -> Profile | None:
    """The device's profile: the user's own, measured in this environment, with the shipped profile as fallback; None
    if there is neither. Raises `ProfileError` if one of them can't be used."""
    shipped = None
    resource = DEVICES.joinpath(device + PROFILE_SUFFIX)
    if resource.is_file():
        with as_file(resource) as path:
            shipped = read_profile(path, device)
    try:
        return replace(read_profile(profile_path(device, environment), device), fallback=shipped)
    except FileNotFoundError:
        return shipped


def _dumps(profile: Profile) -> str:
    data = {
        "format": FORMAT,
        "device": profile.device,
        "protocol": profile.protocol,
        "hardware": dict(profile.hardware),
        "versions": dict(profile.versions),
        "entries": {key: _entry(m) for key, m in sorted(profile.entries.items())},
    }
    return json.dumps(data, indent=1) + "\n"


def _entry(m: Measurement) -> dict[str, Any]:
    entry = {"median_ms": m.median_ms, "spread_ms": m.spread_ms, "samples": m.samples}
    if not m.implementation:
        return entry
    return {**entry, "implementation": m.implementation, "others": dict(sorted(m.others.items()))}


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Holds the lock of a profile file. It lies beside the file, which itself is replaced at every write."""
    with path.with_name(path.name + ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # released when the file is closed, also by a crash
        yield


def _show(words: Mapping[str, str]) -> str:
    return ", ".join(f"{k} {v}" for k, v in sorted(words.items())) or "unknown"


#: Times operators. None stands for an operator that can't be run on its own, so that its cost is estimated.
Measurer = Callable[[Sequence[Signature]], Iterator[tuple[Signature, Measurement | None]]]


def measure_missing(
    signatures: Iterable[Signature],
    profile: Profile,
    path: Path,
    measure: Measurer,
    progress: Callable[[int, int], None] = lambda done, total: None,
    seconds: float = inf,
) -> Profile:
    """The profile with measurements of ``signatures``, in their order, until a time limit in seconds. Signatures in
    the profile are not measured again.

    Measurements get into the file at ``path`` within seconds, and at the latest when Ctrl-C or an error ends this.
    ``progress`` receives the number of measurements done and their total. Raises `ProfileError`, OSError.
    """
    wanted = [s for s in signatures if profile.lookup(s) is None]
    found: dict[str, Measurement] = {}
    waiting: dict[str, Measurement] = {}
    started = written = time.monotonic()

    def flush() -> None:
        nonlocal written
        if waiting:
            record(path, replace(profile, entries=waiting, fallback=None))
            waiting.clear()
        written = time.monotonic()

    try:
        measuring = measure(wanted)
        for i in range(len(wanted)):
            if time.monotonic() - started > seconds:
                break
            progress(i, len(wanted))
            signature, measured = next(measuring)
            if measured is not None:
                found[signature.text] = waiting[signature.text] = measured
            if time.monotonic() - written > WRITE_EVERY:
                flush()
    finally:
        flush()
    return replace(profile, entries={**profile.entries, **found})


def empty(device: str, environment: Environment) -> Profile:
    """A profile without entries."""
    return Profile(device, environment.hardware, environment.versions)
