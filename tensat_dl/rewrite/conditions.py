"""The conditions of rules: their parts, the facts about a match, and the conclusions from these facts.

Everything in an e-graph is well-typed, so the conditions under which the *source* pattern type-checks are facts. A
condition of the *target* that follows from them needs no guard in the compiled rule. A condition that cannot be shown
to follow becomes a guard: weak inference costs time, never soundness.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from tensat_dl.core import expression as ex
from tensat_dl.ops import symbolic as sym
from tensat_dl.ops.symbolic import Atom, Bool, Condition, EvaluationError, Int, Opaque, Sym

#: Why a rule has no target where its own conditions can't hold.
UNMET = "a condition of the rule does not hold"


#: So many sums of inequalities are tried for one question: rules about dozens of members have hundreds of them.
MOST_SUMS = 10_000


def conjuncts(c: sym.Bool) -> list[Condition]:
    if c is False:
        raise EvaluationError("an attribute can't have this value")
    if c is True:
        return []
    assert isinstance(c, Condition)
    return list(c.args) if c.kind == "and" else [c]


def is_about_ranks(expr: ex.Expr) -> bool:
    """Whether a condition is a comparison of ranks with each other or with numbers."""

    def is_rank(e: ex.Expr) -> bool:
        return isinstance(e, ex.Const) or (isinstance(e, ex.Call) and e.fn == "rank")

    return isinstance(expr, ex.Binary) and is_rank(expr.left) and is_rank(expr.right)


def values_in(c: Condition) -> list[str]:
    """The constants whose values a comparison, plain or negated, is about."""
    if c.kind == "not":
        return values_in(c.args[0])
    atoms = [x.atom for x in c.args if c.kind in ("same", "below") and isinstance(x, Opaque)]
    return [a[1] for a in atoms if a[0] == "value"]


def factors_in(c: Condition) -> list[str]:
    """The tensors whose numbers of factors a condition is about."""
    found: dict[str, None] = {}
    for x in c.args:
        if isinstance(x, Condition):
            found |= dict.fromkeys(factors_in(x))
        elif isinstance(x, Sym):
            found |= dict.fromkeys(sorted(a[1] for a in x.mentioned if a[0] == "factors"))
    return list(found)


class Facts:
    """Equalities solved for one atom each, inequalities, and classes of equal values."""

    def __init__(self) -> None:
        self.known: dict[Atom, Int] = {}
        self.same: dict[Opaque, Opaque | str | float | bool] = {}
        self.conditions: dict[Condition, None] = {}  #: in order, so that nothing depends on hashes
        self.bounds: dict[Atom, int] = {}
        self._left = MOST_SUMS

    def copy(self) -> Facts:
        out = Facts()
        out.known, out.same = dict(self.known), dict(self.same)
        out.conditions, out.bounds = dict(self.conditions), dict(self.bounds)
        return out

    def add(self, conditions: Iterable[Condition]) -> None:
        for c in conditions:
            simple = self.simplify(c)
            for part in simple.args if isinstance(simple, Condition) and simple.kind == "and" else (simple,):
                if isinstance(part, Condition):
                    self._add(part)

    def _add(self, c: Condition) -> None:
        if c.kind == "same":
            a, b = (self.value(x) for x in c.args)
            if not isinstance(a, Opaque):
                a, b = b, a
            if isinstance(a, Opaque) and a != b:
                self.same[a] = b
                self._again(a)
            return
        if c.kind == "eq" and self._solve(c.args[0]):
            return
        self.conditions[c] = None
        if c.kind == "le":  # k - a <= 0 says a >= k
            p: Sym = c.args[0]
            constant = p.coefficients.get((), 0)
            rest = [(m, k) for m, k in p.terms if m]
            if len(rest) == 1 and rest[0][1] == -1 and len(rest[0][0]) == 1:
                bounded = rest[0][0][0]
                self.bounds[bounded] = max(constant, self.bounds.get(bounded, constant))

    def _solve(self, p: Sym) -> bool:
        """From p = 0 an equation for one atom with coefficient 1 or -1, if there is one."""
        for monomial, k in reversed(p.terms):
            if len(monomial) != 1 or abs(k) != 1:
                continue
            a = monomial[0]
            rest = sym.mul(sym.sub(p, Sym(((monomial, k),))), -k)
            if _mentions(rest, a):
                continue
            self.define(a, rest)
            return True
        return False

    def define(self, a: Atom, value: Int) -> None:
        """Learns the value of an atom, which does not mention it."""
        learned = {a: value}
        for b, v in self.known.items():
            if _mentions(v, a):
                self.known[b] = sym.substitute(v, learned)
        self.known[a] = value
        self._again(a)

    def _again(self, news: Atom | Opaque) -> None:
        """Simplifies the conditions that mention what has become known."""
        old = [c for c in self.conditions if news in c.about]
        for c in old:
            del self.conditions[c]
        self.add(old)

    def value(self, x: Opaque | str | float | bool) -> Opaque | str | float | bool:
        while isinstance(x, Opaque) and x in self.same:
            x = self.same[x]
        return x

    def simplify(self, c: Bool) -> Bool:
        """The condition with known equations applied: True, False or a simpler condition."""
        if isinstance(c, bool):
            return c
        match c.kind:
            case "eq" | "ne" | "le":
                p = sym.substitute(c.args[0], self.known)
                return c if p is c.args[0] else sym.compared(c.kind, p)
            case "same":
                return sym.equal(*(self.value(x) for x in c.args))
            case "and":
                return sym.all_of(self.simplify(x) for x in c.args)
            case "or":
                return sym.any_of(self.simplify(x) for x in c.args)
            case "not":
                return sym.negate(self.simplify(c.args[0]))
        return c

    def unproven(self, c: Bool) -> Bool:
        """True if the condition follows, False if it contradicts the facts, else the condition that remains to be
        checked."""
        c = self.simplify(c)
        if isinstance(c, bool) or c in self.conditions:
            return c if isinstance(c, bool) else True
        if c.kind == "le":
            self._left = MOST_SUMS
            return True if self._at_most_zero(c.args[0], 3) else c
        if c.kind == "and":
            return sym.all_of(self.unproven(x) for x in c.args)
        if c.kind == "or" and any(self.unproven(x) is True for x in c.args):
            return True
        if c.kind == "not" and any(_excludes(known, c.args[0]) for known in self.conditions):
            return True
        return c

    def _at_most_zero(self, p: Int, depth: int) -> bool:
        """p <= 0 by lower bounds of atoms, or by adding up to ``depth`` known inequalities, in so many attempts as
        are left."""
        if isinstance(p, int):
            return p <= 0
        upper = 0
        for monomial, k in p.terms:
            lows = [self.lower_bound(a) for a in monomial]
            if (k > 0 and monomial) or any(low < 0 for low in lows):
                break
            upper += k * prod(lows)
        else:
            if upper <= 0:
                return True
        if depth == 0:
            return False
        mentioned = p.coefficients.keys() - {()}
        for c in self.conditions:
            if self._left and c.kind == "le" and not mentioned.isdisjoint(c.args[0].coefficients):
                self._left -= 1
                if self._at_most_zero(sym.sub(p, c.args[0]), depth - 1):
                    return True
        return False

    def lower_bound(self, a: Atom) -> int:
        """A lower bound of an atom; negative if none is known."""
        if a[0] == "dim":
            return max(1, self.bounds.get(a, 1))
        if sym.is_sum_of_dimensions(a):
            return 0
        return self.bounds.get(a, -1)


def _excludes(known: Condition, c: Condition) -> bool:
    """Whether a value that is one of some words is not another word."""
    if known.kind != "or" or c.kind != "same" or any(k.kind != "same" for k in known.args):
        return False
    if any(isinstance(x, Sym | Condition) for k in (c, *known.args) for x in k.args):
        return False
    return all(len({*c.args} & {*k.args}) == 1 and _unknowns(k) == _unknowns(c) != [] for k in known.args)


def _unknowns(c: Condition) -> list[Opaque]:
    return [x for x in c.args if isinstance(x, Opaque)]


def _mentions(value: object, a: Atom | Opaque) -> bool:
    return isinstance(value, Sym) and a in value.mentioned
