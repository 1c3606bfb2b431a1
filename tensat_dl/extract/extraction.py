"""The result of an extraction, its independent check, and the errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:  # the options' names of methods must not cost an import of NumPy
    from tensat_dl.core.egraph import EGraph

Status = Literal["optimal", "feasible"]

METHODS = ("exact", "ilp-real", "ilp-int", "ilp-none", "greedy", "greedy-dag")

#: The stages of the exact method: a first choice, reductions, the relaxation with its cuts, pieces that are solved
#: apart, the search of neighbourhoods, the integer program.
Stage = Literal["start", "reduction", "relaxation", "pieces", "search", "program"]

#: Called with the cost of the best answer so far and the proven lower bound, both in milliseconds.
Progress = Callable[[float, float], None]

#: Relative difference of cost below which two answers count as equally good, so that no time is spent on
#: proving that an answer cannot be improved by less than floating point resolves.
TOLERANCE = 1e-9


class ExtractionError(ValueError):
    """The e-graph cannot be extracted from: bad costs, roots without a derivation, or an unusable method.

    A message about an e-class or an e-node is written with ``{}`` in its place, so that a file's name of it can stand
    there.
    """

    def __init__(self, message: str, eclass: int | None = None, enode: int | None = None) -> None:
        about = enode if eclass is None else eclass
        super().__init__(message if about is None else message.format(about))
        self._message = message
        self._eclass = eclass
        self._enode = enode

    def naming(self, classes: Sequence[str], nodes: Sequence[str] = ()) -> str:
        """The message with an e-class called as in ``classes``, or an e-node as in ``nodes``, names by number."""
        if self._eclass is not None:
            return self._message.format(classes[self._eclass])
        return str(self) if self._enode is None else self._message.format(nodes[self._enode])


class CyclicEGraphError(ExtractionError):
    """``ilp-none`` was asked for an e-graph with cycles, in which its answer could be cyclic."""


def check_method(method: str) -> None:
    """Raises `ExtractionError` unless the method is one of `METHODS`."""
    if method not in METHODS:
        raise ExtractionError(f"unknown extraction method {method!r}: use one of {', '.join(METHODS)}")


@dataclass(frozen=True, slots=True)
class Moment:
    """The best cost and bound after so many seconds, and the stage that found them."""

    seconds: float
    cost: float
    bound: float
    stage: Stage


@dataclass(frozen=True, slots=True)
class Extraction:
    """An acyclic choice of one e-node for each e-class that is needed to derive the roots.

    ``choices`` maps e-class to e-node. Classes computed from weights alone are leaves and are not in it.
    ``cost`` and ``bound`` are in milliseconds: no derivation of the roots costs less than ``bound``. A status
    of ``optimal`` means that the two agree within a relative 1e-9. ``interrupted`` tells of Ctrl-C.
    ``work`` is in units of `ExtractLimits`, without the work for runners-up.
    ``runners_up`` are other derivations of the same roots, cheapest first, if any were asked for. ``log`` tells how
    cost and bound came together.
    """

    choices: dict[int, int] = field(repr=False)
    cost: float
    bound: float
    status: Status
    method: str
    seconds: float
    work: float = 0.0
    interrupted: bool = False
    runners_up: tuple[Extraction, ...] = field(default=(), repr=False)
    log: tuple[Moment, ...] = field(default=(), repr=False)

    @property
    def gap(self) -> float:
        """Relative distance between cost and bound: 0 is proven optimal, 1 without any bound."""
        return 0.0 if self.cost <= self.bound else (self.cost - self.bound) / self.cost


class ExtractionCheckError(AssertionError):
    """An extraction has a false cost, bound or choice: a fault in this program."""


def check(egraph: EGraph, extraction: Extraction) -> None:
    """Raises `ExtractionCheckError` unless the extraction is complete, acyclic, priced right and minimal.

    Minimal: every chosen class is reached from a root. The bound must not exceed the cost, and an optimal
    cost must not exceed the bound. The check shares no code with the methods.
    """
    choices = extraction.choices
    needed: dict[int, list[int]] = {}  # the children of each e-class
    stack = [c for c in egraph.roots if not egraph.weights_only[c]]
    while stack:
        c = stack.pop()
        if c in needed:
            continue
        n = choices.get(c)
        if n is None:
            raise ExtractionCheckError(f"e-class {c} is needed and has no e-node")
        if n not in egraph.nodes_of(c):
            raise ExtractionCheckError(f"e-node {n} is not in e-class {c}")
        needed[c] = [d for d in egraph.children_of(n) if not egraph.weights_only[d]]
        stack += needed[c]
    try:
        TopologicalSorter(needed).prepare()
    except CycleError as error:
        d, c = error.args[1][:2]
        raise ExtractionCheckError(f"e-class {d} depends on itself through e-class {c}") from None
    extra = choices.keys() - needed.keys()
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
