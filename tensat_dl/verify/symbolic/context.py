"""Tensors as functions of indices, and what such functions are made with: sums over ranges, guards, cases."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import product
from math import isinf, isnan
from typing import Any

from tensat_dl.core.graph import INTEGERS
from tensat_dl.ops import symbolic as sym
from tensat_dl.ops.symbolic import Atom, Condition, Int, Opaque, Sym, atoms_of
from tensat_dl.rewrite.conditions import conjuncts
from tensat_dl.verify.exact.constants import meant
from tensat_dl.verify.symbolic import elements as el
from tensat_dl.verify.symbolic.assumptions import Assumptions, Digits
from tensat_dl.verify.symbolic.division import digits
from tensat_dl.verify.symbolic.divisors import is_divisor, may_be_zero
from tensat_dl.verify.symbolic.elements import NotReal, TooLarge
from tensat_dl.verify.symbolic.functions import (
    PARTIAL,
    applied,
    clauses_of,
    is_integer,
    is_positive,
    only_factor,
)
from tensat_dl.verify.symbolic.needs import (
    COMPARED,
    POINT,
    QUOTIENT,
    ROOT,
    Bounded,
    Choice,
    Guard,
    Need,
    Needs,
)
from tensat_dl.verify.symbolic.normal_form import FunctionOf, Read, Summand, Symbol, Value, names_in
from tensat_dl.verify.symbolic.polynomials import quotient_by, recombined
from tensat_dl.verify.symbolic.unproved import Inexpressible

Index = tuple[Int, ...]


#: How often a digit of an index is taken apart again.
MOST_DIGITS = 8
#: Functions that have no value where their last operand is 0.
DIVIDING = frozenset(("inverse", "quotient", "rsqrt", "log"))
#: The most values of which a limit is the least.
MOST_CLAUSES = 16
#: The most terms of an index. Those of the library's rules have up to 31; with thousands of them, memory ends.
MOST_PRODUCTS = 1_000


@dataclass
class Tensor:
    """``at`` gives the element at an index, ``flat`` at an offset in row-major order."""

    shape: Index
    dtype: str | Opaque
    at: Callable[[Index], Value]
    flat: Callable[[Int], Value] | None = None


@dataclass
class Context:
    """Where elements are written down: assumptions, and the extents of indices."""

    known: Assumptions
    extents: dict[Atom, Int] = field(default_factory=dict)
    free: set[Atom] = field(default_factory=set)  #: indices of the result
    dtypes: dict[str, str | Opaque] = field(default_factory=dict)  #: of variables
    #: What partial functions have been applied to, and divisors that may be 0.
    needs: Needs = field(default_factory=Needs)
    chooses: bool = False  #: whether parts are chosen by what no case of the proof decides

    # ---- indices

    def index(self, extent: Int, free: bool = False) -> Int:
        """A new index below ``extent``, which is at least 1."""
        a = el.fresh()
        self.extents[a] = extent
        if free:
            self.free.add(a)
        i = sym.atom(*a)
        self.known.add((sym.at_most(0, i), sym.at_most(i, sym.sub(extent, 1))))
        return i

    def simple(self, x: Any) -> Any:
        """An integer or a list of integers with known equations applied."""
        return self.known.simple(x)

    def settled(self, x: Any) -> Any:
        """An attribute's value, by what is known of it."""
        return self.known.facts.value(x) if isinstance(x, Opaque) else self.simple(x)

    def remembered(self, at: Callable[[Index], Value]) -> Callable[[Index], Value]:
        """A tensor's elements, each worked out once."""
        known: dict[Index, tuple[Value, Mapping[Need, None]]] = {}

        def lookup(index: Index) -> Value:
            if index not in known:
                with self.needs.apart() as noted:
                    known[index] = at(index), noted
            found, needs = known[index]
            self.needs.again(needs)
            return found

        return lookup

    def stretched(self, i: Int, n: Int) -> Int:
        """The index of an operand of n elements along an axis of which the index is i: i if all have n elements, 0
        if n is 1."""
        if self.known.plainly(n, 1):
            return 0
        a = sym.only_atom(i)
        if a in self.extents and a not in self.free and self.known.holds(sym.at_most(sym.add(i, 1), n)):
            return i
        last = self.simple(sym.sub(n, 1))
        if a is not None and a[0] == "min":  # an operand's operand, whose n is 1 or that of the operand
            i = next((p for p, q in (a[1:], a[:0:-1]) if self.known.holds(sym.at_most(last, q))), i)
        return sym.minimum(i, last)

    def has_integers(self, variable: str) -> bool:
        """Whether the elements of a variable are integers for sure."""
        return self.of_integers(self.dtypes[variable])

    def of_integers(self, dtype: str | Opaque) -> bool:
        """Whether an element type is that of integers for sure."""
        own = self.known.facts.value(dtype)
        return self.known.holds(sym.any_of(sym.equal(own, t) for t in INTEGERS))

    def same_shape(self, a: Index, b: Index) -> bool:
        return len(a) == len(b) and all(self.known.plainly(x, y) for x, y in zip(a, b, strict=True))

    def offset(self, index: Index, shape: Index) -> Int:
        """The place of an index in row-major order."""
        out: Int = 0
        for i, n in zip(index, shape, strict=True):
            out = sym.add(sym.mul(out, n), i)
            if isinstance(out, Sym) and len(out.terms) > MOST_PRODUCTS:
                raise TooLarge(f"an index with more than {MOST_PRODUCTS:,} terms")
        return recombined(self.simple(out))

    # ---- sums and cases

    def total(self, extent: Int, body: Callable[[Int], Value], depth: int = 0) -> Value:
        """The sum of ``body(i)`` for 0 <= i < extent; ``depth`` says how often i is a digit of a digit."""
        extent = self.simple(extent)
        if self.known.plainly(extent, 1):
            return body(0)
        i = self.index(extent)
        a = sym.only_atom(i)
        assert a is not None
        try:
            inside = body(i)
        except Digits as split:
            if split.index != a:
                raise
            if depth == MOST_DIGITS:
                raise Inexpressible("an index is taken apart without end") from None
            outer, inner = split.radices
            rest: Int = self.simple(sym.sub(extent, sym.mul(outer, inner)))

            def part(d: Int, e: Int) -> Value:
                inside = sym.any_of((sym.at_most(sym.add(d, 1), outer), sym.at_most(sym.add(e, 1), rest)))
                return self.inside(inside, lambda: body(sym.add(sym.mul(d, inner), e)))

            high = outer if rest == 0 else sym.add(outer, 1)
            return self.total(high, lambda d: self.total(inner, lambda e: part(d, e), depth + 1), depth + 1)
        return el.add(*(self._closed(t, c, a, extent) for t, c in inside.terms))

    def _closed(self, t: Summand, c: Fraction, a: Atom, extent: Int) -> Value:
        """A term summed over an index, of which guards say the range."""
        extent = self.simple(extent)
        if self.known.equal(extent, 0):
            return el.number(0)
        names = names_in(t.over)
        for g in sorted((g for g in t.guards if a in atoms_of(g)), key=repr):
            truth = self.known.truth(g)
            if truth is False:
                return el.number(0)
            rest = Summand(t.factors, t.guards - {g}, t.over)
            if truth is True:
                return self._closed(rest, c, a, extent)
            bound = _solved(g, a)
            if bound is None or self._is_inner(bound[1]) or not names.isdisjoint(atoms_of(bound[1])):
                continue
            kind, limit = bound
            if kind == "is":
                term = el.value([(rest, c)])
                inside = sym.all_of((sym.at_most(0, limit), sym.at_most(sym.add(limit, 1), extent)))
                return el.guarded(el.substituted(term, {a: limit}), self.simpler(inside))
            if not self._between(limit, extent):
                continue
            if kind == "below":
                return self._closed(rest, c, a, limit)
            shifted = el.substituted(el.value([(rest, c)]), {a: sym.add(sym.atom(*a), limit)})
            left = sym.sub(extent, limit)
            return el.add(*(self._closed(u, d, a, left) for u, d in shifted.terms))
        if self.known.equal(extent, 1):
            return el.substituted(el.value([(t, c)]), {a: 0})
        if a not in t.atoms:
            return el.multiply(el.value([(t, c)]), el.integer(extent))
        return el.value([(Summand(t.factors, t.guards, (*t.over, (a, extent))), c)])

    def _is_inner(self, p: Int | Condition) -> bool:
        return any(b in self.extents and b not in self.free for b in atoms_of(p))

    def _between(self, limit: Int, extent: Int) -> bool:
        """Whether 0 <= limit <= extent. Without indices of the result this is decided in cases."""
        inside = sym.all_of((sym.at_most(0, limit), sym.at_most(limit, extent)))
        if any(b in self.extents for b in atoms_of(inside)):
            return self.known.holds(inside)
        return self.known.decide(inside)

    def simpler(self, c: sym.Bool) -> sym.Bool:
        truth = self.known.truth(c)
        return c if truth is None else truth

    def guarded(self, v: Value, c: sym.Bool) -> Value:
        """v where a condition holds, 0 elsewhere."""
        for part in c.args if isinstance(c, Condition) and c.kind == "and" else (c,):
            v = el.guarded(v, self.simpler(part))
        return v

    def inside(self, c: sym.Bool, make: Callable[[], Value], fills: bool = False) -> Value:
        """What is made where a condition holds, 0 elsewhere: there it need not be a number. If that ``fills`` up a
        tensor, as padding does, what stands beside elements that are divided by 0 has no value, either."""
        c = sym.all_of(map(self.simpler, c.args if isinstance(c, Condition) and c.kind == "and" else (c,)))
        if c is False:
            return el.number(0)
        with self.under(conjuncts(c), fills):
            made = make()
        return self.guarded(made, c)

    def under(self, guards: Collection[Guard], fills: bool = False) -> AbstractContextManager[None]:
        """Where elements are a part that guards choose."""
        self.chooses |= any(isinstance(g, Choice) or self._is_inner(g) for g in guards)
        return self.needs.under(guards, fills)

    # ---- functions

    def apply(self, fn: str, *args: Value) -> Value:
        """A function of elements, applied to what guards leave. Raises `NotReal` for an infinite number, of which
        functions but limits may be infinite: then it has none of the laws of real numbers."""
        for v in args:
            for g in el.outer_guards(v):
                truth = self.known.truth(g)
                if truth is not None:
                    return self.apply(fn, *(el.where(w, g, truth) for w in args))
                return el.add(*(self._where(g, side, fn, args) for side in (True, False)))
        if fn in ("max", "min"):
            return self._limited(fn, args)
        if fn != "none" and any(map(el.sign_of_infinity, args)):
            raise NotReal
        if fn == "floor" and self._is_proper_fraction(*args):
            return el.number(0)
        power = fn.startswith("power")  # whose exponent may be any
        if (fn in PARTIAL or power) and not is_positive(args[0]):
            self.needs.note(fn if power else ROOT, args[0])
        if (fn in DIVIDING or power) and not is_divisor(args[-1], self.known.holds, self._truths()):
            self.needs.note(fn if power or fn == QUOTIENT else "divisor", args[-1])
        elif fn == "inverse":
            for part in may_be_zero(args[-1], self.known.holds):
                self.needs.note(POINT, part)
        return applied(fn, args)

    def _truths(self) -> list[str]:
        """The variables whose elements may be truth values."""
        types = ((name, self.settled(t)) for name, t in self.dtypes.items())
        return [name for name, t in types if not self.known.holds(sym.negate(sym.equal(t, "bool")))]

    def _where(self, g: Condition, holds: bool, fn: str, args: Sequence[Value]) -> Value:
        """A function of elements where a guard holds, or where it does not; 0 elsewhere."""
        own = [el.where(v, g, holds) for v in args]
        return self.inside(g if holds else sym.negate(g), lambda: self.apply(fn, *own))

    def _limited(self, fn: str, args: Sequence[Value]) -> Value:
        """The greatest or the least of several values: the least of several greatest, none of which is idle."""
        most = 1 if fn == "max" else -1
        args = [v for v in args if el.sign_of_infinity(v) != -most] or args[:1]
        if (beyond := next((v for v in args if el.sign_of_infinity(v) == most), None)) is not None:
            return beyond
        found = [clauses_of(v) for v in args]
        sets = [*product(*found)] if fn == "max" else [(c,) for clauses in found for c in clauses]
        if len(sets) > MOST_CLAUSES:
            raise TooLarge(f"more than {MOST_CLAUSES} limits")
        clauses = list(dict.fromkeys(self._without_idle(frozenset().union(*s)) for s in sets))
        for c in list(clauses):
            if any(d is not c and all(any(self._at_most(x, y) for y in c) for x in d) for d in clauses):
                clauses.remove(c)
        tops = [applied("max", sorted(c, key=lambda v: v.text)) for c in clauses]
        if len(tops) == 1:
            return tops[0]
        return el.scaled(el.greatest(el.scaled(v, -1) for v in tops), -1)

    def _without_idle(self, clause: frozenset[Value]) -> frozenset[Value]:
        """Values without those that another one is as great as."""
        kept = sorted(clause, key=lambda v: v.text)
        for x in list(kept):
            if any(y is not x and self._at_most(x, y) for y in kept):
                kept.remove(x)
        return frozenset(kept)

    def _is_proper_fraction(self, v: Value) -> bool:
        """Whether v is i / c for an index i, where a condition says that c is not below what i is below."""
        if len(v.terms) != 1 or v.terms[0][1] != 1 or v.terms[0][0].over:
            return False
        match sorted(v.terms[0][0].factors, key=lambda fn: fn[1]):
            case [(Symbol(c), -1), (Symbol(a), 1)] if is_integer(a) and not is_integer(c):
                i = sym.atom(*a)
            case _:
                return False
        limits = [
            k.args[0].args[1]
            for k in self.known.facts.conditions
            if k.kind == "not" and k.args[0].kind == "below" and _floats(k.args[0]) == [c]
        ]
        return any(
            isinstance(n, int | Sym)
            and self.known.holds(sym.all_of((sym.at_most(0, i), sym.at_most(sym.add(i, 1), n))))
            for n in map(self.simple, limits)
        )

    def _at_most(self, x: Value, y: Value) -> bool:
        """Whether x <= y is known of two limits."""
        if x == y:
            return True
        if x.constant is not None and y.constant is not None:
            return x.constant <= y.constant
        p, q = only_factor(x), only_factor(y)
        return any(
            isinstance(p, Symbol) and isinstance(q, Symbol) and _floats(c.args[0]) == [q.atom, p.atom]
            for c in self.known.facts.conditions
            if c.kind == "not" and c.args[0].kind == "below"
        )

    def losing(self, elements: Sequence[Callable[[], Value]]) -> tuple[list[Value], list[Value]]:
        """Elements of which a number is made even where they are none; and what they need, as values, so that
        numbers which are made of the same differ if other ones need something. Raises `Inexpressible` for needs of a
        part alone, and for quotients that may be infinite: sums of these are infinite or no numbers, and
        compare otherwise."""
        with self.needs.apart() as noted:
            made = [element() for element in elements]
        if any(need.lost not in ((), (COMPARED,)) for need in noted):
            raise Inexpressible("a comparison or a cast is of what may be a number without roots or divisors")
        with self.needs.lost(COMPARED):
            self.needs.again(noted)
        if any(need.guards for need in noted):
            raise Inexpressible("a comparison or a cast is of what a part alone has roots or divisors")
        if any(need.kind != ROOT for need in noted):
            raise Inexpressible("a comparison or a cast is of a quotient that may be infinite")
        needed = {el.single(FunctionOf(f"need of {need.kind}", (need.of,))) for need in noted}
        return made, sorted(needed, key=lambda v: v.text)

    def bounded(self, operator: Hashable, x: Tensor) -> Tensor:
        """A tensor of whose infinite elements an operator may make numbers."""

        def at(index: Index) -> Value:
            with self.needs.lost(Bounded(operator, index)):
                return x.at(index)

        def flat(offset: Int) -> Value:
            with self.needs.lost(Bounded(operator, offset)):
                return element_at(x, offset, self)

        return replace(x, at=at, flat=x.flat and flat)

    def quotient(self, a: Value, b: Value) -> Value:
        return el.multiply(a, self.apply("inverse", b))

    def real(self, x: Any) -> Value:
        """A float of an attribute, known or not, as a number."""
        x = self.known.facts.value(x) if isinstance(x, Opaque) else x
        if isinstance(x, Opaque):
            if x.atom[0] == "float":
                _, op, left, right = x.atom
                a, b = self.real(left), self.real(right)
                match op:
                    case "+":
                        return el.add(a, b)
                    case "-":
                        return el.subtract(a, b)
                    case "*":
                        return el.multiply(a, b)
                return self.quotient(a, b)
            return el.single(Symbol(("float", x.atom)))
        if isinstance(x, Sym):
            return el.integer(x)
        if isinf(x):
            return el.infinity(1 if x > 0 else -1)
        if isnan(x):
            raise Inexpressible("it is about what is not a number")
        try:
            return el.number(meant(float(x)))
        except ValueError:
            return el.single(Symbol(("float", repr(x))))


def is_last(p: Int) -> bool:
    """Whether an operand of a minimum is a dimension less 1."""
    return all(b[0] not in ("index", "bound") for b in atoms_of(p))


def leaf(name: str, shape: Index, dtype: str | Opaque, context: Context) -> Tensor:
    """A variable."""
    context.dtypes[name] = dtype
    return Tensor(
        shape,
        dtype,
        lambda index: el.single(Read(name, context.offset(index, shape), index)),
        lambda offset: el.single(Read(name, context.simple(offset))),
    )


def element_at(x: Tensor, offset: Int, context: Context) -> Value:
    """The element at an offset in row-major order."""
    return x.flat(offset) if x.flat is not None else x.at(digits(context, offset, x.shape))


def _solved(g: Condition, a: Atom) -> tuple[str, Int] | None:
    """The condition on an index as a bound: it ``is`` a number, is ``below`` it, or not below it (``from``)."""
    if g.kind not in ("eq", "le"):
        return None
    p: Sym = g.args[0]
    k = quotient_by(p, a)
    if k not in (1, -1):
        return None
    rest = sym.sub(p, sym.mul(k, sym.atom(*a)))
    if a in atoms_of(rest):
        return None
    if g.kind == "eq":
        return "is", sym.mul(rest, -k)
    return ("below", sym.sub(1, rest)) if k == 1 else ("from", rest)


def _floats(c: Condition) -> list[Atom]:
    """The unknown floats that a condition compares."""
    return [("float", x.atom) for x in c.args if isinstance(x, Opaque)]
