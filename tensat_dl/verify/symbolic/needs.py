"""What a value needs in order to be a number: operands that roots have, divisors that are not 0; and where."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from tensat_dl.ops import symbolic as sym
from tensat_dl.ops.symbolic import Atom, Bool, Condition, Int
from tensat_dl.verify.symbolic import elements as el
from tensat_dl.verify.symbolic.normal_form import Value


@dataclass(frozen=True, slots=True)
class Choice:
    """A ``select`` takes its first operand, or, if not ``taken``, the second."""

    condition: Value
    taken: bool


Guard = Condition | Choice


#: Kinds of what is no number where it has no value, and not infinite: roots, and quotients of integers.
ROOT, QUOTIENT = "root", "quotient"
#: The kind of divisors that are 0 for single elements.
POINT = "point"
#: How a comparison loses what its operands need.
COMPARED = "compared"


@dataclass(frozen=True, slots=True)
class Bounded:
    """An operator may make a number of an infinite operand, of which this is an element: tanh does, a maximum, and a
    quotient of its divisor. Other needs are not lost so."""

    operator: Hashable
    place: Hashable


#: The ways in which something is lost, the innermost first.
Ways = tuple[Hashable, ...]


@dataclass(frozen=True, slots=True)
class Need:
    """A function of a ``kind`` must have a value for the number ``of`` where the guards hold. ``lost`` says how the
    result may be a number all the same: a comparison with what is no number is false, and a new pixel of few old ones
    is a number whatever the others are. It is empty where the result is none."""

    kind: str
    of: Value
    guards: frozenset[Guard] = frozenset()
    lost: Ways = ()

    def losing(self, ways: Ways) -> Need:
        """What is lost in some ways as well."""
        kept = (w for w in ways if not (self.kind in (ROOT, QUOTIENT, POINT) and isinstance(w, Bounded)))
        return replace(self, lost=_one_after_the_other(self.lost, tuple(kept)))

    def where(self, names: Mapping[Atom, Int]) -> Bool:
        """The guards as a condition, with integers in place of indices."""
        return sym.all_of(
            sym.substitute(g, names) if isinstance(g, Condition) else _as_condition(g, names)
            for g in self.guards
        )


def _one_after_the_other(inner: Ways, outer: Ways) -> Ways:
    return (COMPARED,) if COMPARED in (*inner, *outer) else (*inner, *outer)


def _as_condition(choice: Choice, names: Mapping[Atom, Int]) -> Bool:
    taken = Condition("chosen", (el.substituted(choice.condition, names).text,))
    return taken if choice.taken else sym.negate(taken)


def both_ways(condition: Value) -> tuple[list[Guard], list[Guard]]:
    """Where a ``select`` by this condition takes its first operand, and where the second."""
    match condition.terms:
        case ((term, c),) if c == 1 and not term.factors and not term.over:
            other = sym.negate(sym.all_of(term.guards))
            return [*term.guards], [other] if isinstance(other, Condition) else []
    return [Choice(condition, True)], [Choice(condition, False)]


@dataclass
class Needs:
    """What is noted while elements are written down, under the guards of the part that is being written: those of
    divisors that are 0 for single elements only under those that are no ``filling``."""

    found: dict[Need, None] = field(default_factory=dict)
    within: frozenset[Guard] = frozenset()
    filling: frozenset[Guard] = frozenset()
    losing: Ways = ()

    def note(self, kind: str, of: Value) -> None:
        self.again([Need(kind, of)])

    def again(self, noted: Iterable[Need]) -> None:
        """Notes what was noted apart, under the guards that hold now as well."""
        for need in noted:
            guards = self.within - self.filling if need.kind == POINT else self.within
            self.found[replace(need, guards=need.guards | guards).losing(self.losing)] = None

    @contextmanager
    def lost(self, way: Hashable) -> Iterator[None]:
        """Where a result may be a number whether an operand is one or not."""
        before = self.losing
        self.losing = _one_after_the_other((way,), before)
        try:
            yield
        finally:
            self.losing = before

    @contextmanager
    def under(self, guards: Collection[Guard], fills: bool = False) -> Iterator[None]:
        """Where guards hold as well, beside which a tensor may be filled up."""
        before = self.within, self.filling
        if fills:
            self.filling = self.filling.union(set(guards) - self.within)
        self.within = self.within.union(guards)
        try:
            yield
        finally:
            self.within, self.filling = before

    @contextmanager
    def apart(self) -> Iterator[dict[Need, None]]:
        """Notes in a place of its own, whatever guards hold around it."""
        before = self.found, self.within, self.filling, self.losing
        found: dict[Need, None] = {}
        self.found, self.within, self.filling, self.losing = found, frozenset(), frozenset(), ()
        try:
            yield found
        finally:
            self.found, self.within, self.filling, self.losing = before
