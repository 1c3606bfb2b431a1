"""What a run found out: the data behind the terminal summary, the JSON and the HTML report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import fsum

from tensat_dl.cost.priced import PricedGraph
from tensat_dl.engine.iterations import Iteration, Stop
from tensat_dl.extract.types import Extraction
from tensat_dl.lang.declare import Declared
from tensat_dl.measure.outcome import Outcome
from tensat_dl.verify.equivalence import Equivalence
from tensat_dl.verify.exact.compare import Exact
from tensat_dl.verify.rules.verdict import Verdict
from tensat_dl.why.steps import Explanation


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds per phase."""

    parse: float
    explore: float
    cost: float
    extract: float
    verify: float
    total: float
    measure: float = 0.0


@dataclass(frozen=True, slots=True)
class Result:
    """A finished run. Costs are milliseconds on ``device``.

    ``rules_used`` counts, for each rule, how many nodes of the optimized graph it brought into the e-graph.
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
    notes: tuple[str, ...]  #: what bound, what was skipped, and why
    rules_used: tuple[tuple[str, int], ...] = ()
    interrupted: bool = False  #: by Ctrl-C, in whatever phase
    exact: Exact | None = None  #: the comparison modulo primes; None if it was skipped
    verdicts: tuple[Verdict, ...] = ()  #: on the rules that were applied; none if verification was skipped
    cycles: str = "none"  #: how cycles were kept out of the e-graph
    measured: Outcome | None = None  #: of timing whole graphs; None if that was not asked for
    declared: Mapping[str, Declared] = field(default_factory=dict)  #: fused operators of the e-graph
    steps: Explanation | None = None  #: how the rules lead from one graph to the other; None if not asked for

    @property
    def measured_share(self) -> float:
        """The share of the optimized graph's cost that was measured, 0 to 1."""
        total = self.after.total
        known = fsum(c for c, m in zip(self.after.cost, self.after.measured, strict=True) if m)
        return known / total if total else 0.0
