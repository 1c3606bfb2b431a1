"""The result of a run: the data behind the terminal summary, the JSON and the HTML report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from statistics import geometric_mean
from typing import TYPE_CHECKING, Any

from tensat_dl.core.rule import RewriteRule
from tensat_dl.core.shown import Shown
from tensat_dl.cost.model import PricedGraph
from tensat_dl.engine.exploration import Groups, Iteration, Stop
from tensat_dl.extract.extraction import Extraction
from tensat_dl.lang.declare import Declared
from tensat_dl.measure.machine import Outcome
from tensat_dl.run.options import Options
from tensat_dl.sizes.dim_sizes import DimSizes
from tensat_dl.sizes.named import OpenGraph
from tensat_dl.verify.equivalence import Equivalence
from tensat_dl.verify.exact.result import Exact
from tensat_dl.verify.rules.verdict import Verdict
from tensat_dl.why.steps import Explanation

if TYPE_CHECKING:
    from tensat_dl.baselines.walk import Trace  # with all searches from graph to graph
    from tensat_dl.onnx.importer import Imported  # with the packages for ONNX models

#: A graph serves a size if it takes at most so many times as long as the fastest one there.
SERVES = 1.05


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of each phase."""

    parse: float = 0.0
    explore: float = 0.0
    cost: float = 0.0
    extract: float = 0.0
    verify: float = 0.0
    measure: float = 0.0
    total: float = 0.0  #: with the seconds of other phases, such as replaying steps

    @classmethod
    def of(cls, seconds: Mapping[str, float]) -> Times:
        """The times of a run, by the names of its phases."""
        known = {f.name: seconds.get(f.name, 0.0) for f in fields(cls)}
        return cls(**{**known, "total": sum(seconds.values())})


@dataclass(frozen=True, slots=True)
class Rounds:
    """The rounds of a search: why the exploration of each ended, and how many led to the answer. ``ended`` says what
    ended the search before a round gained nothing, if something did; ``tried`` whether a round had all rules and
    settings by then, ``whole`` whether the one that the answer is from had."""

    stops: tuple[Stop, ...]
    gained: int
    ended: str = ""
    tried: bool = True
    whole: bool = True


@dataclass(frozen=True, slots=True)
class AtSizes:
    """The comparison of two graphs at sizes of their names, and their costs there; None if these were not asked
    for."""

    sizes: Mapping[str, int]
    equivalence: Equivalence | None
    costs: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class AnswerAtSizes:
    """The answer to a graph with named sizes, at all sizes, and what was looked at elsewhere than at the defaults."""

    before: OpenGraph
    after: OpenGraph
    elsewhere: tuple[AtSizes, ...]


@dataclass(frozen=True, slots=True)
class Bucket:
    """A range of sizes of a dimension, by its name, with the answer for it, and the answer's latency over the
    original's at some of the sizes."""

    name: str
    result: Result
    low: int
    high: int | None
    ratios: Mapping[int, float]

    @property
    def range(self) -> str:
        return f"{self.low}-{'up' if self.high is None else self.high}"

    def of(self, imported: Imported) -> Imported:
        """The model, into which its answer is written: compared in the range alone."""
        return imported.within(self.name, DimSizes(tuple(self.ratios), self.low, self.high))


@dataclass(frozen=True, slots=True)
class Buckets:
    """The buckets of a dimension, and how many times as fast they are as the best graph for all sizes: the geometric
    mean. One bucket: there is a graph that serves all sizes. ``left_out`` says what was not regarded."""

    parts: tuple[Bucket, ...]
    gain: float
    left_out: tuple[str, ...] = ()

    def summary(self) -> str:
        """As in ``seq = 1-48: 1.31x; 49-512: 1.12x; 1.08x as fast as one graph for all``."""
        name = self.parts[0].name
        if len(self.parts) == 1:
            sizes = ", ".join(map(str, self.parts[0].ratios))
            text = (
                f"one graph is enough: at {name} = {sizes} it is within {SERVES - 1:.0%} of the best for each"
            )
        else:
            each = "; ".join(f"{b.range}: {1 / geometric_mean(b.ratios.values()):.2f}x" for b in self.parts)
            text = f"{name} = {each}; together {self.gain:.2f}x as fast as the best graph for all"
        return "; ".join([text, *self.left_out])

    def to_json(self) -> dict[str, Any]:
        parts = [
            {
                "dim": b.name,
                "low": b.low,
                "high": b.high,
                "ratios": {str(n): r for n, r in b.ratios.items()},
            }
            for b in self.parts
        ]
        return {"parts": parts, "gain": self.gain}


@dataclass(frozen=True, slots=True, repr=False)
class Result(Shown):
    """A finished run with these ``options``. Costs are milliseconds on ``device``.

    ``nodes``, ``classes``, ``stop`` and ``extraction`` are of the round that the answer is from, ``iterations`` of
    all rounds that led to it. A search graph by graph has no e-graph: there ``nodes`` are the operators of all its
    graphs, and ``extraction`` has the answer's cost alone.
    ``rules_used`` counts, for each rule, the new operators of the optimized graph: those that it brought into the
    e-graph. (The steps of ``steps`` are applications of rules: one may bring several operators, or none.)
    """

    options: Options
    before: PricedGraph
    after: PricedGraph
    stop: Stop
    iterations: tuple[Iteration, ...]
    nodes: int
    classes: int
    extraction: Extraction
    equivalence: Equivalence | None  #: None if it was skipped
    times: Times
    notes: tuple[str, ...]  #: limits that bound, parts that were skipped, and reasons
    rules: tuple[RewriteRule, ...] = ()  #: that the run was given
    rules_used: tuple[tuple[str, int], ...] = ()
    interrupted: bool = False  #: by Ctrl-C, in any phase
    exact: Exact | None = None  #: the comparison modulo primes; None if it was skipped
    verdicts: tuple[Verdict, ...] = ()  #: on the rules that were applied; none if verification was skipped
    groups: Groups = field(default_factory=Groups)  #: with the subsets of their members that were merged
    measured: Outcome | None = None  #: of timing whole graphs; None if that was not asked for
    declared: Mapping[str, Declared] = field(default_factory=dict)  #: fused operators of the e-graph
    rounds: Rounds = Rounds(("saturated",), 0)
    trace: Trace | None = None  #: of a search graph by graph; None of one with an e-graph
    sizes: AnswerAtSizes | None = None  #: of a graph with named sizes
    buckets: Buckets | None = None  #: of the sizes of an open dimension; None if they were not asked for
    steps: Explanation | None = None  #: how the rules lead from one graph to the other; None if not asked for

    def __repr__(self) -> str:
        costs = f"{self.before.total:.4g} -> {self.after.total:.4g} ms on {self.device}"
        verified = "not verified" if self.equivalence is None else self.equivalence.status
        return f"<Result for {self.before.graph.name}: {costs}, {verified}>"

    @property
    def device(self) -> str:
        """The device that costs are for."""
        return self.options.target

    @property
    def parts(self) -> tuple[Bucket, ...]:
        """The buckets, of which each has its answer; none if one graph is enough."""
        return () if self.buckets is None or len(self.buckets.parts) == 1 else self.buckets.parts

    @property
    def unverified(self) -> bool:
        """Whether Ctrl-C ended the run before both graphs were compared."""
        return self.options.verify and self.equivalence is None
