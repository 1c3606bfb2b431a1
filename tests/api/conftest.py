"""A model of the examples and its answer."""

from __future__ import annotations

from pathlib import Path

import pytest

import tensat_dl

SHARED = Path(__file__).parents[2] / "examples" / "tiny_share_input.tsr"


@pytest.fixture(scope="package")
def model() -> tensat_dl.Model:
    return tensat_dl.load(SHARED)


@pytest.fixture(scope="package")
def result(model: tensat_dl.Model) -> tensat_dl.Result:
    return tensat_dl.optimize(model)
