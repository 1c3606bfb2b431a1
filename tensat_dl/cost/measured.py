"""Measures operators that a profile lacks, and records each measurement."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from math import inf
from pathlib import Path

from tensat_dl.cost.environment import Environment
from tensat_dl.cost.profile import Measurement, Profile, record
from tensat_dl.cost.signature import Signature

#: Seconds between two writes of the profile.
WRITE_EVERY = 5.0


class Unmeasurable(Exception):
    """An operator that can't be run on its own. Its cost is estimated. The message says why."""


#: Times an operator. Raises `Unmeasurable`.
Measurer = Callable[[Signature], Measurement]


def measure_missing(
    signatures: Iterable[Signature],
    profile: Profile,
    path: Path,
    measure: Measurer,
    progress: Callable[[int, int], None] = lambda done, total: None,
    seconds: float = inf,
) -> Profile:
    """The profile with everything of ``signatures``, in their order, that can be measured within so many seconds.
    Signatures in the profile are not measured again.

    Measurements get into the file at ``path`` within seconds, and at the latest when Ctrl-C or an error ends this.
    ``progress`` is told how many of how many are done. Raises `ProfileError`, OSError.
    """
    wanted = [s for s in signatures if profile.lookup(s) is None]
    found: dict[str, Measurement] = {}
    waiting: dict[str, Measurement] = {}
    started = written = time.monotonic()

    def write() -> None:
        nonlocal written
        if waiting:
            record(path, replace(profile, entries=waiting, fallback=None))
            waiting.clear()
        written = time.monotonic()

    try:
        for i, signature in enumerate(wanted):
            if time.monotonic() - started > seconds:
                break
            progress(i, len(wanted))
            try:
                measured = measure(signature)
            except Unmeasurable:
                continue
            found[signature.text] = waiting[signature.text] = measured
            if time.monotonic() - written > WRITE_EVERY:
                write()
    finally:
        write()
    return replace(profile, entries={**profile.entries, **found})


def empty(device: str, environment: Environment) -> Profile:
    """A profile without entries."""
    return Profile(device, environment.hardware, environment.versions)
