"""The relaxation's bound holds whatever the solver's duals are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from pyscipopt import LP

from tensat_dl.extract import relaxation
from tensat_dl.extract.budget import Budget, ExtractLimits
from tensat_dl.extract.formulation import Formulation, LinearRow, formulate
from tensat_dl.extract.problem import from_egraph
from tensat_dl.extract.reduce import reduce
from tensat_dl.extract.relaxation import Relaxation

from .builders import egraph

#: x0 <= x1, and x0 = 0.
AT_MOST = LinearRow([(0, 1.0), (1, -1.0)], equal=False)
EQUAL = LinearRow([(0, 1.0)], equal=True)


def two_columns() -> Formulation:
    """Of a price of 1 each, where x1 is 1 at least: x0 can be 0, and 1 is the least that both cost."""
    reduced = reduce(from_egraph(egraph([[(1.0, [])]], [0])), 100.0)
    assert reduced is not None
    return replace(formulate(reduced), cost=np.array([1.0, 1.0]), floor=np.array([0.0, 1.0]), rows=[])


@pytest.mark.parametrize("dual", [-2.0, -1.0, 0.0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("row", [AT_MOST, EQUAL])
def test_the_bound_holds_for_wrong_duals(
    row: LinearRow, dual: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of a sign that no dual of the inequality has included, which a solver's tolerances allow."""

    class Wrong(LP):
        def getDual(self) -> list[float]:
            return [dual]

    monkeypatch.setattr(relaxation, "LP", Wrong)
    program = Relaxation(two_columns())
    program.add([row])
    relaxed = program.solve(Budget.of(ExtractLimits()))
    assert relaxed is not None
    assert relaxed.x.tolist() == [0.0, 1.0]
    assert relaxed.bound <= 1.0
    assert dual or relaxed.bound == 1.0
