"""Ctrl-C in phases in which a process cannot be caught from outside, and workers that die: there is an answer."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tensat_dl
from tensat_dl.cost import CostModel
from tensat_dl.engine.exploration import Exploration, Start
from tensat_dl.engine.explore import Exploring
from tensat_dl.run import search

pytestmark = pytest.mark.sampled(3)

SHARED = str(Path(__file__).parents[2] / "examples" / "tiny_share_input.tsr")
INTERRUPTED = "interrupted: the cheapest graph extracted until then is used"


def children() -> set[str]:
    """Processes that this one has started and not waited for; empty where the system does not tell."""
    pid = os.getpid()
    try:
        return set(Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    except OSError:
        return set()


def optimized() -> tensat_dl.Result:
    """What a run finds that leaves no process behind, not even a dead one."""
    before = children()
    result = tensat_dl.optimize(tensat_dl.load(SHARED))
    assert children() <= before
    assert result.after.total < result.before.total
    assert result.equivalence is not None
    assert result.equivalence.status == "equivalent"
    return result


def interrupted_once(call: Callable[..., Any], at: int = 0) -> Callable[..., Any]:
    """The function, in whose call number ``at`` Ctrl-C is pressed."""
    calls = iter(range(1_000))

    def replacement(*args: Any) -> Any:
        if next(calls) == at:
            raise KeyboardInterrupt
        return call(*args)

    return replacement


def test_while_pricing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CostModel, "price", interrupted_once(CostModel.price))
    result = optimized()
    assert result.interrupted
    assert INTERRUPTED in result.notes


def test_before_there_is_any_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The input program is a choice, and with no time at all extraction may find none that is cheaper."""
    monkeypatch.setattr(search, "extract", interrupted_once(search.extract))
    result = tensat_dl.optimize(tensat_dl.load(SHARED))
    assert result.interrupted
    assert result.after.total <= result.before.total
    assert INTERRUPTED in result.notes


def refined(monkeypatch: pytest.MonkeyPatch, step: Callable[[Exploring, Exploration], Exploration]) -> None:
    """Refinement is replaced by what ``step`` makes of the first exploration."""
    run = Exploring.run
    found: list[Exploration] = []

    def remembered(self: Exploring, start: Start | None = None) -> Exploration:
        found.append(run(self, start))
        return found[-1]

    monkeypatch.setattr(Exploring, "run", remembered)
    monkeypatch.setattr(Exploring, "refine", lambda self, feedback: step(self, found[0]))


@pytest.mark.parametrize("phase", ["refine", "price", "extract"])
def test_while_refining(phase: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def step(self: Exploring, first: Exploration) -> Exploration:
        if phase == "refine":
            raise KeyboardInterrupt
        return first

    refined(monkeypatch, step)
    if phase == "price":
        monkeypatch.setattr(CostModel, "price", interrupted_once(CostModel.price, at=1))
    if phase == "extract":
        monkeypatch.setattr(search, "extract", interrupted_once(search.extract, at=1))
    result = optimized()
    assert result.interrupted
    assert result.stop == "saturated"
    assert INTERRUPTED in result.notes


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_a_worker_that_died_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    refine = Exploring.refine

    def killed(self: Exploring, feedback: Any) -> Exploration | None:
        os.kill(self._worker.process.pid, signal.SIGKILL)
        return refine(self, feedback)

    monkeypatch.setattr(Exploring, "refine", killed)
    result = optimized()
    assert not result.interrupted
    assert any("the engine died" in note for note in result.notes)
