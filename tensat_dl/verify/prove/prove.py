"""Derives rules from axioms, which are other rules.

All goals share one e-graph first, with the axioms that are none of them. What is left is tried alone, with all axioms
but itself. What was derived is derived again with fewer axioms, until none can be left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from tensat_dl.explore.types import Limits
from tensat_dl.ir.rule import RewriteRule
from tensat_dl.ops.table import OpTable
from tensat_dl.result import Stop
from tensat_dl.verify.prove.equality import Found, find_equal, tight
from tensat_dl.verify.prove.minimal import minimal
from tensat_dl.verify.prove.types import Goal, Proof, base

#: Told what is tried, and how it goes.
Progress = Callable[[str, str], None]
#: How many of the last sets of axioms are tried before a new one is looked for.
REMEMBERED = 8


@dataclass
class Prover:
    """``limits`` bind each e-graph, apart from its seconds, which bind everything together."""

    axioms: tuple[RewriteRule, ...]
    ops: OpTable
    limits: Limits
    progress: Progress = lambda what, detail: None
    _sets: list[frozenset[str]] = field(default_factory=list)  #: that sufficed, the last ones first
    _end: float | None = None
    _stop: Stop | None = None  #: why everything ends

    def run(self, goals: Sequence[Goal]) -> Iterator[Proof]:
        """A proof for each goal, in their order. Ctrl-C makes it try no more."""
        seconds = self.limits.seconds
        self._end = None if seconds is None else time.monotonic() + seconds
        known = self._together(goals)
        for goal, (equal, found) in zip(goals, known, strict=True):
            if len(equal) < len(goal.pairs):
                alone = self._explore(goal, self._without(goal))
                if alone is not None:
                    equal, found = alone.equal | equal, alone
            complete = bool(goal.pairs) and len(equal) == len(goal.pairs)
            axioms = self._axioms(goal, found) if complete and found is not None else ()
            stop = None if complete or found is None else found.stop or self._stop
            yield Proof(goal.rule, len(goal.pairs), len(equal), axioms, stop)

    def _together(self, goals: Sequence[Goal]) -> list[tuple[frozenset[int], Found | None]]:
        """For each goal the pairs that all goals' e-graph makes equal."""
        names = {base(goal.rule) for goal in goals}
        axioms = [a for a in self.axioms if base(a.name) not in names]
        whole = Goal(f"all {len(goals)} rules", tuple(pair for goal in goals for pair in goal.pairs))
        found = self._explore(whole, axioms) if axioms and len(goals) > 1 else None
        known: list[tuple[frozenset[int], Found | None]] = []
        first = 0
        for goal in goals:
            n = len(goal.pairs)
            equal = {i - first for i in found.equal if first <= i < first + n} if found else set()
            known.append((frozenset(equal), found))
            first += n
        return known

    def _without(self, goal: Goal) -> list[RewriteRule]:
        """The axioms but the goal itself."""
        return [a for a in self.axioms if base(a.name) != base(goal.rule)]

    def _explore(
        self, goal: Goal, axioms: Sequence[RewriteRule], limits: Limits | None = None
    ) -> Found | None:
        """None if there is nothing to prove, or no time left."""
        limits = limits or self.limits
        left = None if self._end is None else self._end - time.monotonic()
        if left is not None and left <= 0:
            self._stop = self._stop or "time"
        if self._stop is not None or not goal.pairs:
            return None

        def tell(iteration: int, nodes: int, equal: int) -> None:
            done = f"{equal} of {len(goal.pairs)} equal"
            self.progress(goal.rule, f"iteration {iteration}, {nodes:,} e-nodes, {done}")

        self.progress(goal.rule, "")
        found = find_equal(goal.pairs, axioms, self.ops, replace(limits, seconds=left), tell)
        if found.stop == "interrupted":
            self._stop = "interrupted"
        return found

    # ---- which axioms ------------------------------------------------------------------------------------

    def _axioms(self, goal: Goal, found: Found) -> tuple[str, ...]:
        """Axioms that prove a goal and of which none can be left out: of a set that proved another goal, or else
        of those that did something when this goal was proved."""
        names = {base(name) for name in found.applied}
        axioms = [a for a in self._without(goal) if base(a.name) in names]
        limits = tight(self.limits, found)

        def proved(by: Sequence[str]) -> Found | None:
            alone = self._explore(goal, [a for a in axioms if base(a.name) in by], limits)
            return alone if alone is not None and len(alone.equal) == len(goal.pairs) else None

        candidates: Sequence[str] = ()
        for known in self._sets[:REMEMBERED]:
            if known <= names and proved(sorted(known)):
                candidates = sorted(known)
                break
        else:
            alone = proved(sorted(names))
            if alone is not None:
                candidates = list(dict.fromkeys(map(base, alone.applied)))
        least = minimal(candidates, lambda by: proved(by) is not None)
        if self._stop is not None:  # answers were cut short
            return ()
        kept = frozenset(least)
        self._sets = [kept, *(s for s in self._sets if s != kept)]
        return tuple(sorted(kept))
