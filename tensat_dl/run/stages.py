"""Stages: the settings of one round, and those with less that are part of them.

More rules, fusion and more iterations of pairs make an e-graph larger, and a larger e-graph can give a worse answer:
a limit cuts exploration or extraction short, or groups of other members are merged. So what less would find is found
first. A stage's answer costs no more than the answer of any stage below.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tensat_dl.core.graph import Graph
from tensat_dl.core.rule import RewriteRule
from tensat_dl.engine.exploration import Limits, Start
from tensat_dl.lang.imports import rules_of

#: The pack whose rules a stage below has, where there are others.
BASE = "standard"
#: Where the rules of packs are declared, as messages call it. Other rules need not be compared with those of a pack.
LIBRARY = "rules/"


@dataclass(frozen=True, slots=True)
class Stage:
    """The names of the rules that are applied, in how many iterations the multi-pattern rules among them are, and
    whether fused operators are found."""

    rules: frozenset[str]
    k_multi: int | None
    fusing: bool

    def start(self, graph: Graph, limits: Limits) -> Start:
        """Asks for the exploration of a graph, to other ``limits``."""
        return Start(graph, self.rules, replace(limits, k_multi=self.k_multi))


class Stages:
    """The stage of a search, ``whole``, and those below."""

    def __init__(self, rules: Sequence[RewriteRule], limits: Limits, fusing: bool) -> None:
        self._multi = frozenset(r.name for r in rules if r.kind == "multi")
        # Each rule of a composition is a part of every stage, as the operator is known in each.
        self._always = frozenset(r.name for r in rules if r.declared.startswith(("fuse-", "unfuse-")))
        self._base = self._always
        if any(r.span.source.path.startswith(LIBRARY) for r in rules if r.name not in self._always):
            base = rules_of(BASE)
            self._base |= {r.name for r in rules if r.declared in base}
        self.whole = self._stage((r.name for r in rules), limits.k_multi, fusing)

    def below(self, stage: Stage) -> tuple[Stage, ...]:
        """The stages with one thing less: without fusion, with one iteration of multi-pattern rules less, with the
        rules of the pack ``standard`` alone."""
        found = [replace(stage, fusing=False)] if stage.fusing else []
        if stage.rules & self._multi:
            fewer = 1 if stage.k_multi is None else stage.k_multi - 1
            found.append(self._stage(stage.rules, fewer, stage.fusing))
        found.append(self._stage(stage.rules & self._base, stage.k_multi, stage.fusing))
        return tuple(s for s in dict.fromkeys(found) if s != stage and s.rules - self._always)

    @property
    def first(self) -> Stage:
        """The stage that a search begins with: none is below."""
        stage = self.whole
        while below := self.below(stage):
            stage = below[0]
        return stage

    def _stage(self, rules: Iterable[str], k_multi: int | None, fusing: bool) -> Stage:
        """The stage, in the one way in which it is written."""
        names = frozenset(rules)
        if k_multi == 0:
            names -= self._multi
        return Stage(names, k_multi if names & self._multi else 0, fusing)
