"""How operators are timed, on a machine that takes what it is told to."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tensat_dl.measure.timing import (
    ATTEMPTS,
    LEAST_CALLS,
    MOST_CALLS,
    SAMPLES,
    WARM_UP,
    Issue,
    Replay,
    time_calls,
)

START = 6e-6  #: seconds that a replay takes beyond its calls


class Machine:
    """Takes ``seconds(i)`` for call number i of all that were replayed."""

    def __init__(self, seconds: Callable[[int], float]) -> None:
        self.seconds = seconds
        self.replays = 0
        self.lengths: list[int] = []
        self.issued: list[int] = []

    def record(self, issue: Issue, calls: int) -> Replay:
        self.lengths.append(calls)
        for i in range(calls):
            issue(i)

        def replay() -> float:
            self.replays += 1
            return START + calls * self.seconds(self.replays)

        return replay


@pytest.mark.parametrize("took", [1e-6, 2e-5, 5e-4])
def test_what_a_graph_takes_to_start_is_not_blamed_on_the_call(took: float) -> None:
    machine = Machine(lambda _: took)
    found = time_calls(lambda _: None, machine.record)
    assert found.median_ms / 1e3 == pytest.approx(took, rel=0.03)
    assert found.spread_ms == pytest.approx(0, abs=1e-12)
    assert found.samples == SAMPLES
    assert machine.lengths[0] == LEAST_CALLS
    assert LEAST_CALLS <= machine.lengths[1] <= MOST_CALLS


def test_what_is_hopeless_is_timed_roughly() -> None:
    machine = Machine(lambda _: 1e-4)
    found = time_calls(lambda _: None, machine.record, hopeless=4e-5)
    assert found.median_ms == pytest.approx(0.1, rel=0.02)
    assert machine.replays == found.samples == WARM_UP
    assert time_calls(lambda _: None, machine.record, hopeless=4e-4).samples == SAMPLES


def test_the_start_of_a_graph_makes_nothing_hopeless() -> None:
    """The short trial has few calls to share it among."""
    found = time_calls(lambda _: None, Machine(lambda _: 1.9e-6).record, hopeless=2e-6)
    assert found.samples == SAMPLES
    assert found.median_ms == pytest.approx(1.9e-3, rel=0.03)


def test_calls_are_numbered_so_that_operands_take_turns() -> None:
    numbers: list[int] = []
    time_calls(numbers.append, Machine(lambda _: 1e-4).record)
    assert numbers[:LEAST_CALLS] == list(range(LEAST_CALLS))


def test_outliers_do_not_count() -> None:
    def jumpy(replay: int) -> float:
        return 1e-3 if replay % 9 == 0 else 1e-5

    found = time_calls(lambda _: None, Machine(jumpy).record)
    assert found.median_ms == pytest.approx(0.01, rel=0.1)


def test_samples_that_scatter_are_taken_again() -> None:
    """The machine is busy for a while, then calm."""
    noise: Iterator[float] = iter([1e-5, 3e-5] * 1000)

    def calming(replay: int) -> float:
        return next(noise) if replay <= 2 * WARM_UP + SAMPLES else 1e-5

    machine = Machine(calming)
    found = time_calls(lambda _: None, machine.record)
    assert found.median_ms == pytest.approx(0.01, rel=0.1)
    assert machine.replays == 2 * WARM_UP + 2 * SAMPLES


def test_a_machine_that_never_calms_down_has_an_answer_with_its_spread() -> None:
    noise: Iterator[float] = iter([1e-5, 3e-5] * 1000)
    machine = Machine(lambda _: next(noise))
    found = time_calls(lambda _: None, machine.record)
    assert found.spread_ms > 0.01
    assert machine.replays == 2 * WARM_UP + ATTEMPTS * SAMPLES
