"""Which graph becomes the answer, with a machine that takes what it is told to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx_ir")

from tensat_dl.cost.device import Environment
from tensat_dl.measure.contest import HEAT, LEAD, STARTS, decide, duel, expected
from tensat_dl.measure.machine import AtOtherSizes, Candidate, Outcome
from tensat_dl.measure.statistics import Interval, Samples
from tensat_dl.verify.equivalence import Agreement

HERE = Environment({"cpu": "a CPU", "threads": "1"}, {"onnxruntime": "1.0"})
ORIGINAL = Path("original")


class Machine:
    """What each model takes in the first heat and in the second; ``log`` has who was timed together."""

    def __init__(
        self, heat: Sequence[float], final: Sequence[float] | None = None, noise: float = 0.01
    ) -> None:
        self.heat, self.final = heat, final or heat
        self.noise = noise
        self.log: list[tuple[str, ...]] = []
        self.rng = np.random.default_rng(5)

    def __call__(self, models: Sequence[Path], processes: int) -> Samples:
        names = tuple(m.name for m in models)
        times = self.final if names in self.log or len(names) == 2 else self.heat
        self.log.append(names)
        taken = [1.0, *(times[int(m.name)] for m in models[1:])]
        jitter = np.exp(self.noise * self.rng.standard_normal((processes, 15, len(taken))))
        samples: Samples = (np.array(taken) * jitter).tolist()
        return samples


def outcome(
    machine: Machine, positions: Sequence[int], narrow: Sequence[int] = (), slower: Sequence[int] = ()
) -> Outcome:
    entrants = [Candidate(1.0) for _ in machine.heat]
    paths = {i: Path(str(i)) for i in positions}
    start = Outcome(HERE, 1.0, tuple(entrants))

    def check(path: Path) -> Agreement:
        i = int(path.name)
        return Agreement("narrow" if i in narrow else "agrees", i / 1000, "for n = 1 only")

    def elsewhere(path: Path) -> tuple[AtOtherSizes, ...]:
        ratio = 1.2 if int(path.name) in slower else 0.7
        return (AtOtherSizes("n = 2", Interval(ratio - 0.1, ratio, ratio + 0.1, 0.99)),)

    return decide(start, entrants, ORIGINAL, paths, check, machine, elsewhere)


def test_how_many_starts_there_will_be() -> None:
    """A gain that is clear after eight starts takes no more; others take up to sixteen."""
    assert [expected(1, done) for done in (0, 7, 8, 15)] == [8, 8, 16, 16]
    assert [expected(3, done) - HEAT for done in (0, HEAT + 7, HEAT + 8)] == [8, 8, 16]


def test_the_fastest_wins() -> None:
    machine = Machine([1.1, 0.9, 0.95])
    found = outcome(machine, (0, 1, 2))
    assert found.winner == 1
    assert found.reason == ""
    assert machine.log == [("original", "0", "1", "2"), *[("original", "1")] * 8], "eight processes agree"
    assert found.ratio is not None
    assert found.ratio.low < 0.9 < found.ratio.high < 1
    assert found.before is not None
    assert found.before.samples == STARTS * 15
    assert found.agreement is not None
    assert found.agreement.max_rel == 0.001
    assert [
        c.ratio == pytest.approx(t, rel=0.05) for c, t in zip(found.candidates, machine.heat, strict=True)
    ]


def test_no_gain_no_change() -> None:
    found = outcome(Machine([1.0, 1.0, 1.02]), (0, 1, 2))
    assert found.winner is None
    assert found.best is not None
    assert "beyond noise" in found.reason


def test_the_second_heat_decides() -> None:
    """The best of several looks better than it is."""
    found = outcome(Machine([0.97, 0.98], final=[1.0, 0.9]), (0, 1))
    assert found.best == 0
    assert found.winner is None


def test_noise_hides_a_small_gain() -> None:
    assert outcome(Machine([0.99], noise=0.5), (0,)).winner is None


def test_one_candidate_needs_no_first_heat() -> None:
    machine = Machine([0.9])
    assert outcome(machine, (0,)).winner == 0
    assert machine.log == [("original", "0")] * STARTS
    assert HEAT > 0


def test_who_computes_something_else_does_not_take_part() -> None:
    machine = Machine([0.1, 0.9])
    assert outcome(machine, (1,)).winner == 1
    assert machine.log == [("original", "1")] * STARTS
    assert outcome(machine, ()).winner is None
    assert outcome(machine, ()).reason == "no candidate could be compared"


def test_what_is_slower_at_other_sizes_is_passed_over() -> None:
    found = outcome(Machine([0.8, 0.9]), (0, 1), slower=(0,))
    assert found.winner == 1
    assert found.candidates[0].reason == "with n = 2 it takes 1.20 times as long as the original"
    assert [there.ratio.mid for there in found.elsewhere] == [0.7]
    assert found.ratio is not None
    assert found.ratio.high > 0.85, "the second one's"
    found = outcome(Machine([0.8]), (0,), slower=(0,))
    assert found.winner is None
    assert found.reason == "no candidate is faster at all sizes that were timed"


def test_what_is_not_faster_is_not_timed_at_other_sizes() -> None:
    assert "beyond noise" in outcome(Machine([1.0]), (0,), slower=(0,)).reason


def test_what_is_right_for_one_size_only_is_passed_over() -> None:
    found = outcome(Machine([0.8, 0.9]), (0, 1), narrow=(0,))
    assert found.winner == 1
    assert found.candidates[0].reason == "for n = 1 only"
    assert found.mismatch == ""
    assert outcome(Machine([0.8]), (0,), narrow=(0,)).winner is None


def test_what_is_not_faster_is_soon_given_up() -> None:
    """Sixteen starts allow for two exceptions."""
    machine = Machine([1.1])
    assert outcome(machine, (0,)).winner is None
    assert len(machine.log) == 3


@pytest.mark.parametrize(
    ("ratios", "starts"),
    [((0.9, 0.9, 0.9), 3), ((0.9, 1.1, 0.9, 0.9, 0.9), 5), ((1.1, 0.9, 1.2, 1.1), 4), ((1.1, 0.9) * 8, 5)],
)
def test_other_sizes_take_few_starts(ratios: Sequence[float], starts: int) -> None:
    """Until three more are faster, or as many are slower as sixteen do not allow for."""
    left = iter(ratios)

    def timer(models: Sequence[Path], processes: int) -> Samples:
        assert processes == 1
        return [[[1.0, next(left)]]]

    samples, ratio = duel(ORIGINAL, Path("0"), timer, LEAD)
    assert len(samples) == starts
    assert ratio.low == min(ratios[:starts]), "nobody is sure of that"
