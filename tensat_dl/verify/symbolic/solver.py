"""z3 where it is installed: conditions on integers that follow from others, and on real numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import reduce
from itertools import count
from operator import add, mul
from typing import Any

from tensat_dl.ops import symbolic as sym
from tensat_dl.ops.symbolic import Atom, Bool, Condition, Int, Opaque, Sym, atoms_of
from tensat_dl.verify.symbolic.unproved import Unproved

try:
    import z3  # type: ignore[import-untyped, import-not-found, unused-ignore]
except ImportError:  # conditions are decided by `Facts` alone
    z3 = None

#: The work that z3 may put into one question, in its own unit: the answer is the same on a busy machine. A proof that
#: fails is tried once more with more patience, if questions went unanswered.
PATIENCE = (5_000, 100_000)
#: z3 does not count all of its work: so many milliseconds end a question in any case.
MOST_MILLISECONDS = 10_000
#: How many questions of a proof at one assignment of ranks may go unanswered, by patience: these take the longest.
#: And how many, with the greatest patience, in all proofs of a rule.
MOST_UNANSWERED = (60, 6)
MOST_OF_RULE = 100
#: A question whose text is longer goes unanswered: z3 heeds neither limit in products of dozens of factors.
LONGEST = 10_000
#: So many models are kept for the next question.
MOST_MODELS = 8


class TooHard(Unproved):
    """Too many questions of a proof went unanswered."""


class Z3Terms:
    """The terms of one rule's proof, and how many questions went ``unanswered``. They have a context of their own:
    z3's answers depend on the terms that were made before, and must not depend on the proofs of other rules."""

    def __init__(self) -> None:
        self.context = z3.Context()
        self.stage = 0
        self._first = 0  #: the stage at which proofs begin
        self.unanswered = 0
        self._of_rule = 0
        self._conditions: dict[Condition, Any] = {}
        self._integers: dict[Sym, Any] = {}
        self._atoms: dict[Atom, Any] = {}
        self._bounds: dict[Atom, Any] = {}
        self._words: dict[Any, int] = {}  #: a number for each value that is no integer

    def begin(self, stage: int = 0) -> None:
        """Begins a proof with some patience."""
        self.stage, self.unanswered = stage, 0

    def stages(self) -> list[int]:
        """The order in which stages are tried."""
        return sorted(range(len(PATIENCE)), key=lambda stage: stage != self._first)

    def succeeded(self) -> None:
        """Takes note of a proof. If patience had each question answered, the next proof begins with it: an answer
        that is waited for costs less than the cases that a proof goes into without it."""
        self._first = 0 if self.unanswered else self.stage

    @property
    def last(self) -> bool:
        """Whether a proof that failed need not be tried with more patience."""
        return not self.unanswered or self.stage == self.stages()[-1] or self._of_rule > MOST_OF_RULE

    def went_unanswered(self) -> None:
        """Takes note of a question. Raises `TooHard`."""
        self.unanswered += 1
        self._of_rule += self.stage > 0
        if self.unanswered > MOST_UNANSWERED[self.stage] or self._of_rule > MOST_OF_RULE:
            raise TooHard("z3 does not answer questions about its sizes")

    def condition(self, c: Bool) -> Any:
        if isinstance(c, bool):
            return z3.BoolVal(c, self.context)
        if c not in self._conditions:
            self._conditions[c] = self._condition(c)
        return self._conditions[c]

    def _condition(self, c: Condition) -> Any:
        match c.kind:
            case "eq":
                return self.integer(c.args[0]) == 0
            case "ne":
                return self.integer(c.args[0]) != 0
            case "le":
                return self.integer(c.args[0]) <= 0
            case "and":
                return z3.And([self.condition(x) for x in c.args])
            case "or":
                return z3.Or([self.condition(x) for x in c.args])
            case "not":
                return z3.Not(self.condition(c.args[0]))
            case "same":
                return self._word(c.args[0]) == self._word(c.args[1])
        return z3.Bool(repr(c), self.context)

    def _word(self, x: Any) -> Any:
        if isinstance(x, Opaque):
            return z3.Int(repr(x.atom), self.context)
        if isinstance(x, Sym | Condition):  # which may be any
            return z3.Int(repr(x), self.context)
        return z3.IntVal(self._words.setdefault(x, len(self._words)), self.context)

    def integer(self, x: Int) -> Any:
        if isinstance(x, int):
            return z3.IntVal(x, self.context)
        if x not in self._integers:
            self._integers[x] = z3.Sum(
                [z3.Product([z3.IntVal(k, self.context), *map(self._atom, m)]) for m, k in x.terms]
            )
        return self._integers[x]

    def bound(self, a: Atom) -> Any:
        """That an atom is as large as all of its kind are, if there is something to say."""
        if a not in self._bounds:
            low = 1 if a[0] == "dim" else 0 if sym.is_sum_of_dimensions(a) else None
            self._bounds[a] = None if low is None else self.integer(sym.atom(*a)) >= low
        return self._bounds[a]

    def _atom(self, a: Atom) -> Any:
        if a not in self._atoms:
            self._atoms[a] = self._number(a)
        return self._atoms[a]

    def _number(self, a: Atom) -> Any:
        match a[0]:
            case "div" | "mod":
                p, q = self.integer(a[1]), self.integer(a[2])
                by_positive = p / q if a[0] == "div" else p % q
                if _is_positive(a[2]):
                    return by_positive
                # z3's remainders are not negative, and ours have the sign of the divisor
                by_negative = -p / -q if a[0] == "div" else -(-p % -q)
                return z3.If(q > 0, by_positive, by_negative)
            case "max" | "min":
                p, q = self.integer(a[1]), self.integer(a[2])
                return z3.If(p >= q, *((p, q) if a[0] == "max" else (q, p)))
            case "select":
                index = self.integer(a[2])
                found = z3.Int(repr(a), self.context)  # where there is no such item
                for k, item in enumerate(a[1]):
                    here = z3.Or(index == k, index == k - len(a[1]))
                    found = z3.If(here, self.integer(item), found)
                return found
        return z3.Int(repr(a), self.context)


class RealTerms:
    """The terms of questions about real numbers."""

    def __init__(self, terms: Z3Terms) -> None:
        self._terms = terms
        self._context = terms.context
        self._unknown = count()

    def number(self, c: Fraction) -> Any:
        return z3.RatVal(c.numerator, c.denominator, self._context)

    def unknown(self) -> Any:
        """A number of its own."""
        return z3.Real(f"real {next(self._unknown)}", self._context)

    def unknown_truth(self) -> Any:
        return z3.Bool(f"truth {next(self._unknown)}", self._context)

    def sum(self, xs: Sequence[Any]) -> Any:
        return reduce(add, xs) if xs else self.number(Fraction(0))

    def product(self, xs: Sequence[Any]) -> Any:
        return reduce(mul, xs)

    def greatest(self, xs: Sequence[Any]) -> Any:
        return reduce(lambda x, y: z3.If(x >= y, x, y), xs)

    def all(self, conditions: Sequence[Any]) -> Any:
        return z3.And(conditions)

    def where(self, conditions: Sequence[Any], x: Any) -> Any:
        """x where all conditions hold, else 0."""
        return z3.If(z3.And(conditions), x, self.number(Fraction(0)))

    def follows(self, claim: Any, assumed: Sequence[Any]) -> bool:
        """Whether a claim follows, as far as is seen. Raises `TooHard`."""
        solver = z3.Solver(ctx=self._context)
        solver.set("rlimit", PATIENCE[self._terms.stage])
        solver.set("timeout", MOST_MILLISECONDS)
        solver.add(*assumed, z3.Not(claim))
        found = solver.check()
        if found == z3.unknown:
            self._terms.went_unanswered()
        return bool(found == z3.unsat)

    @staticmethod
    def negation(c: Any) -> Any:
        return z3.Not(c)

    @staticmethod
    def implies(conditions: Sequence[Any], c: Any) -> Any:
        return z3.Implies(z3.And(*conditions), c)


class Solver:
    """What is assumed, and questions about it."""

    def __init__(self, terms: Z3Terms) -> None:
        self._terms = terms
        self._bounded: set[Atom] = set()
        self._assumed: list[Any] = []
        self._models: list[Any] = []  #: of what is assumed: most questions have an answer in one of them
        self._solver = z3.Solver(ctx=terms.context)
        self._solver.set("rlimit", PATIENCE[terms.stage])
        self._solver.set("timeout", MOST_MILLISECONDS)

    def copy(self) -> Solver:
        """A solver with the same assumptions, and with the models that are known of them."""
        out = Solver(self._terms)
        for term in self._assumed:
            out._assume(term)
        out._bounded, out._models = set(self._bounded), list(self._models)
        return out

    def add(self, conditions: Iterable[Bool]) -> None:
        """Assumes conditions."""
        for c in conditions:
            self._assume(self._term(c))

    def _assume(self, term: Any) -> None:
        # What `add` does for one condition, without the questions that it asks about each.
        self._assumed.append(term)
        z3.Z3_solver_assert(self._terms.context.ref(), self._solver.solver, term.as_ast())
        self._models = [m for m in self._models if _value(m, term) is True]

    def possible(self) -> bool:
        """Whether the assumptions don't contradict each other, as far as is seen. Raises `TooHard`."""
        found = z3.sat if self._models else self._check()
        if found == z3.unknown:
            self._terms.went_unanswered()
        return bool(found != z3.unsat)

    def truth(self, c: Condition) -> bool | None:
        """True or False if that follows, else None. Raises `TooHard`."""
        if self.follows(c):
            return True
        return False if self.follows(sym.negate(c)) else None

    def follows(self, c: Bool) -> bool:
        """Whether a condition follows, as far as is seen. Raises `TooHard`."""
        claim = z3.Not(self._term(c))
        if any(_value(m, claim) is True for m in self._models):
            return False
        found = z3.unknown
        if len(repr(c)) <= LONGEST:
            self._solver.push()
            self._solver.add(claim)
            found = self._check()
            self._solver.pop()
        if found == z3.unknown:
            self._terms.went_unanswered()
        return bool(found == z3.unsat)

    def _check(self) -> Any:
        found = self._solver.check()
        if found == z3.sat:
            self._models = [*self._models[1 - MOST_MODELS :], self._solver.model()]
        return found

    def _term(self, c: Bool) -> Any:
        for a in sorted(atoms_of(c) - self._bounded, key=sym.text_of):
            self._bounded.add(a)
            if (bound := self._terms.bound(a)) is not None:
                self._assume(bound)
        return self._terms.condition(c)


def _is_positive(p: Int) -> bool:
    """Whether a polynomial is positive at first sight."""
    if isinstance(p, int):
        return p > 0
    return all(k > 0 and all(a[0] == "dim" for a in monomial) for monomial, k in p.terms)


def _value(model: Any, term: Any) -> bool | None:
    value = model.eval(term, model_completion=True)
    return True if z3.is_true(value) else False if z3.is_false(value) else None


def new_terms() -> Z3Terms | None:
    """None where z3 is not installed."""
    return Z3Terms() if z3 is not None else None
