"""Measured runs that take little time: in one process, and with few samples."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tensat_dl.measure import contest, cpu, operators, timing


def time_here(
    models: Sequence[Path], feeds: Path, threads: int, backwards: bool = False, until_clear: bool = False
) -> Any:
    """Times models in this process, which is quicker than in a fresh one."""
    return timing.time_models([str(m) for m in models], str(feeds), threads, until_clear)


def quick(monkeypatch: pytest.MonkeyPatch, profiles: Path) -> None:
    """What is measured stays in this folder."""
    monkeypatch.setenv("TENSAT_DL_PROFILES", str(profiles))
    monkeypatch.setattr(contest, "HEAT", 1)
    monkeypatch.setattr(contest, "MOST", 8)
    monkeypatch.setattr(timing, "MODEL_SECONDS", 0.0)
    monkeypatch.setattr(cpu, "time_in_fresh_process", time_here)
    monkeypatch.setattr(operators, "SECONDS", 0.0)
