"""What is called a gain: on made-up timings whose truth is known."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest

from tensat_dl.measure.statistics import (
    exceptions,
    latency,
    median_interval,
    ratio_to_first,
    rough_ratio,
    settled,
    summary,
)

pytestmark = pytest.mark.sampled(3)

PROCESSES, ROUNDS = 12, 15


def timings(
    rng: np.random.Generator, factors: tuple[float, ...], noise: float, luck: float = 0.0, heavy: bool = False
) -> list[list[list[float]]]:
    """Contenders that take ``factors`` ms, on a machine that drifts by half. Each process has its luck with each."""
    samples = []
    for _ in range(PROCESSES):
        own = np.array(factors) * 1e-3 * np.exp(luck * rng.standard_normal(len(factors)))
        rounds = []
        for i in range(ROUNDS):
            drift = 1 + 0.5 * np.sin(i / 3 + rng.uniform(0, 0.1))
            shape = (len(factors),)
            jitter = noise * (rng.standard_cauchy(shape) if heavy else rng.standard_normal(shape))
            rounds.append((own * drift * np.exp(np.clip(jitter, -2, 5))).tolist())
        samples.append(rounds)
    return samples


@pytest.mark.parametrize(("noise", "luck", "heavy"), [(0.01, 0, False), (0.01, 0.02, False), (0.03, 0, True)])
def test_what_is_not_faster_is_hardly_ever_called_faster(noise: float, luck: float, heavy: bool) -> None:
    rng = np.random.default_rng(1)
    called = sum(ratio_to_first(timings(rng, (1, 1), noise, luck, heavy), 1).high < 1 for _ in range(400))
    assert called <= 6, "of 400; the sign test allows 1.3 in the mean"


@pytest.mark.parametrize(("noise", "luck", "heavy"), [(0.01, 0, False), (0.01, 0.01, False), (0.01, 0, True)])
def test_five_percent_are_seen_through_noise(noise: float, luck: float, heavy: bool) -> None:
    rng = np.random.default_rng(2)
    found = [ratio_to_first(timings(rng, (1, 0.95), noise, luck, heavy), 1) for _ in range(100)]
    assert sum(f.high < 1 for f in found) >= 98
    assert np.median([f.mid for f in found]) == pytest.approx(0.95, rel=0.01)


def test_what_is_slower_is_never_called_faster() -> None:
    rng = np.random.default_rng(3)
    assert all(ratio_to_first(timings(rng, (1, 1.05), 0.02), 1).low > 0.99 for _ in range(100))


def test_a_slow_spell_changes_no_ratio() -> None:
    rng = np.random.default_rng(4)
    samples = timings(rng, (1, 0.9), 0.001)
    samples[3] = [[10 * s for s in seconds] for seconds in samples[3]]
    samples[5][:7] = [[s + (0.02 if k == 1 else 0) for k, s in enumerate(x)] for x in samples[5][:7]]
    assert ratio_to_first(samples, 1).high < 1


@pytest.mark.parametrize("n", [8, 9, 15, 20, 41])
def test_the_interval_has_the_median_as_often_as_it_says(n: int) -> None:
    rng = np.random.default_rng(n)
    hits, trials = 0, 2000
    for _ in range(trials):
        found = median_interval(rng.exponential(size=n).tolist())
        assert found.low <= found.mid <= found.high
        hits += found.low <= np.log(2) <= found.high
        stated = found.confidence
    assert stated >= 0.99
    assert hits / trials == pytest.approx(stated, abs=0.008)


def test_the_interval_is_as_narrow_as_the_sign_test_allows() -> None:
    n = 15
    found = median_interval([float(v) for v in range(1, n + 1)])
    k = int(found.low)
    assert found.high == n + 1 - k
    wider = 2 * sum(comb(n, i) for i in range(k + 1)) / 2**n
    assert 1 - wider < 0.99 <= found.confidence


def test_too_few_values_say_how_little_they_say() -> None:
    found = median_interval([3.0, 1.0, 2.0])
    assert (found.low, found.mid, found.high, found.confidence) == (1.0, 2.0, 3.0, 0.75)
    assert median_interval([1.0]).confidence == 0.0


@pytest.mark.parametrize("n", [8, 12, 16])
def test_as_many_exceptions_are_allowed_as_the_interval_leaves_out(n: int) -> None:
    for above in range(n):
        found = median_interval([1.1] * above + [0.9] * (n - above))
        assert (found.high < 1) == (above <= exceptions(n))


def test_clear_cases_are_settled_early() -> None:
    def processes(*ratios: float) -> list[list[list[float]]]:
        return [[[1.0, r]] for r in ratios]

    assert not settled(processes(*[0.9] * 4), 1, 16), "four are too few to be sure"
    assert settled(processes(*[0.9] * 8), 1, 16)
    assert not settled(processes(*[0.9] * 7, 1.01), 1, 16)
    assert settled(processes(1.01, 0.9, 1.2, 1.1), 1, 16), "sixteen allow for two exceptions"


def test_looking_early_calls_hardly_anything_faster_that_is_not() -> None:
    rng = np.random.default_rng(6)
    called = 0
    for _ in range(3000):
        ratios = rng.uniform(0.9, 1.1, 16)
        for look in range(1, 17):
            samples = [[[1.0, r]] for r in ratios[:look]]
            if settled(samples, 1, 16):
                break
        called += ratio_to_first(samples, 1).high < 1
    assert called <= 33, "of 3000; 18 in the mean"


def test_summaries() -> None:
    assert rough_ratio([[[2.0, 1.0], [2.0, 1.5], [2.0, 0.1]]], 1) == 0.5
    assert summary([0.003]) == summary([0.003, 0.003, 0.003]).__class__(3.0, 0.0, 1)
    found = latency([[[1e-3, 5e-3], [2e-3, 5e-3]], [[3e-3, 5e-3]]], 0)
    assert (found.median_ms, found.samples) == (2.0, 3)
    assert found.spread_ms == pytest.approx(2.0)
