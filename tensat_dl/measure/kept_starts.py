"""Starts of earlier runs: the samples of the same models, which were timed on the same inputs on this machine.

They stand beside the profile of the machine, as they are measurements, too. A machine may have changed in ways that
its profile's name does not tell. So of two models, whose samples decide about an answer, one start is always timed
anew: the earlier ones count only if it finds the same model faster, or no more than some of them do.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import isfinite
from pathlib import Path
from statistics import median
from typing import Any

from tensat_dl.cost.device import PROFILE_SUFFIX, Environment
from tensat_dl.cost.profile import profile_path
from tensat_dl.files import write_bytes
from tensat_dl.kept import forget_old
from tensat_dl.measure.statistics import ratios, rough_ratio

#: How graphs are timed. It goes up whenever a change makes old samples incomparable with new ones.
PROTOCOL = 1
#: The samples of so many sets of models are kept, those that were timed last.
MOST = 256

#: By round, the seconds of each model in one start.
Start = Sequence[Sequence[float]]


class KeptStarts:
    """The starts in a folder; none if there is no folder. Where it cannot be written to, nothing is kept."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._left: dict[str, list[Start]] = {}  #: earlier starts that this run has not used yet
        self._all: dict[str, list[Start]] = {}
        #: How many starts of earlier runs this one has used.
        self.used = 0

    @classmethod
    def on(cls, environment: Environment) -> KeptStarts:
        """Those of this machine's CPU, in the folder that stands beside its profile."""
        try:
            profile = profile_path("cpu", environment)
        except FileNotFoundError:
            return cls(None)
        return cls(profile.with_name(f"{profile.name.removesuffix(PROFILE_SUFFIX)}.starts"))

    def times(self, key: str, models: int, measure: Callable[[], Start]) -> Start:
        """The next start of so many models and the inputs that a key stands for: an earlier one, or one that is
        measured. No key stands for models that are not known."""
        if self._folder is None or not key:
            return measure()
        if key not in self._left:
            self._left[key] = self._read(key, models)
            self._all[key] = list(self._left[key])
            if self._left[key] and models == 2:
                self._confirm(key, found := measure())
                return found
        if self._left[key]:
            self.used += 1
            return self._left[key].pop(0)
        found = measure()
        self._all[key].append(found)
        self._write(key)
        return found

    def _confirm(self, key: str, found: Start) -> None:
        """The start takes the place of the oldest one; all are forgotten if they find the other model faster, and
        none of them as the start does."""
        earlier, now = ratios(self._all[key], 1), rough_ratio([found], 1)
        agree = (median(earlier) < 1) == (now < 1) or min(earlier) <= now <= max(earlier)
        self._left[key] = self._all[key][1:] if agree else []
        self._all[key] = [*self._left[key], found]
        self._write(key)

    def _path(self, key: str) -> Path:
        assert self._folder is not None
        return self._folder / f"{key}.json"

    def _read(self, key: str, models: int) -> list[Start]:
        with suppress(OSError, ValueError):
            found = json.loads(self._path(key).read_text(encoding="utf-8"))
            if _are_starts(found, models):
                return list(found)
        return []

    def _write(self, key: str) -> None:
        with suppress(OSError):
            path = self._path(key)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(path, json.dumps(self._all[key]).encode())
            forget_old(path.parent, MOST, "*.json")


def key_of(models: Sequence[str], feeds: str) -> str:
    """The key of models that take turns in this order, and of inputs, given by digests; "" if one has none."""
    if not all([*models, feeds]):
        return ""
    return hashlib.sha256(json.dumps([PROTOCOL, *models, feeds]).encode()).hexdigest()


def _are_starts(found: Any, models: int) -> bool:
    """Whether what was read is a list of starts of so many models."""
    return (
        isinstance(found, list)
        and all(isinstance(start, list) and start for start in found)
        and all(isinstance(turn, list) and len(turn) == models for start in found for turn in start)
        and all(
            isinstance(s, float) and isfinite(s) and s > 0 for start in found for turn in start for s in turn
        )
    )
