"""The result of an extraction, its limits, and its errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

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

    A message about an e-class is written with ``{}`` in its place, so that a file's name of it can stand there.
    """

    def __init__(self, message: str, eclass: int | None = None) -> None:
        super().__init__(message if eclass is None else message.format(eclass))
        self._message = message
        self._eclass = eclass

    def naming(self, classes: Sequence[str]) -> str:
        """The message with an e-class called as in ``classes``, names by number."""
        return str(self) if self._eclass is None else self._message.format(classes[self._eclass])


class CyclicEGraphError(ExtractionError):
    """``ilp-none`` was asked for an e-graph with cycles, in which its answer could be cyclic."""


#: The work of an extraction without a limit.
WORK = 10_000_000.0


@dataclass(frozen=True, slots=True)
class ExtractLimits:
    """When to stop before optimality is proven. Raises ValueError for an invalid limit.

    ``work`` is deterministic: equal inputs stop at the same point on every machine. One unit is about a
    microsecond of simplex iterations (see `tensat_dl.extract.budget`); the default is about ten seconds, and no
    limit where ``seconds`` are given: wall-clock time, kept softly, which makes answers depend on the machine when
    it binds.
    """

    seconds: float | None = None
    work: float | None = None

    def __post_init__(self) -> None:
        for name in ("seconds", "work"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise ValueError(f"a limit of {value} {name}: at least 0 is needed")

    @property
    def most_work(self) -> float:
        """Units of work."""
        if self.work is not None:
            return self.work
        return WORK if self.seconds is None else math.inf


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
    ``runners_up`` are other derivations of the same roots, cheapest first, if any were asked for. ``log`` tells how
    cost and bound came together.
    """

    choices: dict[int, int]
    cost: float
    bound: float
    status: Status
    method: str
    seconds: float
    interrupted: bool = False
    runners_up: tuple[Extraction, ...] = ()
    log: tuple[Moment, ...] = ()

    @property
    def gap(self) -> float:
        """Relative distance between cost and bound: 0 is proven optimal, 1 without any bound."""
        return 0.0 if self.cost <= self.bound else (self.cost - self.bound) / self.cost
