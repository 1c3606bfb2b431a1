"""Conditions on integers decided from assumptions: by `Facts`, and by z3 where it is installed.

Assumptions are only ever added. What neither is true nor false under them is `Undecided`, and the proof goes on in
two cases.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from functools import reduce
from operator import and_
from typing import Any

from tensat_dl.ops import symbolic as sym
from tensat_dl.ops.symbolic import Atom, Bool, Condition, Int, Of, Sym, atoms_of
from tensat_dl.rewrite.conditions import Facts
from tensat_dl.verify.symbolic.solver import RealTerms, Solver, Z3Terms, new_terms


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

    def __init__(
        self,
        conditions: Iterable[Bool] = (),
        terms: Z3Terms | None = None,
        members: Sequence[Condition] = (),
    ) -> None:
        """``terms`` are z3's for this proof, if it asks more than this. ``members`` are conditions that hold of every
        member of a list, with the index `sym.EACH`."""
        self.facts = Facts()
        self._members = members
        self._terms = new_terms() if terms is None else terms
        self._given: list[Condition] = []
        self._known: dict[Bool, bool | None] = {}
        self._open: set[Bool] = set()  #: what does not follow; the opposite may
        self._solver: Solver | None = None
        self._told = 0  #: how many of the given conditions the solver has been told
        self._products: list[tuple[Counter[Atom], Counter[Atom]]] = []  #: products that are equal
        self.add(conditions)
        for c in members:
            if c.kind != "every":
                self._learn(self.facts.simplify(c))
        # What is equal for each of the members before the one in sight has equal sums over them.
        for c in members:
            p = self.facts.simplify(c.args[0] if c.kind == "every" else c)
            if isinstance(p, Condition) and p.kind == "eq":
                self.add([sym.equal(sym.before(p.args[0]), 0)])

    def copy(self) -> Assumptions:
        """The same assumptions, to which others can be added; with the answers, and with a solver of its own."""
        out = copy(self)
        out.facts = self.facts.copy()
        out._given, out._products = list(self._given), list(self._products)
        out._known, out._open = dict(self._known), set(self._open)
        out._solver = None if self._solver is None else self._solver.copy()
        return out

    def add(self, conditions: Iterable[Bool]) -> None:
        """Assumes conditions."""
        for c in conditions:
            for part in c.args if isinstance(c, Condition) and c.kind == "and" else (c,):
                self._add(self.facts.simplify(part))

    def _add(self, c: Bool) -> None:
        if isinstance(c, Condition):
            c = without_common(c)
        if isinstance(c, bool):
            if not c:
                self._given.append(sym.Condition("le", (1,)))
            return
        if c.kind == "eq":
            if len(ones := _factors_of_one(c.args[0])) > 1:
                self.add(sym.equal(sym.atom(*a), 1) for a in ones)
                return
            if (quotient := _quotient(c.args[0])) is not None:
                self.add([quotient])
                return
            if (either := _one_of(c.args[0])) is not None:
                if not self.decide(sym.equal(sym.atom(*either[0]), 1)):
                    self.add([sym.equal(sym.atom(*either[1]), 1)])
                return
            if (products := _products(c.args[0])) is not None and products not in self._products:
                self._products.append(products)
                for other in self._products[:-1]:
                    self.add((*_divided(products, other), *_divided(other, products)))
            if (whole := _product_with_maxima(c.args[0])) is not None:
                greater, product = whole
                for same in (product, *self.equal_products(product)):
                    self.add(_factor_by_factor(greater, same))
        if c.kind == "le" and c.args[0].coefficients.get((), 0) < 0 and (ones := _factors_of_one(c.args[0])):
            self.add(sym.equal(sym.atom(*a), 1) for a in ones)
            return
        if c.kind == "le" and (positive := _positive(c.args[0])) is not None:
            self._given.append(c)
            dimension = sym.atom("dim", (positive,), 0)
            self.facts.define(positive, dimension)
            # Conditions that z3 knows already name the attribute.
            self._given.append(sym.Condition("eq", (sym.sub(sym.atom(*positive), dimension),)))
            self._add(self.facts.simplify(c))
            return
        if (ordered := _ordered(c)) is not None and (difference := _difference(*ordered)) is not None:
            # The size of a slice becomes a dimension: it is known to be positive.
            low, high = ordered
            self.facts.define(high, sym.add(sym.atom(*low), difference))
            equation = sym.equal(sym.atom(*high), self.facts.known[high])
            assert isinstance(equation, Condition)
            self._given += [c, equation]
            return
        self._given.append(c)
        self.facts.add([c])
        self._known = {c: truth for c, truth in self._known.items() if truth is not None}
        self._open.clear()

    def _learn(self, c: Bool) -> None:
        """Solves an equation of every member for something that varies by member."""
        if isinstance(c, bool):
            return
        p: Int = 0
        if c.kind == "eq":
            p = _reduced(c.args[0])
        elif (ordered := _ordered(c)) is not None:
            low, high = ordered
            difference = _difference(low, high)
            if difference is None:
                return
            p = sym.sub(sym.atom(*high), sym.add(sym.atom(*low), difference))
        for monomial, k in sym.terms_of(p).items():
            if len(monomial) == 1 and abs(k) == 1 and _is_of_each(monomial[0]):
                rest = sym.mul(sym.sub(p, Sym(((monomial, k),))), -k)
                if monomial[0] not in atoms_of(rest):
                    self.facts.define(monomial[0], rest)
                    return

    def real_terms(self) -> RealTerms | None:
        """For questions about real numbers; None where z3 is not installed."""
        return None if self._terms is None else RealTerms(self._terms)

    def simple(self, value: Any) -> Any:
        """An integer, or a tuple of them, with known equations applied."""
        return sym.substitute(value, self.facts.known)

    def truth(self, c: Bool) -> bool | None:
        """True or False if that follows, else None."""
        c = self._plain(c)
        if isinstance(c, bool):
            return c
        if c not in self._known:
            solver = self._told_solver()
            self._known[c] = None if solver is None else solver.truth(c)
        return self._known[c]

    def holds(self, c: Bool) -> bool:
        """Whether a condition follows."""
        c = self._plain(c)
        if isinstance(c, bool):
            return c
        if c in self._known:
            return self._known[c] is True
        if c not in self._open:
            solver = self._told_solver()
            if solver is not None and solver.follows(c):
                self._known[c] = True
                return True
            self._open.add(c)
        return False

    def _plain(self, c: Bool) -> Bool:
        """A condition, simplified; whether it holds, where that is seen without z3."""
        c = self.facts.simplify(c) if self._terms is not None else self.facts.unproven(c)
        if isinstance(c, Condition):
            c = without_common(c)
        return True if not isinstance(c, bool) and c in self.facts.conditions else c

    def decide(self, c: Bool) -> bool:
        """Raises `Undecided`."""
        truth = self.truth(c)
        if truth is None:
            simple = self.facts.simplify(c)
            assert isinstance(simple, Condition)
            raise Undecided(simple)
        return truth

    def alternative(self) -> Condition | None:
        """An equation that may hold, of several of which one holds, and that is not made use of yet."""
        either = [c for c in self.facts.conditions if c.kind == "or"]
        parts = (self.facts.simplify(part) for c in either for part in c.args)
        equations = (part for part in parts if isinstance(part, Condition) and part.kind == "eq")
        return next((c for c in equations if self.truth(c) is not False), None)

    def equal(self, a: Int, b: Int) -> bool:
        """Whether two integers are equal for sure."""
        return a == b or self.holds(sym.equal(a, b))

    def plainly(self, a: Int, b: Int) -> bool:
        """Whether two integers are equal by known equations alone."""
        return a == b or self.facts.simplify(sym.equal(a, b)) is True

    def equal_products(self, p: Int) -> Iterator[Int]:
        """Other products of dimensions that are equal to one."""
        if isinstance(p, Sym) and len(p.terms) == 1 and p.terms[0][1] == 1:
            factors = Counter(p.terms[0][0])
            for one, other in self._products:
                for a, b in ((one, other), (other, one)):
                    if a <= factors:
                        yield self.simple(_product(factors - a + b))

    def possible(self) -> bool:
        """Whether the assumptions don't contradict each other, as far as is seen."""
        solver = self._told_solver()
        return solver is None or solver.possible()

    def _told_solver(self) -> Solver | None:
        """z3, with the assumptions."""
        if self._terms is None:
            return None
        if self._solver is None:
            self._solver = Solver(self._terms)
        self._solver.add(self._given[self._told :])
        self._told = len(self._given)
        return self._solver


def _positive(p: Sym) -> Atom | None:
    """The attribute of which p <= 0 says that it is positive. It becomes a dimension: these are known to be."""
    if len(p.terms) == 2 and p.coefficients.get((), 0) >= 1:
        ((monomial, k),) = (mk for mk in p.terms if mk[0])
        if k == -1 and len(monomial) == 1 and monomial[0][0] in ("attr", "elem"):
            return monomial[0]
    return None


def _ordered(c: Condition) -> tuple[Atom, Atom] | None:
    """The attributes of which a condition says that the first is smaller than the second."""
    if c.kind != "le" or len(c.args[0].terms) != 3 or c.args[0].coefficients.get((), 0) != 1:
        return None
    by = {k: m[0] for m, k in c.args[0].terms if len(m) == 1 and m[0][0] in ("attr", "elem")}
    return (by[1], by[-1]) if by.keys() == {1, -1} else None


def _difference(low: Atom, high: Atom) -> Int | None:
    """How much larger one attribute is than another, as a dimension: of a member, if one of them is of it. None for
    those of two members."""
    members = {a[1].index for a in (low, high) if isinstance(a[1], Of)}
    if not members:
        return sym.atom("dim", (low, high), 0)
    names = [(a[0], a[1].name, *a[2:]) if isinstance(a[1], Of) else a for a in (low, high)]
    return sym.atom("dim", Of(repr(names), members.pop()), 0) if len(members) == 1 else None


def _is_of_each(a: Atom) -> bool:
    return len(a) > 1 and isinstance(a[1], Of) and a[1].index == sym.atom(*sym.EACH)


def _quotient(p: Sym) -> Bool | None:
    """From ``m % n = 0`` for dimensions, m = n q for a new dimension q."""
    a = sym.only_atom(p)
    if a is None or a[0] != "mod":
        return None
    m, n = sym.only_atom(a[1]), a[2]
    if m is None or m[0] != "dim" or not all(b[0] == "dim" for b in atoms_of(n)):
        return None
    if any(k < 0 for k in sym.terms_of(n).values()):  # it may be negative, and so may q
        return None
    return sym.equal(a[1], sym.mul(n, sym.atom("dim", (m, n), 0)))


def without_common(c: Condition) -> Bool:
    """A condition without dimensions that are factors of all terms: these are positive."""
    match c:
        case Condition("eq", (p,)):
            return sym.equal(_reduced(p), 0)
        case Condition("ne", (p,)):
            return sym.negate(sym.equal(_reduced(p), 0))
        case Condition("le", (p,)):
            return sym.at_most(_reduced(p), 0)
        case Condition("and", parts):
            return sym.all_of(without_common(x) if isinstance(x, Condition) else x for x in parts)
    return c


def _reduced(p: Sym) -> Int:
    """A polynomial that is 0 where p is: p without dimensions that are factors of all its terms."""
    shared = [Counter(a for a in monomial if a[0] == "dim") for monomial, _ in p.terms]
    common = list(reduce(and_, shared).elements())
    if not common:
        return p
    out: Int = 0
    for monomial, k in p.terms:
        left = list(monomial)
        for a in common:
            left.remove(a)
        out = sym.add(out, Sym(((tuple(left), k),)) if left else k)
    return out


def _factors_of_one(p: Sym) -> list[Atom]:
    """The dimensions whose product is 1, if p = 0 says so. It is at least 1."""
    if len(p.terms) != 2 or p.terms[0][1] != -p.terms[1][1]:
        return []
    short, long = sorted((m for m, _ in p.terms), key=len)
    return list(long) if not short and all(a[0] == "dim" for a in long) else []


def _one_of(p: Sym) -> tuple[Atom, Atom] | None:
    """Two dimensions of which p = 0 says that one is 1: p = (a - 1) (b - 1)."""
    for monomial, k in p.terms:
        if len(monomial) == 2 and abs(k) == 1:
            a, b = monomial
            others = sym.mul(sym.sub(sym.atom(*a), 1), sym.sub(sym.atom(*b), 1))
            if a[0] == b[0] == "dim" and sym.sub(p, sym.mul(k, others)) == 0:
                return a, b
    return None


def _products(p: Sym) -> tuple[Counter[Atom], Counter[Atom]] | None:
    """The products of dimensions that are equal if p = 0."""
    if len(p.terms) != 2 or {k for _, k in p.terms} != {1, -1}:
        return None
    one, other = (Counter(m) for m, _ in p.terms)
    return (one, other) if all(a[0] == "dim" for a in one | other) else None


def _product_with_maxima(p: Sym) -> tuple[Counter[Atom], Int] | None:
    """A product of dimensions and of the larger of two, and the product of dimensions that is equal if p = 0."""
    if len(p.terms) != 2 or {k for _, k in p.terms} != {1, -1}:
        return None
    plain, other = sorted((Counter(m) for m, _ in p.terms), key=lambda m: any(a[0] == "max" for a in m))
    several = other.total() > 1 and any(a[0] == "max" for a in other)
    sizes = all(a[0] == "dim" or _of_dimensions(a) for a in other) and all(a[0] == "dim" for a in plain)
    return (other, _product(plain)) if several and sizes else None


def _of_dimensions(a: Atom) -> bool:
    """Whether an atom is the larger of two dimensions."""
    return a[0] == "max" and all(b is not None and b[0] == "dim" for b in map(sym.only_atom, a[1:]))


def _factor_by_factor(greater: Counter[Atom], product: Int) -> Iterator[Bool]:
    """What follows if two products are equal of which one has factors that are at least those of the other one: each
    is equal to that which it is compared with."""
    if not isinstance(product, Sym) or len(product.terms) != 1 or product.terms[0][1] != 1:
        return
    left = list(product.terms[0][0])
    pairs = []
    for a in greater.elements():
        least = next((b for b in left if a == b or (a[0] == "max" and b in map(sym.only_atom, a[1:]))), None)
        if least is None:
            return
        left.remove(least)
        pairs.append((a, least))
    if not left:
        yield from (sym.equal(sym.atom(*a), sym.atom(*b)) for a, b in pairs)


def _divided(
    equation: tuple[Counter[Atom], Counter[Atom]], by: tuple[Counter[Atom], Counter[Atom]]
) -> Iterator[Bool]:
    """What follows if a product in an equation has one in another equation as a factor, and what takes its place has
    factors of the other side."""
    for left, right in (equation, equation[::-1]):
        for part, same in (by, by[::-1]):
            if part <= left:
                new = left - part + same
                if new & right:
                    yield sym.equal(_product(new - right), _product(right - new))


def _product(factors: Counter[Atom]) -> Int:
    out: Int = 1
    for a in factors.elements():
        out = sym.mul(out, sym.atom(*a))
    return out
