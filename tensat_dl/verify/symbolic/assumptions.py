"""Conditions on integers decided from assumptions: by `Facts`, and by z3 where it is installed.

Assumptions are only ever added. What neither is true nor false under them is `Undecided`, and the proof goes on in
two cases.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, reduce
from itertools import count
from operator import and_
from typing import Any

from tensat_dl.ops import symbolic as sym
from tensat_dl.ops.symbolic import Atom, Bool, Condition, Int, Sym
from tensat_dl.rewrite.conditions import Facts

try:
    import z3  # type: ignore[import-untyped, import-not-found, unused-ignore]
except ImportError:  # conditions are decided by `Facts` alone
    z3 = None

#: The work that z3 may put into one question, in its own unit: the answer is the same on a busy machine.
PATIENCE = 200_000
#: How many questions of a proof at one assignment of ranks may go unanswered: these take the longest.
MOST_UNANSWERED = 12


class TooHard(Exception):
    """Too many questions of a proof went unanswered."""


class Undecided(Exception):
    """A proof has to go on with a condition and with its negation."""

    def __init__(self, condition: Condition) -> None:
        super().__init__(str(condition))
        self.condition = condition


class Digits(Exception):
    """A proof has to go on with an index of which the digits are indices: its ``radices`` are the digits' ranges."""

    def __init__(self, index: Atom, radices: tuple[Int, Int]) -> None:
        super().__init__(f"{index} in {radices}")
        self.index = index
        self.radices = radices


class Assumptions:
    """What is known about integers."""

    def __init__(self, conditions: Iterable[Bool] = (), asked: Iterator[int] | None = None) -> None:
        self.facts = Facts()
        #: Counts the questions that z3 did not answer.
        self._count = count() if asked is None else asked
        self._given: list[Condition] = []
        self._known: dict[Bool, bool | None] = {}
        self._solver: Any = None
        self._told = 0  #: how many of the given conditions z3 has been told
        self._bounded: set[Atom] = set()
        self.add(conditions)

    def copy(self) -> Assumptions:
        return Assumptions(self._given, self._count)

    def add(self, conditions: Iterable[Bool]) -> None:
        """Assumes conditions."""
        for c in conditions:
            for part in c.args if isinstance(c, Condition) and c.kind == "and" else (c,):
                self._add(self.facts.simplify(part))

    def _add(self, c: Bool) -> None:
        if isinstance(c, Condition) and c.kind == "eq":
            c = sym.equal(_reduced(c.args[0]), 0)
        if isinstance(c, bool):
            if not c:
                self._given.append(sym.Condition("le", (1,)))
            return
        if c.kind == "eq":
            if ones := _factors_of_one(c.args[0]):
                self.add(sym.equal(sym.atom(*a), 1) for a in ones)
                return
            if (quotient := _quotient(c.args[0])) is not None:
                self.add([quotient])
                return
        if c.kind == "le" and (positive := _positive(c.args[0])) is not None:
            self._given.append(c)
            dimension = sym.atom("dim", (positive,), 0)
            self.facts.define(positive, dimension)
            # Conditions that z3 knows already name the attribute.
            self._given.append(sym.Condition("eq", (sym.sub(sym.atom(*positive), dimension),)))
            self._add(self.facts.simplify(c))
            return
        self._given.append(c)
        self.facts.add([c])
        self._known = {c: truth for c, truth in self._known.items() if truth is not None}

    def simple(self, value: Any) -> Any:
        """An integer, or a tuple of them, with known equations applied."""
        return sym.substitute(value, self.facts.known)

    def truth(self, c: Bool) -> bool | None:
        """True or False if that follows, else None."""
        c = self.facts.simplify(c) if z3 is not None else self.facts.unproven(c)
        if isinstance(c, bool):
            return c
        if c in self.facts.conditions:
            return True
        if c not in self._known:
            self._known[c] = self._asked(c)
        return self._known[c]

    def decide(self, c: Bool) -> bool:
        """Raises `Undecided`."""
        truth = self.truth(c)
        if truth is None:
            simple = self.facts.simplify(c)
            assert isinstance(simple, Condition)
            raise Undecided(simple)
        return truth

    def holds(self, c: Bool) -> bool:
        return self.truth(c) is True

    def equal(self, a: Int, b: Int) -> bool:
        """Whether two integers are equal for sure."""
        return a == b or self.holds(sym.equal(a, b))

    def plainly(self, a: Int, b: Int) -> bool:
        """Whether two integers are equal by known equations alone."""
        return a == b or self.facts.simplify(sym.equal(a, b)) is True

    def possible(self) -> bool:
        """Whether the assumptions don't contradict each other, as far as is seen."""
        return z3 is None or self._prover().check() != z3.unsat

    def _prover(self) -> Any:
        """z3, with the assumptions."""
        if self._solver is None:
            self._solver = z3.Solver()
            self._solver.set("rlimit", PATIENCE)
        for c in self._given[self._told :]:
            self._solver.add(self._truth(c))
        self._told = len(self._given)
        return self._solver

    def _asked(self, c: Condition) -> bool | None:
        if z3 is None:
            return None
        self._prover()
        term = self._truth(c)
        for truth, claim in ((True, z3.Not(term)), (False, term)):
            self._solver.push()
            self._solver.add(claim)
            found = self._solver.check()
            self._solver.pop()
            if found == z3.unsat:
                return truth
            if found == z3.unknown and next(self._count) == MOST_UNANSWERED:
                raise TooHard("z3 does not answer questions about its sizes")
        return None

    def _truth(self, c: Bool) -> Any:
        for a in sorted(atoms_of(c) - self._bounded, key=repr):
            self._bounded.add(a)
            if a[0] == "dim":
                self._solver.add(_integer(sym.atom(*a)) >= 1)
        return _truth(c)


@cache
def _truth(c: Bool) -> Any:
    """A condition in z3's words."""
    if isinstance(c, bool):
        return z3.BoolVal(c)
    match c.kind:
        case "eq":
            return _integer(c.args[0]) == 0
        case "ne":
            return _integer(c.args[0]) != 0
        case "le":
            return _integer(c.args[0]) <= 0
        case "and":
            return z3.And([_truth(x) for x in c.args])
        case "or":
            return z3.Or([_truth(x) for x in c.args])
        case "not":
            return z3.Not(_truth(c.args[0]))
    return z3.Bool(repr(c))


@cache
def _integer(x: Int) -> Any:
    if isinstance(x, int):
        return z3.IntVal(x)
    return z3.Sum([z3.Product([z3.IntVal(k), *map(_atom, m)]) for m, k in x.terms])


@cache
def _atom(a: Atom) -> Any:
    match a[0]:
        case "div":
            return _integer(a[1]) / _integer(a[2])
        case "mod":
            return _integer(a[1]) % _integer(a[2])
        case "max" | "min":
            p, q = _integer(a[1]), _integer(a[2])
            return z3.If(p >= q, *((p, q) if a[0] == "max" else (q, p)))
        case "select":
            index = _integer(a[2])
            found = _integer(a[1][-1])
            for k, item in enumerate(a[1][:-1]):
                found = z3.If(index == k, _integer(item), found)
            return found
    return z3.Int(repr(a))


def _positive(p: Sym) -> Atom | None:
    """The attribute of which p <= 0 says that it is positive. It becomes a dimension: these are known to be."""
    if len(p.terms) == 2 and p.coefficients.get((), 0) >= 1:
        ((monomial, k),) = (mk for mk in p.terms if mk[0])
        if k == -1 and len(monomial) == 1 and monomial[0][0] in ("attr", "elem"):
            return monomial[0]
    return None


def _quotient(p: Sym) -> Bool | None:
    """From ``m % n = 0`` for dimensions, m = n q for a new dimension q."""
    a = sym.only_atom(p)
    if a is None or a[0] != "mod":
        return None
    m, n = sym.only_atom(a[1]), a[2]
    if m is None or m[0] != "dim" or not all(b[0] == "dim" for b in atoms_of(n)):
        return None
    return sym.equal(a[1], sym.mul(n, sym.atom("dim", (m, n), 0)))


def _reduced(p: Sym) -> Int:
    """A polynomial that is 0 where p is: p without dimensions that are factors of all its terms."""
    shared = [Counter(a for a in monomial if a[0] == "dim") for monomial, _ in p.terms]
    common = list(reduce(and_, shared).elements())
    out: Int = 0
    for monomial, k in p.terms:
        left = list(monomial)
        for a in common:
            left.remove(a)
        out = sym.add(out, Sym(((tuple(left), k),)) if left else k)
    return out


def _factors_of_one(p: Sym) -> list[Atom]:
    """The dimensions whose product is 1, if p = 0 says so."""
    if len(p.terms) != 2 or p.terms[0][1] != -p.terms[1][1]:
        return []
    short, long = sorted((m for m, _ in p.terms), key=len)
    return list(long) if not short and len(long) > 1 and all(a[0] == "dim" for a in long) else []


def atoms_of(value: Any) -> frozenset[Atom]:
    """The atoms in integers and conditions."""
    if isinstance(value, Sym):
        return value.mentioned
    if isinstance(value, Condition):
        return frozenset[Atom]().union(*map(atoms_of, value.args))
    if isinstance(value, tuple):
        return frozenset[Atom]().union(*map(atoms_of, value))
    return frozenset()


def replaced(c: Bool, known: Mapping[Atom, Int]) -> Bool:
    """A condition with atoms replaced."""
    if isinstance(c, bool):
        return c
    match c.kind:
        case "eq":
            return sym.equal(sym.substitute(c.args[0], known), 0)
        case "ne":
            return sym.negate(sym.equal(sym.substitute(c.args[0], known), 0))
        case "le":
            return sym.at_most(sym.substitute(c.args[0], known), 0)
        case "and":
            return sym.all_of(replaced(x, known) for x in c.args)
        case "or":
            return sym.any_of(replaced(x, known) for x in c.args)
        case "not":
            return sym.negate(replaced(c.args[0], known))
    return c
