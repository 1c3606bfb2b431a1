"""The limits and results of exploration. Without the engine: only the worker process needs that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from tensat_dl.core.diagnostics import Diagnostic, Span
from tensat_dl.core.egraph import EGraph
from tensat_dl.core.graph import Attrs, Graph, TensorType

#: Why an exploration ended, or a search graph by graph, which may run out of graphs.
Stop = Literal["saturated", "nodes", "iterations", "time", "memory", "interrupted", "exhausted"]
#: Those after which an answer can be refined.
REFINABLE: tuple[Stop, ...] = ("saturated", "iterations", "nodes")
#: Estimated milliseconds of an operator, given its name, attributes, input types and output type; views that are
#: free for some consumer count as free. It is pickled on its way to the worker.
Estimate = Callable[[str, Attrs, tuple[TensorType, ...], TensorType], float]
#: After an alarm, explorations with fewer rules are started until this many seconds have passed.
NARROWING = 30.0
#: What is done about cycles while the e-graph grows: nothing, or one of the filters of `tensat_dl.paper.cycles`,
#: with which it has none after any iteration.
Cycles = Literal["none", "vanilla", "efficient", "incremental"]
CYCLES: tuple[Cycles, ...] = get_args(Cycles)
#: The schedules that a worker can follow, by name: the usual one, and that of the paper's cycle filters.
_SCHEDULES = ("tensat_dl.engine.loop:Explorer", "tensat_dl.paper.filtered:FilteredExplorer")


@dataclass(frozen=True, slots=True)
class Limits:
    """When to stop, and what may grow. ``k_multi`` is the number of iterations in which multi-pattern rules are
    applied (paper, section 4), None for all of them. ``seconds`` is wall-clock time, ``memory`` the worker's resident
    memory in bytes. Raises ValueError for a limit below its least value."""

    nodes: int = 50_000
    iterations: int = 15
    k_multi: int | None = 1
    seconds: float | None = None
    memory: int | None = None
    cycles: Cycles = "none"

    def __post_init__(self) -> None:
        for name, least in (("nodes", 1), ("iterations", 0), ("k_multi", 0), ("seconds", 0), ("memory", 1)):
            value = getattr(self, name)
            if value is not None and not value >= least:
                raise ValueError(f"a limit of {value} {name}: at least {least} is needed")
        if self.cycles not in CYCLES:
            raise ValueError(f"unknown cycle filtering {self.cycles!r}: use one of {', '.join(CYCLES)}")

    @property
    def schedule(self) -> str:
        """The explorer that keeps to these limits, as ``module:class``: only the worker imports it."""
        return _SCHEDULES[self.cycles != "none"]


@dataclass(frozen=True, slots=True)
class RuleStats:
    """One rule in one iteration. ``note`` says why it was held back, if it was."""

    rule: str
    matches: int
    applied: int
    new_nodes: int
    seconds: float
    note: str = ""


@dataclass(frozen=True, slots=True)
class Iteration:
    """Sizes of the e-graph after an iteration, and what each rule did in it."""

    nodes: int
    classes: int
    seconds: float
    rules: tuple[RuleStats, ...]
    skipped: int = 0  #: matches that were not applied because they would close a cycle
    filtered: int = 0  #: e-nodes on the filter list after the iteration


@dataclass(frozen=True, slots=True)
class Groups:
    """The groups of an e-graph: how many there are, and how many subsets of their members are merged, of how many.

    ``savings`` has the most that a merge is estimated to save with a member that no answer has asked for, infinite
    where there are too many subsets to tell; ``shares`` has, for the product of each merge of many members, what it
    would cost less without each of them. Milliseconds, by the handles of the members' results.
    """

    count: int = 0
    merged: int = 0
    possible: int = 0
    savings: dict[int, float] = field(default_factory=dict)
    shares: dict[int, dict[int, float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ExploredIteration:
    """A complete iteration and the e-graph after it; ``stop`` says why it is the last one, if it is."""

    iteration: Iteration
    egraph: EGraph
    stop: Stop | None
    notes: tuple[str, ...]
    handles: tuple[int, ...]  #: of each e-class; they stay the same when exploration goes on
    early: int  #: how many e-classes are older than what multi-pattern rules made; 0 if those made nothing
    grouping: bool  #: whether it can be refined: then its `Groups` come after it


@dataclass(frozen=True, slots=True)
class Exploration(ExploredIteration):
    """The last complete iteration, with why exploration stopped there, and all ``iterations``. It has its ``groups``
    once somebody has waited for them (see `Exploring.grouped`)."""

    stop: Stop
    iterations: tuple[Iteration, ...]
    groups: Groups = field(default_factory=Groups)


@dataclass(frozen=True, slots=True)
class Start:
    """Asks the worker for an exploration of a graph, which the rules lead to from the first graph that it explored,
    with those rules that are named. ``further``: on from the e-graph that it has, which is saturated with less."""

    graph: Graph
    rules: frozenset[str]
    limits: Limits
    further: bool = False

    def goes_beyond(self, other: Start) -> bool:
        """Whether this start, after another one that saturated, finds all that it would find by itself. Multi-pattern
        rules are applied in a limited number of iterations, so those of the other start must be the same or none."""
        same = self.limits.k_multi == other.limits.k_multi and self.rules == other.rules
        limits = replace(self.limits, k_multi=other.limits.k_multi)
        return (
            self.graph is other.graph
            and self.rules >= other.rules
            and limits == other.limits
            and (same or other.limits.k_multi == 0)
        )


@dataclass(frozen=True, slots=True)
class Feedback:
    """What an extraction says about the e-graph, in handles of e-classes: those that its answer computes; those that
    it would compute at the least price that a merge can have for them; and those that it would not take out of a
    merge of many at their share of its price."""

    used: frozenset[int]
    wanted: frozenset[int] = frozenset()
    spare: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Applied:
    """One application of a group or multi-pattern rule, by handles of the source's tensors: those that members share
    (without members, all that are recorded), then those of each member."""

    rule: str
    shared: tuple[tuple[str, int], ...]
    members: tuple[tuple[tuple[str, int], ...], ...] = ()

    @property
    def tensors(self) -> list[int]:
        """The handles of all tensors."""
        return [h for tensors in (self.shared, *self.members) for _, h in tensors]


@dataclass(frozen=True, slots=True)
class History:
    """The applications of group and multi-pattern rules that led to an e-graph; and, if cycle filtering dropped
    e-nodes, the e-graph that still has them, and the handles of its e-classes."""

    applied: tuple[Applied, ...] = ()
    whole: tuple[EGraph, tuple[int, ...]] | None = None


class AskHistory:
    """Asks the worker for the `History` of its exploration."""


class RuleAlarm(Exception):
    """Rules are unsound: they made two tensors of different types equal.

    ``rules`` names the applied rules. If ``spans`` has their places, these rules alone are known to cause the alarm.
    """

    def __init__(self, rules: tuple[str, ...], spans: tuple[Span, ...] = ()) -> None:
        super().__init__(rules, spans)
        self.rules = rules
        self.spans = spans

    def __str__(self) -> str:
        if not self.spans:
            applied = ", ".join(self.rules) or "none"
            return f"error: an e-class received two different types; rules applied until then: {applied}"
        together = f"the rules {', '.join(self.rules)} together make" if self.rules[1:] else "this rule makes"
        message = f"{together} tensors of two different types equal"
        return "\n".join(Diagnostic(message, span).render() for span in self.spans)
