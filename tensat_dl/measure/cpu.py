"""This machine's CPU, by ONNX Runtime: what operators take, and which of several graphs is the fastest."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tensat_dl.core.egraph import EGraph
from tensat_dl.core.graph import Graph
from tensat_dl.cost import CostModel
from tensat_dl.cost.environment import Environment, this_machine
from tensat_dl.cost.measured import Measurer, empty, measure_missing
from tensat_dl.cost.priced import PricedGraph
from tensat_dl.cost.profile import Measurement, profile_path
from tensat_dl.cost.signature import Signature
from tensat_dl.measure.machine import Count
from tensat_dl.measure.outcome import Outcome
from tensat_dl.ops.table import OpTable

if TYPE_CHECKING:
    from tensat_dl.measure.runnable import Runnable
    from tensat_dl.onnx.importer import Imported

#: A run measures operators for so long at most. What is left then are the cheapest alternatives.
SECONDS = 300.0


def this_cpu(graph: Graph, ops: OpTable, imported: Imported | None, threads: int, seed: int) -> Cpu:
    """This machine, for a graph, with the weights of the model that it is from, if it is from one, else with random
    ones. ONNX Runtime has to be installed."""

    def runnable() -> Runnable:
        from tensat_dl.measure.runnable import of_graph, of_model

        return of_graph(graph, ops, seed) if imported is None else of_model(imported, seed)

    environment = this_machine("cpu", threads)
    assert environment is not None, "ONNX Runtime is installed"
    return Cpu(environment, runnable, rewrites=imported is not None and bool(imported.aliases))


@dataclass
class Cpu:
    """What is needed to run anything is imported when something has to be run. ``rewrites`` tells that the model of
    an unchanged graph is another one than that which it was read from: without nodes that do nothing."""

    environment: Environment
    runnable: Callable[[], Runnable]
    rewrites: bool = False
    _timer: Measurer | None = field(default=None, init=False)
    _spent: float = field(default=0.0, init=False)

    def complete(self, model: CostModel, egraph: EGraph, progress: Count) -> CostModel:
        """The cost model with a measurement of all that the e-graph has and that can be run by itself.

        Ctrl-C ends it, and so does its time limit; what was measured by then is in the profile, and the next run goes
        on from there. Raises `ProfileError`, OSError.
        """
        device, started = model.device.name, time.monotonic()
        profile = measure_missing(
            model.unknown(egraph),
            model.profile or empty(device, self.environment),
            profile_path(device, self.environment),
            lambda signature: self._measure(model.table, signature),
            progress,
            SECONDS - self._spent,
        )
        self._spent += time.monotonic() - started
        return model.measured_by(profile)

    def contest(self, original: PricedGraph, candidates: Sequence[PricedGraph], progress: Count) -> Outcome:
        """Which of the graphs is the answer, by timing them as a whole."""
        from tensat_dl.measure.contest import contest

        return contest(original, candidates, self.runnable(), self.environment, progress)

    def _measure(self, ops: OpTable, signature: Signature) -> Measurement:
        if self._timer is None:  # only now, since a second run measures nothing
            from tensat_dl.measure.operators import OperatorTimer

            self._timer = OperatorTimer(ops, int(self.environment.hardware["threads"]))
        return self._timer(signature)
