"""Published TENSAT e-graphs, kept beside the repository and not in it: skipped where they are absent."""

from __future__ import annotations

from pathlib import Path

import pytest

from tensat_dl.core.egraph_json import loads
from tensat_dl.extract.api import extract

pytestmark = pytest.mark.sampled(3)

FOLDER = Path(__file__).parents[2].parent / "shared" / "data" / "egraphs"


def load(name: str):
    path = FOLDER / f"{name}.json"
    if not path.exists():
        pytest.skip(f"{path} is absent")
    return loads(path.read_text())


@pytest.mark.parametrize("method", ["exact", "ilp-none", "ilp-int", "ilp-real"])
@pytest.mark.parametrize(("name", "optimum"), [("vgg_acyclic", 4.866775), ("resnet50_acyclic", 4.415993)])
def test_acyclic(name: str, optimum: float, method: str) -> None:
    found = extract(load(name), method)
    assert found.status == "optimal"
    assert found.cost == pytest.approx(optimum, abs=1e-6)


@pytest.mark.parametrize(
    ("name", "optimum"), [("resnet50", 4.385795), ("bert", 0.704720), ("rover_mcm_8it", 1050.0)]
)
def test_cyclic(name: str, optimum: float) -> None:
    found = extract(load(name))
    assert found.status == "optimal"
    assert found.cost == pytest.approx(optimum, abs=1e-6)


@pytest.mark.parametrize(
    ("name", "greedy"),
    [("resnet50", 4.396867), ("vgg", 4.850757), ("bert", 0.824704), ("resnet50_acyclic", 4.425745)],
)
def test_greedy_dag(name: str, greedy: float) -> None:
    assert extract(load(name), "greedy-dag").cost == pytest.approx(greedy, abs=1e-6)
