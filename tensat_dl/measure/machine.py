"""A machine that measures, and the outcome of timing whole graphs on it against the original."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tensat_dl.core.graph import Graph
from tensat_dl.cost import CostModel
from tensat_dl.cost.device import Environment
from tensat_dl.cost.model import PricedGraph
from tensat_dl.cost.signature import Signature
from tensat_dl.measure.statistics import Interval, Latency
from tensat_dl.ops.semantics.arrays import Array
from tensat_dl.ops.table import OpTable
from tensat_dl.verify.equivalence import Agreement

if TYPE_CHECKING:
    from tensat_dl.onnx.importer import Imported

#: Told how many of how many measurements are done.
Count = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class TimedGraph:
    """A graph with its operators, its model, if it was read from one, and the path of its file."""

    graph: Graph
    ops: OpTable
    model: Imported | None = None
    path: str = ""

    @property
    def weights(self) -> Mapping[str, Array]:
        """The weights of the model by name; a graph of the language has none."""
        return {} if self.model is None else {name: t.numpy() for name, t in self.model.constants.items()}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A graph that may be faster than the original. ``ratio`` is its latency over the original's in the first heat,
    if it was timed there. ``reason`` says why it can't be the answer. ``differs``: because its outputs differ from
    the original's at the sizes of the original."""

    predicted_ms: float
    ratio: float | None = None
    reason: str = ""
    differs: bool = False


@dataclass(frozen=True, slots=True)
class AtOtherSizes:
    """The latency of a candidate over the original's at other ``sizes`` of open dimensions."""

    sizes: str
    ratio: Interval


@dataclass(frozen=True, slots=True)
class Outcome:
    """Which graph is the answer, and why. Latencies are of whole graphs.

    ``best`` is the position of the candidate that was timed alone against the original, if any was. ``ratio`` is its
    latency over the original's, ``after`` that latency, ``elsewhere`` its latency at other sizes, if it was timed
    there, and ``agreement`` how its outputs compare with the original's. It is the answer if it is faster beyond
    noise; else the original is, for the ``reason`` given. Of a ``mix``, several sizes of a dimension, latencies are
    geometric means, and ``elsewhere`` has each of the sizes. So many starts are of ``earlier`` runs.
    """

    environment: Environment
    predicted_ms: float  #: of the original
    candidates: tuple[Candidate, ...]
    reason: str = ""
    best: int | None = None
    before: Latency | None = None
    after: Latency | None = None
    ratio: Interval | None = None
    elsewhere: tuple[AtOtherSizes, ...] = ()
    mix: tuple[str, ...] = ()
    agreement: Agreement | None = None
    earlier: int = 0

    @property
    def winner(self) -> int | None:
        """The position of the candidate that is the answer, or None."""
        return None if self.reason else self.best

    @property
    def mismatch(self) -> str:
        """How the outputs of the cheapest candidate differ from the original's; empty if they do not."""
        first = self.candidates[0] if self.candidates else None
        return first.reason if first is not None and first.differs else ""

    @property
    def contender(self) -> Candidate | None:
        """The candidate that was timed alone against the original."""
        return None if self.best is None else self.candidates[self.best]


class Machine(Protocol):
    """A machine that measures. ``rewrites``: even the model of an unchanged graph differs from the model that was
    read. ``all_at_once``: measuring a few operators takes nearly as long as measuring many."""

    @property
    def rewrites(self) -> bool: ...
    @property
    def all_at_once(self) -> bool: ...

    def measure(self, model: CostModel, signatures: Sequence[Signature], progress: Count, /) -> CostModel:
        """The cost model with measurements of these signatures, of each that can run by itself."""

    def contest(
        self, original: PricedGraph, candidates: Sequence[PricedGraph], progress: Count, /
    ) -> Outcome:
        """Times whole graphs and chooses the answer."""


@dataclass(frozen=True, slots=True)
class Alone:
    """A machine that measures once nothing else runs on it: when ``others`` returns."""

    machine: Machine
    others: Callable[[], None]

    @property
    def rewrites(self) -> bool:
        return self.machine.rewrites

    @property
    def all_at_once(self) -> bool:
        return self.machine.all_at_once

    def measure(self, model: CostModel, signatures: Sequence[Signature], progress: Count, /) -> CostModel:
        """As the machine."""
        self.others()
        return self.machine.measure(model, signatures, progress)

    def contest(
        self, original: PricedGraph, candidates: Sequence[PricedGraph], progress: Count, /
    ) -> Outcome:
        """As the machine."""
        self.others()
        return self.machine.contest(original, candidates, progress)
