"""Calibration finds the figures of a device that a profile was made up with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tensat_dl.cost import CostModel, Measurement, Profile, load_device, record
from tensat_dl.cost.device import Device
from tensat_dl.cost.roofline import by_operator, calibrate, roofline
from tensat_dl.cost.signature import Signature, parse
from tensat_dl.lang.program import load_program
from tensat_dl.resources import rules

OPS = load_program(str(rules() / "ops.tsr")).ops
SHEET = load_device("h100")
#: What the hardware of these tests reaches.
REAL = replace(
    SHEET,
    launch_ms=0.0031,
    flops={d: 0.55 * f for d, f in SHEET.flops.items()},
    bandwidth=0.8 * SHEET.bandwidth,
)


def signatures() -> list[Signature]:
    sizes = [64, 256, 1024, 4096]
    products = [
        f"matmul(f32[{m}, {k}], f32[{k}, {n}]; act=none) -> f32[{m}, {n}] @ h100"
        for m in sizes
        for k in sizes
        for n in sizes
    ]
    return [
        parse(t)
        for t in (*products, *(f"relu(f32[{n}, {m}]) -> f32[{n}, {m}] @ h100" for n in sizes for m in sizes))
    ]


def made_up(device: Device, noise: float = 0.0) -> Profile:
    rng = np.random.default_rng(3)
    entries = {
        s.text: Measurement(roofline(OPS, device, s) * float(np.exp(noise * rng.standard_normal())), 0.0, 9)
        for s in signatures()
    }
    return Profile("h100", {"gpu": "NVIDIA H100"}, {}, entries)


@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_the_figures_are_found(noise: float) -> None:
    found = calibrate(OPS, SHEET, made_up(REAL, noise))
    assert found is not None
    assert found.device.launch_ms == pytest.approx(REAL.launch_ms, rel=0.1)
    assert found.compute_share == pytest.approx(0.55, rel=0.1)
    assert found.bandwidth_share == pytest.approx(0.8, rel=0.25)
    assert found.after.median < found.before.median
    assert found.after.median < 1.02 + noise
    assert found.after.count + 1 < len(signatures())


#: They name operators of the library, which don't apply so.
ILL_TYPED = (
    "power(i32[4]; exponent=2.0) -> i32[4] @ h100",
    "matmul(f32[4, 5], f32[6, 7]; act=none) -> f32[4, 7] @ h100",
    "matmul(f32[4, 5]; act=none) -> f32[4, 7] @ h100",
    "matmul(f32[4, 5], f32[5, 7]) -> f32[4, 7] @ h100",
    "matmul(f32[4, 5], f32[5, 7]; act=3) -> f32[4, 7] @ h100",
    "relu(f32[4]) -> f32[5] @ h100",
    "relu(f32[4], f32[4]) -> f32[4] @ h100",
    "relu(f32[4]; by=3) -> f32[4] @ h100",
    "slice(f32[4]; axis=7, start=0, stop=9) -> f32[9] @ h100",
    "reshape(f32[4]; shape=3) -> f32[4] @ h100",
    "concat() -> f32[4] @ h100",
    "concat(; axis=0) -> f32[4] @ h100",
)


def test_what_does_not_type_check_calibrates_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """.. and is in nobody's way."""
    monkeypatch.setenv("TENSAT_DL_PROFILES", str(tmp_path))
    good = made_up(REAL)
    bad = {text: Measurement(7.0, 0.0, 9) for text in ILL_TYPED}
    record(tmp_path / "h100.profile.json", replace(good, entries={**good.entries, **bad}))
    model = CostModel.of(OPS, "h100")
    wanted = calibrate(OPS, SHEET, good)
    assert wanted is not None
    assert model.calibrated == wanted.device
    assert model.profile is not None
    rows = by_operator(OPS, SHEET, None, model.profile)
    assert [(op, count) for op, count, *_ in rows] == [("matmul", 64), ("relu", 16)]


def test_few_measurements_calibrate_nothing() -> None:
    profile = made_up(REAL)
    few = dict(list(profile.entries.items())[:10])
    assert calibrate(OPS, SHEET, replace(profile, entries=few)) is None


def test_estimates_are_calibrated_on_the_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSAT_DL_PROFILES", str(tmp_path))
    unseen = parse("tanh(f32[999, 999]) -> f32[999, 999] @ h100")
    before = CostModel.of(OPS, "h100").cost(unseen)
    record(tmp_path / "h100.profile.json", made_up(REAL))
    after = CostModel.of(OPS, "h100").cost(unseen)
    assert not after.measured
    assert after.ms == pytest.approx(roofline(OPS, REAL, unseen), rel=0.1)
    assert before.ms < after.ms
    assert CostModel.of(OPS, "h100").estimated().cost(unseen) == before
