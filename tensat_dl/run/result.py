"""The result of a run: the data behind the terminal summary, the JSON and the HTML report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from tensat_dl.cost.model import PricedGraph
from tensat_dl.engine.exploration import Groups, Iteration, Stop
from tensat_dl.extract.extraction import Extraction
from tensat_dl.lang.declare import Declared
from tensat_dl.measure.machine import Outcome
from tensat_dl.verify.equivalence import Equivalence
from tensat_dl.verify.exact.compare import Exact
from tensat_dl.verify.rules.verdict import Verdict
from tensat_dl.why.steps import Explanation


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
    ended the search before a round gained nothing, if something did."""

    stops: tuple[Stop, ...]
    gained: int
    ended: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """A finished run. Costs are milliseconds on ``device``.

    ``nodes``, ``classes``, ``stop`` and ``extraction`` are of the round that the answer is from, ``iterations`` of
    all rounds that led to it.
    ``rules_used`` counts, for each rule, the new operators of the optimized graph: those that it brought into the
    e-graph. (The steps of ``steps`` are applications of rules: one may bring several operators, or none.)
    """

    device: str
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
    rules_used: tuple[tuple[str, int], ...] = ()
    interrupted: bool = False  #: by Ctrl-C, in any phase
    exact: Exact | None = None  #: the comparison modulo primes; None if it was skipped
    verdicts: tuple[Verdict, ...] = ()  #: on the rules that were applied; none if verification was skipped
    groups: Groups = field(default_factory=Groups)  #: with the subsets of their members that were merged
    cycles: str = "none"  #: how cycles were kept out of the e-graph
    measured: Outcome | None = None  #: of timing whole graphs; None if that was not asked for
    declared: Mapping[str, Declared] = field(default_factory=dict)  #: fused operators of the e-graph
    rounds: Rounds = Rounds(("saturated",), 0)
    steps: Explanation | None = None  #: how the rules lead from one graph to the other; None if not asked for
