"""What the tests of `tensat_dl.torch` have in common.

Where PyTorch is not installed, Python would take a folder ``tests/torch`` for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Any

import pytest


@pytest.fixture(scope="session", autouse=True)
def optimized_is_fastest() -> Iterator[None]:
    """Which of several tiny models is the fastest is decided by noise: in tests it is the last one, which is the
    optimized one if there is one."""
    if find_spec("torch") is None:
        yield
        return
    from tensat_dl.measure.statistics import Latency

    def times(runs: Mapping[str, Any], threads: int) -> dict[str, Latency]:
        for run in runs.values():
            run()
        return {name: Latency(10.0 - i, 0.0, 1) for i, name in enumerate(runs)}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tensat_dl.torch.prepare.times", times)
        yield
