"""Ctrl-C in phases in which a process cannot be caught from outside, and workers that die: there is an answer."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

import tensat_dl
from tensat_dl.core.words import counted
from tensat_dl.cost import CostModel
from tensat_dl.engine.exploration import Exploration, Start
from tensat_dl.engine.explore import Exploring
from tensat_dl.report import terminal
from tensat_dl.report.terminal import PlainProgress
from tensat_dl.run import checked, of_model, search
from tensat_dl.verify.rules import verify
from tensat_dl.verify.rules.verdict import NOT_EXAMINED
from tensat_dl.why import way

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

    def replacement(*args: Any, **named: Any) -> Any:
        if next(calls) == at:
            raise KeyboardInterrupt
        return call(*args, **named)

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


class Pressed(PlainProgress):
    """Progress in which Ctrl-C is pressed at an event."""

    event = ""

    def exploring(self, iteration: int, nodes: int, classes: int) -> None:
        super().exploring(iteration, nodes, classes)
        if self.event == "exploring":
            signal.raise_signal(signal.SIGINT)

    def phase(self, name: str) -> None:
        super().phase(name)
        if self.event == name:
            signal.raise_signal(signal.SIGINT)


def test_while_exploring_with_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """The graph as it was read is there, so the answer is the original."""
    monkeypatch.setattr(Pressed, "event", "exploring")
    monkeypatch.setattr(terminal, "shown_progress", lambda: Pressed(io.StringIO()))
    result = tensat_dl.optimize(tensat_dl.load(SHARED), progress=True)
    assert result.interrupted
    assert result.stop == "interrupted"
    assert result.after.total <= result.before.total


def test_before_there_is_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pressed, "event", "explore")
    monkeypatch.setattr(terminal, "shown_progress", lambda: Pressed(io.StringIO()))
    before = children()
    with pytest.raises(KeyboardInterrupt):
        tensat_dl.optimize(tensat_dl.load(SHARED), progress=True)
    assert children() <= before


@pytest.mark.parametrize(("step", "verified"), [("compare", False), ("compare_if_small", True)])
def test_while_verifying(step: str, verified: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The answer is that of the search. It is written only if both graphs were compared."""
    monkeypatch.setattr(checked, step, interrupted_once(getattr(checked, step)))
    model = tensat_dl.load(SHARED)
    result = tensat_dl.optimize(model)
    assert result.interrupted
    assert result.after.total < result.before.total
    assert (result.equivalence is not None) == verified
    assert "interrupted: the result is not verified" in result.notes
    if verified:
        tensat_dl.save(model, result, tmp_path / "out.tsr")
        return
    with pytest.raises(tensat_dl.Mismatch, match="not verified"):
        tensat_dl.save(model, result, tmp_path / "out.tsr")


def test_while_rules_are_examined(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The graphs are compared nevertheless, so the answer can be written; what is known of rules stays."""

    def pressed(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(verify, "_examined", pressed)
    model = tensat_dl.load(
        text="""
            rule own { relu(relu(x)) => relu(x) where dim(x, 0) < 77 }
            graph g {
              input x : f32[4]
              output relu(relu(x))
            }"""
    )
    result = tensat_dl.optimize(model)
    assert result.interrupted
    assert result.equivalence is not None
    assert result.equivalence.status == "equivalent"
    assert next(v for v in result.verdicts if v.rule == "own").reason == NOT_EXAMINED
    (note,) = result.notes
    assert note == f"interrupted: 1 of {counted(len(result.verdicts), 'applied rule')} not examined"
    tensat_dl.save(model, result, tmp_path / "out.tsr")


def test_while_candidates_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The input is the answer."""

    class Timer:
        rewrites = False
        all_at_once = False

        def measure(self, cost: CostModel, *_: object) -> CostModel:
            return cost

        def contest(self, *_: object) -> NoReturn:
            raise KeyboardInterrupt

    monkeypatch.setattr(of_model, "machine_of", lambda *_: Timer())
    model = tensat_dl.load(SHARED)
    result = tensat_dl.optimize(model)
    assert result.interrupted
    assert result.after.graph == model.graph
    assert result.measured is None


@pytest.mark.parametrize(("place", "name"), [(way.Replay, "run"), (way, "_verdict")])
def test_while_explaining(place: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """There are steps, and none is called equal that was not evaluated."""
    model = tensat_dl.load(SHARED)
    result = tensat_dl.optimize(model)
    monkeypatch.setattr(place, name, interrupted_once(getattr(place, name)))
    found = tensat_dl.explain(model, result)
    assert found.interrupted
    assert all(e.verdict == "inconclusive" for e in found.steps) or found.unfinished
    assert found.summary()


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
