"""What is measured, with a machine whose operators take what it is told to."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf
from typing import Any

import pytest

import tensat_dl
from tensat_dl import Model
from tensat_dl.cost import CostModel
from tensat_dl.cost.device import Environment
from tensat_dl.cost.model import PricedGraph
from tensat_dl.cost.profile import Measurement, Profile
from tensat_dl.cost.roofline import roofline
from tensat_dl.cost.signature import Signature
from tensat_dl.measure.machine import Candidate, Count, Outcome
from tensat_dl.run import of_model
from tensat_dl.run.needed import HOPE
from tensat_dl.verify import ahead
from tensat_dl.verify.equivalence import Expectation
from tests.cli.running import EXAMPLES
from tests.run.graphs import drawn

HERE = Environment({"cpu": "a CPU", "threads": "1"}, {"onnxruntime": "1.0"})
#: No operator takes less of its estimate than this, or more than its inverse, so that no calibration goes beyond.
LEAST = HOPE**0.5 * 1.01


class Pretended:
    """A machine that takes ``share`` of the estimate for an operator, or can't measure it, for 0. ``measured`` has
    what it was asked for, batch by batch, and ``best`` the cost of the best candidate."""

    rewrites = False

    def __init__(self, all_at_once: bool, share: Callable[[Signature], float]) -> None:
        self.all_at_once = all_at_once
        self.share = share
        self.batches: list[list[str]] = []
        self.best = inf

    def measure(self, model: CostModel, signatures: Sequence[Signature], _: Count) -> CostModel:
        self.batches.append([s.text for s in signatures])
        profile = model.profile or Profile(model.device.name, {}, {})
        entries = {
            s.text: Measurement(self.share(s) * roofline(model.table, model.device, s), 0.0, 1)
            for s in signatures
            if self.share(s)
        }
        return model.measured_by(replace(profile, entries={**profile.entries, **entries}))

    def contest(self, original: PricedGraph, candidates: Sequence[PricedGraph], _: Count) -> Outcome:
        self.best = min(c.total for c in (original, *candidates))
        entrants = tuple(Candidate(c.total) for c in candidates)
        return Outcome(HERE, original.total, entrants, "nothing was timed")

    @property
    def measured(self) -> list[str]:
        return [text for batch in self.batches for text in batch]


def by_hash(signature: Signature) -> float:
    """Some part of the estimate, or more than it."""
    part = zlib.crc32(signature.text.encode()) / 2**32
    return float(LEAST ** (2 * part - 1))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Pretended]:
    def measured(model: Model, all_at_once: bool, share: Callable[[Signature], float] = by_hash) -> Pretended:
        machine = Pretended(all_at_once, share)
        monkeypatch.setattr(of_model, "machine_of", lambda *_: machine)
        result = tensat_dl.optimize(model, device="cpu", verify=False)
        assert ("are estimates" in "".join(result.notes)) == (share(ANY) == 0)
        return machine

    return measured


ANY = Signature("relu", (), (), (), "cpu")


def random(seed: int) -> Model:
    return tensat_dl.load(text=f"graph g {{\n{drawn(seed)}\n}}\n", rules=["standard"])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(20))
def test_the_answer_is_that_of_measuring_everything(seed: int, run: Callable[..., Pretended]) -> None:
    few, all_ = (run(random(seed), all_at_once) for all_at_once in (False, True))
    assert few.best == pytest.approx(all_.best, rel=1e-6)
    assert set(few.measured) <= set(all_.measured)
    assert len(few.measured) == len(set(few.measured)), "each is measured once"


def test_most_operators_of_a_network_are_not_measured(run: Callable[..., Pretended]) -> None:
    model = tensat_dl.load(str(EXAMPLES / "bert_encoder.tsr"))
    few, all_ = (run(model, all_at_once) for all_at_once in (False, True))
    assert few.best == pytest.approx(all_.best, rel=1e-6)
    assert len(few.measured) < 0.6 * len(all_.measured)


def test_what_cannot_be_measured_is_tried_once(run: Callable[..., Pretended]) -> None:
    machine = run(random(1), False, lambda _: 0.0)
    assert machine.measured
    assert len(machine.measured) == len(set(machine.measured))


def test_nothing_is_measured_while_the_input_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its run, which goes on for as long as nobody waits for it, would be measured, too."""
    running, waited_for = threading.Event(), threading.Event()
    wait, expected = ahead.Ahead.wait, ahead.expected

    def slow(*args: Any) -> Expectation:
        running.set()
        waited_for.wait(10)
        found = expected(*args)
        running.clear()
        return found

    def waiting(begun: ahead.Ahead) -> None:
        waited_for.set()
        wait(begun)

    class Watched(Pretended):
        def measure(self, *args: Any) -> CostModel:
            assert not running.is_set()
            return super().measure(*args)

        def contest(self, *args: Any) -> Outcome:
            assert not running.is_set()
            return super().contest(*args)

    monkeypatch.setattr(ahead, "expected", slow)
    monkeypatch.setattr(ahead.Ahead, "wait", waiting)
    machine = Watched(False, by_hash)
    monkeypatch.setattr(of_model, "machine_of", lambda *_: machine)
    result = tensat_dl.optimize(random(1), device="cpu")
    assert machine.measured
    assert result.equivalence is not None
    assert result.equivalence.status == "equivalent"
