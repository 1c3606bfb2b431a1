"""Who is timed when, by a clock that only the calls move."""

from __future__ import annotations

import pytest

from tensat_dl.measure import timing
from tensat_dl.measure.timing import PAUSE, calls_per_sample, in_turn, interleaved, timed


class Machine:
    """A clock, and runs that move it."""

    def __init__(self) -> None:
        self.now = 100.0
        self.log = ""

    def clock(self) -> float:
        self.log += "|"
        return self.now

    def run(self, name: str, seconds: float):  # type: ignore[no-untyped-def]
        def run() -> None:
            self.log += name
            self.now += seconds

        return run


def test_contenders_take_turns() -> None:
    machine = Machine()
    runs = [machine.run("A", 1.0), machine.run("B", 2.0), machine.run("C", 0.5)]
    samples = interleaved(runs, (1, 2, 3), 2, machine.clock)
    assert machine.log == 2 * "|A|B|BB|C|CCC|"
    assert samples == [[1.0, 2.0, 0.5]] * 2


def test_a_slow_spell_shows_in_one_round_only() -> None:
    machine = Machine()
    slow = 0

    def run() -> None:
        nonlocal slow
        slow += 1
        machine.now += 10.0 if 6 < slow <= 12 else 1.0

    samples = interleaved([run, run], (2, 2), 3, machine.clock)
    assert samples == [[1.0, 1.0], [10.0, 10.0], [1.0, 1.0]]


def test_short_calls_are_repeated() -> None:
    machine = Machine()
    run = machine.run("A", 1e-5)
    calls = calls_per_sample(run, 1e-3, machine.clock)
    assert 100 <= calls <= 300
    assert abs(timed(run, calls, machine.clock) - 1e-5) < 1e-9


def test_long_calls_are_not_repeated() -> None:
    machine = Machine()
    assert calls_per_sample(machine.run("A", 1.0), 1e-3, machine.clock) == 1
    assert machine.log == "|A|", "once is enough to see"


def test_a_clock_too_coarse_for_a_call() -> None:
    machine = Machine()
    calls = 0

    def run() -> None:
        nonlocal calls
        calls += 1
        machine.now += 1e-3 if calls % 50 == 0 else 0.0

    assert calls_per_sample(run, 1e-3, machine.clock) >= 16


def test_threads_of_the_one_before_fall_asleep_first(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine()
    monkeypatch.setattr(timing.time, "sleep", lambda seconds: machine.run("z", seconds)())
    runs = [machine.run("A", 1.0), machine.run("B", 2.0)]
    samples = interleaved(runs, (1, 2), 2, machine.clock, pause=0.05)
    assert machine.log == 2 * "z|A|zB|BB|"
    assert samples == [[1.0, 2.0]] * 2


def test_several_threads_pause_and_one_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(timing.time, "sleep", slept.append)
    runs = [lambda: sum(range(1000))] * 2
    in_turn(runs, threads=1)
    assert not slept
    rounds = in_turn(runs, threads=2)
    assert slept == [PAUSE] * 2 * len(rounds)
    assert len(slept) <= 40


def test_two_are_timed_until_it_is_clear_which_one_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine()
    monkeypatch.setattr(timing, "clock_of", lambda threads: lambda: machine.now)
    different = [machine.run("A", 0.01), machine.run("B", 0.008)]
    assert len(in_turn(different, 1, until_clear=True)) == timing.CLEAR
    assert len(in_turn(different[::-1], 1, until_clear=True)) == timing.CLEAR
    assert len(in_turn(different, 1)) > timing.CLEAR
    same = [machine.run("A", 0.01)] * 2
    assert len(in_turn(same, 1, until_clear=True)) == len(in_turn(same, 1))
