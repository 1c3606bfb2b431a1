"""An independent check of an extraction, which shares no code with the methods."""

from __future__ import annotations

import math

from tensat_dl.core.egraph import EGraph
from tensat_dl.extract.types import Extraction


class ExtractionCheckError(AssertionError):
    """An extraction has a false cost, bound or choice: a fault in this program."""


def check(egraph: EGraph, extraction: Extraction) -> None:
    """Raises `ExtractionCheckError` unless the extraction is complete, acyclic, priced right and minimal.

    Minimal: every chosen class is reached from a root. The bound must not exceed the cost, and an optimal
    cost must not exceed the bound.
    """
    choices = extraction.choices
    state: dict[int, int] = {}  # 1 while open, 2 when done
    stack = [(root, False) for root in egraph.roots]
    while stack:
        c, done = stack.pop()
        if egraph.weights_only[c]:
            continue
        if done:
            state[c] = 2
            continue
        if state.get(c) == 2:
            continue
        if state.get(c) == 1:
            raise ExtractionCheckError(f"e-class {c} depends on itself")
        n = choices.get(c)
        if n is None:
            raise ExtractionCheckError(f"e-class {c} is needed and has no e-node")
        if n not in egraph.nodes_of(c):
            raise ExtractionCheckError(f"e-node {n} is not in e-class {c}")
        state[c] = 1
        stack.append((c, True))
        for d in egraph.children_of(n):
            if state.get(d) == 1:
                raise ExtractionCheckError(f"e-class {d} depends on itself through e-class {c}")
            if state.get(d) != 2:
                stack.append((d, False))
    extra = choices.keys() - state.keys()
    if extra:
        raise ExtractionCheckError(f"e-class {min(extra)} is chosen and not needed")
    cost = math.fsum(float(egraph.cost[n]) for n in choices.values())
    tolerance = 1e-9 * max(cost, 1e-300)
    if not abs(cost - extraction.cost) <= tolerance:
        raise ExtractionCheckError(f"the cost is {cost}, not {extraction.cost}")
    if not 0 <= extraction.bound <= cost + tolerance:
        raise ExtractionCheckError(f"the bound {extraction.bound} is above the cost {cost}")
    if extraction.status == "optimal" and extraction.bound < cost - 2 * tolerance:
        raise ExtractionCheckError(f"called optimal with a bound of {extraction.bound} below the cost {cost}")
